//! What measuring needs of an executor beyond its steps.

use gleed_model::{Arithmetic, Batch, Executor, StepError};

use crate::limits::Machine;

/// An executor that can be measured.
pub trait Measurable: Executor {
    /// The order of operations: which of them are on bytes.
    fn arithmetic(&self) -> Arithmetic;

    /// The machine whose limits bound it; none where it is several.
    fn machine(&self) -> Option<Machine>;

    /// Runs a step and adds the seconds of each node to `nodes`.
    fn time_step(&mut self, batch: &Batch, nodes: &mut [f64]) -> Result<(), StepError>;
}
