//! What steps are told of, and how attention is cut.

use gleed_model::program::{Attention, KvLayer, Node, Op, Output, View};
use gleed_model::rope::{Pairing, Rope, Scaling};

use std::ops::Range;

use gleed_model::program::Sight;
use gleed_model::{Arithmetic, KvType, Row};

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
    filled_by(&[Outlook::BACK], rows, item_rows)
}

fn filled_by(outlooks: &[Outlook], rows: &[(u32, u32)], item_rows: usize) -> Step {
    let capacity = Capacity::new(&program(), outlooks.len(), 64, item_rows);
    let mut step = Step::new(capacity, outlooks.to_vec());
    step.fill(&program(), &batch(rows), false);
    assert!(step.words.len() <= capacity.words());
    step
}

/// What kernels of a list of rows bind: the words from its header on.
fn bound(step: &Step, list: usize) -> &[u32] {
    &step.words[step.origin(list)..]
}

/// Words of all rows as those of wanted ones are, whose header is the second: these words of them are places.
fn as_wanted<const N: usize>(step: &Step, mut words: [u32; N], places: &[usize]) -> [u32; N] {
    places.iter().for_each(|place| words[*place] -= step.origin(1) as u32);
    words
}

fn records<const N: usize>(step: &Step, list: usize, word: usize, count: usize) -> Vec<[u32; N]> {
    let words = bound(step, list);
    words[words[word] as usize..][..N * count].as_chunks::<N>().0.to_vec()
}

#[test]
fn rows_know_their_pages_and_angles() {
    let rows = [(2, 70), (0, 5), (2, 71)];
    let step = filled(&rows, 4);
    // Three cosines, three sines.
    let all = records::<{ ROW_WORDS + 6 }>(&step, 0, header::ROWS, 3);
    assert_eq!(step.words[header::ROWS], 2 * header::words(1) as u32);
    for (index, (record, (table, position))) in all.iter().zip(rows).enumerate() {
        assert_eq!(record[..2], [position % 10, position]);
        let page = 100 * table + position / PAGE as u32;
        assert_eq!(step.words[record[2] as usize + position as usize / PAGE], page);
        let length = if table == 2 { 72 } else { 6 };
        assert_eq!(record[3..6], [page, index as u32, length]);
        assert_eq!(f32::from_bits(record[6]), (f64::from(position)).cos() as f32);
        assert_eq!(f32::from_bits(record[9]), (f64::from(position)).sin() as f32);
    }
    let wanted = records::<{ ROW_WORDS + 6 }>(&step, 1, header::ROWS, 2);
    assert_eq!(wanted, [all[1], all[2]].map(|record| as_wanted(&step, record, &[2])));
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
    let capacity = Capacity::new(&program, 1, 4, 4);
    let mut step = Step::new(capacity, vec![Outlook::BACK]);
    step.fill(&program, &batch, false);
    assert!(step.words.len() <= capacity.words());
    // Two words more for each of two groups, then three cosines and three sines.
    let all = records::<{ ROW_WORDS + 4 + 6 }>(&step, 0, header::ROWS, 2);
    for (record, position) in all.iter().zip([130.0f64, 131.0]) {
        for group in 0..3 {
            let [pages, page] = [0, 1].map(|word| record[pages_word(group) + word]);
            assert_eq!(page, 1000 * group as u32 + 2);
            assert_eq!(step.words[pages as usize..][..3], table(group as u32)[..3]);
        }
        assert_eq!(f32::from_bits(record[ROW_WORDS + capacity.first_angle()]), position.cos() as f32);
    }
    assert_eq!(
        records::<{ ROW_WORDS + 4 + 6 }>(&step, 1, header::ROWS, 1),
        [as_wanted(&step, all[1], &[0, 1, 2].map(pages_word))]
    );
}

fn assert_counts(step: &Step, list: usize, rows: usize, kind: Items, items: usize, merges: usize) {
    let mut pieces = Pieces { merges, ..Pieces::default() };
    pieces.items[kind as usize] = items;
    assert_eq!(step.counts(list), Counts { rows, attention: &[pieces], sequences: 0 });
}

