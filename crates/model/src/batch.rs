//! The rows of one step, of any sequences, with their KV pages and states, and what must hold of them.
//!
//! There is no prefill and no decode. A prompt is many rows of one sequence, decoding is one row each of many. The
//! result of a row depends on that row (its token, its position and what its sequence holds before it) and on nothing
//! else in the batch.

use std::ops::Range;

use crate::arithmetic::PAGE;
use crate::executor::StepError;
use crate::groups::PageGroup;
use crate::program::Program;

/// One token to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Which page table of the batch belongs to the row's sequence.
    pub table: u32,
    /// The token's position in its sequence; its keys and values are written there.
    pub position: u32,
    /// The token.
    pub token: u32,
    /// Whether the caller will read the logits after this token.
    pub wants_logits: bool,
}

/// The rows of one step and the KV pages of their sequences. Reused from step to step.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    rows: Vec<Row>,
    pages: Vec<u32>,
    /// Where each list of pages ends in `pages`.
    list_ends: Vec<usize>,
    /// Where the lists of each table end in `list_ends`: one for each page group, or one for all of them.
    table_ends: Vec<usize>,
    /// The position that the next row of each table may have at least.
    next_positions: Vec<u32>,
    /// The first row that does not come after the one before it in its sequence.
    out_of_order: Option<usize>,
    /// The first row that does not come right after the one before it in its sequence.
    gap: Option<usize>,
    /// What the rows of each table find in recurrent layers.
    befores: Vec<Before>,
    saves: Vec<Save>,
    /// What tables say of adapters, see [`Batch::adapt`].
    adapted: Vec<Adapted>,
    adapter_scales: Vec<f32>,
    inputs: Vec<f32>,
}

/// What a table says of adapters.
#[derive(Debug, Clone)]
struct Adapted {
    table: u32,
    /// Where its scales are in the batch.
    scales: Range<usize>,
}

/// What a table's rows find in recurrent layers.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    /// The position of its first row.
    first: Option<u32>,
    /// The slot that holds the state after the position before it.
    slot: Option<u32>,
}

/// A state to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Save {
    /// Whose.
    pub table: u32,
    /// After which of the table's rows.
    pub position: u32,
    /// Where.
    pub slot: u32,
}

