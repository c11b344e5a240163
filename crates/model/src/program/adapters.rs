//! What a program knows of adapters: which there are, and what each adds to an op.

use super::WeightId;

/// An adapter that rows may take.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterInfo {
    /// What the user called it.
    pub name: String,
    /// How much of it rows take whose batch does not say.
    pub scale: f32,
}

/// What one adapter adds to the outputs of a linear op: `x = fma(scale · factor, Σ hidden[r] · up[r], x)`, where hidden
/// are the outputs of its lower matrix and scale is the row's, see
/// [`add_low_rank`](crate::arithmetic::add_low_rank). A row that takes nothing of the adapter keeps its bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LowRank {
    /// The number of the adapter in [`Program::adapters`](super::Program::adapters).
    pub adapter: usize,
    /// Its upper matrix, turned: a row for each of its ranks, a column for each output; of experts, one for each.
    pub up: WeightId,
    /// What the row's scale is multiplied with: the adapter's alpha by its rank.
    pub factor: f32,
}