fn items_of(step: &Step, outlook: usize, kind: Items, list: usize) -> Vec<[u32; ITEM_WORDS]> {
    let count = step.counts(list).pieces(outlook).items[kind as usize];
    match kind {
        Items::Near => {
            let words = &bound(step, list)[header::near(outlook)..];
            words[..ITEM_WORDS * count].as_chunks().0.to_vec()
        }
        kind => records(step, list, header::items(outlook, kind), count),
    }
}

fn items(step: &Step, kind: Items, list: usize) -> Vec<[u32; ITEM_WORDS]> {
    items_of(step, 0, kind, list)
}

#[test]
fn few_rows_that_do_not_look_far_back_are_near() {
    let step = filled(&[(0, 127), (1, 511), (0, 128)], 4);
    assert_counts(&step, 0, 3, Items::Near, 3, 0);
    let [first, second, third] = items(&step, Items::Near, 0)[..] else { panic!("{step:?}") };
    assert_eq!([&first[..2], &first[3..5]].concat(), [0, 128, 0, 2]);
    assert_eq!([&second[..2], &second[3..5]].concat(), [1, 512, 0, 8]);
    assert_eq!([&third[..2], &third[3..5]].concat(), [2, 129, 0, 3]);
    assert_eq!(step.words[second[2] as usize], 100);
    // Only the first two are wanted.
    assert_counts(&step, 1, 2, Items::Near, 2, 0);
    assert_eq!(items(&step, Items::Near, 1), [first, second].map(|item| as_wanted(&step, item, &[2])));
}

#[test]
fn rows_that_look_far_back_are_split_into_spans() {
    let step = filled(&[(0, 512), (1, 64)], 4);
    assert_counts(&step, 0, 2, Items::Few, 11, 2);
    let all = items(&step, Items::Few, 0);
    for (span, item) in all.iter().enumerate().take(9) {
        assert_eq!(*item, [0, 513, span, span, span + 1, span].map(|word| word as u32));
    }
    assert_eq!(all[10], [1, 65, 101, 1, 2, 10]);
    assert_eq!(records::<MERGE_WORDS>(&step, 0, header::merges(0), 2), [[0, 0, 9], [1, 9, 2]]);
    let step = filled(&[(0, 1024), (1, 2047)], 4);
    assert_counts(&step, 0, 2, Items::Split, 49, 2);
    assert_eq!(items(&step, Items::Split, 0)[18], [1, 2048, 101, 1, 2, 18]);
    assert_eq!(records::<MERGE_WORDS>(&step, 0, header::merges(0), 2), [[0, 0, 17], [1, 17, 32]]);
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
    assert_eq!(step.counts(0).pieces(0).items[Items::Near as usize], 2);
    assert_eq!(tiles.len(), 5 + 5 + 1);
    assert_eq!(tiles[0], [4, 4, 0, 1, 0, 5]);
    assert_eq!(tiles[9], [8, 1, 4, 5, 24, 5]);
    assert_eq!(tiles[10], [0, 4, 0, 4, 0, 0]);
    assert_eq!(step.counts(0).pieces(0).merges, 5);
    let merges = records::<MERGE_WORDS>(&step, 0, header::merges(0), 5);
    assert_eq!(merges, [[4, 0, 5], [5, 5, 5], [6, 10, 5], [7, 15, 5], [8, 20, 5]]);
}

#[test]
fn the_rows_of_a_short_prompt_are_computed_one_by_one() {
    let prompt = |rows: Range<u32>| -> Vec<(u32, u32)> { rows.map(|position| (0, position)).collect() };
    let kinds = |rows: Range<u32>| {
        let step = filled(&prompt(rows), 4);
        [Items::Whole, Items::Tiles].map(|kind| step.counts(0).pieces(0).items[kind as usize])
    };
    assert_eq!(kinds(0..64), [64, 0]);
    assert_eq!(kinds(92..192), [100, 0]);
    // One looks back too far.
    assert_eq!(kinds(129..193), [0, 16]);
}

