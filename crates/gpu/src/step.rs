//! What the device is told about a step: its rows, their pages and angles, and how attention is cut, all in
//! one upload of words.
//!
//! The words are a header that says where each list begins, then the lists: rows, pages of their sequences,
//! angles of their rotations, items of attention and merges of its spans; rows, items and merges once for
//! all rows and once for the wanted ones. The kernels' `step.wgsl` reads the same.

use std::ops::Range;

use gleed_model::arithmetic::{PAGE, SPAN};
use gleed_model::program::Program;
use gleed_model::{Batch, Row};

/// Which word of the header says where a list of all rows begins; that of the wanted rows is the next.
pub(crate) mod header {
    /// Rows of five words: token, position, where its pages begin, where its angles begin, which row of the
    /// batch it is.
    pub const ROWS: usize = 0;
    /// Items of attention, six words each: first row, rows, first span, end of spans, partial results,
    /// distance of the next row's (0 for none).
    pub const ITEMS: usize = 2;
    /// Merges of spans, three words each: row, partial results, spans.
    pub const MERGES: usize = 4;
    /// How many words there are.
    pub const WORDS: usize = 8;
}

/// Instead of a token: the one that the device chose last for this row.
pub(crate) const CHAINED: u32 = u32::MAX;

const ROW_WORDS: usize = 5;
const ITEM_WORDS: usize = 6;
const MERGE_WORDS: usize = 3;

/// Items of attention from which on spans are not split any more: there is work enough.
const ENOUGH_ITEMS: usize = 64;

/// Partial results that there is room for, where a context can have that many spans.
const PARTIALS: usize = 1024;

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
        let partials = PARTIALS.min(max_rows.saturating_mul(spans)).max(item_rows * spans);
        let angles = program.ropes.iter().map(|rope| 2 * rope.frequencies.len()).sum();
        Capacity { max_rows, pages: program.context.div_ceil(PAGE), angles, item_rows, partials }
    }

    /// Words of the largest step.
    pub fn words(&self) -> usize {
        let items = self.max_rows + self.partials;
        let lists = 2 * (self.max_rows * (ROW_WORDS + MERGE_WORDS) + items * ITEM_WORDS);
        header::WORDS + lists + self.max_rows.saturating_mul(self.pages + self.angles)
    }
}

/// How many there are of everything, in one list of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub rows: usize,
    pub items: usize,
    pub merges: usize,
    /// Whether an item has more than one row.
    pub several_rows: bool,
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
        self.words.clear();
        self.words.resize(header::WORDS, 0);
        self.add_pages(batch);
        let angles = self.add_angles(program, batch);
        let rows = batch.rows();
        let all = |words: &mut Vec<u32>, tables: &[(u32, usize)], index: usize| {
            let row = &rows[index];
            let angles = angles + index * self.capacity.angles;
            let pages = tables[row.table as usize].1;
            let token = if chained { CHAINED } else { row.token };
            words.extend([token, row.position, pages as u32, angles as u32, index as u32]);
        };
        self.words[header::ROWS] = self.words.len() as u32;
        (0..rows.len()).for_each(|index| all(&mut self.words, &self.tables, index));
        self.words[header::ROWS + 1] = self.words.len() as u32;
        batch.wanted().for_each(|index| all(&mut self.words, &self.tables, index));
        self.counts[0] = self.add_attention(0, rows.len(), |index| &rows[index]);
        // The wanted rows are read back from their records: the batch gives them only in order.
        let (first, count) = (self.words[header::ROWS + 1] as usize, batch.wanted().count());
        let sources: Vec<usize> =
            (0..count).map(|i| self.words[first + i * ROW_WORDS + ROW_WORDS - 1] as usize).collect();
        self.counts[1] = self.add_attention(1, count, |index| &rows[sources[index]]);
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

    /// Cosines and sines of every rotation and row; returns where they begin.
    fn add_angles(&mut self, program: &Program, batch: &Batch) -> usize {
        let start = self.words.len();
        for row in batch.rows() {
            for rope in &program.ropes {
                let pairs = rope.frequencies.len();
                self.cosines.resize(pairs, 0.0);
                self.sines.resize(pairs, 0.0);
                rope.angles(row.position, &mut self.cosines, &mut self.sines);
                let both = self.cosines.iter().chain(&self.sines);
                self.words.extend(both.map(|angle| angle.to_bits()));
            }
        }
        start
    }

    /// Items and merges of the attention of a list of rows.
    fn add_attention<'a>(&mut self, list: usize, count: usize, row: impl Fn(usize) -> &'a Row) -> Counts {
        let groups = groups(count, self.capacity.item_rows, &row);
        let spans_of = |row: &Row| row.position as usize / SPAN + 1;
        let (mut partials, mut split) = (0, Vec::new());
        let mut counts = Counts { rows: count, ..Counts::default() };
        self.words[header::ITEMS + list] = self.words.len() as u32;
        for group in &groups {
            let spans = spans_of(row(group.end - 1));
            let needed = spans * group.len();
            counts.several_rows |= group.len() > 1;
            let mut item = |first: usize, end: usize, partial: usize, stride: usize| {
                let words = [group.start, group.len(), first, end, partial, stride];
                self.words.extend(words.map(|word| word as u32));
                counts.items += 1;
            };
            let room = partials + needed <= self.capacity.partials;
            if spans == 1 || groups.len() > ENOUGH_ITEMS || !room {
                item(0, spans, 0, 0);
                continue;
            }
            (0..spans).for_each(|span| item(span, span + 1, partials + span, spans));
            split.extend(group.clone().enumerate().map(|(i, row)| (row, partials + i * spans)));
            partials += needed;
        }
        self.words[header::MERGES + list] = self.words.len() as u32;
        counts.merges = split.len();
        for (index, partial) in split {
            self.words.extend([index, partial, spans_of(row(index))].map(|word| word as u32));
        }
        counts
    }
}

