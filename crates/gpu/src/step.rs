//! What the device is told about a step: its rows, their pages and angles, and how attention is cut, all in
//! one upload of words.
//!
//! The words are two headers that say where everything begins, one for all rows and one for the wanted ones, then what
//! they name: rows with the angles of their rotations, pages of their sequences, items of attention and merges of its
//! spans; all but the pages once for each. Items and merges are there for each [`Outlook`], as layers that see
//! a window have less to do. The kernels' `step.wgsl` reads the same. What a single row waits for is at fixed
//! places, so that kernels need not look up where it is.
//!
//! Kernels bind the words from the header of their rows on, and all places are counted from there: so a kernel is the same
//! for both.

mod pieces;

use gleed_model::Batch;
use gleed_model::arithmetic::PAGE;
use gleed_model::groups::PageGroups;
use gleed_model::program::Program;

use pieces::PARTIALS;
pub(crate) use pieces::{Items, NEAR_ROWS, Outlook, Pieces, is_wide};

/// Positions of a span of attention: those of a page.
pub(crate) const SPAN: usize = PAGE;

/// Which word of a header says where something begins.
pub(crate) mod header {
    use super::{ITEM_WORDS, Items, NEAR_ROWS};

    /// Rows: token, position, where its pages begin, the page of its position, which row of the batch it is,
    /// where the rows of its sequence end, the pages and the page in every other page group, how much of each
    /// adapter it takes, then its angles.
    pub const ROWS: usize = 0;
    /// Sequences of recurrent layers, which see all rows: see `sequence.wgsl`.
    pub const STATES: usize = 1;
    /// Of each outlook where its items and merges begin, and the items of few rows themselves.
    const OUTLOOKS: usize = 2;
    const OUTLOOK_WORDS: usize = 6 + NEAR_ROWS * ITEM_WORDS;
    /// A header has this many words or a multiple: kernels bind what begins there.
    const ALIGNMENT: usize = 64;

    /// Items of attention, by their [`Items`]. Those of one row: row, where what it sees ends, where its pages
    /// begin, first span, end of spans, nothing. Those of one span of a row: row, where what it sees ends, the
    /// span's page, span, its end, where its partial result is. Those of several rows: first row, rows, first
    /// span, end of spans, partial results, distance of the next row's (0 for none).
    pub const fn items(outlook: usize, kind: Items) -> usize {
        OUTLOOKS + outlook * OUTLOOK_WORDS + kind as usize
    }

    /// Merges of spans, three words each: row, partial results, spans.
    pub const fn merges(outlook: usize) -> usize {
        OUTLOOKS + outlook * OUTLOOK_WORDS + 5
    }

    /// Where the items of few rows are.
    pub const fn near(outlook: usize) -> usize {
        OUTLOOKS + outlook * OUTLOOK_WORDS + 6
    }

    /// Words of a header.
    pub const fn words(outlooks: usize) -> usize {
        (OUTLOOKS + outlooks * OUTLOOK_WORDS).next_multiple_of(ALIGNMENT)
    }
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

/// What the lists of a step may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacity {
    max_rows: usize,
    /// Pages of a sequence as long as the context, in one group.
    pages: usize,
    /// Page groups.
    groups: usize,
    /// Outlooks.
    outlooks: usize,
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
    /// Of a program with `outlooks` outlooks.
    pub fn new(program: &Program, outlooks: usize, max_rows: usize, item_rows: usize) -> Capacity {
        let spans = program.context.div_ceil(SPAN);
        let partials = PARTIALS.min(max_rows.saturating_mul(spans)).max(spans);
        let angles = program.ropes.iter().map(|rope| 2 * rope.frequencies.len()).sum();
        let pages = program.context.div_ceil(PAGE);
        let groups = PageGroups::of(program).windows().len();
        let adapters = program.adapters.len();
        Capacity { max_rows, pages, groups, outlooks, adapters, angles, item_rows, partials, states: 0 }
    }

    /// The same with room for the states that a step reads and writes, at most `slots` of them.
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

    /// Words of each of both headers, which all rows follow.
    pub fn header_words(&self) -> usize {
        header::words(self.outlooks)
    }

    /// Words of the largest step.
    pub fn words(&self) -> usize {
        let items = self.max_rows + self.partials;
        let of_outlooks = self.outlooks * (self.max_rows * MERGE_WORDS + items * ITEM_WORDS);
        let lists = 2 * (self.max_rows * self.row_words() + of_outlooks);
        2 * self.header_words() + lists + self.states + self.max_rows.saturating_mul(self.groups * self.pages)
    }
}

/// How many there are of everything, in one list of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts<'a> {
    pub rows: usize,
    /// How attention is cut, for each outlook.
    pub attention: &'a [Pieces],
    /// Sequences, where there are recurrent layers.
    pub sequences: usize,
}

impl Counts<'_> {
    /// The pieces of attention of an outlook; none where no layer attends by it.
    pub fn pieces(&self, outlook: usize) -> Pieces {
        self.attention.get(outlook).copied().unwrap_or_default()
    }
}

