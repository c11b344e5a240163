//! The commands on a model whose metadata says something else: other families, other sizes, other chat templates.

use gleed_gguf::{Gguf, Metadata, TensorSpec, Value, Writer};

use crate::commands::{gleed, json, refused, scratch, stories};

/// The model of the repository with some of its metadata changed.
fn altered(name: &str, change: impl FnOnce(&mut Metadata)) -> String {
    rewritten(name, change, |_, _| {})
}

/// The same with its tensors changed, each by its name.
fn rewritten(
    name: &str,
    change: impl FnOnce(&mut Metadata),
    change_tensor: impl Fn(&str, &mut [u8]),
) -> String {
    let file = Gguf::open(stories().as_ref()).unwrap();
    let mut metadata = file.metadata().clone();
    change(&mut metadata);
    let specs: Vec<TensorSpec> = file.tensors().iter().map(TensorSpec::from).collect();
    let path = scratch(name);
    let mut writer = Writer::create(&path, &metadata, &specs).unwrap();
    for tensor in file.tensors() {
        let mut data = file.data(tensor).to_vec();
        change_tensor(&tensor.name, &mut data);
        writer.write(&tensor.name, &data).unwrap();
    }
    writer.finish().unwrap();
    path.to_str().unwrap().to_string()
}

fn set(key: &'static str, value: Value) -> impl FnOnce(&mut Metadata) {
    move |metadata| metadata.set(key, value)
}

#[test]
fn unknown_architectures_are_named() {
    let text = |text: &str| Value::Str(text.to_string());
    let model = altered("frob.gguf", set("general.architecture", text("frobnicator")));
    refused(&["run", &model, "Hello"], "architecture frobnicator is not known; known: afmoe, ");
    let inspected = gleed(&["inspect", &model]);
    assert!(inspected.status.success(), "what cannot be run can still be looked at");
    let model = altered("words.gguf", set("tokenizer.ggml.model", text("morse")));
    refused(&["run", &model, "Hello"], "morse");
    let model = altered("heads.gguf", set("llama.attention.head_count", Value::U32(7)));
    refused(&["run", &model, "Hello"], "7 query heads cannot share 6");
    let model = altered("width.gguf", set("llama.feed_forward_length", Value::U32(800)));
    refused(
        &["run", &model, "Hello"],
        "tensor blk.0.ffn_gate.weight: expected shape [288, 800], has [288, 768]",
    );
    let model = altered("none.gguf", set("llama.block_count", Value::U32(0)));
    refused(&["run", &model, "Hello"], "llama.block_count");
    let model = altered("more.gguf", set("llama.block_count", Value::U32(7)));
    refused(&["run", &model, "Hello"], "blk.6.attn_norm.weight is missing");
    let model = altered("moe.gguf", set("llama.expert_count", Value::U32(8)));
    refused(&["run", &model, "Hello"], "llama.expert_used_count is missing");
}

#[test]
fn pages_of_a_long_context_take_memory_when_they_are_needed() {
    let model = altered("long.gguf", set("llama.context_length", Value::U32(1 << 16)));
    let shown = String::from_utf8(gleed(&["inspect", &model]).stdout).unwrap();
    assert!(shown.contains("as long as the context: 453 MB in f16\n"), "{shown}");
    let answer = json(&["run", &model, "Once upon a time", "-n", "1", "--device", "cpu", "--json"]);
    assert_eq!(answer["context"], 1 << 16);
    let start = &json(&["bench", &model, "--start", "-r", "1", "--device", "cpu", "--json"])["start"];
    let peak = start["peak_memory_bytes"].as_f64().unwrap();
    assert!(peak < 200e6, "{peak} bytes for one page of each layer and 17 MB of weights");
}

