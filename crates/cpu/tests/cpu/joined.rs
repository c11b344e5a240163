//! A program in two halves computes the bits of the whole, wherever it is cut and whatever the batches.

use std::sync::Arc;

use crate::common::{FAMILIES, Sequences, bits, contract, cpu, tiny};
use gleed_cpu::{Cpu, Options};
use gleed_gguf::{Format, Gguf};
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::Program;
use gleed_model::{Arithmetic, Halves, Joined, KvType, cuts, split};

/// More than a page, some rows, one row.
const SEQUENCES: Sequences = Sequences { lengths: [75, 9, 1], pages: 6 };

const OPTIONS: Options = Options {
    arithmetic: Arithmetic::Q8,
    kv: KvType::F16,
    threads: 2,
    isa: None,
    max_rows: 96,
    pages: SEQUENCES.pages,
    window_sequences: None,
    memory: None,
};

fn joined(file: &Arc<Gguf>, program: &Program, layer: usize, options: Options) -> Joined<Cpu, Cpu> {
    let Halves { first, second } = split(program, layer).unwrap();
    Joined::new(program.clone(), cpu(file, &first, options), cpu(file, &second, options))
}

#[test]
fn halves_compute_the_bits_of_the_whole() {
    for family in FAMILIES {
        let (file, plain) = tiny(family, &[Format::Q4_K, Format::F16, Format::Q8_0, Format::Q6_K], 5);
        for program in [plain.clone(), fuse(&plain, Rules::ALL)] {
            let truth = SEQUENCES.run(&mut cpu(&file, &program, OPTIONS), &SEQUENCES.whole(), 1);
            for layer in cuts(&program) {
                for (schedule, every) in [
                    (SEQUENCES.whole(), 1),
                    (SEQUENCES.chunks(&[1, 7, 64, 3]), 2),
                    (SEQUENCES.one_at_a_time(50), 3),
                ] {
                    let mut joined = joined(&file, &program, layer, OPTIONS);
                    for (place, logits) in SEQUENCES.run(&mut joined, &schedule, every) {
                        assert_eq!(bits(&logits), bits(&truth[&place]), "{family} {layer} {place:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_half_has_only_its_own_weights_and_caches() {
    let (file, plain) = tiny("llama", &[Format::Q8_0], 5);
    let program = fuse(&plain, Rules::ALL);
    let whole = cpu(&file, &program, OPTIONS).memory();
    let halves = joined(&file, &program, 1, OPTIONS);
    let (first, second) = (halves.first().memory(), halves.second().memory());
    assert_eq!(first.kv + second.kv, whole.kv);
    assert_eq!(first.weights + second.weights, whole.weights);
    assert!(first.weights < second.weights, "the second has the output matrix too");
}

#[test]
fn it_is_an_executor_like_others() {
    let (max_rows, pages) = (contract::MAX_ROWS, contract::PAGES);
    for layer in 0..2 {
        let make = |file: &Arc<Gguf>, program: &Program, kv| {
            joined(file, program, layer, Options { kv, max_rows, pages, ..OPTIONS })
        };
        contract::takes_empty_batches(make);
        contract::has_logits_of_wanted_rows_only(make);
        contract::refuses_bad_batches(make);
        contract::copies_pages(make);
        contract::keeps_states(make);
    }
}
