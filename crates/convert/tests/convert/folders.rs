//! Tiny checkpoint folders against what llama.cpp's converter makes of them, key by key and tensor by tensor, and
//! against the logits of transformers. `make.py` made the truth; the folders are written here.

use std::sync::Arc;

use crate::support::{Truth, hash, metadata_json, truths};
use gleed_gguf::Gguf;
use gleed_model::arithmetic::PAGE;
use gleed_model::program::Output;
use gleed_model::reference::Options;
use gleed_model::{Arithmetic, Batch, Executor, KvType, Model, Reference, Row};
use gleed_testing::checkpoint::{self, Folder};
use serde_json::Value as Json;

/// Keys that differ on purpose, by what the truth is about, and why.
const DIFFERENT: &[(&str, &[&str])] = &[
    // Its converter forgets it.
    ("gptneox", &["general.file_type"]),
    // Its converter leaves it to the number of layers.
    ("glm4-lite", &["deepseek2.expert_gating_func"]),
    // Its converter forgets how queries grow.
    ("mistral4", &["mistral4.attention.temperature_scale", "mistral4.attention.temperature_length"]),
    // It counts layers that guess further tokens.
    ("glm4moe", &["glm4moe.block_count", "glm4moe.nextn_predict_layers"]),
    // Its converter writes the number that the token has in the real vocabulary.
    ("hunyuan-moe", &["tokenizer.ggml.bos_token_id"]),
    // All its scores are one number, and there are fewer tokens than the embedding has rows.
    (
        "llama-json",
        &[
            "tokenizer.ggml.tokens",
            "tokenizer.ggml.scores",
            "tokenizer.ggml.token_type",
            "tokenizer.ggml.add_space_prefix",
        ],
    ),
];

/// Families whose logits are llama.cpp's and not those of transformers, and why.
const UNLIKE_TRANSFORMERS: &[&str] = &[
    // Its router leaves out experts that are far from the best; llama.cpp's does not.
    "phimoe",
    // transformers takes its norm over all groups at once.
    "mamba2-groups",
];

