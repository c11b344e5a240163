//! What every executor must do. `make` makes one for a tiny model, of [`MAX_ROWS`] rows and [`PAGES`] pages.

use std::sync::Arc;

use gleed_gguf::{Format, Gguf};
use gleed_model::program::Program;
use gleed_model::{Batch, Executor, KvType, StepError};

use super::{VOCABULARY, batch, logits, tiny};

pub const MAX_ROWS: usize = 40;
pub const PAGES: usize = 4;

/// A batch without rows and one that wants nothing are steps like others.
pub fn takes_empty_batches<E: Executor>(make: impl Fn(&Arc<Gguf>, &Program, KvType) -> E) {
    let (file, program) = tiny("qwen2", &[Format::Q8_0], 1);
    let mut executor = make(&file, &program, KvType::F16);
    assert!(logits(&mut executor, &batch(&[], 1, PAGES)).is_empty());
    assert!(logits(&mut executor, &batch(&[(0, 0, 1, false), (0, 1, 2, false)], 1, PAGES)).is_empty());
    // What they wrote is there.
    let after = logits(&mut executor, &batch(&[(0, 2, 3, true)], 1, PAGES));
    let mut other = make(&file, &program, KvType::F16);
    let rows = [(0, 0, 1, false), (0, 1, 2, false), (0, 2, 3, true)];
    assert_eq!(after, logits(&mut other, &batch(&rows, 1, PAGES)));
}

/// There are logits of the rows that wanted them, and of no others: not those of a step before.
pub fn has_logits_of_wanted_rows_only<E: Executor>(make: impl Fn(&Arc<Gguf>, &Program, KvType) -> E) {
    let (file, program) = tiny("qwen2", &[Format::Q8_0], 1);
    let mut executor = make(&file, &program, KvType::F16);
    let lengths = |executor: &E| [0, 1, 2, 3, MAX_ROWS, usize::MAX].map(|i| executor.logits(i).len());
    assert_eq!(lengths(&executor), [0; 6], "before any step");
    let rows = |wanted: [bool; 3]| {
        let rows: Vec<_> = wanted.into_iter().enumerate().map(|(i, wanted)| (0, i, 7, wanted)).collect();
        batch(&rows, 1, PAGES)
    };
    let all = VOCABULARY;
    for (wanted, expected) in [
        ([true; 3], [all, all, all, 0, 0, 0]),
        ([false, true, false], [all, 0, 0, 0, 0, 0]),
        ([false; 3], [0; 6]),
        ([true, false, true], [all, all, 0, 0, 0, 0]),
    ] {
        executor.step(&rows(wanted), &mut ()).unwrap();
        assert_eq!(lengths(&executor), expected, "{wanted:?}");
    }
}

/// A refused batch is told why, and changes nothing.
pub fn refuses_bad_batches<E: Executor>(make: impl Fn(&Arc<Gguf>, &Program, KvType) -> E) {
    let (file, program) = tiny("llama", &[Format::Q8_0], 1);
    let mut executor = make(&file, &program, KvType::F16);
    let first = logits(&mut executor, &batch(&[(0, 0, 1, true)], 1, PAGES));
    let many: Vec<_> = (0..MAX_ROWS + 1).map(|i| (0, i, 1, false)).collect();
    let mut refused = |batch: &Batch| executor.step(batch, &mut ()).unwrap_err();
    let too_many = StepError::TooManyRows { rows: MAX_ROWS + 1, limit: MAX_ROWS };
    assert_eq!(refused(&batch(&many, 1, PAGES)), too_many);
    let unknown = refused(&batch(&[(0, 0, 2, true), (0, 1, 67, true)], 1, PAGES));
    assert_eq!(unknown, StepError::UnknownToken { token: 67, vocabulary: VOCABULARY });
    let past = refused(&batch(&[(0, 512, 1, true)], 1, 9));
    assert_eq!(past, StepError::PastContext { position: 512, context: 512 });
    // Page 4 of a cache of four pages.
    let page = refused(&batch(&[(0, 256, 1, true)], 1, PAGES + 1));
    assert_eq!(page, StepError::NoPage { row: 0, position: 256 });
    // Backwards and twice; in another order of sequences nothing is wrong.
    let backwards = refused(&batch(&[(0, 1, 1, true), (1, 0, 1, true), (0, 0, 1, true)], 2, PAGES));
    assert_eq!(backwards, StepError::NotAscending { row: 2, position: 0 });
    let twice = refused(&batch(&[(0, 3, 1, true), (0, 3, 1, true)], 1, PAGES));
    assert_eq!(twice, StepError::NotAscending { row: 1, position: 3 });
    let mut brings = batch(&[(0, 0, 2, true)], 1, PAGES);
    brings.inputs_mut().push(1.0);
    assert_eq!(refused(&brings), StepError::Inputs { found: 1, expected: 0 });
    assert_eq!(logits(&mut executor, &batch(&[(0, 0, 1, true)], 1, PAGES)), first);
}