/// By a window of `window` positions.
fn near(window: usize) -> Outlook {
    Outlook { sight: Sight { window: Some(window), ..Sight::BACK }, ..Outlook::BACK }
}

#[test]
fn rows_that_see_a_window_have_its_spans_only() {
    // Decoding far back, where plain attention is split.
    let step = filled_by(&[Outlook::BACK, near(100)], &[(0, 1023), (1, 70)], 4);
    let [all, of_window] = step.counts(0).attention else { panic!("{step:?}") };
    assert_eq!((all.items[Items::Few as usize], all.merges), (18, 2));
    assert_eq!((of_window.items[Items::Near as usize], of_window.merges), (2, 0));
    let [first, second] = items_of(&step, 1, Items::Near, 0)[..] else { panic!("{step:?}") };
    assert_eq!([&first[..2], &first[3..5]].concat(), [0, 1024, 14, 16]);
    assert_eq!([&second[..2], &second[3..5]].concat(), [1, 71, 0, 2]);
    // The second row alone is wanted by neither.
    assert_eq!(step.counts(1).pieces(1).items[Items::Near as usize], 1);
    assert_eq!(items_of(&step, 1, Items::Near, 1), [as_wanted(&step, first, &[2])]);
}

#[test]
fn rows_that_go_together_have_the_spans_that_any_of_them_sees() {
    let rows: Vec<(u32, u32)> = (1000..1008).map(|position| (0, position)).collect();
    let step = filled_by(&[Outlook::BACK, near(400)], &rows, 4);
    // Position 1,003 sees from 604 on, 1,007 from 608.
    let tiles = items_of(&step, 1, Items::Tiles, 0);
    assert_eq!(tiles.len(), 2 * 7);
    assert_eq!(tiles[0], [0, 4, 9, 10, 0, 7]);
    assert_eq!(tiles[13], [4, 4, 15, 16, 34, 7]);
    let merges = records::<MERGE_WORDS>(&step, 0, header::merges(1), 8);
    assert_eq!((merges[0], merges[7]), ([0, 0, 7], [7, 49, 7]));
    // Those far apart do not go together, as what lies between may be gone.
    let rows: Vec<(u32, u32)> = (0..8).map(|i| (0, 200 * i + i % 2)).collect();
    let step = filled_by(&[Outlook::BACK, near(20)], &rows, 4);
    assert_eq!(step.counts(0).pieces(1).items[Items::Whole as usize], 8);
    assert!(step.counts(0).pieces(0).items[Items::Tiles as usize] > 0);
}

#[test]
fn outlooks_are_those_of_attention_in_halves() {
    let mut program = program();
    let view = View { buffer: 0, offset: 0, width: 1 };
    let plain = Attention::over_all(0, 1, 1.0);
    let all = [
        plain,
        Attention { cache: 1, window: Some(100), ..plain },
        Attention { cache: 2, window: Some(100), soft_cap: Some(1.0), ..plain },
        Attention { cache: 3, window: Some(100), causal: false, ..plain },
        Attention { cache: 0, chosen: Some(view), chunk: Some(7), ..plain },
    ];
    for attention in all {
        let op = Op::Attention { attention, query: view, out: view };
        program.nodes.push(Node { op, labels: vec![], layer: None });
    }
    program.caches = vec![KvLayer { heads: 1, key_dim: 1, value_dim: 1 }; 4];
    let both_ways = Sight { causal: false, window: Some(100), chunk: None };
    let expected =
        [Outlook::BACK, Outlook { group: 1, ..near(100) }, Outlook { sight: both_ways, ..Outlook::BACK }];
    assert_eq!(Outlook::of(&program, Arithmetic::F16, KvType::F16), expected);
    for (arithmetic, kv) in [(Arithmetic::F16, KvType::Q8_0), (Arithmetic::Q8, KvType::F16)] {
        assert_eq!(Outlook::of(&program, arithmetic, kv), [Outlook::BACK]);
    }
}