/// The rows of one sequence.
#[derive(Debug, Clone, Copy, Default)]
struct Table {
    /// The last position of them.
    last: u32,
    /// Where the sequence's pages are in the step, those of one group after the other; none yet.
    pages: Option<usize>,
    /// Where the sequence ends.
    length: usize,
}

impl Table {
    fn pages_of(&self, group: usize) -> usize {
        self.pages.unwrap_or(0) + group * (self.last as usize / PAGE + 1)
    }
}

/// A step, in words. Reused from step to step.
#[derive(Debug)]
pub(crate) struct Step {
    capacity: Capacity,
    outlooks: Vec<Outlook>,
    pub words: Vec<u32>,
    /// Of all rows, and of the wanted ones, how many there are, and the pieces of attention of each outlook.
    pub rows: [usize; 2],
    pieces: [Vec<Pieces>; 2],
    /// Sequences of recurrent layers.
    sequences: usize,
    /// Of each table of the batch.
    tables: Vec<Table>,
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Step {
    /// With room for what a capacity says, which was made for as many outlooks.
    pub fn new(capacity: Capacity, outlooks: Vec<Outlook>) -> Step {
        Step {
            capacity,
            outlooks,
            words: vec![],
            rows: [0; 2],
            pieces: [vec![], vec![]],
            sequences: 0,
            tables: vec![],
            cosines: vec![],
            sines: vec![],
        }
    }

    /// Where the header of all rows is, or that of the wanted ones: what places are counted from.
    fn origin(&self, list: usize) -> usize {
        list * self.capacity.header_words()
    }

    /// Has a word of a header say that what comes next begins here.
    fn name_next(&mut self, list: usize, word: usize) {
        let origin = self.origin(list);
        self.words[origin + word] = (self.words.len() - origin) as u32;
    }

    /// How many there are of everything, in the list of all rows or of the wanted ones.
    pub fn counts(&self, list: usize) -> Counts<'_> {
        // Recurrent layers see all rows.
        let sequences = if list == 0 { self.sequences } else { 0 };
        Counts { rows: self.rows[list], attention: &self.pieces[list], sequences }
    }

    /// Takes in a batch that has been checked; `chained` when its tokens are those that the device chose.
    pub fn fill(&mut self, program: &Program, batch: &Batch, chained: bool) {
        let rows = batch.rows();
        let wanted: Vec<usize> = batch.wanted().collect();
        self.words.clear();
        let first_row = 2 * self.capacity.header_words();
        self.words.resize(first_row, 0);
        self.name_next(0, header::ROWS);
        self.add_rows(program, batch, chained);
        self.name_next(1, header::ROWS);
        let row_words = self.capacity.row_words();
        for index in &wanted {
            let at = first_row + index * row_words;
            self.words.extend_from_within(at..at + row_words);
        }
        self.add_pages(batch);
        for (list, count) in [(0, rows.len()), (1, wanted.len())] {
            let origin = self.origin(list);
            let first = origin + self.words[origin + header::ROWS] as usize;
            for row in 0..count {
                let record = first + row * row_words;
                let table = self.tables[rows[self.words[record + 4] as usize].table as usize];
                let own = self.words[record + 1] as usize / PAGE;
                for group in 0..self.capacity.groups {
                    let (pages, at) = (table.pages_of(group), record + pages_word(group));
                    self.words[at] = (pages - origin) as u32;
                    self.words[at + 1] = self.words[pages + own];
                }
            }
        }
        self.rows = [rows.len(), wanted.len()];
        self.pieces.iter_mut().for_each(Vec::clear);
        for outlook in 0..self.outlooks.len() {
            let all = self.add_attention(outlook, 0, rows.len(), |index| &rows[index]);
            self.pieces[0].push(all);
            let pieces = self.add_attention(outlook, 1, wanted.len(), |index| &rows[wanted[index]]);
            self.pieces[1].push(pieces);
        }
        self.sequences = if program.states.is_empty() { 0 } else { self.add_states(batch) };
    }

    /// The sequences of a batch, their rows, and the slots that are written after these. Returns how many there are.
    fn add_states(&mut self, batch: &Batch) -> usize {
        let mut rows: Vec<(u32, usize)> =
            batch.rows().iter().enumerate().map(|(index, row)| (row.table, index)).collect();
        rows.sort_unstable();
        let sequences: Vec<&[(u32, usize)]> = rows.chunk_by(|a, b| a.0 == b.0).collect();
        let first = self.words.len();
        self.name_next(0, header::STATES);
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
                self.tables.resize(table + 1, Table::default());
            }
            let Table { last, length, .. } = &mut self.tables[table];
            (*last, *length) = ((*last).max(row.position), batch.length(row.table));
        }
        for (index, table) in self.tables.iter_mut().enumerate().filter(|(_, table)| table.length > 0) {
            table.pages = Some(self.words.len());
            let count = table.last as usize / PAGE + 1;
            for group in 0..self.capacity.groups {
                self.words.extend_from_slice(&batch.pages(index as u32, group)[..count]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
