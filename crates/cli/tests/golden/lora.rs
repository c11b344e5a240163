//! Adapters as users have them: beside a model on the command line, against llama.cpp.

use gleed_gguf::{Gguf, TensorSpec, Value, Writer};
use gleed_model::{Arithmetic, KvType};
use gleed_testing::golden::{ADDITIONS, golden, test_data, tiny_model};
use gleed_testing::lora::{LORA, LoraCase};

use crate::commands::{gleed, json, refused, scratch, stories};
use crate::data::cpu_of;
use crate::tiny::check_golden;

#[test]
fn answers_of_the_cpu_are_those_of_llama_cpp() {
    for case in LORA {
        let (file, model) = case.open();
        check_golden("CPU", &format!("lora/{}", case.name), ADDITIONS, |positions| {
            Box::new(cpu_of(file, &model, Arithmetic::F32, KvType::F32, positions))
        });
    }
}

#[test]
#[cfg(feature = "gpu")]
fn answers_of_a_gpu_are_those_of_llama_cpp() {
    for case in LORA {
        let (file, model) = case.open();
        check_golden(&crate::data::gpu_name(), &format!("lora/{}", case.name), ADDITIONS, |positions| {
            Box::new(crate::data::gpu_of(&file, &model, KvType::F32, positions))
        });
    }
}

/// What names a case on the command line.
fn flags(case: &LoraCase) -> Vec<String> {
    let flag = |(path, scale): (std::path::PathBuf, f32)| {
        ["--lora".to_string(), format!("{}:{scale}", path.display())]
    };
    case.files().flat_map(flag).collect()
}

#[test]
fn run_takes_adapters() {
    let case = &LORA[1];
    let (model, flags) = (tiny_model(case.model), flags(case));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let golden = &golden(&format!("lora/{}", case.name))[0];
    let words = ["run", model.to_str().unwrap(), &golden.prompt, "--raw", "--temperature", "0", "--json"];
    let options = ["--ignore-eos", "--max-tokens", "12", "--device", "cpu", "--arithmetic", "f32"];
    let answer = json(&[&words[..], &options, &flags].concat());
    let clear = golden.margins.iter().position(|margin| *margin < 4e-3).unwrap_or(12).min(12);
    assert!(clear > 3);
    for (ours, theirs) in answer["tokens"].as_array().unwrap().iter().zip(&golden.gen_ids[..clear]) {
        assert_eq!(ours.as_u64(), Some(u64::from(*theirs)));
    }
    assert_eq!(answer["lora"].as_array().unwrap().len(), 2);
    assert_eq!(answer["lora"][0]["scale"].as_f64().unwrap() as f32, 0.7);
    // A context of its own loads the model again, and none at all takes nothing.
    let shorter = json(&[&words[..], &options, &flags, &["--context", "128"]].concat());
    assert_eq!(shorter["tokens"], answer["tokens"]);
    let without = json(&[&words[..], &options].concat());
    assert_ne!(without["tokens"], answer["tokens"]);
    let nothing: Vec<String> =
        flags.iter().map(|flag| flag.replace(":0.7", ":0").replace(":-1.25", ":0")).collect();
    let nothing: Vec<&str> = nothing.iter().map(String::as_str).collect();
    assert_eq!(json(&[&words[..], &options, &nothing].concat())["tokens"], without["tokens"]);
}

#[test]
fn validate_holds_adapters_to_the_promise() {
    let case = &LORA[4];
    let (model, flags) = (tiny_model(case.model), flags(case));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    for check in [&["--against-rows"][..], &["--ops"], &[]] {
        let words = ["validate", model.to_str().unwrap(), "--device", "cpu"];
        let output = gleed(&[&words[..], check, &flags].concat());
        assert!(output.status.success(), "{check:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let output = gleed(&[&["inspect", model.to_str().unwrap(), "--program"], &flags[..]].concat());
    let program = String::from_utf8(output.stdout).unwrap();
    assert!(
        program.contains("add-low-rank") && program.contains("ffn_down_exps.weight.lora_b.0"),
        "{program}"
    );
}

#[test]
fn adapters_of_other_models_are_refused() {
    let adapter = test_data("tiny/lora-qwen-biased.gguf");
    let adapter = adapter.to_str().unwrap();
    let run = |lora: &str, expected: &str| refused(&["run", &stories(), "Once", "--lora", lora], expected);
    run("nowhere.gguf", "--lora: nowhere.gguf: there is no such file; check the path\n");
    run(adapter, "is an adapter of architecture qwen2, and the model is llama");
    run(&stories(), "is not a LoRA adapter: general.type is");
    run("/nowhere/a.gguf", "/nowhere/a.gguf");
    run(&format!("{adapter}:nan"), "qwen2");
    run(
        &format!("{adapter}:half"),
        &format!("--lora {adapter}:half: half is not a scale; write {adapter}:0.5\n"),
    );
    // Of the right architecture, but of another width.
    let other = test_data("tiny/lora-llama-attention.gguf");
    run(other.to_str().unwrap(), "is it for another model?");
    // With a number that is none.
    let path = scratch("nan.gguf");
    let whole = Gguf::open(other.as_ref()).unwrap();
    let mut metadata = whole.metadata().clone();
    metadata.set("adapter.lora.alpha", Value::F32(f32::NAN));
    let specs: Vec<TensorSpec> = whole.tensors().iter().map(TensorSpec::from).collect();
    let mut writer = Writer::create(&path, &metadata, &specs).unwrap();
    whole.tensors().iter().for_each(|tensor| writer.write(&tensor.name, whole.data(tensor)).unwrap());
    writer.finish().unwrap();
    run(path.to_str().unwrap(), "adapter.lora.alpha is NaN");
    let bytes = std::fs::read(&other).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
    run(path.to_str().unwrap(), "nan.gguf");
}
