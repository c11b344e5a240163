//! Chains: several tokens of each sequence without waiting for the host in between.
//!
//! A device that can choose the next token itself computes it at once and tells the host later. A [`Link`]
//! is some such steps; the next link can be handed over before the tokens of the last one are known, so
//! that the device is never idle while the host looks at tokens. What a chain chooses is what single steps
//! and the same rule would have chosen.

use crate::choice::Rule;
use crate::{Batch, Row, StepError};

/// Some steps of a chain.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// The first step: one row of each sequence, which wants logits. Later steps are the same rows at later
    /// positions, for which the tables must have pages.
    pub batch: &'a Batch,
    /// Whether the tokens of the first step are those that the link before chose, whatever the rows say.
    pub continues: bool,
    /// How many steps.
    pub steps: usize,
    /// How the tokens of each row are chosen.
    pub rules: &'a [Rule],
    /// The random bits of each choice, `[step][row]`.
    pub randoms: &'a [u64],
}

/// What a device that chooses tokens itself offers.
pub trait Chain {
    /// The most rows of a link.
    fn most_rows(&self) -> usize;

    /// Whether tokens can be chosen by this rule.
    fn follows(&self, rule: &Rule) -> bool;

    /// Hands over a link. At most [`IN_FLIGHT`] links may be waiting to be collected; one that does not
    /// continue a chain forgets all that are.
    fn submit(&mut self, link: Link<'_>) -> Result<(), StepError>;

    /// Waits for the oldest link and appends its tokens, `[step][row]`; [`NO_TOKEN`](crate::choice::NO_TOKEN)
    /// where there was none to choose. Each token but those of the last step has been computed. A chain
    /// leaves no logits behind.
    fn collect(&mut self, tokens: &mut Vec<u32>) -> Result<(), StepError>;
}

/// Links that may be waiting to be collected: one that the device works on, and one that follows it.
pub const IN_FLIGHT: usize = 2;

impl Link<'_> {
    /// Makes `batch` the rows of one step.
    pub fn step(&self, step: usize, batch: &mut Batch) {
        batch.clear();
        let tables = self.batch.rows().iter().map(|row| row.table + 1).max().unwrap_or(0);
        (0..tables).for_each(|table| _ = batch.copy_table(self.batch, table));
        for row in self.batch.rows() {
            let position = row.position.saturating_add(u32::try_from(step).unwrap_or(u32::MAX));
            batch.push(Row { position, ..*row });
        }
    }

    /// Checks everything but the limits of the executor: one row of each sequence, each with a rule, each
    /// choice with its random bits.
    pub fn check(&self) -> Result<(), StepError> {
        let rows = self.batch.rows();
        let mut tables: Vec<u32> = rows.iter().map(|row| row.table).collect();
        tables.sort_unstable();
        tables.dedup();
        if tables.len() < rows.len() || rows.iter().any(|row| !row.wants_logits) {
            return Err(StepError::Chain("it needs one row of each sequence, which wants logits"));
        }
        if self.rules.len() != rows.len() || self.randoms.len() != rows.len() * self.steps {
            return Err(StepError::Chain("every row needs a rule, and every choice its random bits"));
        }
        Ok(())
    }
}
