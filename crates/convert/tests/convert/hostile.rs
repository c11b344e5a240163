//! Folders that are cut off, contradict themselves or were made to harm: one line that says what is wrong, and neither
//! a panic nor memory that a number in a file asked for.

use std::path::Path;

use crate::support::{Truth, safetensors, truths};
use gleed_testing::checkpoint::{self, Folder};
use serde_json::{Value as Json, json};

fn truth(name: &str) -> Truth {
    truths().into_iter().find(|truth| truth.name == name).unwrap()
}

/// The message for a folder that must not open.
fn refusal(folder: &Folder) -> String {
    let message = match gleed_convert::open(folder.path()) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it opens"),
    };
    assert!(!message.contains('\n') && message.len() < 2000, "{message}");
    message
}

/// Whatever comes of it, an error is one line.
fn opens_or_says_why(folder: &Folder) -> bool {
    match gleed_convert::open(folder.path()) {
        Ok(_) => true,
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty() && !message.contains('\n'), "{message}");
            false
        }
    }
}

fn write(folder: &Folder, name: &str, bytes: impl AsRef<[u8]>) {
    std::fs::write(folder.path().join(name), bytes).unwrap();
}

/// A folder whose weights have this table and `data` bytes of data.
fn with_table(table: &Json, data: usize) -> Folder {
    let folder = truth("qwen2").write_small();
    let header = table.to_string();
    write(
        &folder,
        "model.safetensors",
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat(),
    );
    folder
}

#[test]
fn weights_that_are_cut_off() {
    let truth = truth("qwen2");
    let folder = truth.write();
    let whole = safetensors(&truth.tensors());
    for length in (0..200).chain((200..whole.len()).step_by(997)) {
        write(&folder, "model.safetensors", &whole[..length]);
        assert!(!opens_or_says_why(&folder), "{length}");
    }
    write(&folder, "model.safetensors", &whole);
    assert!(opens_or_says_why(&folder));
}

#[test]
fn tables_of_impossible_lengths() {
    let folder = truth("qwen2").write_small();
    for length in [u64::MAX, u64::MAX - 7, 1 << 63, 1 << 40, 100_000_001, 100_000_000, 9] {
        write(&folder, "model.safetensors", [&length.to_le_bytes()[..], b"{}"].concat());
        let message = refusal(&folder);
        assert!(message.contains("table"), "{message}");
    }
}

