//! Experts as files have them.

use std::sync::Arc;

use gleed_gguf::{Format, Gguf};
use gleed_model::{Arithmetic, KvType, Model, Reference, reference};

use crate::support::{VOCABULARY, batch, file, logits, tiny, tiny_metadata};

/// A file with the gate and up of every expert in one tensor.
fn joined(family: &str, apart: &Gguf) -> Arc<Gguf> {
    let mut tensors = Vec::new();
    for tensor in apart.tensors() {
        let (name, data) = (&tensor.name, apart.data(tensor));
        if name.contains("ffn_up_exps") {
            continue;
        }
        let (mut shape, mut bytes) = (tensor.shape.clone(), data.to_vec());
        if name.contains("ffn_gate_exps") {
            let up = apart.tensor(&name.replace("ffn_gate_exps", "ffn_up_exps")).unwrap();
            let each = data.len() / shape[shape.len() - 1];
            let pairs = data.chunks(each).zip(apart.data(up).chunks(each));
            bytes = pairs.flat_map(|(gate, up)| [gate, up].concat()).collect();
            let rows = shape.len() - 2;
            shape[rows] *= 2;
        }
        let name = name.replace("ffn_gate_exps", "ffn_gate_up_exps");
        tensors.push((name, shape, tensor.format, bytes));
    }
    file(&tiny_metadata(family), &tensors)
}

#[test]
fn gate_and_up_may_be_one_tensor() {
    let rows: Vec<_> = (0..20).map(|position| (0, position, (position % VOCABULARY) as u32, true)).collect();
    for family in ["qwen2moe", "gpt_oss", "llama4"] {
        let (apart, _) = tiny(family, &[Format::Q8_0], 3);
        let run = |file: &Arc<Gguf>| {
            let model = Model::load(file).unwrap();
            assert_eq!(model.unused, Vec::<String>::new(), "{family}");
            let (arithmetic, kv) = (Arithmetic::Q8, KvType::F32);
            let options =
                reference::Options { arithmetic, rounds_to_groups: None, kv, max_rows: rows.len(), pages: 1 };
            let mut reference = Reference::new(Arc::clone(file), model.program, options).unwrap();
            logits(&mut reference, &batch(&rows, 1, 1))
        };
        assert!(run(&apart) == run(&joined(family, &apart)), "{family}");
    }
}
