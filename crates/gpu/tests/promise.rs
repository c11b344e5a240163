//! The promise: a row's result depends on that row alone.
//!
//! For every family and KV type the logits of every row are the same bits in one step, in chunks, one at a
//! time, beside other sequences, of the fused and the plain program, and close to the reference's. The
//! longest sequence has more positions than a span, so that attention is split over spans and merged.

mod common;

use std::collections::HashMap;
use std::sync::Arc;

use common::{FAMILIES, Random, VOCABULARY, batch, executor, gpu, tiny};
use gleed_gguf::Format;
use gleed_gpu::Options;
use gleed_model::arithmetic::SPAN;
use gleed_model::compare::LogitsDifference;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::{Arithmetic, Executor, KvType, Reference, reference};

/// The lengths of the sequences: more than a span, some rows, one row.
const LENGTHS: [usize; 3] = [SPAN + 21, 9, 1];
const PAGES: usize = 15;
const OPTIONS: Options = Options {
    arithmetic: Arithmetic::F32,
    kv: KvType::F16,
    max_rows: 300,
    pages: PAGES,
    logits_rows: None,
    matrix_units: false,
};

/// What the logits of a whole model may be off, as a share of the largest true one.
const TOLERANCE: f32 = 1e-5;

/// The same where keys and values are rounded to 16 or 8 bits: a value near the middle between two of those can
/// become either.
const ROUNDED_TOLERANCE: f32 = 2e-3;

/// How far logits may be apart, in nats, where activations are rounded to 8 bits too: one that becomes the other
/// of two integers moves everything after it. Ops by themselves are held to far less.
const ROUNDED_DIVERGENCE: f64 = 2e-4;

/// `(sequence, position)`.
type Place = (usize, usize);

/// A way to compute all rows: a list of batches.
type Schedule = Vec<Vec<Place>>;

fn places(sequence: usize, positions: std::ops::Range<usize>) -> Vec<Place> {
    positions.map(|position| (sequence, position)).collect()
}

fn whole() -> Schedule {
    vec![(0..3).flat_map(|s| places(s, 0..LENGTHS[s])).collect()]
}

/// The first sequence but for its last rows at once, then these and the others one row at a time.
fn one_at_a_time() -> Schedule {
    let many = LENGTHS[0] - 24;
    let rest = places(0, many..LENGTHS[0]).into_iter().chain(places(1, 0..LENGTHS[1])).chain(places(2, 0..1));
    [places(0, 0..many)].into_iter().chain(rest.map(|place| vec![place])).collect()
}

/// Chunks of the first sequence of these lengths in turn, the others beside them as they come.
fn chunks(lengths: &[usize]) -> Schedule {
    let (mut schedule, mut done) = (Schedule::new(), [0; 3]);
    let mut lengths = lengths.iter().cycle();
    while done[0] < LENGTHS[0] {
        let mut rows = Vec::new();
        let length = *lengths.next().unwrap();
        // Other sequences come first now and then, so that rows are at other places of the batch.
        for sequence in if length.is_multiple_of(2) { [0, 1, 2] } else { [2, 1, 0] } {
            let count = if sequence == 0 { length } else { 1 + length % 3 };
            let end = LENGTHS[sequence].min(done[sequence] + count);
            rows.extend(places(sequence, done[sequence]..end));
            done[sequence] = end;
        }
        schedule.push(rows);
    }
    if done[1] < LENGTHS[1] {
        schedule.push(places(1, done[1]..LENGTHS[1]));
    }
    schedule
}

/// Runs a schedule and returns the logits of the rows for which `wanted` says so.
fn run(
    executor: &mut dyn Executor,
    schedule: &Schedule,
    mut wanted: impl FnMut() -> bool,
) -> HashMap<Place, Vec<f32>> {
    let mut random = Random::new(11);
    let tokens: HashMap<Place, u32> =
        whole().concat().into_iter().map(|place| (place, random.below(VOCABULARY) as u32)).collect();
    let mut all = HashMap::new();
    for places in schedule {
        let rows: Vec<_> = places.iter().map(|place| (place.0, place.1, tokens[place], wanted())).collect();
        let batch = batch(&rows, LENGTHS.len(), PAGES);
        executor.step(&batch, &mut ()).unwrap();
        let found = batch.wanted().enumerate().map(|(i, row)| (places[row], executor.logits(i).to_vec()));
        all.extend(found);
    }
    all
}

fn check_family(family: &str) {
    let mixed =
        [Format::Q4_K, Format::F16, Format::Q8_0, Format::Q6_K, Format::Q4_1, Format::F32, Format::Q4_0];
    let integers = [Format::Q4_K, Format::Q8_0, Format::Q6_K, Format::Q4_K, Format::Q4_1, Format::Q5_0];
    let gpu = gpu();
    for (arithmetic, formats, kv) in [
        (Arithmetic::F32, &mixed[..], KvType::F32),
        (Arithmetic::F32, &integers, KvType::F16),
        (Arithmetic::Q8, &integers, KvType::F32),
        (Arithmetic::Q8, &integers, KvType::Q8_0),
    ] {
        let (file, plain) = tiny(family, formats, 5);
        let fused = fuse(&plain, Rules::ALL);
        let options = Options { arithmetic, kv, ..OPTIONS };
        let mut all_at_once = executor(&gpu, &file, &fused, options);
        let same = run(&mut all_at_once, &whole(), || true);
        assert_eq!(same.len(), LENGTHS.iter().sum::<usize>());

        let (rounds_to_groups, max_rows) = (arithmetic == Arithmetic::Q8, options.max_rows);
        let made_for =
            reference::Options { arithmetic: Arithmetic::F32, rounds_to_groups, kv, max_rows, pages: PAGES };
        let mut reference = Reference::new(Arc::clone(&file), plain.clone(), made_for).unwrap();
        let mut difference = LogitsDifference::default();
        for (place, truth) in run(&mut reference, &whole(), || true) {
            difference.add(&same[&place], &truth);
        }
        if arithmetic == Arithmetic::Q8 {
            assert!(difference.kl_divergence < ROUNDED_DIVERGENCE, "{family} kv {kv}: {difference:?}");
        } else {
            let tolerance = if kv == KvType::F32 { TOLERANCE } else { ROUNDED_TOLERANCE };
            assert!(difference.difference.relative < tolerance, "{family} kv {kv}: {difference:?}");
        }

        for (program, schedule, every, logits_rows) in [
            (&fused, chunks(&[1, 7, 64, 3]), 2, None),
            (&plain, chunks(&[97, 2]), 1, None),
            (&fused, one_at_a_time(), 1, None),
            // Logits in three turns, the last one of fewer rows.
            (&fused, whole(), 5, Some(23)),
        ] {
            let options = Options { logits_rows, ..options };
            let mut count = 0;
            let mut executor = executor(&gpu, &file, program, options);
            let found = run(&mut executor, &schedule, || {
                count += 1;
                count % every == 0
            });
            assert_eq!(found.len(), count / every);
            for (place, logits) in &found {
                let equal = common::bits(logits) == common::bits(&same[place]);
                assert!(equal, "{family} kv {kv}, row {place:?} of {schedule:?}");
            }
        }
    }
}

#[test]
fn llama() {
    check_family(FAMILIES[0]);
}

#[test]
fn qwen2() {
    check_family(FAMILIES[1]);
}

#[test]
fn qwen3() {
    check_family(FAMILIES[2]);
}

#[test]
fn gpt2() {
    check_family(FAMILIES[3]);
}
