//! State slots for callers that compute sequences straight on, without the bookkeeping of an engine: two for each
//! sequence, one of which a step reads while it writes the other.

use crate::batch::Batch;

/// Where the states of some sequences are. Table `i` of every batch is sequence `i`.
#[derive(Debug, Clone, Default)]
pub struct InTurn {
    /// Which of its two slots a sequence's state was last written to.
    second: Vec<bool>,
}

impl InTurn {
    /// Slots of `sequences` sequences.
    pub fn slots(sequences: usize) -> usize {
        2 * sequences
    }

    /// Has the rows of a complete batch go on from where their sequences are, and keeps where they get to. Rows that
    /// begin with position 0 begin anew.
    pub fn go_on(&mut self, batch: &mut Batch) {
        batch.forget_states();
        for table in 0..batch.tables() as u32 {
            let mut rows = batch.rows().iter().filter(|row| row.table == table).map(|row| row.position);
            let Some(first) = rows.next() else { continue };
            let last = rows.next_back().unwrap_or(first);
            if self.second.len() <= table as usize {
                self.second.resize(table as usize + 1, false);
            }
            let second = &mut self.second[table as usize];
            if first > 0 {
                batch.read_state(table, 2 * table + u32::from(*second));
            }
            *second = !*second;
            batch.save_state(table, last, 2 * table + u32::from(*second));
        }
    }
}
