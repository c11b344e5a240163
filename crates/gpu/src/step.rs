//! What the device is told about a step: its rows, their pages and angles, and how attention is cut, all in
//! one upload of words.
//!
//! The words are a header that says where each list begins, then the lists: rows with the angles of their
//! rotations, pages of their sequences, items of attention and merges of its spans; all but the pages once
//! for all rows and once for the wanted ones. The kernels' `step.wgsl` reads the same. What a single row
//! waits for is at fixed places, so that kernels need not look up where it is.

use std::cmp::Reverse;
use std::ops::Range;

use gleed_model::arithmetic::PAGE;
use gleed_model::program::Program;
use gleed_model::{Batch, Row};

/// Positions of a span of attention: those of a page.
pub(crate) const SPAN: usize = PAGE;

/// Which word of the header says where a list of all rows begins; that of the wanted rows is the next.
pub(crate) mod header {
    use super::{ITEM_WORDS, NEAR_ROWS};

    /// Rows: token, position, where its pages begin, the page of its position, which row of the batch it is,
    /// then its angles.
    pub const ROWS: usize = 0;
    /// Items of attention, by their [`Items`](super::Items). Those of one row: row, positions that it sees,
    /// where its pages begin, first span, end of spans, nothing. Those of one span of a row: row, positions
    /// that it sees, the span's page, span, its end, where its partial result is. Those of several rows:
    /// first row, rows, first span, end of spans, partial results, distance of the next row's (0 for none).
    pub const ITEMS: usize = 2;
    /// Merges of spans, three words each: row, partial results, spans.
    pub const MERGES: usize = 12;
    /// Here are the items of few rows themselves, for each of the two lists.
    pub const NEAR: usize = 14;
    /// How many words there are; all rows follow.
    pub const WORDS: usize = NEAR + 2 * NEAR_ROWS * ITEM_WORDS;

    /// Where the items of few rows are, of one of the lists.
    pub const fn near(list: usize) -> usize {
        NEAR + list * NEAR_ROWS * ITEM_WORDS
    }
}

/// Items of attention, by how they are computed. The bits of a row are the same in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Items {
    /// One row that does not look far back, of few: all spans of one head at once.
    Near = 0,
    /// One row, all of its spans, several heads.
    Whole = 1,
    /// One row, one of its spans, several heads, which have the same threads.
    Split = 2,
    /// Several neighbouring rows of a sequence.
    Tiles = 3,
    /// As [`Items::Split`], of few spans in all: every head has threads of its own.
    Few = 4,
}

/// Instead of a token: the one that the device chose last for this row.
pub(crate) const CHAINED: u32 = u32::MAX;

/// Words of a row before its angles.
const ROW_WORDS: usize = 5;
const ITEM_WORDS: usize = 6;
const MERGE_WORDS: usize = 3;

/// Single rows of a step that may be [`Items::Near`], and spans that each of them may have: more are split.
const NEAR_ROWS: usize = 4;
const NEAR_SPANS: usize = 8;

/// Spans that each of more rows may have without being split, and rows from which on none are: there is work
/// enough.
const WHOLE_SPANS: usize = 16;
const ENOUGH_ROWS: usize = 32;

/// Spans of all rows up to which they are [`Items::Few`].
const FEW_SPANS: usize = 48;

/// The same of items of several rows; and spans that an item need have to be split at all.
const ENOUGH_TILES: usize = 8;
const SPLIT_SPANS: usize = 4;

/// Neighbouring rows that are worth an item of several rows, when there is no other.
const TILE_ROWS: usize = 4;

/// Partial results that there is room for, where a context can have that many spans.
const PARTIALS: usize = 2048;

/// What the lists of a step may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacity {
    max_rows: usize,
    /// Pages of a sequence as long as the context.
    pages: usize,
    /// Cosines and sines of a row.
    angles: usize,
    /// Neighbouring rows of a sequence that one item may have.
    item_rows: usize,
    /// Spans of rows whose partial results there is room for.
    pub partials: usize,
}

impl Capacity {
    pub fn new(program: &Program, max_rows: usize, item_rows: usize) -> Capacity {
        let spans = program.context.div_ceil(SPAN);
        let partials = PARTIALS.min(max_rows.saturating_mul(spans)).max(spans);
        let angles = program.ropes.iter().map(|rope| 2 * rope.frequencies.len()).sum();
        Capacity { max_rows, pages: program.context.div_ceil(PAGE), angles, item_rows, partials }
    }

    /// Words of one row.
    pub fn row_words(&self) -> usize {
        ROW_WORDS + self.angles
    }

