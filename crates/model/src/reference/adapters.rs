//! Adapters: how much of each a row takes, and what it adds.

use super::Reference;
use crate::arithmetic::add_low_rank;
use crate::program::{LowRank, View, experts_used};

impl Reference {
    pub(super) fn adapter_scales(&mut self, out: View) {
        for r in 0..self.rows.len() {
            let scales = self.adapter_scales[self.rows[r].table as usize].clone();
            self.set(out, r).copy_from_slice(&scales);
        }
    }

    pub(super) fn add_low_rank(
        &mut self,
        parts: &[LowRank],
        choice: Option<View>,
        [scales, input, x]: [View; 3],
    ) {
        let mut first = 0;
        for LowRank { adapter, up, factor } in parts {
            let weight = self.program.weights[*up].clone();
            let (rank, outputs) = (weight.rows, weight.columns);
            let matrices = self.whole(*up);
            for slot in 0..experts_used(choice, weight.experts) {
                let (hidden, x) = (input.part(first, rank), x.part(slot * outputs, outputs));
                first += rank;
                for r in 0..self.rows.len() {
                    let scale = self.get(scales, r)[*adapter];
                    // Nothing is not the same as adding zero.
                    if scale == 0.0 {
                        continue;
                    }
                    let expert = choice.map_or(slot, |choice| self.get(choice, r)[slot] as usize);
                    let up = &matrices[expert * rank * outputs..][..rank * outputs];
                    let hidden = self.get(hidden, r).to_vec();
                    add_low_rank(scale * factor, &hidden, up, self.set(x, r));
                }
            }
        }
    }
}
