//! Chain decoding: several greedy tokens of each sequence without waiting for the host in between. The
//! device chooses a token, and the next step embeds it.

use gleed_model::executor::check;
use gleed_model::{Batch, Row, StepError};

use super::{GpuExecutor, record_command, record_dispatch, write_count};
use crate::Result;

impl GpuExecutor {
    /// Computes the rows of a batch, chooses each row's likeliest next token (of equals the first), computes
    /// that token at the next position, and so on: `steps` tokens for each row, in the order
    /// `[step][row]`. The last tokens are chosen but not computed, as after a step; no logits are kept.
    ///
    /// Every row must want logits and be the only one of its sequence, whose pages must reach to the last
    /// position that is computed.
    pub fn decode_greedily(
        &mut self,
        batch: &Batch,
        steps: usize,
    ) -> std::result::Result<Vec<Vec<u32>>, StepError> {
        self.check_chain(batch, steps)?;
        let rows = batch.rows().len();
        if rows == 0 {
            return Ok(vec![Vec::new(); steps]);
        }
        let at_once = self.chosen_room / rows;
        let mut tokens: Vec<u32> = Vec::with_capacity(rows * steps);
        let mut later = Batch::default();
        for first in (0..steps).step_by(at_once) {
            let count = at_once.min(steps - first);
            let run = (first..first + count).try_for_each(|step| {
                advance(batch, step, &mut later);
                self.submit_link(&later, step - first, step > 0)
            });
            run.and_then(|()| self.gpu.read(&self.chosen_readable, rows * count, &mut tokens))
                .map_err(|error| StepError::Device(error.to_string()))?;
        }
        Ok(tokens.chunks(rows).map(<[u32]>::to_vec).collect())
    }

    fn check_chain(&self, batch: &Batch, steps: usize) -> std::result::Result<(), StepError> {
        let limit = self.logits_rows.min(self.options.max_rows).min(self.chosen_room);
        check(batch, &self.program, limit, self.options.pages)?;
        if steps > 0 {
            let mut last = Batch::default();
            advance(batch, steps - 1, &mut last);
            check(&last, &self.program, limit, self.options.pages)?;
        }
        let mut tables: Vec<u32> = batch.rows().iter().map(|row| row.table).collect();
        tables.sort_unstable();
        tables.dedup();
        if tables.len() < batch.rows().len() || batch.rows().iter().any(|row| !row.wants_logits) {
            let what = "decoding ahead needs one row of each sequence, which wants logits";
            return Err(StepError::Device(what.to_string()));
        }
        Ok(())
    }

    /// Submits one step and the choice of its tokens; `chained` when its own tokens are those of the step
    /// before.
    fn submit_link(&mut self, batch: &Batch, place: usize, chained: bool) -> Result<()> {
        self.begin(batch, chained);
        let rows = batch.rows().len();
        write_count(&self.gpu, &self.row_counts.logits, rows);
        let mut encoder = self.encoder();
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for node in &self.nodes {
                let counts = self.counts(node.list);
                node.commands.iter().for_each(|command| record_command(&mut pass, command, counts));
            }
            record_dispatch(&mut pass, &self.argmax, self.step.counts[0]);
        }
        let bytes = 4 * rows as u64;
        encoder.copy_buffer_to_buffer(&self.chosen, 0, &self.chosen_readable, place as u64 * bytes, bytes);
        self.gpu.queue.submit([encoder.finish()]);
        self.gpu.check()
    }
}

/// The same rows, so many positions later.
fn advance(batch: &Batch, steps: usize, later: &mut Batch) {
    later.clear();
    let tables = batch.rows().iter().map(|row| row.table + 1).max().unwrap_or(0);
    (0..tables).for_each(|table| _ = later.add_table(batch.pages(table)));
    for row in batch.rows() {
        let position = row.position.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
        later.push(Row { position, ..*row });
    }
}
