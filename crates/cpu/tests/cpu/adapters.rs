//! The promise with adapters: a row's result depends on that row and on the adapters that it takes, and on nothing else.
//!
//! Three sequences share steps: one takes the first of two adapters, one the second and some of the first, one neither.
//! Each is held, bit for bit, against the reference on the plain program, and against executors that know less: the
//! model without adapters, and that with one of them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::common::adapters::{Taking, tiny_adapted};
use crate::common::{Place, Sequences, bits, cpu, each_isa, test_families};
use gleed_cpu::kernels::low_rank::AddLowRank;
use gleed_cpu::{Isa, Options};
use gleed_gguf::{Format, Gguf};
use gleed_model::arithmetic::add_low_rank;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::Program;
use gleed_model::{Arithmetic, Executor, Halves, Joined, KvType, Reference, reference, split};

const SEQUENCES: Sequences = Sequences { lengths: [70, 9, 4], pages: PAGES };
const PAGES: usize = 6;

/// What each sequence takes of the two adapters.
const SCALES: [[f32; 2]; 3] = [[0.75, 0.0], [-0.5, 1.5], [0.0, 0.0]];

fn taking<E: Executor>(executor: E, scales: &[[f32; 2]; 3], adapters: usize) -> Taking<E> {
    Taking { executor, scales: scales.iter().map(|scales| scales[..adapters].to_vec()).collect() }
}

fn reference(file: &Arc<Gguf>, program: &Program, arithmetic: Arithmetic) -> Reference {
    let made_for = reference::Options {
        arithmetic,
        rounds_to_groups: None,
        kv: KvType::F16,
        max_rows: 96,
        pages: PAGES,
    };
    Reference::new(Arc::clone(file), program.clone(), made_for).unwrap().with_slots(6).unwrap()
}

fn options(arithmetic: Arithmetic, threads: usize, isa: Isa) -> Options {
    Options {
        arithmetic,
        kv: KvType::F16,
        threads,
        isa: Some(isa),
        max_rows: 96,
        pages: PAGES,
        window_sequences: None,
        memory: None,
    }
}

fn check_family(family: &str) {
    let formats = [Format::Q4_K, Format::F16, Format::Q8_0, Format::Q6_K, Format::F32, Format::Q4_0];
    let (file, plain) = tiny_adapted(family, &formats, &[1, 2]);
    let fused = fuse(&plain, Rules::ALL);
    assert!(fused.nodes.len() < plain.nodes.len());
    for arithmetic in [Arithmetic::Q8, Arithmetic::F32] {
        let truth = SEQUENCES.run(
            &mut taking(reference(&file, &plain, arithmetic), &SCALES, 2),
            &SEQUENCES.whole(),
            1,
        );
        // What each would be without the other adapters.
        let of = |seeds: &[u64], sequence: usize| -> HashMap<Place, Vec<f32>> {
            let (file, plain) = tiny_adapted(family, &formats, seeds);
            let mut executor = taking(reference(&file, &plain, arithmetic), &SCALES, seeds.len());
            let mut all = SEQUENCES.run(&mut executor, &SEQUENCES.whole(), 1);
            all.retain(|place, _| place.0 == sequence);
            all
        };
        for (place, alone) in of(&[1], 0).into_iter().chain(of(&[], 2)) {
            assert_eq!(bits(&alone), bits(&truth[&place]), "{family} {arithmetic}, row {place:?} alone");
        }
        assert_ne!(bits(&of(&[], 0)[&(0, 3)]), bits(&truth[&(0, 3)]));
        for isa in Isa::available() {
            let schedules = match isa {
                Isa::Portable => vec![(&fused, 2, SEQUENCES.whole())],
                _ => vec![
                    (&fused, 2, SEQUENCES.whole()),
                    (&fused, 1, SEQUENCES.chunks(&[1, 7, 40, 3])),
                    (&fused, 8, SEQUENCES.chunks(&[17, 2])),
                    (&plain, 2, SEQUENCES.chunks(&[5, 31])),
                    (&fused, 2, SEQUENCES.one_at_a_time(40)),
                ],
            };
            for (program, threads, schedule) in schedules {
                let mut cpu = taking(cpu(&file, program, options(arithmetic, threads, isa)), &SCALES, 2);
                for (place, logits) in SEQUENCES.run(&mut cpu, &schedule, 1) {
                    let same = bits(&logits) == bits(&truth[&place]);
                    assert!(
                        same,
                        "{family} {arithmetic} {isa} {threads} threads, row {place:?} of {schedule:?}"
                    );
                }
            }
        }
    }
}

/// What the first half writes of a row's adapters, the second one reads.
#[test]
fn two_halves_are_the_whole() {
    let (file, plain) = tiny_adapted("llama", &[Format::Q4_K, Format::Q8_0], &[1, 2]);
    let fused = fuse(&plain, Rules::ALL);
    let made_for = options(Arithmetic::Q8, 2, Isa::detect());
    let whole = SEQUENCES.run(&mut taking(cpu(&file, &fused, made_for), &SCALES, 2), &SEQUENCES.whole(), 1);
    let Halves { first, second } = split(&fused, 1).unwrap();
    let [first, second] = [first, second].map(|half| cpu(&file, &half, made_for));
    let mut joined = taking(Joined::new(fused, first, second), &SCALES, 2);
    for (place, logits) in SEQUENCES.run(&mut joined, &SEQUENCES.chunks(&[5, 31]), 1) {
        assert_eq!(bits(&logits), bits(&whole[&place]), "{place:?}");
    }
}

test_families!(check_family: llama, qwen2, qwen2moe, gpt_oss, deepseek2, gemma3n, qwen35);

#[test]
fn what_is_added_is_as_defined() {
    each_isa(|kernels, random| {
        for width in [0, 1, 7, 15, 16, 17, 32, 45, 256] {
            for rank in [0, 1, 2, 8, 19] {
                for (before, after) in [(0, 0), (3, 0), (5, 11)] {
                    let stride = before + width + after;
                    let (hidden, up) = (random.floats(rank), random.floats(rank * stride));
                    let (scale, mut x) = (random.float(), random.floats(width));
                    let columns: Vec<f32> =
                        (0..rank * width).map(|i| up[i / width * stride + before + i % width]).collect();
                    let mut truth = x.clone();
                    add_low_rank(scale, &hidden, &columns, &mut truth);
                    let up = up.get(before..).unwrap_or_default();
                    kernels.run(AddLowRank { scale, hidden: &hidden, up, stride, x: &mut x });
                    assert_eq!(bits(&x), bits(&truth), "{} {rank} of {width}", kernels.isa());
                }
            }
        }
    });
}
