//! The promise with adapters: rows of different adapters share steps, and each has the bits that it has alone.
//!
//! Three sequences: one takes the first of two adapters, one the second and some of the first, one neither. Their logits
//! are the same bits in all companies, close to the reference's, and those of executors that know fewer adapters.

use std::collections::HashMap;
use std::sync::Arc;

use crate::common::adapters::{Taking, tiny_adapted};
use crate::common::{FLOATS, Place, Sequences, bits, executor, gpu, test_families};
use gleed_gguf::Format;
use gleed_gpu::Options;
use gleed_model::compare::LogitsDifference;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::Op;
use gleed_model::{Arithmetic, Executor, KvType, Reference, reference};

const SEQUENCES: Sequences = Sequences { lengths: [70, 9, 4], pages: PAGES };
const PAGES: usize = 6;

/// What each sequence takes of the two adapters.
const SCALES: [[f32; 2]; 3] = [[0.75, 0.0], [-0.5, 1.5], [0.0, 0.0]];

fn taking<E: Executor>(executor: E, adapters: usize) -> Taking<E> {
    Taking { executor, scales: SCALES.iter().map(|scales| scales[..adapters].to_vec()).collect() }
}

fn check_family(family: &str) {
    let gpu = gpu();
    for (arithmetic, formats) in [(Arithmetic::F32, FLOATS), (Arithmetic::Q8, &[Format::Q8_0][..])] {
        let options = Options {
            arithmetic,
            kv: KvType::F32,
            max_rows: 96,
            pages: PAGES,
            window_sequences: None,
            slots: 6,
            logits_rows: None,
        };
        let run = |seeds: &[u64]| -> HashMap<Place, Vec<f32>> {
            let (file, plain) = tiny_adapted(family, formats, seeds);
            let executor = executor(&gpu, &file, &fuse(&plain, Rules::ALL), options);
            SEQUENCES.run(&mut taking(executor, seeds.len()), &SEQUENCES.whole(), 1)
        };
        let (all, first, none) = (run(&[1, 2]), run(&[1]), run(&[]));
        for (place, logits) in &all {
            let alone = match place.0 {
                0 => &first[place],
                2 => &none[place],
                _ => continue,
            };
            assert_eq!(bits(logits), bits(alone), "{family} {arithmetic}, row {place:?} with fewer adapters");
        }
        assert_ne!(bits(&all[&(0, 3)]), bits(&none[&(0, 3)]));

        let (file, plain) = tiny_adapted(family, formats, &[1, 2]);
        let fused = fuse(&plain, Rules::ALL);
        // Also where the logits are changed, some rows of which are computed at a time.
        let changes = |op: &Op| matches!(op, Op::AddLowRank { x, .. } if *x == plain.logits);
        assert!(plain.nodes.iter().any(|node| changes(&node.op)), "{family}");
        let rounds_to_groups = (arithmetic == Arithmetic::Q8).then_some(0);
        let made_for = reference::Options {
            arithmetic: Arithmetic::F32,
            rounds_to_groups,
            kv: KvType::F32,
            max_rows: 96,
            pages: PAGES,
        };
        let truth = Reference::new(Arc::clone(&file), plain.clone(), made_for).unwrap();
        let mut truth = taking(truth.with_slots(6).unwrap(), 2);
        let mut difference = LogitsDifference::default();
        for (place, truth) in SEQUENCES.run(&mut truth, &SEQUENCES.whole(), 1) {
            difference.add(&all[&place], &truth);
        }
        match arithmetic {
            Arithmetic::F32 => assert!(difference.difference.relative < 1e-5, "{family}: {difference:?}"),
            _ => assert!(difference.divergence(&plain) < 2e-4, "{family}: {difference:?}"),
        }

        for (program, schedule, every, logits_rows) in [
            (&fused, SEQUENCES.chunks(&[1, 7, 20, 1, 2, 1, 3]), 2, None),
            (&plain, SEQUENCES.chunks(&[31, 2]), 1, None),
            // Logits in several turns, the last one of fewer rows.
            (&fused, SEQUENCES.whole(), 2, Some(9)),
        ] {
            let executor = executor(&gpu, &file, program, Options { logits_rows, ..options });
            for (place, logits) in SEQUENCES.run(&mut taking(executor, 2), &schedule, every) {
                let same = bits(&logits) == bits(&all[&place]);
                assert!(same, "{family} {arithmetic}, row {place:?} of {schedule:?}");
            }
        }
    }
}

test_families!(check_family: llama, qwen2moe);