/// Runs of neighbouring rows of one sequence, at most `most` long, in ascending positions.
fn groups<'a>(count: usize, most: usize, row: impl Fn(usize) -> &'a Row) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for index in 0..count {
        let fits = |group: &Range<usize>| {
            let last = row(group.end - 1);
            group.len() < most && last.table == row(index).table && last.position < row(index).position
        };
        match groups.last_mut() {
            Some(group) if fits(group) => group.end = index + 1,
            _ => groups.push(index..index + 1),
        }
    }
    groups
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
        let all = records::<ROW_WORDS>(&step, header::ROWS, 3);
        for (index, (record, (table, position))) in all.iter().zip(rows).enumerate() {
            assert_eq!(record[..2], [position % 10, position]);
            let page = step.words[record[2] as usize + position as usize / PAGE];
            assert_eq!(page, 100 * table + position / PAGE as u32);
            let cosine = f32::from_bits(step.words[record[3] as usize]);
            assert_eq!(cosine, (f64::from(position)).cos() as f32);
            assert_eq!(record[4], index as u32);
        }
        let wanted = records::<ROW_WORDS>(&step, header::ROWS + 1, 2);
        assert_eq!(wanted, [all[1], all[2]]);
    }

    #[test]
    fn long_sequences_are_split_into_spans() {
        // Two neighbouring rows on both sides of the end of a span, and a row of another sequence.
        let step = filled(&[(0, 511), (0, 512), (1, 0)], 4);
        assert_eq!(step.counts[0], Counts { rows: 3, items: 4, merges: 2, several_rows: true });
        let items = records::<ITEM_WORDS>(&step, header::ITEMS, 4);
        assert_eq!(items, [[0, 2, 0, 1, 0, 3], [0, 2, 1, 2, 1, 3], [0, 2, 2, 3, 2, 3], [2, 1, 0, 1, 0, 0]]);
        assert_eq!(records::<MERGE_WORDS>(&step, header::MERGES, 2), [[0, 0, 2], [1, 3, 3]]);
        // Only the first row is wanted.
        assert_eq!(step.counts[1], Counts { rows: 1, items: 2, merges: 1, several_rows: false });
    }

    #[test]
    fn whatever_the_rows_every_span_is_computed_once_and_there_is_room() {
        let mut state = 1u32;
        let mut random = |end: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % end
        };
        for item_rows in [1, 2, 8] {
            for _ in 0..200 {
                let count = random(65);
                let mut rows: Vec<(u32, u32)> =
                    (0..count).map(|_| (random(4), random(CONTEXT as u32))).collect();
                rows.sort_unstable();
                rows.dedup();
                let step = filled(&rows, item_rows);
                let mut seen: Vec<Vec<u32>> = vec![vec![]; rows.len()];
                let items = records::<ITEM_WORDS>(&step, header::ITEMS, step.counts[0].items);
                for [first, count, start, end, ..] in items {
                    assert!(count as usize <= item_rows);
                    for row in first..first + count {
                        seen[row as usize].extend(start..end);
                    }
                }
                for (spans, (_, position)) in seen.iter().zip(&rows) {
                    let needed = position / SPAN as u32 + 1;
                    assert_eq!(spans[..needed as usize], (0..needed).collect::<Vec<_>>());
                }
            }
        }
    }
}
