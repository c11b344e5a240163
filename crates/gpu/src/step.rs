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
use gleed_model::groups::PageGroups;
use gleed_model::program::Program;
use gleed_model::{Batch, Row};

/// Positions of a span of attention: those of a page.
pub(crate) const SPAN: usize = PAGE;

/// Which word of the header says where a list of all rows begins; that of the wanted rows is the next.
pub(crate) mod header {
    use super::{ITEM_WORDS, NEAR_ROWS};

    /// Rows: token, position, where its pages begin, the page of its position, which row of the batch it is,
    /// where the rows of its sequence end, the pages and the page in every other page group, how much of each
    /// adapter it takes, then its angles.
    pub const ROWS: usize = 0;
    /// Items of attention, by their [`Items`](super::Items). Those of one row: row, positions that it sees,
    /// where its pages begin, first span, end of spans, nothing. Those of one span of a row: row, positions
    /// that it sees, the span's page, span, its end, where its partial result is. Those of several rows:
    /// first row, rows, first span, end of spans, partial results, distance of the next row's (0 for none).
    pub const ITEMS: usize = 2;
    /// Merges of spans, three words each: row, partial results, spans.
    pub const MERGES: usize = 12;
    /// Sequences of recurrent layers, which see all rows: see `sequence.wgsl`.
    pub const STATES: usize = 14;
    /// Here are the items of few rows themselves, for each of the two lists.
    pub const NEAR: usize = 15;
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

/// Words of a row before its angles, where there is one page group, and of each group more.
const ROW_WORDS: usize = 6;
const GROUP_WORDS: usize = 2;

/// Which word of a row says where its pages begin in a page group; the page of its position follows.
pub(crate) fn pages_word(group: usize) -> usize {
    if group == 0 { 2 } else { ROW_WORDS + GROUP_WORDS * (group - 1) }
}
const ITEM_WORDS: usize = 6;
const MERGE_WORDS: usize = 3;

/// Words of a sequence of recurrent layers, and of each of its rows.
const STATE_WORDS: usize = 3;

/// Instead of a slot: the state before the first row.
const NO_SLOT: u32 = u32::MAX;

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

/// Rows of a step up to which all are computed one by one, and spans that each of them may have then: more can begin at
/// once, and what they would share is little.
const SINGLE_ROWS: usize = 192;
const SINGLE_SPANS: usize = 3;

/// Partial results that there is room for, where a context can have that many spans.
const PARTIALS: usize = 2048;

/// What the lists of a step may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacity {
    max_rows: usize,
    /// Pages of a sequence as long as the context, in one group.
    pages: usize,
    /// Page groups.
    groups: usize,
    /// Adapters that rows may take.
    adapters: usize,
    /// Cosines and sines of a row.
    angles: usize,
    /// Neighbouring rows of a sequence that one item may have.
    item_rows: usize,
    /// Spans of rows whose partial results there is room for.
    pub partials: usize,
    /// Words for the sequences of recurrent layers.
    states: usize,
}

impl Capacity {
    pub fn new(program: &Program, max_rows: usize, item_rows: usize) -> Capacity {
        let spans = program.context.div_ceil(SPAN);
        let partials = PARTIALS.min(max_rows.saturating_mul(spans)).max(spans);
        let angles = program.ropes.iter().map(|rope| 2 * rope.frequencies.len()).sum();
        let pages = program.context.div_ceil(PAGE);
        let groups = PageGroups::of(program).windows().len();
        let adapters = program.adapters.len();
        Capacity { max_rows, pages, groups, adapters, angles, item_rows, partials, states: 0 }
    }

    /// The same with room for the states that a step reads and writes, which are at most so many.
    pub fn with_slots(self, slots: usize) -> Capacity {
        Capacity { states: 2 * STATE_WORDS * self.max_rows + slots, ..self }
    }

    /// Where a row's scales of adapters begin after its fixed words.
    pub fn first_scale(&self) -> usize {
        GROUP_WORDS * (self.groups - 1)
    }

    /// Where its angles begin.
    pub fn first_angle(&self) -> usize {
        self.first_scale() + self.adapters
    }

