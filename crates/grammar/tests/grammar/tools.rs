//! Calls of tools: what the parser of answers reads from random walks through the masks.

use std::sync::Arc;

use super::walk::{Model, Random};
use gleed_gguf::{Array, Metadata, Value as Entry};
use gleed_grammar::{Error, Grammar, Tool, ToolChoice, ToolGrammar};
use gleed_tokenizer::marks::{Calls, MarkPart};
use gleed_tokenizer::{AnswerEvent, AnswerFormat, AnswerParser, Special, Tokenizer, Tools, byte_alphabet};
use serde_json::{Value, json};

/// What a template shows, the control tokens of such a model, and an answer with a call's beginning.
struct Family {
    name: &'static str,
    template: &'static str,
    controls: &'static [&'static str],
    /// How a call begins.
    open: &'static str,
}

const FAMILIES: [Family; 19] = [
    family(
        "hermes",
        "<tool_call></tool_call> <think></think>",
        &["<tool_call>", "</tool_call>", "<think>", "</think>"],
        "<tool_call>",
    ),
    family("mistral list", "[TOOL_CALLS]", &["[TOOL_CALLS]"], "[TOOL_CALLS]"),
    family(
        "mistral",
        "[TOOL_CALLS][ARGS][THINK]",
        &["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"],
        "[TOOL_CALLS]",
    ),
    family(
        "command",
        "<|START_ACTION|><|START_RESPONSE|><|START_THINKING|>",
        &[
            "<|START_ACTION|>",
            "<|END_ACTION|>",
            "<|START_RESPONSE|>",
            "<|END_RESPONSE|>",
            "<|START_THINKING|>",
            "<|END_THINKING|>",
        ],
        "<|START_ACTION|>",
    ),
    family("granite", "<|tool_call|>", &["<|tool_call|>"], "<|tool_call|>"),
    family("llama 3", "<|python_tag|>", &["<|python_tag|>"], "<|python_tag|>"),
    family("apertus", "<|tools_prefix|>", &["<|tools_prefix|>", "<|tools_suffix|>"], "<|tools_prefix|>"),
    family(
        "deepseek v3",
        "<｜tool▁calls▁begin｜>```json",
        &[
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁sep｜>",
            "<｜tool▁call▁end｜>",
            "<｜tool▁calls▁end｜>",
        ],
        "<｜tool▁calls▁begin｜>",
    ),
    family(
        "deepseek v3.1",
        "<｜tool▁calls▁begin｜> <think>",
        &[
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁sep｜>",
            "<｜tool▁call▁end｜>",
            "<｜tool▁calls▁end｜>",
        ],
        "<｜tool▁calls▁begin｜>",
    ),
    family(
        "kimi",
        "<|tool_calls_section_begin|>",
        &[
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_begin|>",
            "<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
        ],
        "<|tool_calls_section_begin|>",
    ),
    family("functionary", "<function=", &[], "<function="),
    family("qwen coder", "<function=<parameter=", &["<tool_call>", "</tool_call>"], "<tool_call>"),
    family(
        "glm",
        "<arg_key> <think>",
        &[
            "<tool_call>",
            "</tool_call>",
            "<arg_key>",
            "</arg_key>",
            "<arg_value>",
            "</arg_value>",
            "<think>",
            "</think>",
        ],
        "<tool_call>",
    ),
    family("deepseek v3.2", "｜DSML｜function_calls>", &["｜DSML｜"], "<｜DSML｜function_calls>"),
    family("minicpm", "<function name=<param name=", &[], "<function name=\""),
    family(
        "lfm",
        "<|tool_call_start|>",
        &["<|tool_call_start|>", "<|tool_call_end|>"],
        "<|tool_call_start|>",
    ),
    family("olmo", "<function_calls>", &[], "<function_calls>"),
    family(
        "gemma",
        "<|tool_call><|\"|><|channel>",
        &["<|tool_call>", "<tool_call|>", "<|\"|>", "<|channel>", "<channel|>"],
        "<|tool_call>",
    ),
    Family {
        name: "harmony",
        template: "<|channel|><|message|>",
        controls: &[
            "<|start|>",
            "<|channel|>",
            "<|message|>",
            "<|end|>",
            "<|call|>",
            "<|return|>",
            "<|constrain|>",
        ],
        open: "<|channel|>commentary to=functions.",
    },
];

const fn family(
    name: &'static str,
    template: &'static str,
    controls: &'static [&'static str],
    open: &'static str,
) -> Family {
    Family { name, template, controls, open }
}