    /// Words of the largest step.
    pub fn words(&self) -> usize {
        let items = self.max_rows + self.partials;
        let lists = 2 * (self.max_rows * (self.row_words() + MERGE_WORDS) + items * ITEM_WORDS);
        header::WORDS + lists + self.max_rows.saturating_mul(self.pages)
    }
}

/// How many there are of everything, in one list of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub rows: usize,
    /// Items of attention, by their [`Items`].
    pub items: [usize; 5],
    pub merges: usize,
}

/// A step, in words. Reused from step to step.
#[derive(Debug)]
pub(crate) struct Step {
    capacity: Capacity,
    pub words: Vec<u32>,
    /// Of all rows, and of the wanted ones.
    pub counts: [Counts; 2],
    /// Of each table of the batch, its last position and where its pages are.
    tables: Vec<(u32, usize)>,
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Step {
    pub fn new(capacity: Capacity) -> Step {
        let (words, counts) = (Vec::new(), [Counts::default(); 2]);
        Step { capacity, words, counts, tables: vec![], cosines: vec![], sines: vec![] }
    }

    /// Takes in a batch that has been checked; `chained` when its tokens are those that the device chose.
    pub fn fill(&mut self, program: &Program, batch: &Batch, chained: bool) {
        let rows = batch.rows();
        let wanted: Vec<usize> = batch.wanted().collect();
        self.words.clear();
        self.words.resize(header::WORDS, 0);
        self.words[header::ROWS] = header::WORDS as u32;
        self.add_rows(program, batch, chained);
        self.words[header::ROWS + 1] = self.words.len() as u32;
        let row_words = self.capacity.row_words();
        for index in &wanted {
            let at = header::WORDS + index * row_words;
            self.words.extend_from_within(at..at + row_words);
        }
        self.add_pages(batch);
        for (list, count) in [(0, rows.len()), (1, wanted.len())] {
            let first = self.words[header::ROWS + list] as usize;
            for row in 0..count {
                let record = first + row * row_words;
                let table = rows[self.words[record + 4] as usize].table as usize;
                let pages = self.tables[table].1;
                self.words[record + 2] = pages as u32;
                self.words[record + 3] = self.words[pages + self.words[record + 1] as usize / PAGE];
            }
        }
        self.counts[0] = self.add_attention(0, rows.len(), |index| &rows[index]);
        self.counts[1] = self.add_attention(1, wanted.len(), |index| &rows[wanted[index]]);
    }

    /// The records of all rows, but for what is known of their pages later, each with the cosines and sines
    /// of every rotation.
    fn add_rows(&mut self, program: &Program, batch: &Batch, chained: bool) {
        for (index, row) in batch.rows().iter().enumerate() {
            let token = if chained { CHAINED } else { row.token };
            self.words.extend([token, row.position, 0, 0, index as u32]);
            for rope in &program.ropes {
                let pairs = rope.frequencies.len();
                self.cosines.resize(pairs, 0.0);
                self.sines.resize(pairs, 0.0);
                rope.angles(row.position, &mut self.cosines, &mut self.sines);
                let both = self.cosines.iter().chain(&self.sines);
                self.words.extend(both.map(|angle| angle.to_bits()));
            }
        }
    }

    /// The pages of every table that has rows, up to its last position.
    fn add_pages(&mut self, batch: &Batch) {
        self.tables.clear();
        for row in batch.rows() {
            let table = row.table as usize;
            if self.tables.len() <= table {
                self.tables.resize(table + 1, (0, usize::MAX));
            }
            let (last, at) = &mut self.tables[table];
            (*last, *at) = ((*last).max(row.position), 0);
        }
        for (table, (last, at)) in self.tables.iter_mut().enumerate() {
            if *at == 0 {
                *at = self.words.len();
                let count = *last as usize / PAGE + 1;
                self.words.extend_from_slice(&batch.pages(table as u32)[..count]);
            }
        }
    }

    /// Items and merges of the attention of a list of rows.
    fn add_attention<'a>(&mut self, list: usize, count: usize, row: impl Fn(usize) -> &'a Row) -> Counts {
        let (singles, mut tiles) = cut(count, self.capacity.item_rows, &row);
        let spans_of = |index: usize| row(index).position as usize / SPAN + 1;
        let mut counts = Counts { rows: count, ..Counts::default() };
        let (mut partials, mut merges) = (0, Vec::new());

        let deepest = singles.iter().map(|index| spans_of(*index)).max().unwrap_or(0);
        let needed: usize = singles.iter().map(|index| spans_of(*index)).sum();
        let near = singles.len() <= NEAR_ROWS;
        let far = deepest > if near { NEAR_SPANS } else { WHOLE_SPANS };
        let kind = if near && !far {
            Items::Near
        } else if far && singles.len() <= ENOUGH_ROWS && needed <= self.capacity.partials {
            if needed <= FEW_SPANS { Items::Few } else { Items::Split }
        } else {
            Items::Whole
        };
        self.words[header::ITEMS + 2 * kind as usize + list] = self.words.len() as u32;
        for (place, index) in singles.into_iter().enumerate() {
            let (spans, visible) = (spans_of(index), row(index).position as usize + 1);
            let pages = self.tables[row(index).table as usize].1;
            let item = |page: usize, spans: Range<usize>, partial: usize| {
                [index, visible, page, spans.start, spans.end, partial].map(|word| word as u32)
            };
            match kind {
                Items::Near => {
                    let at = header::near(list) + place * ITEM_WORDS;
                    self.words[at..at + ITEM_WORDS].copy_from_slice(&item(pages, 0..spans, 0));
                    counts.items[kind as usize] += 1;
                }
                Items::Few | Items::Split => {
                    for span in 0..spans {
                        let page = self.words[pages + span] as usize;
                        self.words.extend(item(page, span..span + 1, partials + span));
                    }
                    counts.items[kind as usize] += spans;
                    merges.push((index, partials));
                    partials += spans;
                }
                _ => {
                    self.words.extend(item(pages, 0..spans, 0));
                    counts.items[kind as usize] += 1;
                }
            }
        }

        // Those with most to do begin first.
        tiles.sort_by_key(|tile| Reverse(spans_of(tile.end - 1)));
        let few = tiles.len() <= ENOUGH_TILES;
        self.words[header::ITEMS + 2 * Items::Tiles as usize + list] = self.words.len() as u32;
        for tile in tiles {
            let spans = spans_of(tile.end - 1);
            let mut item = |first: usize, end: usize, partial: usize, stride: usize| {
                let words = [tile.start, tile.len(), first, end, partial, stride];
                self.words.extend(words.map(|word| word as u32));
                counts.items[Items::Tiles as usize] += 1;
            };
            let needed = spans * tile.len();
            if !few || spans <= SPLIT_SPANS || partials + needed > self.capacity.partials {
                item(0, spans, 0, 0);
                continue;
            }
            (0..spans).for_each(|span| item(span, span + 1, partials + span, spans));
            merges.extend(tile.enumerate().map(|(i, index)| (index, partials + i * spans)));
            partials += needed;
        }

        self.words[header::MERGES + list] = self.words.len() as u32;
        counts.merges = merges.len();
        for (index, partial) in merges {
            self.words.extend([index, partial, spans_of(index)].map(|word| word as u32));
        }
        counts
    }
}

