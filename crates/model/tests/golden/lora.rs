//! Adapters against llama.cpp's answers, and against weights that they were merged into.

use std::collections::HashMap;
use std::sync::Arc;

use gleed_gguf::{Format, Gguf, TensorSpec, Writer};
use gleed_model::Model;
use gleed_testing::golden::{ADDITIONS, floats, golden, spread, tiny_model, worst};
use gleed_testing::lora::{LORA, LoraCase};

use crate::tiny::{append, check_model, executor};

/// W + scale · alpha/rank · B·A of every weight that adapters change, in f64: the model as if it had been trained so.
fn merged(case: &LoraCase) -> (Arc<Gguf>, Model) {
    let base = Gguf::open(&tiny_model(case.model)).unwrap();
    let values = |file: &Gguf, name: &str| -> Option<Vec<f64>> {
        let tensor = file.tensor(name)?;
        Some(file.decode(tensor).unwrap().into_iter().map(f64::from).collect())
    };
    let mut merged: HashMap<String, Vec<f64>> = HashMap::new();
    for tensor in base.tensors() {
        merged.insert(tensor.name.clone(), values(&base, &tensor.name).unwrap());
    }
    for (path, scale) in case.files() {
        let adapter = Gguf::open(&path).unwrap();
        let alpha = adapter.metadata().f32("adapter.lora.alpha").unwrap();
        for tensor in base.tensors() {
            let Some(a) = values(&adapter, &format!("{}.lora_a", tensor.name)) else { continue };
            let b = values(&adapter, &format!("{}.lora_b", tensor.name)).unwrap();
            let (columns, rows) = (tensor.shape[0], tensor.shape[1]);
            let rank = adapter.tensor(&format!("{}.lora_b", tensor.name)).unwrap().shape[0];
            let factor = f64::from(scale) * alpha.map_or(1.0, |alpha| f64::from(alpha) / rank as f64);
            let weight = merged.get_mut(&tensor.name).unwrap();
            for (index, value) in weight.iter_mut().enumerate() {
                let (matrix, row, column) =
                    (index / (rows * columns), index / columns % rows, index % columns);
                // The lower matrix of embeddings is turned: an entry for each token.
                let product = |r: usize| match tensor.name == "token_embd.weight" {
                    true => a[row * rank + r] * b[column * rank + r],
                    false => a[(matrix * rank + r) * columns + column] * b[(matrix * rows + row) * rank + r],
                };
                *value += factor * (0..rank).map(product).sum::<f64>();
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("merged.gguf");
    let specs: Vec<TensorSpec> = base.tensors().iter().map(TensorSpec::from).collect();
    assert!(specs.iter().all(|spec| spec.format == Format::F32));
    let mut writer = Writer::create(&path, base.metadata(), &specs).unwrap();
    for spec in &specs {
        let bytes: Vec<u8> =
            merged[&spec.name].iter().flat_map(|value| (*value as f32).to_le_bytes()).collect();
        writer.write(&spec.name, &bytes).unwrap();
    }
    writer.finish().unwrap();
    let file = Arc::new(Gguf::from_vec("merged.gguf", std::fs::read(&path).unwrap()).unwrap());
    let model = Model::load(&file).unwrap();
    (file, model)
}

/// What merging rounds: every weight once.
const MERGED: f32 = 1e-5;

fn check(name: &str) {
    let case = LORA.iter().find(|case| case.name == name).unwrap();
    let (file, model) = case.open();
    check_model(&format!("lora/{name}"), &file, &model, ADDITIONS);
    let (merged_file, merged) = merged(case);
    for (index, golden) in golden(&format!("lora/{name}")).iter().enumerate() {
        let logits = |file: &Arc<Gguf>, model: &Model| {
            let mut executor = executor(file, &model.program, golden);
            append(&mut executor, &mut Default::default(), &golden.prompt_ids, 0)
        };
        let (ours, merged) = (logits(&file, &model), logits(&merged_file, &merged));
        let difference = worst(&ours, &merged) / spread(&merged);
        assert!(difference < MERGED, "{name} prompt {index}: {difference} from merged weights");
        // That without adapters is something else.
        let without = floats(&format!("tiny/{}.p{index}.logits.f32", case.model));
        assert!(worst(&ours, &without) / spread(&without) > 0.1, "{name} changes nothing");
    }
}

#[test]
fn few_matrices() {
    check("llama-attention");
}

#[test]
fn two_adapters_at_once() {
    check("llama-both");
}

#[test]
fn matrices_with_biases() {
    check("qwen-biased");
}

#[test]
fn embeddings_and_the_head() {
    check("phi-embeddings");
}

#[test]
fn experts() {
    check("mixtral-experts");
}