#[test]
fn tensors_in_impossible_places() {
    let name = "model.embed_tokens.weight";
    let cases = [
        (json!([0, u64::MAX]), json!([400, 32]), "download the file again"),
        (json!([u64::MAX - 1, u64::MAX]), json!([400, 32]), "download the file again"),
        (json!([8, 4]), json!([400, 32]), "download the file again"),
        (json!([0, 64]), json!([400, 32]), "takes 25600 bytes, but it has 64"),
        (json!([0, 64]), json!([u64::MAX, u64::MAX]), "too large"),
        (json!([0, 64]), json!([u64::MAX / 2, 2]), "too large"),
        (json!([0, 0]), json!([u64::MAX, u64::MAX, 0]), "too large"),
        (json!([0, 0]), json!([0, 32]), ""),
        (json!([-1, 64]), json!([4, 8]), "not valid"),
        (json!([0, 64, 128]), json!([4, 8]), "not valid"),
        (json!("0"), json!([4, 8]), "not valid"),
        (json!([0, 64]), json!([-4, 8]), "not valid"),
        (Json::Null, json!([4, 8]), "has no dtype, shape or data_offsets"),
    ];
    for (offsets, shape, expected) in cases {
        let folder =
            with_table(&json!({name: {"dtype": "BF16", "shape": shape, "data_offsets": offsets}}), 4096);
        let message = refusal(&folder);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn tensors_that_overlap_or_are_of_other_types() {
    let entry =
        |kind: &str, from: usize| json!({"dtype": kind, "shape": [4, 8], "data_offsets": [from, from + 64]});
    let folder = with_table(&json!({"a.weight": entry("BF16", 0), "b.weight": entry("BF16", 63)}), 4096);
    assert!(refusal(&folder).contains("tensors a.weight and b.weight overlap"));
    let folder = with_table(&json!({"model.norm.weight": entry("F4", 0)}), 4096);
    assert!(refusal(&folder).contains("only F32, F16 and BF16 are read"));
    let folder = with_table(&json!({"what.is.this": entry("BF16", 0)}), 4096);
    assert!(refusal(&folder).contains("tensor what.is.this has no place in this kind of model"));
    let folder = with_table(&json!({"model.norm.weight": entry("BF16", 0)}), 4096);
    assert!(refusal(&folder).contains("the token embedding is missing"));
}

#[test]
fn shards_that_are_missing_or_lead_elsewhere() {
    let truth = truth("mixtral");
    let tensors = truth.tensors();
    let folder = truth.write_small();
    let parts: Vec<(String, &[_])> = tensors
        .chunks(20)
        .enumerate()
        .map(|(number, part)| (format!("model-{number}.safetensors"), part))
        .collect();
    let mut map = serde_json::Map::new();
    for (file, part) in &parts {
        write(&folder, file, safetensors(part));
        map.extend(part.iter().map(|(name, ..)| (name.clone(), json!(file))));
    }
    let index = |map: &serde_json::Map<String, Json>| json!({"metadata": {}, "weight_map": map}).to_string();
    write(&folder, "model.safetensors.index.json", index(&map));
    assert!(opens_or_says_why(&folder));

    // The same model as in one file.
    let (whole, parts_of) = (truth.write(), gleed_convert::open(folder.path()).unwrap());
    let whole = gleed_convert::open(whole.path()).unwrap();
    assert_eq!(whole.metadata(), parts_of.metadata());
    for tensor in whole.tensors() {
        let other = parts_of.require_tensor(&tensor.name).unwrap();
        assert!(whole.data(tensor) == parts_of.data(other), "{}", tensor.name);
    }

    let mut more = map.clone();
    more.insert("model.layers.9.extra.weight".to_string(), json!("model-0.safetensors"));
    write(&folder, "model.safetensors.index.json", index(&more));
    assert!(
        refusal(&folder).contains("tensor model.layers.9.extra.weight is missing in model-0.safetensors")
    );

    for elsewhere in ["../model-0.safetensors", "/etc/passwd", "a/../../b", ""] {
        more.insert("model.norm.weight".to_string(), json!(elsewhere));
        write(&folder, "model.safetensors.index.json", index(&more));
        refusal(&folder);
    }

    write(&folder, "model.safetensors.index.json", index(&map));
    std::fs::copy(folder.path().join("model-1.safetensors"), folder.path().join("model-0.safetensors"))
        .unwrap();
    assert!(refusal(&folder).contains("is in two files of the folder"));
    std::fs::remove_file(folder.path().join("model-0.safetensors")).unwrap();
    assert!(refusal(&folder).contains("model-0.safetensors is missing"));
}

#[test]
fn experts_that_are_missing() {
    let truth = truth("mixtral");
    let mut tensors = truth.tensors();
    let folder = truth.write_small();
    tensors.retain(|(name, ..)| name != "model.layers.1.block_sparse_moe.experts.2.w3.weight");
    write(&folder, "model.safetensors", safetensors(&tensors));
    assert!(refusal(&folder).contains("tensor blk.1.ffn_up_exps.weight: expert 2 is missing"));
}

#[test]
fn architectures_that_are_not_known() {
    let folder = truth("qwen2").write();
    for (config, expected) in [
        (
            json!({"architectures": ["NoSuchModel"]}),
            "NoSuchModel is not a model that can be read; known are classes of: afmoe, apertus",
        ),
        (json!({"architectures": []}), "key architectures is missing"),
        (json!({}), "key architectures is missing"),
        (json!([]), "is not a JSON object"),
        (
            json!({"architectures": ["Qwen2ForCausalLM"]}),
            "key num_hidden_layers or n_layers or n_layer or num_layers is missing",
        ),
    ] {
        write(&folder, "config.json", config.to_string());
        let message = refusal(&folder);
        assert!(message.contains(expected), "{message}");
    }
    write(&folder, "config.json", "{");
    assert!(refusal(&folder).contains("config.json: is not valid"));
    std::fs::remove_file(folder.path().join("config.json")).unwrap();
    assert!(refusal(&folder).contains("config.json: is missing"));
}

/// Every key of a configuration gone, or with a value that it should not have.
#[test]
fn configurations_that_say_anything() {
    let values = [
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(4_294_967_295u32),
        json!(1e300),
        json!("x"),
        json!([]),
        json!({}),
        json!([1, 2]),
        Json::Null,
    ];
    let mut refused = 0;
    for name in ["llama3", "gemma3", "phi3-long", "falcon", "deepseek3", "lfm2"] {
        let truth = truth(name);
        let folder = truth.write();
        let config = truth.json["config"].as_object().unwrap();
        for key in config.keys() {
            for value in values.iter().map(Some).chain([None]) {
                let mut changed = config.clone();
                match value {
                    Some(value) => changed.insert(key.clone(), value.clone()),
                    None => changed.remove(key),
                };
                write(&folder, "config.json", Json::Object(changed).to_string());
                refused += usize::from(!opens_or_says_why(&folder));
            }
        }
    }
    assert!(refused > 300, "{refused}");
}

#[test]
fn vocabularies_that_do_not_fit() {
    let truth = truth("qwen2");
    let folder = truth.write();
    let mut config = truth.json["config"].clone();
    for size in [401u64, 4_000_000_000, u64::MAX] {
        config["vocab_size"] = json!(size);
        write(&folder, "config.json", config.to_string());
        refusal(&folder);
    }
    write(&folder, "config.json", truth.json["config"].to_string());
    let text = checkpoint::vocabulary("bpe")["files"]["tokenizer.json"].as_str().unwrap().to_string();
    let tokenizer: Json = serde_json::from_str(&text).unwrap();
    let refuses = |change: &dyn Fn(&mut Json), expected: &str| {
        let mut changed = tokenizer.clone();
        change(&mut changed);
        write(&folder, "tokenizer.json", changed.to_string());
        let message = refusal(&folder);
        assert!(message.contains(expected), "{message}");
    };
    refuses(&|json| json["model"]["vocab"]["new"] = json!(u64::MAX), "but the model has 400 tokens");
    refuses(&|json| json["added_tokens"][0]["id"] = json!(400), "but the model has 400 tokens");
    refuses(&|json| json["model"]["merges"] = json!([]), "has no merges");
    refuses(&|json| json["model"]["merges"] = json!([["a"]]), "not valid");
    refuses(&|json| json["model"]["type"] = json!("WordLevel"), "only these are read");
    refuses(&|json| json["pre_tokenizer"] = Json::Null, "a rule that is not known");
    refuses(
        &|json| json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = json!("."),
        "a rule that is not known: .",
    );
    refuses(&|json| json["pre_tokenizer"]["pretokenizers"][0]["type"] = json!("Magic"), "cut by Magic");
    for length in (0..text.len()).step_by(211) {
        if text.is_char_boundary(length) {
            write(&folder, "tokenizer.json", &text[..length]);
            refusal(&folder);
        }
    }
    std::fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    assert!(refusal(&folder).contains("the vocabulary is missing"));
}

#[test]
fn sentencepiece_models_that_are_damaged() {
    let folder = truth("llama").write();
    let path = folder.path().join("tokenizer.model");
    let whole = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for at in (0..whole.len()).step_by(7) {
        std::fs::write(&path, &whole[..at]).unwrap();
        refused += usize::from(!opens_or_says_why(&folder));
        let mut changed = whole.clone();
        changed[at] ^= 0xff;
        std::fs::write(&path, &changed).unwrap();
        refused += usize::from(!opens_or_says_why(&folder));
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn folders_that_are_none() {
    assert!(gleed_convert::open(Path::new("/no/such/folder")).is_err());
    let folder = truth("qwen2").write_small();
    assert!(refusal(&folder).contains("only weights in safetensors are read"));
    let mut config = truth("qwen2").json["config"].clone();
    config["quantization_config"] = json!({"quant_method": "gptq"});
    write(&folder, "config.json", config.to_string());
    assert!(refusal(&folder).contains("its weights are quantised"));
}

#[test]
fn modules_that_are_not_there_or_not_known() {
    let folder = truth("bert").write();
    let refuses = |file: &str, content: Json, expected: &str| {
        write(&folder, file, content.to_string());
        let message = refusal(&folder);
        assert!(message.contains(expected), "{message}");
    };
    let modes = json!({"pooling_mode_max_tokens": true});
    refuses("1_Pooling/config.json", modes, "pooled in a way that is not known");
    let module = |kind: &str, path: &str| json!([{"type": kind, "path": path}]);
    refuses("modules.json", module("models.Pooling", "../1_Pooling"), "is not in the folder");
    refuses("modules.json", module("models.Pooling", "/"), "is not in the folder");
    refuses("modules.json", module("models.Pooling", "2_Pooling"), "2_Pooling");
    refuses("modules.json", module("models.Dense", "2_Dense"), "2_Dense");
    refuses("modules.json", json!({"type": 1}), "modules.json");
    std::fs::create_dir(folder.path().join("2_Dense")).unwrap();
    let tensor = ("linear.weight".to_string(), "F32".to_string(), vec![1, 1], vec![0; 4]);
    write(&folder, "2_Dense/model.safetensors", safetensors(&[tensor]));
    let config = json!({"in_features": 1, "out_features": 1, "activation_function": "torch.nn.Tanh"});
    write(&folder, "2_Dense/config.json", config.to_string());
    refuses("modules.json", module("models.Dense", "2_Dense"), "is not Identity");
    let config = json!({"in_features": 1, "out_features": 1, "activation_function": "torch.nn.Identity"});
    write(&folder, "2_Dense/config.json", config.to_string());
    refuses("modules.json", module("models.Dense", "2_Dense"), "2_Dense.linear.weight has no place");
}

#[test]
fn ranks_that_are_none() {
    let folder = truth("hunyuan-moe").write();
    let file = folder.path().join("hy.tiktoken");
    let whole = std::fs::read_to_string(&file).unwrap();
    assert!(opens_or_says_why(&folder));
    let long = format!("{} 324\n", "QUFB".repeat(400));
    let cases = [
        (String::new(), "hy.tiktoken: has no tokens"),
        (format!("{whole}QQ==\n"), "hy.tiktoken: line 325 is not a token in base64 and its rank"),
        (format!("{whole}Q!== 324\n"), "line 325 is not a token"),
        (format!("{whole}QUE= -1\n"), "line 325 is not a token"),
        (format!("{whole}QUE= 400\n"), "line 325: rank 400, but the model has 400 tokens"),
        (format!("{whole}= 324\n"), "line 325: a token of 0 bytes"),
        (format!("{whole}{long}"), "line 325: a token of 1200 bytes"),
        (format!("{whole}QUE= 17\n"), "rank 17 is there twice"),
        (format!("{whole}QUE= 330\n"), "rank 324 is missing"),
    ];
    for (text, expected) in cases {
        std::fs::write(&file, text).unwrap();
        let message = refusal(&folder);
        assert!(message.contains(expected), "{message} lacks {expected}");
    }
    std::fs::remove_file(&file).unwrap();
    assert!(refusal(&folder).contains("the vocabulary is missing"));
}