    /// Words of one row.
    pub fn row_words(&self) -> usize {
        ROW_WORDS + self.first_angle() + self.angles
    }

    /// Words of the largest step.
    pub fn words(&self) -> usize {
        let items = self.max_rows + self.partials;
        let lists = 2 * (self.max_rows * (self.row_words() + MERGE_WORDS) + items * ITEM_WORDS);
        header::WORDS + lists + self.states + self.max_rows.saturating_mul(self.groups * self.pages)
    }
}

/// How many there are of everything, in one list of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub rows: usize,
    /// Items of attention, by their [`Items`].
    pub items: [usize; 5],
    pub merges: usize,
    /// Sequences, where there are recurrent layers.
    pub sequences: usize,
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
                let (last, pages) = self.tables[table];
                let (count, own) = (last as usize / PAGE + 1, self.words[record + 1] as usize / PAGE);
                for group in 0..self.capacity.groups {
                    let (pages, at) = (pages + group * count, record + pages_word(group));
                    self.words[at] = pages as u32;
                    self.words[at + 1] = self.words[pages + own];
                }
            }
        }
        self.counts[0] = self.add_attention(0, rows.len(), |index| &rows[index]);
        self.counts[1] = self.add_attention(1, wanted.len(), |index| &rows[wanted[index]]);
        if !program.states.is_empty() {
            self.counts[0].sequences = self.add_states(batch);
        }
    }

    /// The sequences of a batch, their rows, and the slots that are written after these. Returns how many there are.
    fn add_states(&mut self, batch: &Batch) -> usize {
        let mut rows: Vec<(u32, usize)> =
            batch.rows().iter().enumerate().map(|(index, row)| (row.table, index)).collect();
        rows.sort_unstable();
        let sequences: Vec<&[(u32, usize)]> = rows.chunk_by(|a, b| a.0 == b.0).collect();
        let first = self.words.len();
        self.words[header::STATES] = first as u32;
        let (mut record, mut slots) = (first + STATE_WORDS * sequences.len(), vec![]);
        for rows in &sequences {
            let before = batch.state(rows[0].0).unwrap_or(NO_SLOT);
            self.words.extend([before, record as u32, rows.len() as u32]);
            record += STATE_WORDS * rows.len();
        }
        for &(table, index) in sequences.iter().copied().flatten() {
            let position = batch.rows()[index].position;
            let saves = batch.saves().iter().filter(|save| save.table == table && save.position == position);
            let at = record + slots.len();
            slots.extend(saves.map(|save| save.slot));
            let count = record + slots.len() - at;
            self.words.extend([index, at, count].map(|word| word as u32));
        }
        self.words.extend(slots);
        sequences.len()
    }

    /// The records of all rows, but for what is known of their pages later, each with the cosines and sines
    /// of every rotation.
    fn add_rows(&mut self, program: &Program, batch: &Batch, chained: bool) {
        for (index, row) in batch.rows().iter().enumerate() {
            let token = if chained { CHAINED } else { row.token };
            self.words.extend([token, row.position, 0, 0, index as u32, batch.length(row.table) as u32]);
            self.words.resize(self.words.len() + self.capacity.first_scale(), 0);
            let scale = |adapter| batch.adapter_scale(program, row.table, adapter).to_bits();
            self.words.extend((0..self.capacity.adapters).map(scale));
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

    /// The pages of every table that has rows, up to its last position, one group after the other.
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
                for group in 0..self.capacity.groups {
                    self.words.extend_from_slice(&batch.pages(table as u32, group)[..count]);
                }
            }
        }
    }

    /// Items and merges of the attention of a list of rows.
    fn add_attention<'a>(&mut self, list: usize, count: usize, row: impl Fn(usize) -> &'a Row) -> Counts {
        let spans_of = |index: usize| row(index).position as usize / SPAN + 1;
        let shallow = (0..count).all(|index| spans_of(index) <= SINGLE_SPANS);
        let (singles, mut tiles) = if shallow && count <= SINGLE_ROWS {
            ((0..count).collect(), Vec::new())
        } else {
            cut(count, self.capacity.item_rows, &row)
        };
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
mod tests;
