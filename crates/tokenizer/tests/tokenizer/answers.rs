//! Answers taken apart, with chat templates as the truth: what a template writes for an assistant's message must
//! be read as that message again, in whole and in pieces.

use crate::common::data_folder;
use gleed_gguf::{Array, Metadata};
use gleed_tokenizer::{
    AnswerEvent, AnswerFormat, AnswerParser, ChatTemplate, Special, TemplateInput, Tokenizer, Tools,
    template_value,
};
use proptest::prelude::RngExt;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Value, json};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Templates whose answers are read, with how many of the seven messages below can be compared: a template may refuse
/// a message, or write it otherwise into the past than the model would.
const READ: [(&str, usize); 50] = [
    ("Apertus-8B-Instruct", 7),
    ("Bielik-11B-v3.0-Instruct", 3),
    ("ByteDance-Seed-OSS", 7),
    ("Cohere2MoE", 3),
    ("GLM-4.6", 7),
    ("GLM-4.7-Flash", 3),
    ("GigaChat3.1-10B-A1.8B", 7),
    ("HuggingFaceTB-SmolLM3-3B", 7),
    ("LFM2-8B-A1B", 7),
    ("LFM2.5-8B-A1B", 7),
    ("LFM2.5-Instruct", 7),
    ("MiMo-VL", 7),
    ("MiniMax-M1", 7),
    ("MiniMax-M2", 3),
    ("Mistral-Small-3.2-24B-Instruct-2506", 7),
    ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 3),
    ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", 7),
    ("Qwen-Qwen2.5-7B-Instruct", 7),
    ("Qwen-Qwen3-0.6B", 7),
    ("Qwen3-Coder", 7),
    ("Qwen3.5-4B", 7),
    ("Reka-Edge", 7),
    ("Spark2.5", 3),
    ("StepFun3.5-Flash", 7),
    ("deepseek-ai-DeepSeek-V3.1", 7),
    ("deepseek-ai-DeepSeek-V3.2", 7),
    ("deepseek-ai-DeepSeek-V4", 7),
    ("google-gemma-2-2b-it", 7),
    ("google-gemma-4-31B-it", 7),
    ("google-gemma-4-31B-it-interleaved", 7),
    ("ibm-granite-granite-3.3-2B-Instruct", 7),
    ("ibm-granite-granite-4.0", 7),
    ("ibm-granite-granite-4.1", 7),
    ("inclusionai-ling-3.0-flash", 7),
    ("llama4", 7),
    ("meetkai-functionary-medium-v3.1", 7),
    ("meta-llama-Llama-3.1-8B-Instruct", 5),
    ("meta-llama-Llama-3.2-3B-Instruct", 5),
    ("mistralai-Ministral-3-14B-Reasoning-2512", 7),
    ("mistralai-Mistral-Nemo-Instruct-2407", 7),
    ("moonshotai-Kimi-K2", 7),
    ("openai-gpt-oss-120b", 5),
    ("poolside-Laguna-S-2.1", 7),
    ("quoted-Phi-3-mini", 7),
    ("quoted-google-gemma-7b-it", 7),
    ("quoted-ibm-granite-granite-3.0-8b-instruct", 7),
    ("quoted-phi-4", 7),
    ("tencent-Hy3", 4),
    ("unsloth-Apriel-1.5", 7),
    ("unsloth-mistral-Devstral-Small-2507", 7),
];

/// What ends a turn in these templates.
const ENDS: [&str; 17] = [
    "<EOS>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<turn|>",
    "<end_of_turn>",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|>",
    "<|tool_response>",
    "<|role_end|>",
    "<|assistant_end|>",
    "</assistant>",
];
const MORE_ENDS: [&str; 6] =
    ["<｜hy_eos:opensource｜>", "[e~[", "<seed:eos>", "<|message_sep|>", "<end_of_sentence>", "<sep>"];

fn tools() -> Value {
    let text = json!({"type": "string"});
    let weather = json!({"city": text, "days": {"type": "integer"}});
    let note = json!({"text": text, "tags": {"type": "array"}, "more": {"type": "object"}});
    [("get_weather", weather), ("add_note", note)]
        .map(|(name, properties)| {
            let parameters = json!({"type": "object", "properties": properties, "required": []});
            let function = json!({"name": name, "description": "A tool", "parameters": parameters});
            json!({"type": "function", "function": function})
        })
        .into_iter()
        .collect()
}

/// A message of an assistant.
#[derive(Clone, Debug, Default, PartialEq)]
struct Answer {
    reasoning: String,
    text: String,
    calls: Vec<(String, Value)>,
}