/// Two sequences share a page until one of them goes on in a copy.
pub fn copies_pages<E: Executor>(make: impl Fn(&Arc<Gguf>, &Program, KvType) -> E) {
    for kv in [KvType::F32, KvType::F16, KvType::Q8_0] {
        let (file, program) = tiny("qwen3", &[Format::Q4_0], 2);
        let mut executor = make(&file, &program, kv);
        // Sequences 0 and 1 of a batch own pages 0 and 1.
        let prefix: Vec<_> = (0..9).map(|i| (0, i, i as u32, false)).collect();
        logits(&mut executor, &batch(&prefix, 2, PAGES));
        executor.copy_page(0, 0, 1);
        let parted = logits(&mut executor, &batch(&[(0, 9, 20, true), (1, 9, 30, true)], 2, PAGES));
        let mut other = make(&file, &program, kv);
        for (sequence, token) in [(0, 20), (1, 30)] {
            let mut rows: Vec<_> = (0..9).map(|i| (sequence, i, i as u32, false)).collect();
            rows.push((sequence, 9, token, true));
            assert_eq!(logits(&mut other, &batch(&rows, 2, PAGES))[0], parted[sequence]);
        }
    }
}

/// The states of recurrent layers are found in slots, as they were left there, and nowhere else.
pub fn keeps_states<E: Executor>(make: impl Fn(&Arc<Gguf>, &Program, KvType) -> E) {
    for family in super::RECURRENT {
        let (file, program) = tiny(family, &[Format::Q8_0, Format::F16], 2);
        let mut executor = make(&file, &program, KvType::F32);
        assert!(executor.slot_count() >= 3);
        let row = |position: usize| (0, position, (3 * position) as u32 % VOCABULARY as u32, position > 3);
        let rows = |positions: std::ops::Range<usize>| positions.map(row).collect::<Vec<_>>();
        let mut whole = batch(&rows(0..9), 1, PAGES);
        whole.save_state(0, 3, 0);
        whole.save_state(0, 6, 1);
        let truth = logits(&mut executor, &whole);
        // From either slot, as often as one likes, and in steps of one row that go on from each other.
        for (slot, first) in [(1, 7), (0, 4), (1, 7), (0, 4)] {
            let mut rest = batch(&rows(first..9), 1, PAGES);
            rest.read_state(0, slot);
            rest.save_state(0, 8, 2);
            assert_eq!(logits(&mut executor, &rest), truth[first - 4..], "{family} from {first}");
        }
        for (position, (read, write)) in (4..9).zip([(0, 2), (2, 1), (1, 2), (2, 1), (1, 2)]) {
            let mut one = batch(&rows(position..position + 1), 1, PAGES);
            one.read_state(0, read);
            one.save_state(0, position as u32, write);
            assert_eq!(logits(&mut executor, &one)[0], truth[position - 4], "{family} at {position}");
        }
        let without = batch(&rows(4..9), 1, PAGES);
        let refused = executor.step(&without, &mut ()).unwrap_err();
        assert_eq!(refused, StepError::State { table: 0, position: 4, found: false });
        let mut nowhere = batch(&rows(0..9), 1, PAGES);
        nowhere.save_state(0, 8, executor.slot_count() as u32);
        let refused = executor.step(&nowhere, &mut ()).unwrap_err();
        assert!(matches!(refused, StepError::Slot { .. }) && refused.is_refusal(), "{refused}");
    }
}