/// A vocabulary of bytes, some words and these control tokens.
pub fn model(controls: &[&str]) -> Model {
    let mut tokens: Vec<String> = byte_alphabet().iter().map(|character| character.to_string()).collect();
    tokens.extend(
        ["function", "name", "\",\"", "arguments", "call", "Ġto", "{\"", "\"}", "tool", "parameter"]
            .map(String::from),
    );
    let mut kinds = vec![1; tokens.len()];
    for control in ["<|endoftext|>", "<|im_end|>"].iter().chain(controls) {
        tokens.push(control.to_string());
        kinds.push(3);
    }
    let end = tokens.iter().position(|token| token == "<|endoftext|>").unwrap() as u32;
    let mut metadata = Metadata::default();
    let text = |text: &str| Entry::Str(text.into());
    let none: [&str; 0] = [];
    metadata.set("tokenizer.ggml.model", text("gpt2"));
    metadata.set("tokenizer.ggml.pre", text("gpt-2"));
    metadata.set("tokenizer.ggml.tokens", Entry::Array(Array::Str(tokens.iter().collect())));
    metadata.set("tokenizer.ggml.token_type", Entry::Array(Array::I32(kinds)));
    metadata.set("tokenizer.ggml.merges", Entry::Array(Array::Str(none.into_iter().collect())));
    metadata.set("tokenizer.ggml.eos_token_id", Entry::U32(end));
    Model::new(Tokenizer::from_metadata(&metadata).unwrap())
}

/// Tools with all that their parameters may be.
fn tools() -> Vec<Tool> {
    let weather = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 1, "maxLength": 8},
            "unit": {"type": "string", "enum": ["celsius", "kelvin"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "when": {"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"},
            "places": {"type": "array", "items": {"$ref": "#/$defs/place"}, "maxItems": 2},
        },
        "required": ["city", "days"],
        "additionalProperties": false,
        "$defs": {"place": {"enum": ["a", "b"]}},
    });
    let note = json!({
        "properties": {"text": {"type": "string"}, "pinned": {"anyOf": [{"type": "boolean"}, {"type": "null"}]}},
        "additionalProperties": false,
    });
    let tool = |name: &str, parameters: Value| Tool { name: name.to_string(), parameters };
    vec![tool("get_weather", weather), tool("note", note), tool("stop-now", Value::Null)]
}

/// Whether arguments are what the tool's schema says, by hand.
fn is_valid(name: &str, arguments: &str) -> bool {
    let Ok(Value::Object(fields)) = serde_json::from_str(arguments) else { return false };
    let all = |names: &[&str]| fields.keys().all(|key| names.contains(&key.as_str()));
    let text = |key: &str, holds: &dyn Fn(&str) -> bool| {
        fields.get(key).is_none_or(|value| value.as_str().is_some_and(holds))
    };
    match name {
        "get_weather" => {
            let is_time = |time: &str| {
                time.len() == 5
                    && time
                        .bytes()
                        .enumerate()
                        .all(|(at, byte)| if at == 2 { byte == b':' } else { byte.is_ascii_digit() })
            };
            let is_place = |place: &Value| *place == json!("a") || *place == json!("b");
            all(&["city", "unit", "days", "when", "places"])
                && fields.contains_key("city")
                && text("city", &|city| (1..=8).contains(&city.chars().count()))
                && text("unit", &|unit| ["celsius", "kelvin"].contains(&unit))
                && fields
                    .get("days")
                    .is_some_and(|days| days.as_i64().is_some_and(|days| (1..=14).contains(&days)))
                && text("when", &is_time)
                && fields.get("places").is_none_or(|list| {
                    list.as_array().is_some_and(|list| list.len() <= 2 && list.iter().all(is_place))
                })
        }
        "note" => {
            all(&["text", "pinned"])
                && text("text", &|_| true)
                && fields.get("pinned").is_none_or(|pinned| pinned.is_boolean() || pinned.is_null())
        }
        "stop-now" => fields.is_empty(),
        _ => false,
    }
}

fn grammar(format: &Arc<AnswerFormat>, choice: ToolChoice, parallel: bool, reasoning_begun: bool) -> Grammar {
    Grammar::Tools(ToolGrammar { format: format.clone(), tools: tools(), choice, parallel, reasoning_begun })
}