impl Answer {
    fn message(&self) -> Value {
        let mut message = json!({"role": "assistant", "content": self.text});
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = self.reasoning.clone().into();
        }
        let calls: Vec<Value> = self.calls.iter().map(call).collect();
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        message
    }

    /// What a template has written of it.
    fn in_text(mut self, written: &str) -> Answer {
        if !written.contains("Two cities.") {
            self.reasoning.clear();
        }
        if !written.contains("Let me look.") {
            self.text.clear();
        }
        self.calls.retain(|(name, _)| written.contains(name));
        self
    }

    fn of(events: &[AnswerEvent]) -> Answer {
        let mut answer = Answer::default();
        for event in events {
            match event {
                AnswerEvent::Reasoning(text) => answer.reasoning.push_str(text),
                AnswerEvent::Text(text) => answer.text.push_str(text),
                AnswerEvent::CallFinished { name, arguments, .. } => {
                    answer.calls.push((name.clone(), serde_json::from_str(arguments).unwrap()));
                }
                AnswerEvent::CallBroken { text, reason, .. } => panic!("{reason}: {text}"),
                AnswerEvent::CallBegun { .. } | AnswerEvent::CallArguments { .. } => {}
            }
        }
        // Line breaks around the words are the template's.
        answer.text = answer.text.trim().to_string();
        answer
    }
}

