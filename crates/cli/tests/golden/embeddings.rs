//! Embedding models: their vectors on the fast path against llama.cpp's, and the command.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use crate::data::cpu;
use gleed_cpu::Cpu;
use gleed_engine::{Engine, Error, normalize};
use gleed_gguf::Gguf;
use gleed_model::{Arithmetic, Executor, KvType};
use gleed_testing::golden::{
    ADDITIONS, GELU_TABLE, Golden, floats, golden, hold, root, spread, test_data, tiny_model, worst,
};
use gleed_tokenizer::Tokenizer;
use serde_json::Value;

/// All prompts in one step, on an executor for their positions, and the tokens that they begin as.
fn check_on(device: &str, name: &str, limit: f32, executor: impl Fn(usize) -> Box<dyn Executor>) {
    let file = Gguf::open(&tiny_model(name)).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let golden = golden(&format!("tiny/{name}"));
    for Golden { prompt, prompt_ids, .. } in &golden {
        assert_eq!(tokenizer.encode_prompt(prompt, true, false), *prompt_ids, "{name}: {prompt}");
    }
    let texts: Vec<&[u32]> = golden.iter().map(|golden| &golden.prompt_ids[..]).collect();
    let mut engine = Engine::new(executor(texts.iter().map(|text| text.len().next_multiple_of(64)).sum()));
    let together = engine.embed(&texts).unwrap();
    for (index, ours) in together.iter().enumerate() {
        assert_eq!(engine.embed(&texts[index..=index]).unwrap(), std::slice::from_ref(ours), "{name}: alone");
        let truth = floats(&format!("tiny/{name}.p{index}.embedding.f32"));
        hold(device, name, index, ours, &truth, limit);
    }
}

fn check(name: &str, limit: f32) {
    let path = tiny_model(name);
    check_on("CPU", name, limit, |positions| Box::new(cpu(&path, Arithmetic::F32, KvType::F32, positions)));
}

macro_rules! families {
    ($($test:ident: $name:literal, $limit:ident;)*) => {$(
        #[test]
        fn $test() {
            check($name, $limit);
        }
    )*};
}

families! {
    bert: "tiny-bert", GELU_TABLE;
    jina_bert_v2: "tiny-jina-bert-v2", GELU_TABLE;
    jina_bert_v3: "tiny-jina-bert-v3", GELU_TABLE;
    gemma_embedding: "tiny-gemma-embedding", GELU_TABLE;
    modern_bert: "tiny-modern-bert", ADDITIONS;
    nomic_bert: "tiny-nomic-bert", ADDITIONS;
    nomic_bert_moe: "tiny-nomic-bert-moe", GELU_TABLE;
    qwen3_embedding: "tiny-qwen3-embedding", ADDITIONS;
}

/// Both kinds of pooling, learned positions, rotation and slopes, experts.
#[test]
#[cfg(feature = "gpu")]
fn encoders_on_a_gpu() {
    for (name, limit) in [
        ("tiny-bert", GELU_TABLE),
        ("tiny-nomic-bert", ADDITIONS),
        ("tiny-nomic-bert-moe", GELU_TABLE),
        ("tiny-jina-bert-v2", GELU_TABLE),
        ("tiny-jina-bert-v3", GELU_TABLE),
        ("tiny-modern-bert", ADDITIONS),
        ("tiny-gemma-embedding", GELU_TABLE),
        ("tiny-qwen3-embedding", ADDITIONS),
    ] {
        let path = tiny_model(name);
        check_on(&crate::data::gpu_name(), name, limit, |positions| {
            Box::new(crate::data::gpu(&path, KvType::F32, positions))
        });
    }
}

/// What transformers made of a text with all-MiniLM-L6-v2, see `tests/minilm/make.py`.
#[derive(serde::Deserialize)]
struct Sentence {
    text: String,
    ids: Vec<u32>,
    /// Of length 1.
    vector: Vec<f32>,
}

