//! Two reference executors with a half of a program each compute the bits of one with all of it, and show an
//! observer the same.

use std::sync::Arc;

use crate::support::{Capture, FAMILIES, Sequences, VOCABULARY, batch, bits, contract, tiny};
use gleed_gguf::{Format, Gguf};
use gleed_model::compare::{Recording, against_recording, ops_alone};
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::Program;
use gleed_model::{
    Arithmetic, Executor, Halves, Joined, KvType, Reference, StepError, cuts, reference, split,
};

const FORMATS: [Format; 3] = [Format::Q4_K, Format::F16, Format::Q8_0];

fn whole(file: &Arc<Gguf>, program: &Program, kv: KvType) -> Reference {
    rounding(file, program, kv, None)
}

fn rounding(file: &Arc<Gguf>, program: &Program, kv: KvType, rounds_to_groups: Option<usize>) -> Reference {
    let (arithmetic, max_rows, pages) = (Arithmetic::Q8, contract::MAX_ROWS, contract::PAGES);
    let options = reference::Options { arithmetic, rounds_to_groups, kv, max_rows, pages };
    Reference::new(Arc::clone(file), program.clone(), options).unwrap()
}

fn joined(file: &Arc<Gguf>, program: &Program, layer: usize, kv: KvType) -> Joined<Reference, Reference> {
    let Halves { first, second } = split(program, layer).unwrap();
    Joined::new(program.clone(), whole(file, &first, kv), whole(file, &second, kv))
}

#[test]
fn every_op_of_the_halves_writes_what_it_writes_in_the_whole() {
    for family in FAMILIES {
        let (file, plain) = tiny(family, &FORMATS, 3);
        for program in [plain.clone(), fuse(&plain, Rules::ALL)] {
            for layer in cuts(&program) {
                let mut one = whole(&file, &program, KvType::Q8_0);
                let mut two = joined(&file, &program, layer, KvType::Q8_0);
                assert_eq!(two.program(), &program);
                for wanted in [[true; 6], [false, true, false, false, true, true]] {
                    let rows: Vec<_> =
                        (0..6).map(|i| (i / 4, i % 4, (7 * i % VOCABULARY) as u32, wanted[i])).collect();
                    let batch = batch(&rows, 2, contract::PAGES);
                    let truth = Capture::run(&program, &mut one, &batch);
                    assert!(truth == Capture::run(&program, &mut two, &batch), "{family} {layer}");
                    for row in 0..wanted.iter().filter(|wanted| **wanted).count() {
                        assert_eq!(bits(one.logits(row)), bits(two.logits(row)), "{family} {layer}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_company_of_a_row_does_not_matter() {
    let sequences = Sequences { lengths: [21, 5, 1], pages: 3 };
    for family in FAMILIES {
        let (file, plain) = tiny(family, &FORMATS, 3);
        let program = fuse(&plain, Rules::ALL);
        let truth = sequences.run(&mut whole(&file, &program, KvType::F16), &sequences.whole(), 1);
        for layer in cuts(&program) {
            for (schedule, every) in [(sequences.chunks(&[1, 7, 3]), 2), (sequences.one_at_a_time(9), 1)] {
                let mut joined = joined(&file, &program, layer, KvType::F16);
                for (place, logits) in sequences.run(&mut joined, &schedule, every) {
                    assert_eq!(bits(&logits), bits(&truth[&place]), "{family} {layer} {place:?}");
                }
            }
        }
    }
}

#[test]
fn a_layer_and_what_reads_its_keys_stay_together() {
    // Layers 3 and 4 read the keys of 1 and 2.
    let (_, program) = tiny("gemma4", &FORMATS, 3);
    assert_eq!(program.layers(), 5);
    for program in [program.clone(), fuse(&program, Rules::ALL)] {
        assert_eq!(cuts(&program).collect::<Vec<_>>(), [0, 1]);
        assert!((2..5).all(|layer| split(&program, layer).is_none()));
    }
}

#[test]
fn it_is_an_executor_like_others() {
    for layer in 0..2 {
        contract::takes_empty_batches(|file, program, kv| joined(file, program, layer, kv));
        contract::has_logits_of_wanted_rows_only(|file, program, kv| joined(file, program, layer, kv));
        contract::refuses_bad_batches(|file, program, kv| joined(file, program, layer, kv));
        contract::copies_pages(|file, program, kv| joined(file, program, layer, kv));
    }
}

#[test]
fn a_second_half_needs_what_the_first_has_made() {
    let (file, program) = tiny("llama", &FORMATS, 3);
    let Halves { second, .. } = split(&program, 1).unwrap();
    let mut second = whole(&file, &second, KvType::F16);
    let mut batch = batch(&[(0, 0, 1, true)], 1, contract::PAGES);
    let expected = 256;
    assert_eq!(second.step(&batch, &mut ()), Err(StepError::Inputs { found: 0, expected }));
    batch.inputs_mut().resize(expected, 0.5);
    assert_eq!(second.step(&batch, &mut ()), Ok(()));
}

#[test]
fn a_half_that_rounds_to_groups_is_compared_with_the_same() {
    let (file, plain) = tiny("qwen3", &FORMATS, 3);
    let program = fuse(&plain, Rules::ALL);
    let Halves { first, second } = split(&program, 1).unwrap();
    let (cut, kv) = (first.nodes.len(), KvType::F16);
    let second = rounding(&file, &second, kv, Some(0));
    let mut joined = Joined::new(program.clone(), whole(&file, &first, kv), second);
    let batch = batch(&[(0, 0, 1, true), (0, 1, 2, true)], 1, contract::PAGES);
    // Op by op.
    let mut wrong = |rounds_to_groups| -> Vec<usize> {
        let mut reference = rounding(&file, &program, kv, rounds_to_groups);
        let found = ops_alone(&mut joined, &mut reference, &batch, || {}).unwrap();
        found.iter().filter(|f| f.difference.bits > 0).map(|f| f.node).collect()
    };
    assert_eq!(wrong(Some(cut)), Vec::<usize>::new());
    let never = wrong(None);
    assert!(!never.is_empty() && never.iter().all(|node| *node >= cut), "{never:?}");
    let always = wrong(Some(0));
    assert!(!always.is_empty() && always.iter().all(|node| *node < cut), "{always:?}");
    // And as a whole, by the names of the plain ops.
    let mut reference = rounding(&file, &plain, kv, Some(split(&plain, 1).unwrap().first.nodes.len()));
    let recording = Recording::of(&mut reference, &batch, || {}).unwrap();
    let found = against_recording(&mut joined, &batch, &recording).unwrap();
    assert!(found.len() > 10 && found.iter().all(|f| f.difference.bits == 0), "{found:?}");
}
