//! What steps are told of, and how attention is cut.

use gleed_model::program::{Attention, KvLayer, Node, Op, Output, View};
use gleed_model::rope::{Pairing, Rope, Scaling};

use super::*;

const CONTEXT: usize = 2048;

fn program() -> Program {
    let rope = Rope::new(Pairing::SplitHalf, 6, 100.0, &Scaling::None, None).unwrap();
    Program {
        buffers: vec![],
        weights: vec![],
        nodes: vec![],
        caches: vec![],
        states: vec![],
        ropes: vec![rope],
        adapters: vec![],
        output: Output::Logits,
        logits: View { buffer: 0, offset: 0, width: 0 },
        vocabulary: 10,
        context: CONTEXT,
    }
}

/// A batch of rows `(table, position)`; table t's pages are 100 t, 100 t + 1, …
fn batch(rows: &[(u32, u32)]) -> Batch {
    let mut batch = Batch::default();
    for table in 0..=rows.iter().map(|row| row.0).max().unwrap_or(0) {
        let pages: Vec<u32> = (0..CONTEXT.div_ceil(PAGE) as u32).map(|page| 100 * table + page).collect();
        batch.add_table(&pages);
    }
    for &(table, position) in rows {
        let wants_logits = position % 2 == 1;
        batch.push(Row { table, position, token: position % 10, wants_logits });
    }
    batch
}

fn filled(rows: &[(u32, u32)], item_rows: usize) -> Step {
    let capacity = Capacity::new(&program(), 64, item_rows);
    let mut step = Step::new(capacity);
    step.fill(&program(), &batch(rows), false);
    assert!(step.words.len() <= capacity.words());
    step
}

fn records<const N: usize>(step: &Step, word: usize, count: usize) -> Vec<[u32; N]> {
    let at = step.words[word] as usize;
    step.words[at..at + N * count].as_chunks::<N>().0.to_vec()
}

#[test]
fn rows_know_their_pages_and_angles() {
    let rows = [(2, 70), (0, 5), (2, 71)];
    let step = filled(&rows, 4);
    // Three cosines, three sines.
    let all = records::<{ ROW_WORDS + 6 }>(&step, header::ROWS, 3);
    assert_eq!(step.words[header::ROWS], header::WORDS as u32);
    for (index, (record, (table, position))) in all.iter().zip(rows).enumerate() {
        assert_eq!(record[..2], [position % 10, position]);
        let page = 100 * table + position / PAGE as u32;
        assert_eq!(step.words[record[2] as usize + position as usize / PAGE], page);
        let length = if table == 2 { 72 } else { 6 };
        assert_eq!(record[3..6], [page, index as u32, length]);
        assert_eq!(f32::from_bits(record[6]), (f64::from(position)).cos() as f32);
        assert_eq!(f32::from_bits(record[9]), (f64::from(position)).sin() as f32);
    }
    let wanted = records::<{ ROW_WORDS + 6 }>(&step, header::ROWS + 1, 2);
    assert_eq!(wanted, [all[1], all[2]]);
}

#[test]
fn rows_know_their_pages_in_every_group() {
    let mut program = program();
    let view = View { buffer: 0, offset: 0, width: 1 };
    for (cache, window) in [(0, None), (1, Some(100)), (2, Some(30))] {
        let attention = Attention { window, ..Attention::over_all(cache, 1, 1.0) };
        let op = Op::Attention { attention, query: view, out: view };
        program.nodes.push(Node { op, labels: vec![], layer: None });
        program.caches.push(KvLayer { heads: 1, key_dim: 1, value_dim: 1 });
    }
    let mut batch = Batch::default();
    let table = |group: u32| (0..4).map(|page| 1000 * group + page).collect::<Vec<u32>>();
    batch.add_tables([&table(0)[..], &table(1), &table(2)]);
    for position in [130, 131] {
        batch.push(Row { table: 0, position, token: 0, wants_logits: position == 131 });
    }
    let capacity = Capacity::new(&program, 4, 4);
    let mut step = Step::new(capacity);
    step.fill(&program, &batch, false);
    assert!(step.words.len() <= capacity.words());
    // Two words more for each of two groups, then three cosines and three sines.
    let all = records::<{ ROW_WORDS + 4 + 6 }>(&step, header::ROWS, 2);
    for (record, position) in all.iter().zip([130.0f64, 131.0]) {
        for group in 0..3 {
            let [pages, page] = [0, 1].map(|word| record[pages_word(group) + word]);
            assert_eq!(page, 1000 * group as u32 + 2);
            assert_eq!(step.words[pages as usize..][..3], table(group as u32)[..3]);
        }
        assert_eq!(f32::from_bits(record[ROW_WORDS + capacity.first_angle()]), position.cos() as f32);
    }
    assert_eq!(records::<{ ROW_WORDS + 4 + 6 }>(&step, header::ROWS + 1, 1), [all[1]]);
}

fn counts(rows: usize, kind: Items, items: usize, merges: usize) -> Counts {
    let mut counts = Counts { rows, merges, ..Counts::default() };
    counts.items[kind as usize] = items;
    counts
}

fn items(step: &Step, kind: Items, list: usize) -> Vec<[u32; ITEM_WORDS]> {
    let count = step.counts[list].items[kind as usize];
    match kind {
        Items::Near => {
            let at = header::near(list);
            step.words[at..at + ITEM_WORDS * count].as_chunks().0.to_vec()
        }
        kind => records(step, header::ITEMS + 2 * kind as usize + list, count),
    }
}