impl Batch {
    /// Forgets all rows and tables, keeping the memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.pages.clear();
        self.list_ends.clear();
        self.table_ends.clear();
        self.next_positions.clear();
        self.out_of_order = None;
        self.gap = None;
        self.befores.clear();
        self.saves.clear();
        self.adapted.clear();
        self.adapter_scales.clear();
        self.inputs.clear();
    }

    /// Takes over the rows and tables of another batch, and no inputs. Of each table only some page groups are taken.
    pub fn copy_rows(&mut self, other: &Batch, groups: &[usize]) {
        self.clear();
        self.rows.extend_from_slice(&other.rows);
        for table in 0..other.tables() as u32 {
            self.add_lists(groups.iter().map(|group| other.pages(table, *group)));
        }
        self.next_positions.extend_from_slice(&other.next_positions);
        self.out_of_order = other.out_of_order;
        self.gap = other.gap;
        self.befores.extend_from_slice(&other.befores);
        self.saves.extend_from_slice(&other.saves);
        self.adapted.extend_from_slice(&other.adapted);
        self.adapter_scales.extend_from_slice(&other.adapter_scales);
    }

    /// Adds a sequence: page `i` of the table holds positions `i * PAGE ..`, in all page groups. Returns the table's
    /// number.
    pub fn add_table(&mut self, pages: &[u32]) -> u32 {
        self.add_tables([pages])
    }

    /// Adds a sequence with a list of pages for each [page group](PageGroup). Those that no row of the batch sees can be
    /// missing: [`NO_PAGE`](crate::groups::NO_PAGE). Returns the table's number.
    pub fn add_tables<'a>(&mut self, lists: impl IntoIterator<Item = &'a [u32]>) -> u32 {
        self.add_lists(lists);
        self.next_positions.push(0);
        self.befores.push(Before::default());
        self.table_ends.len() as u32 - 1
    }

    /// Adds a sequence with the pages and the adapters of a table of another batch. Returns the table's number.
    pub fn copy_table(&mut self, other: &Batch, table: u32) -> u32 {
        let lists = other.lists(table);
        let copy = self.add_tables(lists.map(|list| other.list(list)));
        if let Some(scales) = other.scales(table) {
            self.adapt(copy, scales);
        }
        copy
    }

    /// Says how much of each adapter of the program the rows of a table take; 0 is nothing. Those of a table of which
    /// nothing is said take each at its own scale, [`AdapterInfo::scale`](crate::program::AdapterInfo::scale).
    pub fn adapt(&mut self, table: u32, scales: &[f32]) {
        let first = self.adapter_scales.len();
        self.adapter_scales.extend_from_slice(scales);
        self.adapted.push(Adapted { table, scales: first..first + scales.len() });
    }

    /// What was said last of a table's adapters.
    fn scales(&self, table: u32) -> Option<&[f32]> {
        let adapted = self.adapted.iter().rfind(|adapted| adapted.table == table)?;
        Some(&self.adapter_scales[adapted.scales.clone()])
    }

    /// How much of an adapter the rows of a table take.
    pub fn adapter_scale(&self, program: &Program, table: u32, adapter: usize) -> f32 {
        let own = || program.adapters.get(adapter).map_or(0.0, |adapter| adapter.scale);
        self.scales(table).map_or_else(own, |scales| scales.get(adapter).copied().unwrap_or(0.0))
    }

    fn add_lists<'a>(&mut self, lists: impl IntoIterator<Item = &'a [u32]>) {
        for pages in lists {
            self.pages.extend_from_slice(pages);
            self.list_ends.push(self.pages.len());
        }
        self.table_ends.push(self.list_ends.len());
    }

    /// Says in which slot the rows of a table find the state of recurrent layers: that after the position before the
    /// first of them. A table whose rows begin with position 0 finds none.
    pub fn read_state(&mut self, table: u32, slot: u32) {
        if let Some(before) = self.befores.get_mut(table as usize) {
            before.slot = Some(slot);
        }
    }

    /// Has the state of recurrent layers kept as it is after one of the table's rows, in a slot that no table reads.
    pub fn save_state(&mut self, table: u32, position: u32, slot: u32) {
        self.saves.push(Save { table, position, slot });
    }

    /// The slot with the state before a table's first row.
    pub fn state(&self, table: u32) -> Option<u32> {
        self.befores.get(table as usize)?.slot
    }

    /// The states to keep.
    pub fn saves(&self) -> &[Save] {
        &self.saves
    }

    /// Forgets which states are read and which are kept.
    pub fn forget_states(&mut self) {
        self.befores.iter_mut().for_each(|before| before.slot = None);
        self.saves.clear();
    }

    /// How many tables there are.
    pub fn tables(&self) -> usize {
        self.table_ends.len()
    }

    /// Adds a row. Rows of one sequence must come in ascending positions; a step of others is refused.
    pub fn push(&mut self, row: Row) {
        if let Some(next) = self.next_positions.get_mut(row.table as usize) {
            if row.position < *next {
                self.out_of_order.get_or_insert(self.rows.len());
            }
            let first = &mut self.befores[row.table as usize].first;
            if first.is_some() && row.position != *next {
                self.gap.get_or_insert(self.rows.len());
            }
            first.get_or_insert(row.position);
            *next = row.position.saturating_add(1);
        }
        self.rows.push(row);
    }

    /// Where the rows of a table end: behind the position of the last one.
    pub fn length(&self, table: u32) -> usize {
        self.next_positions.get(table as usize).map_or(0, |next| *next as usize)
    }

    /// All rows in order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The pages that a table has in a page group, empty when there is no such table or group.
    pub fn pages(&self, table: u32, group: usize) -> &[u32] {
        let lists = self.lists(table);
        let list = if lists.len() == 1 { lists.start } else { lists.start + group };
        if lists.contains(&list) { self.list(list) } else { &[] }
    }

    /// The lists of a table.
    fn lists(&self, table: u32) -> Range<usize> {
        let table = table as usize;
        let end = self.table_ends.get(table).copied().unwrap_or(0);
        let start = if table == 0 || end == 0 { 0 } else { self.table_ends[table - 1] };
        start..end
    }

    fn list(&self, list: usize) -> &[u32] {
        let start = if list == 0 { 0 } else { self.list_ends[list - 1] };
        &self.pages[start..self.list_ends[list]]
    }

    /// What the rows bring to a program that begins in the middle of a model: for each of
    /// [`Program::inputs`], one after the other, its columns of all rows, row by row.
    pub fn inputs(&self) -> &[f32] {
        &self.inputs
    }

    /// The same, to be filled.
    pub fn inputs_mut(&mut self) -> &mut Vec<f32> {
        &mut self.inputs
    }

    /// The indices of the rows that want logits, in order.
    pub fn wanted(&self) -> impl Iterator<Item = usize> + '_ {
        self.rows.iter().enumerate().filter(|(_, r)| r.wants_logits).map(|(i, _)| i)
    }
}

