//! What is not a number reaches the logits of its row and of no other, and the op that gave it is the one that the
//! reference names.

use std::sync::Arc;

use gleed_gguf::{Format, Gguf};
use gleed_gpu::{GpuExecutor, Options};
use gleed_model::chain::{Chain, Link};
use gleed_model::choice::{NO_TOKEN, Rule};
use gleed_model::fuse::{Rules, fuse};
use gleed_model::numbers::{find_nan, has_nan};
use gleed_model::program::Program;
use gleed_model::{Arithmetic, Executor, KvType, StepError};

use crate::common::{batch, bits, executor, file, gpu, tiny, tiny_metadata};
use crate::executor::{OPTIONS, reference};

/// A tiny model with this number as the scale of a weight's first block, or as the first of its floats.
fn with(number: f32, weight: &str) -> (Arc<Gguf>, Program) {
    let (whole, program) = tiny("qwen2", &[Format::Q8_0], 3);
    let half = if number.is_nan() { 0x7e00u16 } else { 0x7c00 };
    let mut changed = 0;
    let tensors: Vec<_> = whole
        .tensors()
        .iter()
        .map(|tensor| {
            let mut data = whole.data(tensor).to_vec();
            if tensor.name == weight {
                changed += 1;
                match tensor.format {
                    Format::F32 => data[..4].copy_from_slice(&number.to_le_bytes()),
                    Format::Q8_0 => data[..2].copy_from_slice(&half.to_le_bytes()),
                    format => panic!("{weight} is {format}"),
                }
            }
            (tensor.name.clone(), tensor.shape.clone(), tensor.format, data)
        })
        .collect();
    assert_eq!(changed, 1, "{weight}");
    (file(&tiny_metadata("qwen2"), &tensors), program)
}

/// Rows of one sequence, all of which want logits.
fn rows(count: usize) -> Vec<(usize, usize, u32, bool)> {
    (0..count).map(|position| (0, position, 3 + position as u32, true)).collect()
}

/// Whether the logits of all rows of a step hold what is not a number.
fn all_without_numbers(executor: &mut GpuExecutor, count: usize) -> bool {
    executor.step(&batch(&rows(count), 1, OPTIONS.pages), &mut ()).unwrap();
    (0..count).all(|row| has_nan(executor.logits(row)))
}

/// The tokens that the device chooses after one row.
fn chosen(executor: &mut GpuExecutor, rule: Rule) -> Vec<u32> {
    let first = batch(&rows(1), 1, OPTIONS.pages);
    let link = Link { batch: &first, continues: false, steps: 1, rules: &[rule], randoms: &[7] };
    executor.submit(link).unwrap();
    let mut tokens = Vec::new();
    executor.collect(&mut tokens).unwrap();
    tokens
}

const DRAWN: Rule = Rule { temperature: 0.9, top_k: 40, top_p: 0.95, min_p: 0.01 };

#[test]
fn what_is_not_a_number_reaches_the_logits_and_is_named() {
    let gpu = gpu();
    let weights = [
        "blk.0.attn_q.weight",
        "blk.0.attn_k.weight",
        "blk.0.attn_v.weight",
        "blk.1.attn_norm.weight",
        "blk.1.ffn_gate.weight",
        "blk.0.ffn_down.weight",
    ];
    for (arithmetic, kv) in
        [(Arithmetic::Q8, KvType::F16), (Arithmetic::Q8, KvType::Q8_0), (Arithmetic::F32, KvType::F32)]
    {
        let options = Options { arithmetic, kv, ..OPTIONS };
        // Each weight once; keys, values and sums of products in every way.
        let every = arithmetic == Arithmetic::Q8 && kv == KvType::F16;
        let some = ["blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.0.ffn_down.weight"];
        for weight in weights.into_iter().filter(|weight| every || some.contains(weight)) {
            let (file, plain) = with(f32::NAN, weight);
            let program = fuse(&plain, Rules::ALL);
            let mut found = executor(&gpu, &file, &program, options);
            for count in [1, 6] {
                assert!(all_without_numbers(&mut found, count), "{weight} {arithmetic:?} {kv}, {count} rows");
            }
            for rule in [Rule::GREEDY, DRAWN] {
                assert_eq!(chosen(&mut found, rule), [NO_TOKEN], "{weight} {arithmetic:?} {kv}");
            }
            let batch = batch(&rows(6), 1, OPTIONS.pages);
            let named = find_nan(&mut found, &batch).unwrap();
            assert!(matches!(named, Some(StepError::NotANumber { position: 0, .. })), "{weight}: {named:?}");
            let truth = find_nan(&mut reference(&file, &program, options), &batch).unwrap();
            assert_eq!(named, truth, "{weight} {arithmetic:?} {kv}");
        }
        // What is infinite is not a number once it is quantised, scored or normed.
        for weight in ["blk.0.attn_v.weight", "blk.1.ffn_gate.weight"] {
            let (file, plain) = with(f32::INFINITY, weight);
            let mut found = executor(&gpu, &file, &fuse(&plain, Rules::ALL), options);
            assert!(all_without_numbers(&mut found, 6), "{weight} {arithmetic:?} {kv}, infinite");
        }
    }
}

#[test]
fn rows_of_others_stay_as_they_are() {
    let gpu = gpu();
    let both = batch(&[(0, 0, 0, true), (1, 0, 5, true)], 2, OPTIONS.pages);
    for arithmetic in [Arithmetic::Q8, Arithmetic::F32] {
        let options = Options { arithmetic, ..OPTIONS };
        let logits = |(file, plain): (Arc<Gguf>, Program)| {
            let mut executor = executor(&gpu, &file, &fuse(&plain, Rules::ALL), options);
            executor.step(&both, &mut ()).unwrap();
            [0, 1].map(|row| executor.logits(row).to_vec())
        };
        // The first row's token is the damaged one.
        let [damaged, other] = logits(with(f32::NAN, "token_embd.weight"));
        let [whole, same] = logits(tiny("qwen2", &[Format::Q8_0], 3));
        assert!(has_nan(&damaged) && !has_nan(&whole));
        assert_eq!(bits(&other), bits(&same));
    }
}
