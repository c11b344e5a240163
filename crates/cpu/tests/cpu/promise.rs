//! The promise: a row's result depends on that row alone.
//!
//! For every family, arithmetic and KV type the logits of every row are held, bit for bit, against the
//! reference executor running the plain program: one row at a time, whole prompts, chunks, mixed with
//! other sequences, fused and plain, with one, two and eight threads, on every instruction set.

use std::sync::Arc;

use crate::common::{Schedule, Sequences, bits, cpu, test_families, tiny};
use gleed_cpu::{Isa, Options};
use gleed_gguf::Format;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::Program;
use gleed_model::reference;
use gleed_model::{Arithmetic, KvType, Reference};

/// More than a page, some rows, one row.
const SEQUENCES: Sequences = Sequences { lengths: [75, 9, 1], pages: PAGES };
const PAGES: usize = 6;

fn options(arithmetic: Arithmetic, kv: KvType, threads: usize, isa: Isa) -> Options {
    Options {
        arithmetic,
        kv,
        threads,
        isa: Some(isa),
        max_rows: 96,
        pages: PAGES,
        window_sequences: None,
        memory: None,
    }
}

fn check_family(family: &str) {
    let formats =
        [Format::Q4_K, Format::F16, Format::Q8_0, Format::Q6_K, Format::Q4_1, Format::F32, Format::Q4_0];
    let (file, plain) = tiny(family, &formats, 5);
    let fused = fuse(&plain, Rules::ALL);
    assert_ne!(plain.nodes.len(), fused.nodes.len());
    // What keys and values are stored as has nothing to do with what matrices are multiplied in: Llama has all pairs, the
    // others each of both.
    let pairs = [Arithmetic::Q8, Arithmetic::F32]
        .into_iter()
        .flat_map(|arithmetic| [KvType::F32, KvType::F16, KvType::Q8_0].map(|kv| (arithmetic, kv)));
    for (arithmetic, kv) in pairs.filter(|(arithmetic, kv)| {
        family == "llama" || (*arithmetic == Arithmetic::F32) == (*kv == KvType::F32)
    }) {
        let made_for =
            reference::Options { arithmetic, rounds_to_groups: None, kv, max_rows: 96, pages: PAGES };
        let truth_machine = Reference::new(Arc::clone(&file), plain.clone(), made_for).unwrap();
        let mut truth_machine = truth_machine.with_slots(6).unwrap();
        let truth = SEQUENCES.run(&mut truth_machine, &SEQUENCES.whole(), 1);
        let check = |program: &Program, threads, isa, schedule: &Schedule, every: usize| {
            let mut cpu = cpu(&file, program, options(arithmetic, kv, threads, isa));
            let found = SEQUENCES.run(&mut cpu, schedule, every);
            for (place, logits) in &found {
                assert_eq!(
                    bits(logits),
                    bits(&truth[place]),
                    "{family} {arithmetic} kv {kv} {isa} {threads} threads, row {place:?} of {schedule:?}"
                );
            }
        };
        for isa in Isa::available() {
            check(&fused, 2, isa, &SEQUENCES.whole(), 1);
            if isa == Isa::Portable {
                continue;
            }
            for threads in [1, 2, 8] {
                check(&fused, threads, isa, &SEQUENCES.chunks(&[1, 7, 64, 3]), 2);
            }
            check(&plain, 2, isa, &SEQUENCES.chunks(&[17, 2]), 1);
            check(&fused, 2, isa, &SEQUENCES.one_at_a_time(0), 3);
        }
    }
}

test_families!(
    check_family: llama, qwen2, qwen3, gpt2, gemma2, gemma3n, gemma4, olmo2, qwen2moe, gpt_oss, deepseek2, llama4,
    stablelm, step35, apertus, deepseek32, glm_dsa, lfm2, mamba, mamba2, qwen35, kimi_linear, rwkv7
);
