//! Which op gave a NaN: asked once logits hold one, or a device found no token to choose.

use gleed_model::groups::NO_PAGE;
use gleed_model::numbers::find_nan;
use gleed_model::{Row, StepError};

use crate::held::HeldPages;
use crate::slots::Slot;
use crate::{Engine, Error, Sequence};

impl Engine {
    /// Computes a sequence again, from its first token to a position whose logits are NaN, and names the op
    /// that first gave one. The row of that position may have it from a token long before, through the keys and
    /// values. A row's result depends on that row alone, so what others hold of the same pages stays as it
    /// is.
    pub(crate) fn source_of_nan(
        &mut self,
        sequence: &Sequence,
        position: usize,
    ) -> Result<StepError, StepError> {
        let found = self.search_for_nan(sequence, position)?;
        let unknown = || StepError::NotANumber { op: "the program".into(), position: position as u32 };
        Ok(found.unwrap_or_else(unknown))
    }

    /// Why a device chose no token after the first pending one.
    pub(crate) fn why_no_token(&mut self, sequence: &Sequence) -> Error {
        match self.search_for_nan(sequence, sequence.computed()) {
            Ok(found) => found.map_or(Error::NoCandidate, Error::Step),
            Err(error) => error.into(),
        }
    }

    /// The first op that gives a NaN when the tokens up to a position are computed again.
    fn search_for_nan(&mut self, sequence: &Sequence, last: usize) -> Result<Option<StepError>, StepError> {
        let (rows, wanted) = (self.max_rows().max(1), last);
        // A row that sees later ones needs them all.
        let whole = self.executor.program().needs_whole_sequences();
        let last = if whole { sequence.tokens().len() - 1 } else { last };
        // Recurrent layers go on from one slot to the other; without them there is no telling.
        let slots: Option<Vec<Slot>> =
            self.slots.as_ref().map_or(Some(vec![]), |pool| (0..2).map(|_| pool.take()).collect());
        let Some(slots) = slots else { return Ok(None) };
        // Pages that windows have left are computed again in others, if there are enough.
        let mut spares: Vec<HeldPages> = self.pools.iter().map(|_| HeldPages::default()).collect();
        for start in (0..=last).step_by(rows) {
            let own = |group: usize| sequence.group_pages(group);
            for (group, (spare, pool)) in spares.iter_mut().zip(&self.pools).enumerate() {
                if own(group).contains(&NO_PAGE) {
                    spare.keep_last(start);
                    if spare.reserve(pool, start, rows.min(last + 1 - start)).is_err() {
                        return Ok(None);
                    }
                }
            }
            self.batch.clear();
            let tables = spares.iter().enumerate().map(|(group, spare)| match spare.table() {
                [] => own(group),
                pages => pages,
            });
            let table = self.batch.add_tables(tables);
            sequence.adapters().tell(&mut self.batch, table);
            for (position, &token) in (start..=last).zip(&sequence.tokens()[start..]).take(rows) {
                let wants_logits = position == wanted;
                self.batch.push(Row { table, position: position as u32, token, wants_logits });
            }
            if let [first, second] = &slots[..] {
                let turn = [first.number(), second.number()];
                if start > 0 {
                    self.batch.read_state(table, turn[start / rows % 2]);
                }
                let end = last.min(start + rows - 1);
                self.batch.save_state(table, end as u32, turn[(start / rows + 1) % 2]);
            }
            if let Some(found) = find_nan(&mut *self.executor, &self.batch)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
