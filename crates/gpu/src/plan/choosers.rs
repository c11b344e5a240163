//! The kernels that choose tokens from the logits.

use super::Resources;
use crate::kernels::{Dispatch, Place, choose};
use crate::launch::{Buffer, KernelId, Kernels};

/// The kernels that choose tokens from the logits.
#[derive(Debug, PartialEq)]
pub(crate) struct Choosers {
    /// The likeliest.
    pub greedy: Vec<Dispatch>,
    /// By the rules.
    pub drawn: Vec<Dispatch>,
    /// The rules of the rows and their random bits.
    pub rules: Buffer,
}

impl Choosers {
    /// For `rows` rows of logits at once.
    pub fn new(kernels: &mut Kernels, logits: Place, rows: usize, resources: &Resources) -> Choosers {
        let rules = kernels.storage("rules", 4 * (rows * choose::RULE_WORDS) as u64);
        let greedy = choose::argmax(kernels, logits, rows, resources.chosen);
        let (mut drawn, candidates) = choose::top(kernels, logits, rows);
        drawn.push(choose::draw(kernels, candidates, rules, resources.chosen));
        Choosers { greedy, drawn, rules }
    }

    /// All kernels, for any number of rows.
    pub fn kernels(&self) -> impl Iterator<Item = (u32, KernelId)> {
        self.greedy.iter().chain(&self.drawn).map(|dispatch| (1, dispatch.kernel))
    }
}