#[test]
fn few_rows_that_do_not_look_far_back_are_near() {
    let step = filled(&[(0, 127), (1, 511), (0, 128)], 4);
    assert_eq!(step.counts[0], counts(3, Items::Near, 3, 0));
    let [first, second, third] = items(&step, Items::Near, 0)[..] else { panic!("{step:?}") };
    assert_eq!([&first[..2], &first[3..5]].concat(), [0, 128, 0, 2]);
    assert_eq!([&second[..2], &second[3..5]].concat(), [1, 512, 0, 8]);
    assert_eq!([&third[..2], &third[3..5]].concat(), [2, 129, 0, 3]);
    assert_eq!(step.words[second[2] as usize], 100);
    // Only the first two are wanted.
    assert_eq!(step.counts[1], counts(2, Items::Near, 2, 0));
    assert_eq!(items(&step, Items::Near, 1), [first, second]);
}

#[test]
fn rows_that_look_far_back_are_split_into_spans() {
    let step = filled(&[(0, 512), (1, 64)], 4);
    assert_eq!(step.counts[0], counts(2, Items::Few, 11, 2));
    let all = items(&step, Items::Few, 0);
    for (span, item) in all.iter().enumerate().take(9) {
        assert_eq!(*item, [0, 513, span, span, span + 1, span].map(|word| word as u32));
    }
    assert_eq!(all[10], [1, 65, 101, 1, 2, 10]);
    assert_eq!(records::<MERGE_WORDS>(&step, header::MERGES, 2), [[0, 0, 9], [1, 9, 2]]);
    let step = filled(&[(0, 1024), (1, 2047)], 4);
    assert_eq!(step.counts[0], counts(2, Items::Split, 49, 2));
    assert_eq!(items(&step, Items::Split, 0)[18], [1, 2048, 101, 1, 2, 18]);
    assert_eq!(records::<MERGE_WORDS>(&step, header::MERGES, 2), [[0, 0, 17], [1, 17, 32]]);
}

#[test]
fn neighbouring_rows_go_together() {
    // Nine rows on both sides of the end of a span, the last of them left over from two fours, and two of
    // other sequences.
    let mut rows: Vec<(u32, u32)> = (252..261).map(|position| (0, position)).collect();
    rows.extend([(1, 5), (2, 0)]);
    let step = filled(&rows, 4);
    let tiles = items(&step, Items::Tiles, 0);
    // The rows that see five spans are split, those that see four are not.
    assert_eq!(step.counts[0].items[Items::Near as usize], 2);
    assert_eq!(tiles.len(), 5 + 5 + 1);
    assert_eq!(tiles[0], [4, 4, 0, 1, 0, 5]);
    assert_eq!(tiles[9], [8, 1, 4, 5, 24, 5]);
    assert_eq!(tiles[10], [0, 4, 0, 4, 0, 0]);
    assert_eq!(step.counts[0].merges, 5);
    let merges = records::<MERGE_WORDS>(&step, header::MERGES, 5);
    assert_eq!(merges, [[4, 0, 5], [5, 5, 5], [6, 10, 5], [7, 15, 5], [8, 20, 5]]);
}

#[test]
fn the_rows_of_a_short_prompt_are_computed_one_by_one() {
    let prompt = |rows: Range<u32>| -> Vec<(u32, u32)> { rows.map(|position| (0, position)).collect() };
    let kinds = |rows: Range<u32>| {
        let step = filled(&prompt(rows), 4);
        [Items::Whole, Items::Tiles].map(|kind| step.counts[0].items[kind as usize])
    };
    assert_eq!(kinds(0..64), [64, 0]);
    assert_eq!(kinds(92..192), [100, 0]);
    // One looks back too far.
    assert_eq!(kinds(129..193), [0, 16]);
}

#[test]
fn whatever_the_rows_every_span_is_computed_once_and_there_is_room() {
    let mut state = 1u32;
    let mut random = |end: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % end
    };
    let mut kinds = [0; 5];
    for item_rows in [1, 2, 8] {
        for _ in 0..200 {
            let count = random(65);
            let mut rows: Vec<(u32, u32)> = (0..count).map(|_| (random(4), random(CONTEXT as u32))).collect();
            rows.sort_unstable();
            rows.dedup();
            let step = filled(&rows, item_rows);
            // Of each row, its spans and where their partial results are.
            let mut seen: Vec<Vec<(u32, u32)>> = vec![vec![]; rows.len()];
            for kind in [Items::Near, Items::Whole, Items::Few, Items::Split] {
                for [row, visible, _, start, end, partial] in items(&step, kind, 0) {
                    assert_eq!(visible, rows[row as usize].1 + 1);
                    seen[row as usize].extend((start..end).zip(partial..));
                }
            }
            for [first, count, start, end, partial, stride] in items(&step, Items::Tiles, 0) {
                assert!(count as usize <= item_rows);
                for row in 0..count {
                    seen[(first + row) as usize].extend((start..end).zip(partial + row * stride..));
                }
            }
            let merges = records::<MERGE_WORDS>(&step, header::MERGES, step.counts[0].merges);
            let mut partials = 0;
            for [row, partial, spans] in merges {
                let expected: Vec<u32> = (partial..partial + spans).collect();
                let found: Vec<u32> = seen[row as usize].iter().map(|span| span.1).collect();
                assert_eq!(found[..spans as usize], expected);
                partials += spans as usize;
            }
            assert!(partials <= step.capacity.partials);
            for (spans, (_, position)) in seen.iter().zip(&rows) {
                let needed = position / SPAN as u32 + 1;
                let spans: Vec<u32> = spans.iter().map(|span| span.0).collect();
                assert_eq!(spans[..needed as usize], (0..needed).collect::<Vec<_>>());
            }
            kinds.iter_mut().zip(step.counts[0].items).for_each(|(all, items)| *all += items);
        }
    }
    assert!(kinds.iter().all(|items| *items > 0), "{kinds:?}");
}
