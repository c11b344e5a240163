//! What is not a number stays so: a NaN or an infinity in a file reaches the logits on every instruction set,
//! in every arithmetic, format and KV type, and is traced to the op that it came from.

use std::sync::Arc;

use crate::common::{Capture, NO_NUMBERS, batch, comparable_bits, cpu, damaged, tiny};
use gleed_cpu::{Isa, Options};
use gleed_gguf::Format;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::numbers::{find_nan, row_without_numbers};
use gleed_model::program::{Node, Op};
use gleed_model::reference::{self, Reference};
use gleed_model::{Arithmetic, Executor, KvType, StepError};

const OPTIONS: Options = Options {
    arithmetic: Arithmetic::Q8,
    kv: KvType::F16,
    threads: 2,
    isa: None,
    max_rows: 40,
    pages: 4,
    window_sequences: None,
    memory: None,
};

#[test]
fn a_damaged_weight_is_named() {
    let rows: Vec<_> = (0..35).map(|i| (0, i, (i % 23) as u32, i == 34)).collect();
    let batch = batch(&rows, 1, OPTIONS.pages);
    for (family, weight, op) in [
        ("llama", "blk.1.ffn_down.weight", "blk.1.ffn_down"),
        ("qwen2", "blk.1.attn_k.weight", "blk.1.attn_k"),
        ("qwen3", "blk.0.attn_output.weight", "blk.0.attn_output"),
        ("gpt2", "blk.0.ffn_up.weight", "blk.0.ffn_up"),
        ("llama", "output.weight", "output"),
    ] {
        for format in [Format::F32, Format::F16, Format::BF16, Format::Q8_0, Format::Q4_1, Format::Q4_K] {
            let (file, plain) = damaged(family, &[format], weight, f32::NAN);
            for program in [plain.clone(), fuse(&plain, Rules::ALL)] {
                for isa in Isa::available() {
                    let mut cpu = cpu(&file, &program, Options { isa: Some(isa), ..OPTIONS });
                    cpu.step(&batch, &mut ()).unwrap();
                    let what = format!("{family} {weight} {format} {isa}");
                    assert_eq!(row_without_numbers(&cpu, &batch), Some(34), "{what}");
                    let found = find_nan(&mut cpu, &batch).unwrap();
                    let Some(StepError::NotANumber { op: found, position }) = found else {
                        panic!("{what}: {found:?}")
                    };
                    assert!(found.split(", ").any(|label| label == op), "{what}: {found}");
                    // Every row has it that comes so far: those that want nothing end at the gather.
                    let index = |is: &dyn Fn(&Node) -> bool| program.nodes.iter().position(is);
                    let gather = index(&|node| matches!(node.op, Op::Gather { .. }));
                    let after = gather < index(&|node| node.labels.iter().any(|label| label == op));
                    assert_eq!(position, if after { 34 } else { 0 }, "{what}");
                }
            }
        }
    }
}

#[test]
fn nothing_is_found_where_all_is_well() {
    let (file, plain) = tiny("llama", &[Format::Q4_K, Format::F16], 3);
    let program = fuse(&plain, Rules::ALL);
    let batch = batch(&[(0, 0, 3, false), (0, 1, 5, true)], 1, OPTIONS.pages);
    let mut cpu = cpu(&file, &program, OPTIONS);
    cpu.step(&batch, &mut ()).unwrap();
    assert_eq!(row_without_numbers(&cpu, &batch), None);
    assert_eq!(find_nan(&mut cpu, &batch), Ok(None));
}

#[test]
fn only_rows_that_see_the_bad_token_have_its_nan() {
    // Token 0 is damaged: rows of its sequence from there on are, others not.
    for (kv, bad) in
        [KvType::F32, KvType::F16, KvType::Q8_0].into_iter().flat_map(|kv| NO_NUMBERS.map(|bad| (kv, bad)))
    {
        let (file, plain) = damaged("qwen3", &[Format::Q8_0], "token_embd.weight", bad);
        let program = fuse(&plain, Rules::ALL);
        let rows: Vec<_> = (0..9).map(|i| (i / 5, i % 5, if i == 2 { 0 } else { 7 }, true)).collect();
        let batch = batch(&rows, 2, OPTIONS.pages);
        for isa in Isa::available() {
            let mut cpu = cpu(&file, &program, Options { kv, isa: Some(isa), ..OPTIONS });
            cpu.step(&batch, &mut ()).unwrap();
            let nan: Vec<bool> = (0..9).map(|i| cpu.logits(i).iter().all(|x| x.is_nan())).collect();
            assert_eq!(nan, [false, false, true, true, true, false, false, false, false], "{kv} {bad} {isa}");
            assert!((0..9).all(|i| nan[i] || cpu.logits(i).iter().all(|x| x.is_finite())));
        }
    }
}

#[test]
fn every_op_keeps_what_the_reference_keeps() {
    let formats = [Format::Q4_K, Format::IQ4_NL, Format::F16, Format::Q6_K];
    let rows: Vec<_> = (0..35).map(|i| (i / 30, i % 30, (7 * i % 23) as u32, i % 2 == 0)).collect();
    let batch = batch(&rows, 2, OPTIONS.pages);
    for (family, weight) in
        [("llama", "blk.1.attn_v.weight"), ("qwen3", "blk.0.ffn_gate.weight"), ("gpt2", "token_embd.weight")]
    {
        for bad in NO_NUMBERS {
            let (file, plain) = damaged(family, &formats, weight, bad);
            let program = fuse(&plain, Rules::ALL);
            for arithmetic in [Arithmetic::Q8, Arithmetic::F32] {
                let (kv, max_rows, pages) = (KvType::Q8_0, OPTIONS.max_rows, OPTIONS.pages);
                let made_for = reference::Options { arithmetic, rounds_to_groups: None, kv, max_rows, pages };
                let mut truth = Reference::new(Arc::clone(&file), program.clone(), made_for).unwrap();
                let truth = Capture::run(&program, &mut truth, &batch);
                for isa in Isa::available() {
                    let mut cpu = cpu(&file, &program, Options { arithmetic, kv, isa: Some(isa), ..OPTIONS });
                    let found = Capture::run(&program, &mut cpu, &batch);
                    for (node, (truth, found)) in program.nodes.iter().zip(truth.iter().zip(&found)) {
                        let same = comparable_bits(truth) == comparable_bits(found);
                        assert!(same, "{family} {weight} {bad} {arithmetic} {isa} {:?}", node.labels);
                    }
                }
            }
        }
    }
}
