//! How what adapters add is planned: a dispatch for each adapter that changes a layer.

use gleed_model::program::{LowRank, View, Weight};

use super::Planner;
use crate::kernels::Dispatch;
use crate::kernels::adapters::{self, Added};
use crate::launch::Kernels;

impl Planner<'_> {
    /// x += what the adapters of the row add.
    pub(super) fn add_low_rank(
        &self,
        kernels: &mut Kernels,
        parts: &[LowRank],
        choice: Option<View>,
        [scales, input, x]: [View; 3],
    ) -> Vec<Dispatch> {
        let (choice, scales) = (choice.map(|choice| self.place(choice)), self.place(scales));
        let mut first = 0;
        let dispatches = parts.iter().map(|LowRank { adapter, up, factor }| {
            let Weight { experts, rows: rank, columns: outputs, .. } = self.program.weights[*up];
            let width = x.width / outputs * rank;
            let hidden = self.place(input.part(first, width));
            first += width;
            let (sizes, up) = ([experts, rank, outputs], self.resources.weights.vector(*up));
            let added = Added { adapter: *adapter, factor: *factor, up, sizes, choice, scales, hidden };
            adapters::add(kernels, &added, self.place(x))
        });
        dispatches.collect()
    }
}