/// The names of the calls that the parser reads; all of them must be valid.
fn calls(model: &Model, format: &AnswerFormat, prompt: &str, tokens: &[u32]) -> Vec<String> {
    let list: Vec<Value> =
        tools().into_iter().map(|tool| json!({"name": tool.name, "parameters": tool.parameters})).collect();
    let mut parser = AnswerParser::new(format, prompt, &Tools::new(&list));
    let mut stream = model.tokenizer.answer_stream(format);
    let mut events: Vec<AnswerEvent> =
        tokens.iter().flat_map(|&token| parser.push(&stream.push(token))).collect();
    events.extend(parser.push(&stream.finish()));
    events.extend(parser.finish());
    let mut names = Vec::new();
    for event in events {
        match event {
            AnswerEvent::CallFinished { name, arguments, .. } => {
                assert!(is_valid(&name, &arguments), "{name} {arguments}: {}", shown(model, tokens));
                names.push(name);
            }
            AnswerEvent::CallBroken { text, reason, .. } => {
                panic!("{reason}: {text}\n{}", shown(model, tokens))
            }
            _ => {}
        }
    }
    names
}

/// The marks that end something, as far as they are text.
fn ends(format: &AnswerFormat) -> Vec<String> {
    let marks = format.marks();
    let mut all: Vec<Vec<MarkPart>> = marks.reasoning.into_iter().map(|reasoning| reasoning.end).collect();
    match marks.calls.unwrap() {
        Calls::Tagged(tagged) => all.push(tagged.value_end),
        Calls::Gemma { quote, .. } => all.push(quote),
        Calls::Harmony(harmony) => all.extend([harmony.end, harmony.call]),
        Calls::Json(_) | Calls::Named(_) | Calls::Python(_) => {}
    }
    let texts = all.into_iter().filter_map(|mark| match mark.into_iter().next() {
        Some(MarkPart::Text(text)) => Some(text),
        _ => None,
    });
    texts.collect()
}

fn shown(model: &Model, tokens: &[u32]) -> String {
    let options = gleed_tokenizer::DecodeOptions { show_control: true, continues: true };
    model.tokenizer.decode(tokens, options)
}

/// Each family with its control tokens, and once more with its marks as text.
fn each(test: impl Fn(&Family, &Model, &Arc<AnswerFormat>)) {
    for family in &FAMILIES {
        for controls in [family.controls, &[]] {
            let model = model(controls);
            let format = Arc::new(AnswerFormat::new(family.template, &model.tokenizer));
            println!("{} with {} control tokens", family.name, controls.len());
            test(family, &model, &format);
            // Messages without control tokens are refused.
            if family.controls.is_empty() || family.name == "harmony" {
                break;
            }
        }
    }
}

#[test]
fn calls_that_are_demanded_come_and_are_valid() {
    let count = std::cell::Cell::new(0);
    each(|family, model, format| {
        let mut random = Random(11);
        let mut several = 0;
        for parallel in [true, false] {
            for walk in 0..12 {
                let named = ToolChoice::Named("note".to_string());
                let choice = if walk % 3 == 0 { named } else { ToolChoice::Required };
                let grammar = grammar(format, choice.clone(), parallel, false);
                let mut constraint = model.constraint(&grammar);
                let tokens =
                    model.walk(constraint.as_mut(), &mut random, 150, &ends(format)).expect("an end");
                let names = calls(model, format, "", &tokens);
                assert!(!names.is_empty(), "{}: {}", family.name, shown(model, &tokens));
                assert!(parallel || names.len() == 1, "{}: {}", family.name, shown(model, &tokens));
                assert!(
                    choice == ToolChoice::Required || names.iter().all(|name| name == "note"),
                    "{names:?}"
                );
                several += usize::from(names.len() > 1);
            }
        }
        count.set(count.get() + several);
    });
    assert!(count.get() > 20, "{} answers called several", count.get());
}

#[test]
fn a_call_that_is_begun_freely_is_valid_too() {
    each(|family, model, format| {
        let mut random = Random(13);
        for walk in 0..8 {
            let grammar = grammar(format, ToolChoice::Auto, walk % 2 == 0, false);
            let mut constraint = model.constraint(&grammar);
            let words =
                if walk < 4 || family.name == "harmony" { "" } else { "Let me <see> {\"name\": 1}: " };
            let mut begun = Vec::new();
            for token in model
                .tokenizer
                .encode(words, Special::Literal)
                .into_iter()
                .chain(model.tokenizer.encode(family.open, Special::Parse))
            {
                constraint.accept(token).unwrap_or_else(|error| panic!("{}: {error}", shown(model, &begun)));
                begun.push(token);
            }
            begun.extend(model.walk(constraint.as_mut(), &mut random, 150, &ends(format)).expect("an end"));
            let names = calls(model, format, "", &begun);
            assert!(!names.is_empty(), "{}: {}", family.name, shown(model, &begun));
            assert!(walk % 2 == 0 || names.len() == 1, "{}: {}", family.name, shown(model, &begun));
        }
    });
}