fn check_keys(truth: &Truth, file: &Gguf) {
    let skipped = DIFFERENT.iter().filter(|(name, _)| *name == truth.name).flat_map(|(_, keys)| keys.iter());
    let skipped: Vec<&str> = skipped.copied().collect();
    let ours = metadata_json(file.metadata());
    let mut wrong = Vec::new();
    for (key, expected) in truth.json["metadata"].as_object().unwrap() {
        if !skipped.contains(&key.as_str()) && ours.get(key) != Some(expected) {
            wrong.push(format!("{key}: {:?}, not {expected}", ours.get(key).map(Json::to_string)));
        }
    }
    for key in ours.keys() {
        if !skipped.contains(&key.as_str()) && truth.json["metadata"].get(key).is_none() {
            wrong.push(format!("{key} is too much: {}", ours[key]));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", truth.name, wrong.join("\n"));
}

fn check_tensors(name: &str, expected: &Json, file: &Gguf) {
    let expected = expected.as_object().unwrap();
    let mut wrong = Vec::new();
    for (tensor, expected) in expected {
        let Some(tensor) = file.tensor(tensor) else {
            wrong.push(format!("{tensor} is missing"));
            continue;
        };
        let mut ours = serde_json::json!([tensor.format.to_string(), tensor.shape, hash(file.data(tensor))]);
        if tensor.name.ends_with(".ssm_a") {
            // eˣ differs in its last bit from library to library; the logits tell whether it is right.
            ours[2] = expected[2].clone();
        }
        if ours != *expected {
            wrong.push(format!("{}: {ours}, not {expected}", tensor.name));
        }
    }
    wrong.extend(
        file.tensors()
            .iter()
            .filter(|tensor| !expected.contains_key(&tensor.name))
            .map(|tensor| format!("{} is too much", tensor.name)),
    );
    assert!(wrong.is_empty(), "{}:\n{}", name, wrong.join("\n"));
}

fn check_logits(truth: &Truth, file: Arc<Gguf>) {
    let tokens: Vec<u32> = serde_json::from_value(truth.json["tokens"].clone()).unwrap();
    let model = Model::load(&file).unwrap_or_else(|error| panic!("{}: {error}", truth.name));
    assert_eq!(model.unused, Vec::<String>::new(), "{}", truth.name);
    let (arithmetic, kv, max_rows) = (Arithmetic::F32, KvType::F32, tokens.len());
    let options =
        Options { arithmetic, rounds_to_groups: None, kv, max_rows, pages: max_rows.div_ceil(PAGE) };
    let mut executor = Reference::new(file, model.program.clone(), options).unwrap();
    let mut batch = Batch::default();
    let pages: Vec<u32> = (0..executor.page_count() as u32).collect();
    let table = batch.add_table(&pages);
    let pooled = match model.program.output {
        Output::Embedding(pooling) => Some(pooling.wanted(tokens.len())),
        Output::Logits => None,
    };
    for (position, &token) in tokens.iter().enumerate() {
        let wants_logits = pooled.is_none_or(|wanted| wanted == position);
        batch.push(Row { table, position: position as u32, token, wants_logits });
    }
    executor.step(&batch, &mut ()).unwrap();
    // Of an encoder its one vector, of others the logits at some positions.
    let truths: Vec<(usize, &Json)> = match pooled {
        Some(_) => vec![(0, &truth.json["vector"])],
        None => {
            let logits = truth.json["logits"].as_object().unwrap().iter();
            logits.map(|(position, logits)| (position.parse().unwrap(), logits)).collect()
        }
    };
    for (position, expected) in truths {
        let expected: Vec<f32> = serde_json::from_value(expected.clone()).unwrap();
        let ours = executor.logits(position);
        assert_eq!(ours.len(), expected.len());
        let size = expected.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let farthest = ours.iter().zip(&expected).fold(0.0f32, |most, (a, b)| most.max((a - b).abs()));
        assert!(size > 0.0 && farthest <= 2e-4 * size, "{} at {position}: {farthest} of {size}", truth.name);
    }
}

#[test]
fn every_family_becomes_what_the_converter_makes_of_it() {
    let mut failures = Vec::new();
    for truth in truths() {
        let folder = truth.write();
        let checked = std::panic::catch_unwind(|| {
            let file =
                gleed_convert::open(folder.path()).unwrap_or_else(|error| panic!("{}: {error}", truth.name));
            check_keys(&truth, &file);
            check_tensors(&truth.name, &truth.json["tensors"], &file);
        });
        if checked.is_err() {
            failures.push(truth.name.clone());
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn a_folder_of_several_files_as_transformers_wrote_it() {
    let (folder, tensors) = Folder::written_by_transformers();
    let file = gleed_convert::open(folder.path()).unwrap();
    assert!(file.parts().len() > 2);
    check_tensors("sharded", &tensors, &file);
}

#[test]
fn every_family_computes_what_transformers_does() {
    let mut failures = Vec::new();
    for truth in truths().into_iter().filter(|truth| !UNLIKE_TRANSFORMERS.contains(&truth.name.as_str())) {
        let folder = truth.write();
        let checked = std::panic::catch_unwind(|| {
            let file =
                gleed_convert::open(folder.path()).unwrap_or_else(|error| panic!("{}: {error}", truth.name));
            check_logits(&truth, Arc::new(file));
        });
        if checked.is_err() {
            failures.push(truth.name.clone());
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn every_family_has_a_truth() {
    let truths = truths();
    let seen: Vec<&str> = truths
        .iter()
        .map(|truth| truth.json["metadata"]["general.architecture"][1].as_str().unwrap())
        .collect();
    for (model, architecture) in gleed_convert::known() {
        assert!(seen.contains(&architecture), "{model}: {architecture}");
    }
}

#[test]
fn the_page_lists_every_class() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/convert.md")).unwrap();
    let row = |(model, architecture): &(&str, &str)| {
        page.lines().any(|line| {
            line.contains(&format!("`{model}`")) && line.ends_with(&format!("| {architecture} |"))
        })
    };
    assert_eq!(gleed_convert::known().filter(|known| !row(known)).collect::<Vec<_>>(), []);
}

#[test]
fn names_that_only_its_own_code_has() {
    let mut truth = truths().into_iter().find(|truth| truth.name == "nomic-bert").unwrap();
    let config = truth.json["config"].as_object_mut().unwrap();
    for key in [
        "hidden_size",
        "num_attention_heads",
        "intermediate_size",
        "num_hidden_layers",
        "max_position_embeddings",
        "hidden_act",
        "layer_norm_eps",
        "head_dim",
        "rope_parameters",
    ] {
        assert!(config.remove(key).is_some());
    }
    // The size of heads follows from others.
    let keys = truth.json["metadata"].as_object_mut().unwrap();
    assert!(keys.remove("nomic-bert.attention.key_length").is_some());
    assert!(keys.remove("nomic-bert.attention.value_length").is_some());
    check_keys(&truth, &gleed_convert::open(truth.write().path()).unwrap());
}

#[test]
fn stretches_are_the_whole_tensor() {
    for truth in truths() {
        let folder = truth.write();
        let file = gleed_convert::open(folder.path()).unwrap();
        for tensor in file.tensors() {
            let row = tensor.format.row_bytes(tensor.shape[0]).unwrap();
            let mut joined = Vec::new();
            for start in (0..tensor.bytes).step_by(3 * row) {
                joined.extend_from_slice(&file.stretch(tensor, start..(start + 3 * row).min(tensor.bytes)));
            }
            assert!(joined == file.data(tensor), "{} {}", truth.name, tensor.name);
        }
    }
}

#[test]
fn vocabularies_cut_texts_as_their_makers_do() {
    for (model, vocabulary) in [
        ("qwen2", "bpe"),
        ("llama", "spm"),
        ("llama-json", "spm-json"),
        ("gemma4", "gemma4"),
        ("bert", "wordpiece"),
        ("xlm-roberta", "unigram"),
        ("kimi-linear", "kimi"),
        ("hunyuan-moe", "hunyuan"),
    ] {
        let folder = truths().into_iter().find(|truth| truth.name == model).unwrap().write();
        let file = gleed_convert::open(folder.path()).unwrap();
        let tokenizer = gleed_tokenizer::Tokenizer::from_metadata(file.metadata()).unwrap();
        let ids = checkpoint::vocabulary(vocabulary)["ids"].clone();
        for (text, expected) in ids.as_object().unwrap() {
            let expected: Vec<u32> = serde_json::from_value(expected.clone()).unwrap();
            assert_eq!(
                tokenizer.encode(text, gleed_tokenizer::Special::Literal),
                expected,
                "{vocabulary}: {text:?}"
            );
        }
    }
}
