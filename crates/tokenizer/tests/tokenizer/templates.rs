//! Real chat templates against Hugging Face transformers, see `make_template_vectors.py`.

use gleed_tokenizer::{ChatTemplate, ReasoningWish, TemplateInput, TemplateValue, Tokenizer, template_value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

#[derive(serde::Deserialize)]
struct Conversation {
    messages: Vec<TemplateValue>,
    add_generation_prompt: bool,
    #[serde(default)]
    extra: Option<TemplateValue>,
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |value, &byte| (value ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn data_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn data(name: &str) -> String {
    std::fs::read_to_string(data_path(name)).unwrap()
}

#[test]
fn templates_render_as_in_transformers() {
    let conversations: BTreeMap<String, Conversation> =
        serde_json::from_str(&data("conversations.json")).unwrap();
    let folder = crate::common::data_folder().join("templates");
    let tokenizer = crate::common::tokenizer("qwen2");
    let (mut equal, mut wrong) = (0, Vec::new());
    let vectors = data("template_vectors.txt");
    for line in vectors.lines() {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or("");
        let (file, name, length, hash) = (next(), next(), next(), next());
        // Its `|safe` makes Python escape the rest of the sentence for HTML, which has no place in a prompt.
        let conversation = &conversations[name];
        let extra = conversation.extra.clone().unwrap_or_default();
        let has_tools = extra.get_attr("tools").is_ok_and(|tools| tools.is_true());
        if file == "meetkai-functionary-medium-v3.1.jinja" && has_tools {
            continue;
        }
        let input = TemplateInput {
            add_generation_prompt: conversation.add_generation_prompt,
            bos: "<BOS>",
            eos: "<EOS>",
            extra,
            // 2024-07-26 12:34:56
            now: UNIX_EPOCH + Duration::from_secs(1_721_997_296),
        };
        let path = Some(folder.join(file)).filter(|path| path.exists());
        let path = path.unwrap_or_else(|| data_path("templates").join(file));
        let source = std::fs::read_to_string(path).unwrap();
        let output = ChatTemplate::from_source(&source).and_then(|template| {
            let text = template.apply(&conversation.messages, &input)?;
            // Guards leave no trace.
            let prompt = template.prompt(&conversation.messages, &input, &tokenizer)?;
            assert_eq!(prompt.text(), text, "{file}, {name}");
            Ok(text)
        });
        match (output, length) {
            // What Python cannot do (loop over none) minijinja may: there is nothing to compare.
            (_, "error") | (Err(_), "refused") => {}
            (Err(error), _) => wrong.push(format!("{file}, {name}: {error}")),
            (Ok(text), _)
                if text.len().to_string() == length && format!("{:016x}", fnv(text.as_bytes())) == hash =>
            {
                equal += 1;
            }
            (Ok(text), _) => {
                wrong.push(format!("{file}, {name}: {} bytes, expected {length}:\n{text}\n", text.len()))
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ, {equal} do not:\n{}", wrong.len(), wrong.join("\n"));
    assert!(equal > 1900, "only {equal} outputs were compared");
}

#[test]
fn templates_from_files() {
    let file = |name: &str| {
        gleed_gguf::Gguf::open(&crate::common::data_folder().join(format!("ggml-vocab-{name}.gguf"))).unwrap()
    };
    let messages = template_value([[("role", "user"), ("content", "Hi")]].map(BTreeMap::from));
    let messages: Vec<TemplateValue> = messages.try_iter().unwrap().collect();
    let phi = file("phi-3");
    let tokenizer = Tokenizer::from_metadata(phi.metadata()).unwrap();
    let template = ChatTemplate::from_metadata(phi.metadata()).unwrap().unwrap();
    let prompt = template.apply(&messages, &TemplateInput::for_answer(&tokenizer)).unwrap();
    assert_eq!(prompt, "<s><|user|>\nHi<|end|>\n<|assistant|>\n");
    assert!(ChatTemplate::named_from_metadata(phi.metadata(), "tool_use").unwrap().is_none());

    let command_r = file("command-r");
    assert!(ChatTemplate::named_from_metadata(command_r.metadata(), "tool_use").unwrap().is_some());

    let gpt2 = file("gpt-2");
    assert!(ChatTemplate::from_metadata(gpt2.metadata()).unwrap().is_none());
    for (name, expected) in [
        ("gpt-2", "User: Hi\nAssistant:"),
        ("qwen2", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"),
    ] {
        let tokenizer = crate::common::tokenizer(name);
        let template = ChatTemplate::fallback(&tokenizer).unwrap();
        assert_eq!(template.apply(&messages, &TemplateInput::for_answer(&tokenizer)).unwrap(), expected);
    }
}

/// With what each template reads, reasoning on and off (or two efforts) are different prompts.
#[test]
fn reasoning_can_be_switched() {
    let switched = [
        "Qwen-Qwen3-0.6B",
        "Qwen3.5-4B",
        "GLM-4.6",
        "GLM-4.7-Flash",
        "HuggingFaceTB-SmolLM3-3B",
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        "google-gemma-4-31B-it",
        "deepseek-ai-DeepSeek-V3.1",
        "ibm-granite-granite-3.3-2B-Instruct",
        "Cohere2MoE",
        "MiniMax-M3",
        "ByteDance-Seed-OSS",
        "inclusionai-ling-3.0-flash",
    ];
    let prompt = |name: &str, wish: &ReasoningWish| {
        let path = crate::common::data_folder().join("templates").join(format!("{name}.jinja"));
        let template = ChatTemplate::from_source(&std::fs::read_to_string(path).unwrap()).unwrap();
        let variables = template.reasoning_variables(wish)?;
        let input = TemplateInput {
            add_generation_prompt: true,
            bos: "<BOS>",
            eos: "<EOS>",
            extra: TemplateValue::from_pairs(variables),
            now: UNIX_EPOCH,
        };
        Some(template.apply(&[gleed_tokenizer::Message::new("user", "Q?")], &input).unwrap())
    };
    for name in switched {
        let (on, off) = (prompt(name, &ReasoningWish::On), prompt(name, &ReasoningWish::Off));
        assert!(on.is_some() && off.is_some() && on != off, "{name}: {on:?} {off:?}");
    }
    let effort =
        |word: &str| prompt("openai-gpt-oss-120b", &ReasoningWish::Effort(word.to_string())).unwrap();
    assert!(effort("high").contains("Reasoning: high") && effort("low").contains("Reasoning: low"));
    for (name, wish) in [
        ("openai-gpt-oss-120b", ReasoningWish::Off),
        ("Qwen-Qwen2.5-7B-Instruct", ReasoningWish::Off),
        ("Qwen-Qwen3-0.6B", ReasoningWish::Effort("low".into())),
    ] {
        assert_eq!(prompt(name, &wish), None, "{name}");
    }
}