#[test]
fn all_minilm_l6_v2() {
    let path = test_data("all-MiniLM-L6-v2.F16.gguf");
    let sentences = std::fs::read_to_string(root().join("tests/minilm/vectors.json")).unwrap();
    let sentences: Vec<Sentence> = serde_json::from_str(&sentences).unwrap();
    let tokenizer = Tokenizer::from_metadata(Gguf::open(&path).unwrap().metadata()).unwrap();
    for Sentence { text, ids, .. } in &sentences {
        assert_eq!(tokenizer.encode_prompt(text, true, false), *ids, "{text}");
    }
    let texts: Vec<&[u32]> = sentences.iter().map(|sentence| &sentence.ids[..]).collect();
    // Keys and values as exact as transformers has them, and as they are stored unless asked otherwise.
    for (kv, limit) in [(KvType::F32, 1e-6), (KvType::F16, 1e-4)] {
        let mut engine = Engine::new(Box::new(cpu(&path, Arithmetic::Q8, kv, 1024)));
        for (sentence, mut vector) in sentences.iter().zip(engine.embed(&texts).unwrap()) {
            normalize(&mut vector);
            let difference = worst(&vector, &sentence.vector);
            assert!(difference < limit, "{kv}, {}: {difference}", sentence.text);
        }
    }
}

/// Steps of any number of rows, and many texts at once or one by one, give the same bits. A text may be longer than a
/// step where rows see none after them.
#[test]
fn the_engine_gives_each_text_its_own_vector() {
    for (name, both_ways) in [("tiny-bert", true), ("tiny-nomic-bert", true), ("tiny-qwen3-embedding", false)]
    {
        let file = Arc::new(Gguf::open(&tiny_model(name)).unwrap());
        let run = |max_rows: usize, texts: &[&[u32]]| {
            let options = gleed_cpu::Options { max_rows, pages: 16, ..Default::default() };
            Engine::new(Box::new(Cpu::open(&file, options).unwrap())).embed(texts)
        };
        let text = |text: u32, length: u32| -> Vec<u32> {
            (0..length).map(|i| 5 + (i * 31 + text * 101) % 900).collect()
        };
        let texts: Vec<Vec<u32>> = (0..7).map(|number| text(number, 5 + 9 * number)).collect();
        let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let all = run(512, &texts).unwrap();
        assert_eq!(all.len(), texts.len());
        assert_eq!(run(90, &texts).unwrap(), all, "{name}");
        for (text, vector) in texts.iter().zip(&all) {
            assert_eq!(
                run(64, &[text]).unwrap(),
                std::slice::from_ref(vector),
                "{name}, {} tokens",
                text.len()
            );
        }
        let long = text(9, 200);
        let whole = run(256, &[texts[3], &long]).unwrap();
        let in_parts = run(64, &[texts[3], &long]);
        match both_ways {
            true => assert_eq!(in_parts, Err(Error::TextTooLong { index: 1, tokens: 200, limit: 64 })),
            false => assert_eq!(in_parts, Ok(whole)),
        }
        assert_eq!(run(64, &[&[5], &[]]), Err(Error::EmptyText { index: 1 }));
    }
}