#[test]
fn words_are_free_until_a_call() {
    each(|family, model, format| {
        let grammar = grammar(format, ToolChoice::Auto, true, false);
        if family.name == "harmony" {
            let mut constraint = model.constraint(&grammar);
            let answer = "<|channel|>analysis<|message|>Hm <b>.<|end|><|start|>assistant<|channel|>final<|message|>Yes.";
            for token in model.tokenizer.encode(answer, Special::Parse) {
                constraint.accept(token).unwrap();
            }
            return;
        }
        for text in [
            "",
            "Yes.",
            "1 < 2, {\"a\": [1]} <b>bold</b>\n\n[x](y) ```\ncode\n```",
            "{\"a\": 1}",
            "<tool",
            "<",
            " <thin ice",
        ] {
            assert!(model.accepts(&grammar, text), "{}: {text:?}", family.name);
        }
    });
}

#[test]
fn reasoning_comes_before() {
    let mut random = Random(17);
    for (name, answer) in [
        ("hermes", "<think>Should I <tool_call>? {</think>\n"),
        ("mistral", "[THINK]Hm.[/THINK]"),
        ("gemma", "<|channel>thought\nHm.<channel|>"),
    ] {
        let family = FAMILIES.iter().find(|family| family.name == name).unwrap();
        for controls in [family.controls, &[]] {
            let model = model(controls);
            let format = Arc::new(AnswerFormat::new(family.template, &model.tokenizer));
            for choice in [ToolChoice::Required, ToolChoice::Auto] {
                for begun in [true, false] {
                    let mut constraint = model.constraint(&grammar(&format, choice.clone(), false, begun));
                    let (prompt, rest) = match begun {
                        true => answer.split_at(answer.find(['H', 'S']).unwrap()),
                        false => ("", answer),
                    };
                    // A mark in quotes is a control token to this encoder; inside of reasoning it is meant as words.
                    let is_quoted = rest.contains("<tool_call>") && !controls.is_empty();
                    let rest = if is_quoted { rest.replace("<tool_call>", "it") } else { rest.to_string() };
                    let mut tokens = model.tokenizer.encode(&rest, Special::Parse);
                    for &token in &tokens {
                        constraint
                            .accept(token)
                            .unwrap_or_else(|error| panic!("{name} {choice:?} {begun}: {error}"));
                    }
                    if choice == ToolChoice::Auto {
                        let open = model.tokenizer.encode(family.open, Special::Parse);
                        open.iter().for_each(|&token| constraint.accept(token).unwrap());
                        tokens.extend(open);
                    }
                    tokens.extend(
                        model.walk(constraint.as_mut(), &mut random, 150, &ends(&format)).expect("an end"),
                    );
                    assert_eq!(
                        calls(&model, &format, prompt, &tokens).len(),
                        1,
                        "{}",
                        shown(&model, &tokens)
                    );
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_demanded_is_refused_and_else_left_free() {
    let model = model(&[]);
    let refused = |grammar: &ToolGrammar| match model.vocabulary.constraint(&Grammar::Tools(grammar.clone()))
    {
        Err(error) => error,
        Ok(_) => panic!("{:?} was compiled", grammar.choice),
    };
    let format = |template: &str| Arc::new(AnswerFormat::new(template, &model.tokenizer));
    let mut grammar = ToolGrammar {
        format: format("no marks"),
        tools: tools(),
        choice: ToolChoice::Required,
        parallel: true,
        reasoning_begun: false,
    };
    assert!(matches!(refused(&grammar), Error::Calls(_)));
    grammar.choice = ToolChoice::Auto;
    assert!(model.accepts(&Grammar::Tools(grammar.clone()), "<tool_call>anything"));
    grammar.format = format("<|channel|><|message|>");
    assert!(model.accepts(&Grammar::Tools(grammar.clone()), "<|channel|>anything"));
    // Parameters that are not listed one by one.
    grammar.format = format("<function=<parameter=");
    grammar.tools[1].parameters = json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert!(model.accepts(&Grammar::Tools(grammar.clone()), "<tool_call>anything"));
    grammar.choice = ToolChoice::Required;
    assert!(refused(&grammar).to_string().contains("\"note\" have anyOf"), "{}", refused(&grammar));
    // In JSON they can be kept.
    grammar.format = format("<tool_call>");
    assert!(model.vocabulary.constraint(&Grammar::Tools(grammar.clone())).is_ok());
    grammar.choice = ToolChoice::Named("nobody".to_string());
    assert!(refused(&grammar).to_string().contains("nobody"));
    grammar.choice = ToolChoice::Auto;
    grammar.tools[0].parameters = json!({"properties": {"x": {"not": {}}}});
    assert_eq!(
        refused(&grammar).to_string(),
        "the tool \"get_weather\": the JSON schema at #/properties/x: not: the keyword is not supported"
    );
}