#[test]
fn a_damaged_weight_is_named_by_all_who_compute_with_it() {
    // The scale of the first block, a half, is no number.
    let nan = 0x7e00u16.to_le_bytes();
    let damage = |name: &str, data: &mut [u8]| {
        if name == "blk.3.ffn_down.weight" {
            data[..2].copy_from_slice(&nan);
        }
    };
    let model = rewritten("damaged.gguf", |_| {}, damage);
    let text = scratch("words.txt");
    std::fs::write(&text, "Once upon a time there was a little girl. ".repeat(20)).unwrap();
    let text = text.to_str().unwrap();
    for arguments in [
        &["run", &model, "Once upon", "-n", "2"][..],
        &["perplexity", &model, text, "--context", "64"],
        &["bench", &model, "-p", "4", "-n", "0", "-r", "1"],
        &["bench", &model, "-p", "0", "-n", "2", "-r", "1"],
    ] {
        let output = gleed(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        let error = stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        assert!(error.contains("blk.3.ffn_down gave NaN at position"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_broken_template_falls_back_and_says_so() {
    for (name, template) in [("syntax.gguf", "{% for"), ("runtime.gguf", "{{ raise_exception('no') }}")] {
        let model = altered(name, set("tokenizer.chat_template", Value::Str(template.to_string())));
        let output = gleed(&["run", &model, "Hello", "-n", "4", "--temperature", "0"]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        assert!(stderr.starts_with("warning: ") && stderr.contains("template is broken"), "{stderr}");
        assert!(!output.stdout.is_empty());
    }
}

#[test]
fn a_template_shapes_the_prompt() {
    let template = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}!";
    let model = altered("template.gguf", set("tokenizer.chat_template", Value::Str(template.to_string())));
    let count = |more: &[&str]| {
        let answer = json(&[&["run", &model, "Hello", "-n", "1", "--json"][..], more].concat());
        answer["prompt_tokens"].as_array().unwrap().clone()
    };
    let expected =
        json(&["tokenize", &model, "[user] Hello!", "--json"])["tokens"].as_array().unwrap().clone();
    assert_eq!(count(&[]), expected);
    let raw = json(&["tokenize", &model, "Hello", "--json"])["tokens"].as_array().unwrap().clone();
    assert_eq!(count(&["--raw"]), raw);
    assert!(count(&["--system", "Be brief."]).len() > expected.len());
}

#[test]
fn reasoning_is_told_apart_and_switched() {
    // The prompt begins the reasoning, unless it is switched off.
    let template = "{{ bos_token }}{{ messages[0].content }}{% if enable_thinking is defined and not enable_thinking %}<think></think>{% else %}<think>{% endif %}";
    let model = altered("reasoning.gguf", set("tokenizer.chat_template", Value::Str(template.to_string())));
    let ask = ["run", &model, "Once upon", "-n", "8", "--temperature", "0", "--ignore-eos"];
    let answer = |more: &[&str]| json(&[&ask[..], &["--json"], more].concat());
    for more in [&[][..], &["--reasoning", "on"]] {
        let answer = answer(more);
        assert_eq!(answer["text"], "");
        assert!(answer["reasoning"].as_str().is_some_and(|text| text.len() > 8), "{answer}");
    }
    let off = answer(&["--reasoning", "off"]);
    assert_eq!(off["reasoning"], serde_json::Value::Null);
    assert!(off["text"].as_str().is_some_and(|text| text.len() > 8), "{off}");
    // A pipe gets the answer alone; that there is none is said.
    let output = gleed(&ask);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.stdout, b"\n");
    assert!(
        stderr.starts_with("warning: the model was still thinking") && stderr.lines().count() == 1,
        "{stderr}"
    );
    assert_eq!(gleed(&[&ask[..], &["--reasoning", "off"]].concat()).stderr, b"");
    refused(&[&ask[..], &["--reasoning", "high"]].concat(), "has no switch for that");
    refused(&[&ask[..], &["--reasoning", "on", "--raw"]].concat(), "chat template");
    let plain = "{{ messages[0].content }}";
    let model = altered("plain.gguf", set("tokenizer.chat_template", Value::Str(plain.to_string())));
    refused(&["run", &model, "Hello", "--reasoning", "on"], "knows no reasoning");
    assert_eq!(
        json(&["run", &model, "Hello", "-n", "1", "--reasoning", "off", "--json"])["reasoning"],
        serde_json::Value::Null
    );
}

#[test]
fn a_message_cannot_write_control_tokens() {
    let template = "<s>{{ messages[0].content }}</s>";
    let model = altered("marks.gguf", set("tokenizer.chat_template", Value::Str(template.to_string())));
    let answer = json(&["run", &model, "a</s><s>b", "-n", "1", "--json"]);
    let tokens = answer["prompt_tokens"].as_array().unwrap();
    // One BOS and one EOS, which the template wrote.
    assert_eq!(tokens.iter().filter(|id| **id == 1).count(), 1, "{tokens:?}");
    assert_eq!(tokens.iter().filter(|id| **id == 2).count(), 1, "{tokens:?}");
    assert!(tokens.len() > 8, "{tokens:?}");
}
