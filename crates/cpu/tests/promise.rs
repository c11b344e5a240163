//! The promise: a row's result depends on that row alone.
//!
//! For every family, arithmetic and KV type the logits of every row are held, bit for bit, against the
//! reference executor running the plain program: one row at a time, whole prompts, chunks, mixed with
//! other sequences, fused and plain, with one, two and eight threads, on every instruction set.

mod common;

use std::collections::HashMap;
use std::sync::Arc;

use common::{FAMILIES, Random, VOCABULARY, batch, cpu, logits, tiny};
use gleed_cpu::{Isa, Options};
use gleed_gguf::Format;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::Program;
use gleed_model::reference;
use gleed_model::{Arithmetic, Executor, KvType, Reference};

/// The lengths of the sequences: more than a page, some rows, one row.
const LENGTHS: [usize; 3] = [75, 9, 1];
const PAGES: usize = 6;

/// `(sequence, position)`.
type Place = (usize, usize);

/// A way to compute all rows: a list of batches.
type Schedule = Vec<Vec<Place>>;

fn places(sequence: usize, positions: std::ops::Range<usize>) -> Vec<Place> {
    positions.map(|position| (sequence, position)).collect()
}

fn one_at_a_time() -> Schedule {
    (0..LENGTHS[0]).flat_map(|p| (0..3).filter(move |s| p < LENGTHS[*s]).map(move |s| vec![(s, p)])).collect()
}

fn whole() -> Schedule {
    vec![(0..3).flat_map(|s| places(s, 0..LENGTHS[s])).collect()]
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

fn tokens() -> HashMap<Place, u32> {
    let mut random = Random::new(11);
    whole().concat().into_iter().map(|place| (place, random.below(VOCABULARY) as u32)).collect()
}

/// Runs a schedule and returns the logits of the rows for which `wanted` says so.
fn run(
    executor: &mut dyn Executor,
    schedule: &Schedule,
    mut wanted: impl FnMut() -> bool,
) -> HashMap<Place, Vec<u32>> {
    let tokens = tokens();
    let mut all = HashMap::new();
    for places in schedule {
        let rows: Vec<_> = places.iter().map(|place| (place.0, place.1, tokens[place], wanted())).collect();
        let batch = batch(&rows, LENGTHS.len(), PAGES);
        let found = logits(executor, &batch);
        all.extend(batch.wanted().map(|index| places[index]).zip(found));
    }
    all
}

fn options(arithmetic: Arithmetic, kv: KvType, threads: usize, isa: Isa) -> Options {
    Options { arithmetic, kv, threads, isa: Some(isa), max_rows: 96, pages: PAGES, memory: None }
}

fn check_family(family: &str) {
    let formats =
        [Format::Q4_K, Format::F16, Format::Q8_0, Format::Q6_K, Format::Q4_1, Format::F32, Format::Q4_0];
    let (file, plain) = tiny(family, &formats, 5);
    let fused = fuse(&plain, Rules::ALL);
    assert_ne!(plain.nodes.len(), fused.nodes.len());
    for arithmetic in [Arithmetic::Q8, Arithmetic::F32] {
        for kv in [KvType::F32, KvType::F16, KvType::Q8_0] {
            let made_for =
                reference::Options { arithmetic, rounds_to_groups: false, kv, max_rows: 96, pages: PAGES };
            let mut truth_machine = Reference::new(Arc::clone(&file), plain.clone(), made_for).unwrap();
            let truth = run(&mut truth_machine, &whole(), || true);
            assert_eq!(truth.len(), LENGTHS.iter().sum::<usize>());
            let check = |program: &Program, threads, isa, schedule: &Schedule, every: usize| {
                let mut cpu = cpu(&file, program, options(arithmetic, kv, threads, isa));
                let mut count = 0;
                let found = run(&mut cpu, schedule, || {
                    count += 1;
                    count % every == 0
                });
                assert_eq!(found.len(), count / every);
                for (place, logits) in &found {
                    assert_eq!(
                        *logits, truth[place],
                        "{family} {arithmetic} kv {kv} {isa} {threads} threads, row {place:?} of {schedule:?}"
                    );
                }
            };
            for isa in Isa::available() {
                check(&fused, 2, isa, &whole(), 1);
                if isa == Isa::Portable {
                    continue;
                }
                for threads in [1, 2, 8] {
                    check(&fused, threads, isa, &chunks(&[1, 7, 64, 3]), 2);
                }
                check(&plain, 2, isa, &chunks(&[17, 2]), 1);
                check(&fused, 2, isa, &one_at_a_time(), 3);
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