fn call((name, arguments): &(String, Value)) -> Value {
    json!({"id": "call00001", "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn answers() -> Vec<Answer> {
    let weather = ("get_weather".to_string(), json!({"city": "Köln \"am\" Rhein", "days": 2}));
    let arguments = json!({"text": "two\nlines\n", "tags": ["a", 1, true], "more": {"x": {"y": 0.5}}});
    let note = ("add_note".to_string(), arguments);
    let answer = |reasoning: &str, text: &str, calls: &[&(String, Value)]| Answer {
        reasoning: reasoning.to_string(),
        text: text.to_string(),
        calls: calls.iter().map(|&call| call.clone()).collect(),
    };
    vec![
        answer("", "Let me look.", &[]),
        answer("Two cities.\nHm.", "Let me look.", &[]),
        answer("", "", &[&weather]),
        answer("", "", &[&weather, &note]),
        answer("", "Let me look.", &[&weather]),
        answer("Two cities.", "", &[&weather, &note]),
        answer("Two cities.", "Let me look.", &[&weather]),
    ]
}

fn render(template: &ChatTemplate, messages: &[Value], add_generation_prompt: bool) -> Option<String> {
    let input = TemplateInput {
        add_generation_prompt,
        bos: "<BOS>",
        eos: "<EOS>",
        extra: template_value(json!({"tools": tools(), "enable_thinking": true, "thinking": true})),
        now: UNIX_EPOCH,
    };
    template.apply(messages, &input).ok()
}

/// What a template writes of an answer behind the prompt, with the prompt, unless it writes it in another way.
fn written(template: &ChatTemplate, answer: &Answer) -> Option<(String, String)> {
    let question = json!({"role": "user", "content": "Q?"});
    let prompt = render(template, std::slice::from_ref(&question), true)?;
    let whole = render(template, &[question, answer.message()], false)?;
    let mut text = whole.strip_prefix(&prompt)?.trim_end();
    for end in ENDS.iter().chain(&MORE_ENDS).chain(&ENDS) {
        text = text.strip_suffix(end).unwrap_or(text).trim_end();
    }
    // gpt-oss takes the words before a call for reasoning.
    (!text.contains("analysis<|message|>Let me look.")).then(|| (prompt, text.to_string()))
}

fn parse(format: &AnswerFormat, prompt: &str, pieces: &[&str]) -> Vec<AnswerEvent> {
    let list = tools();
    let mut parser = AnswerParser::new(format, prompt, &Tools::new(list.as_array().unwrap()));
    let mut events: Vec<AnswerEvent> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
    events.extend(parser.finish());
    joined(events)
}

/// The events with neighbours that continue each other as one.
fn joined(events: Vec<AnswerEvent>) -> Vec<AnswerEvent> {
    let mut all: Vec<AnswerEvent> = Vec::new();
    for event in events {
        match (all.last_mut(), &event) {
            (Some(AnswerEvent::Text(text)), AnswerEvent::Text(more))
            | (Some(AnswerEvent::Reasoning(text)), AnswerEvent::Reasoning(more)) => text.push_str(more),
            (
                Some(AnswerEvent::CallArguments { json, .. }),
                AnswerEvent::CallArguments { json: more, .. },
            ) => {
                json.push_str(more);
            }
            _ => all.push(event),
        }
    }
    all
}

fn source(name: &str) -> String {
    let file = format!("{name}.jinja");
    let fetched = data_folder().join("templates").join(&file);
    let path = if fetched.exists() {
        fetched
    } else {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/templates").join(&file)
    };
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn what_templates_write_is_read_again() {
    for (name, expected) in READ {
        let source = source(name);
        let template = ChatTemplate::from_source(&source).unwrap();
        let format = AnswerFormat::of_template(&source);
        let mut compared = 0;
        for answer in answers() {
            let Some((prompt, text)) = written(&template, &answer) else { continue };
            compared += 1;
            let events = parse(&format, &prompt, &[&text]);
            assert_eq!(Answer::of(&events), answer.in_text(&text), "{name}: {text}");
            for event in &events {
                let AnswerEvent::CallFinished { call: finished, arguments, .. } = event else { continue };
                let deltas = AnswerEvent::CallArguments { call: *finished, json: arguments.clone() };
                assert!(events.contains(&deltas), "{name}: {events:?}");
            }
        }
        assert_eq!(compared, expected, "{name}");
    }
}

#[test]
fn the_cuts_between_pieces_do_not_matter() {
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for (name, _) in READ {
        let source = source(name);
        let template = ChatTemplate::from_source(&source).unwrap();
        let format = AnswerFormat::of_template(&source);
        for answer in answers() {
            let Some((prompt, text)) = written(&template, &answer) else { continue };
            let whole = parse(&format, &prompt, &[&text]);
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            for &at in &places {
                let (left, right) = text.split_at(at);
                assert_eq!(parse(&format, &prompt, &[left, right]), whole, "{name}: {left:?}, {right:?}");
            }
            for step in [1, 2, 3, 7] {
                let mut cuts: Vec<usize> =
                    places.iter().copied().filter(|at| at % step == 0 || step == 1).collect();
                if step > 1 {
                    cuts.retain(|_| random.random_bool(0.5));
                }
                cuts.push(text.len());
                let mut from = 0;
                let pieces: Vec<&str> =
                    cuts.iter().map(|&to| &text[std::mem::replace(&mut from, to)..to]).collect();
                assert_eq!(parse(&format, &prompt, &pieces), whole, "{name}: {pieces:?}");
            }
        }
    }
}

/// A vocabulary of single characters and these control tokens.
fn vocabulary(controls: &[&str]) -> Tokenizer {
    let characters = ('!'..='~').map(String::from).chain([String::from('Ġ'), String::from('Ċ')]);
    let mut tokens: Vec<String> = characters.collect();
    let kinds: Vec<i32> = tokens.iter().map(|_| 1).chain(controls.iter().map(|_| 3)).collect();
    tokens.extend(controls.iter().map(|text| text.to_string()));
    let mut metadata = Metadata::default();
    let text = |text: &str| gleed_gguf::Value::Str(text.into());
    metadata.set("tokenizer.ggml.model", text("gpt2"));
    metadata.set("tokenizer.ggml.pre", text("gpt-2"));
    metadata.set("tokenizer.ggml.tokens", gleed_gguf::Value::Array(Array::Str(tokens.iter().collect())));
    metadata.set("tokenizer.ggml.token_type", gleed_gguf::Value::Array(Array::I32(kinds)));
    let merges: [&str; 0] = [];
    metadata.set("tokenizer.ggml.merges", gleed_gguf::Value::Array(Array::Str(merges.into_iter().collect())));
    Tokenizer::from_metadata(&metadata).unwrap()
}

#[test]
fn control_tokens_are_marks_and_the_same_words_are_not() {
    let template = "[THINK] [TOOL_CALLS] [ARGS]";
    let tokenizer = vocabulary(&["[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]", "[INST]"]);
    let format = AnswerFormat::new(template, &tokenizer);
    let list = tools();
    let tools = Tools::new(list.as_array().unwrap());
    let read = |format: &AnswerFormat, ids: &[u32]| -> Vec<AnswerEvent> {
        let mut stream = tokenizer.answer_stream(format);
        let mut parser = AnswerParser::new(format, "", &tools);
        let mut events: Vec<AnswerEvent> = ids.iter().flat_map(|&id| parser.push(&stream.push(id))).collect();
        events.extend(parser.push(&stream.finish()));
        events.extend(parser.finish());
        joined(events)
    };
    let answer = "[THINK]Hm.[/THINK]Look.[INST][TOOL_CALLS]get_weather[ARGS]{\"city\": \"Ulm\"}";
    let events = read(&format, &tokenizer.encode(answer, Special::Parse));
    let call = ("get_weather".to_string(), json!({"city": "Ulm"}));
    let expected = Answer { reasoning: "Hm.".into(), text: "Look.".into(), calls: vec![call] };
    assert_eq!(Answer::of(&events), expected);
    // A model that quotes the marks calls nothing.
    let events = read(&format, &tokenizer.encode(answer, Special::Literal));
    assert_eq!(events, [AnswerEvent::Text(answer.to_string())]);
    // Where the vocabulary has no such tokens, the words are the marks.
    let plain = vocabulary(&[]);
    let format = AnswerFormat::new(template, &plain);
    let events = read(&format, &plain.encode(&answer.replace("[INST]", ""), Special::Parse));
    assert_eq!(Answer::of(&events), expected);
    // A prompt ends with the reasoning's beginning as it is written.
    let format = AnswerFormat::new(template, &tokenizer);
    let mut parser = AnswerParser::new(&format, "[INST]Q[/INST][THINK]\n", &tools);
    assert_eq!(parser.push("Hm."), [AnswerEvent::Reasoning("Hm.".into())]);
}