/// The rows that are computed one by one, and the runs of those that go together.
fn cut<'a>(count: usize, most: usize, row: impl Fn(usize) -> &'a Row) -> (Vec<usize>, Vec<Range<usize>>) {
    let runs = runs(count, most, &row);
    let (mut singles, mut tiles): (Vec<usize>, Vec<Range<usize>>) = (Vec::new(), Vec::new());
    let worth_it = runs.iter().any(|run| run.len() >= TILE_ROWS.min(most.max(2)));
    for run in runs {
        // The rest of a long run costs nothing beside it.
        let rest =
            |tile: &Range<usize>| tile.end == run.start && row(tile.start).table == row(run.start).table;
        let rest = tiles.last().is_some_and(rest);
        if worth_it && (run.len() > 1 || rest) {
            tiles.push(run);
        } else {
            singles.extend(run);
        }
    }
    (singles, tiles)
}

/// Runs of neighbouring rows of one sequence, at most `most` long, in ascending positions.
fn runs<'a>(count: usize, most: usize, row: impl Fn(usize) -> &'a Row) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for index in 0..count {
        let fits = |run: &Range<usize>| {
            let last = row(run.end - 1);
            run.len() < most && last.table == row(index).table && last.position < row(index).position
        };
        match runs.last_mut() {
            Some(run) if fits(run) => run.end = index + 1,
            _ => runs.push(index..index + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
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
            ropes: vec![rope],
            logits: gleed_model::program::View { buffer: 0, offset: 0, width: 0 },
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
            assert_eq!(record[3..5], [page, index as u32]);
            assert_eq!(f32::from_bits(record[5]), (f64::from(position)).cos() as f32);
            assert_eq!(f32::from_bits(record[8]), (f64::from(position)).sin() as f32);
        }
        let wanted = records::<{ ROW_WORDS + 6 }>(&step, header::ROWS + 1, 2);
        assert_eq!(wanted, [all[1], all[2]]);
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
                let mut rows: Vec<(u32, u32)> =
                    (0..count).map(|_| (random(4), random(CONTEXT as u32))).collect();
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
}