/// Checks a batch against a program's limits; every executor calls this first.
pub fn check(
    batch: &Batch,
    program: &Program,
    max_rows: usize,
    groups: &[PageGroup],
) -> Result<(), StepError> {
    if batch.rows().len() > max_rows {
        return Err(StepError::TooManyRows { rows: batch.rows().len(), limit: max_rows });
    }
    let columns: usize = program.inputs().iter().map(|view| view.width).sum();
    let (found, expected) = (batch.inputs().len(), batch.rows().len() * columns);
    if found != expected {
        return Err(StepError::Inputs { found, expected });
    }
    let known = program.adapters.len();
    let odd = |adapted: &&Adapted| {
        adapted.scales.len() != known
            || batch.adapter_scales[adapted.scales.clone()].iter().any(|scale| !scale.is_finite())
    };
    if let Some(Adapted { table, scales }) = batch.adapted.iter().find(odd) {
        return Err(StepError::Adapters { table: *table as usize, found: scales.len(), expected: known });
    }
    if let Some(row) = batch.out_of_order {
        return Err(StepError::NotAscending { row, position: batch.rows()[row].position });
    }
    for (index, row) in batch.rows().iter().enumerate() {
        if row.token as usize >= program.vocabulary {
            return Err(StepError::UnknownToken { token: row.token, vocabulary: program.vocabulary });
        }
        if row.position as usize >= program.context {
            return Err(StepError::PastContext { position: row.position, context: program.context });
        }
        if !groups.iter().enumerate().all(|(number, group)| has_pages(batch, row, number, group)) {
            return Err(StepError::NoPage { row: index, position: row.position });
        }
    }
    if program.needs_whole_sequences() { check_whole(batch) } else { Ok(()) }
}

/// Whether a row's table has all pages of a group from the first that its first row sees to the row's own.
fn has_pages(batch: &Batch, row: &Row, number: usize, group: &PageGroup) -> bool {
    let pages = batch.pages(row.table, number);
    let first_row = batch.befores.get(row.table as usize).and_then(|before| before.first);
    let first = group.first_page(first_row.unwrap_or(row.position) as usize);
    let last = row.position as usize / PAGE;
    pages.get(first..=last).is_some_and(|pages| pages.iter().all(|page| (*page as usize) < group.pages))
}

/// Checks that the rows of each sequence follow each other from its first position on.
fn check_whole(batch: &Batch) -> Result<(), StepError> {
    let mut before: Option<&Row> = None;
    for (index, row) in batch.rows().iter().enumerate() {
        let expected = before.filter(|before| before.table == row.table).map_or(0, |row| row.position + 1);
        if row.position != expected {
            return Err(StepError::NotWhole { row: index, position: row.position });
        }
        before = Some(row);
    }
    Ok(())
}

/// Checks what a batch says of the states of recurrent layers; every executor that has any calls this after [`check`].
/// A step writes no slot that it reads, so that one that fails can be tried again.
pub fn check_states(batch: &Batch, program: &Program, slot_count: usize) -> Result<(), StepError> {
    if program.states.is_empty() {
        return Ok(());
    }
    if let Some(row) = batch.gap {
        return Err(StepError::Gap { row, position: batch.rows()[row].position });
    }
    let exists = |slot: u32| (slot as usize) < slot_count;
    for (table, before) in batch.befores.iter().enumerate() {
        let Some(position) = before.first else { continue };
        if (position > 0) != before.slot.is_some() {
            return Err(StepError::State { table, position, found: before.slot.is_some() });
        }
        if let Some(slot) = before.slot.filter(|slot| !exists(*slot)) {
            return Err(StepError::Slot { slot, why: "does not exist" });
        }
    }
    for (index, &Save { table, position, slot }) in batch.saves.iter().enumerate() {
        let (before, next) = (batch.befores.get(table as usize), batch.next_positions.get(table as usize));
        let first = before.and_then(|before| before.first);
        let wrong = if !exists(slot) {
            Some("does not exist")
        } else if batch.befores.iter().any(|before| before.slot == Some(slot)) {
            Some("is read and written in one step")
        } else if batch.saves[..index].iter().any(|other| other.slot == slot) {
            Some("is written twice in one step")
        } else if first.is_none_or(|first| position < first) || next.is_none_or(|next| position >= *next) {
            Some("is to be written after a row that the batch does not have")
        } else {
            None
        };
        if let Some(why) = wrong {
            return Err(StepError::Slot { slot, why });
        }
    }
    Ok(())
}