fn gleed(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gleed"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The vectors that a command prints as JSON, one object a line.
fn vectors(output: &Output) -> Vec<Vec<f32>> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let objects = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    objects
        .enumerate()
        .map(|(index, object)| {
            assert_eq!(object["index"], index);
            object["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
        })
        .collect()
}

#[test]
fn the_command_takes_texts_from_everywhere() {
    let model = test_data("tiny/tiny-bert.F32.gguf");
    let model = model.to_str().unwrap();
    let cpu = ["--device", "cpu", "--arithmetic", "f32", "--kv", "f32"];
    let embed = |more: &[&str], input: &str| gleed(&[&["embed", model], more, &cpu].concat(), input);
    let golden = golden("tiny/tiny-bert");
    let (first, second) = (&golden[0].prompt[..], &golden[1].prompt[..]);
    let both = vectors(&embed(&[first, second, "--json"], ""));
    for (index, ours) in both.iter().enumerate() {
        let truth = floats(&format!("tiny/tiny-bert.p{index}.embedding.f32"));
        assert!(worst(ours, &truth) / spread(&truth) < GELU_TABLE);
    }
    let lines = format!("{first}\n{second}\n");
    assert_eq!(vectors(&embed(&["--json"], &lines)), both, "standard input");
    assert_eq!(vectors(&embed(&[first, "--json", "--file", "-"], &format!("{second}\n"))), both);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("texts");
    std::fs::write(&file, &lines).unwrap();
    assert_eq!(vectors(&embed(&["--json", "--file", file.to_str().unwrap()], "")), both, "a file");

    // Numbers alone are those of the object; scaled, their squares are one together.
    let plain = String::from_utf8(embed(&[first], "").stdout).unwrap();
    let plain: Vec<f32> = plain.split_whitespace().map(|x| x.parse().unwrap()).collect();
    assert_eq!(plain, both[0]);
    let unit = &vectors(&embed(&[first, "--json", "--normalize"], ""))[0];
    let length: f32 = plain.iter().map(|x| x * x).sum::<f32>().sqrt();
    assert!((unit.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    assert!(unit.iter().zip(&plain).all(|(unit, x)| (unit - x / length).abs() < 1e-6));
}

#[test]
fn other_commands_know_embedding_models() {
    for name in ["tiny-bert", "tiny-modern-bert", "tiny-qwen3-embedding"] {
        let model = test_data(&format!("tiny/{name}.F32.gguf"));
        let model = model.to_str().unwrap();
        for check in [&["--json"][..], &["--json", "--against-rows"], &["--json", "--ops"]] {
            let output = gleed(&[&["validate", model, "--device", "cpu"], check].concat(), "");
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert!(output.status.success() && report["passed"] == true, "{name} {check:?}: {report}");
        }
        let measured = gleed(&["bench", model, "--device", "cpu", "-p", "20", "-r", "1", "--json"], "");
        let report: Value = serde_json::from_slice(&measured.stdout).unwrap();
        assert_eq!(report["results"].as_array().map(Vec::len), Some(1), "{report}");
        let generates = gleed(&["bench", model, "--device", "cpu", "-n", "5"], "");
        let message = String::from_utf8_lossy(&generates.stderr);
        assert!(!generates.status.success() && message.contains("leave out -n"), "{message}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("minilm.gguf");
    assert!(gleed(&["synth", "minilm-l6", file.to_str().unwrap(), "--type", "q8_0"], "").status.success());
    let found =
        vectors(&gleed(&["embed", file.to_str().unwrap(), "a", "b", "--json", "--device", "cpu"], ""));
    assert!(found.iter().all(|vector| vector.len() == 384 && vector.iter().all(|x| x.is_finite())));
    assert_ne!(found[0], found[1]);
}

#[test]
fn models_that_cannot_say_what_to_do_instead() {
    let path = |name: &str| test_data(&format!("tiny/{name}.F32.gguf")).to_str().unwrap().to_string();
    let (encoder, decoder) = (path("tiny-bert"), path("tiny-qwen3"));
    let text = path("tiny-bert").replace("tiny-bert.F32.gguf", "../../docs");
    for arguments in [&["run", &encoder, "Hello"][..], &["perplexity", &encoder, &text]] {
        let output = gleed(arguments, "");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains("`gleed embed "), "{arguments:?}: {message}");
    }
    let output = gleed(&["embed", &decoder, "Hello"], "");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains("qwen3.pooling_type"), "{message}");
    let output = gleed(&["embed", &encoder], "");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains("no text"), "{message}");
    let long = "word ".repeat(600);
    let output = gleed(&["embed", &encoder, "short", &long], "");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains("text 1 has 602 tokens"), "{message}");
}