#[test]
fn whatever_the_rows_every_span_is_computed_once_and_there_is_room() {
    let mut state = 1u32;
    let mut random = |end: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % end
    };
    let both_ways = |window| Outlook { sight: Sight { causal: false, window, chunk: None }, ..Outlook::BACK };
    let in_chunks = Outlook { sight: Sight { chunk: Some(300), ..near(500).sight }, ..Outlook::BACK };
    let outlooks =
        [Outlook::BACK, near(1), near(64), near(700), in_chunks, both_ways(None), both_ways(Some(90))];
    let mut kinds = [[0; 5]; 7];
    for item_rows in [1, 2, 8] {
        for _ in 0..200 {
            // Anywhere, or close together.
            let (count, reach) = (random(65), if random(2) == 0 { CONTEXT as u32 } else { 80 });
            let first = random(CONTEXT as u32 + 1 - reach);
            let mut rows: Vec<(u32, u32)> = (0..count).map(|_| (random(4), first + random(reach))).collect();
            rows.sort_unstable();
            rows.dedup();
            let step = filled_by(&outlooks, &rows, item_rows);
            let length = |table| rows.iter().rfind(|row| row.0 == table).unwrap().1 as usize + 1;
            for (index, (outlook, kinds)) in outlooks.iter().zip(&mut kinds).enumerate() {
                let visible = |(table, position): (u32, u32)| {
                    let seen = outlook.sight.visible(position as usize, length(table));
                    (seen.end as u32, (seen.start / SPAN) as u32..seen.end.div_ceil(SPAN) as u32)
                };
                let seen_by: Vec<(u32, Range<u32>)> = rows.iter().map(|row| visible(*row)).collect();
                // Of each row, its spans and where their partial results are.
                let mut seen: Vec<Vec<(u32, u32)>> = vec![vec![]; rows.len()];
                for kind in [Items::Near, Items::Whole, Items::Few, Items::Split] {
                    for [row, end, _, first, last, partial] in items_of(&step, index, kind, 0) {
                        assert_eq!(end, seen_by[row as usize].0);
                        seen[row as usize].extend((first..last).zip(partial..));
                    }
                }
                for [first, count, start, end, partial, stride] in items_of(&step, index, Items::Tiles, 0) {
                    assert!(count as usize <= item_rows);
                    for row in 0..count {
                        let own = &seen_by[(first + row) as usize].1;
                        let spans =
                            (start..end).zip(partial + row * stride..).filter(|(span, _)| own.contains(span));
                        seen[(first + row) as usize].extend(spans);
                        // Nothing is looked at that no row sees.
                        assert!((start..end).all(|span| {
                            (first..first + count).any(|row| seen_by[row as usize].1.contains(&span))
                        }));
                    }
                }
                for (spans, (_, own)) in seen.iter().zip(&seen_by) {
                    let spans: Vec<u32> = spans.iter().map(|span| span.0).collect();
                    assert_eq!(spans, own.clone().collect::<Vec<_>>());
                }
                let pieces = step.counts(0).pieces(index);
                let merges = records::<MERGE_WORDS>(&step, 0, header::merges(index), pieces.merges);
                let mut used = vec![];
                for [row, partial, spans] in merges {
                    let expected: Vec<u32> = (partial..partial + spans).collect();
                    let found: Vec<u32> = seen[row as usize].iter().map(|span| span.1).collect();
                    assert_eq!(found, expected);
                    used.extend(expected);
                }
                used.sort_unstable();
                assert!(used.windows(2).all(|two| two[0] < two[1]), "two spans have the same place");
                assert!(used.last().is_none_or(|last| (*last as usize) < step.capacity.partials));
                kinds.iter_mut().zip(pieces.items).for_each(|(all, items)| *all += items);
            }
        }
    }
    assert!(kinds[0].iter().all(|items| *items > 0), "{kinds:?}");
    assert!([3, 4, 5].iter().all(|index| kinds[*index][Items::Tiles as usize] > 0), "{kinds:?}");
}
