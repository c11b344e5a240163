//! What measuring asks of a model on a device.

use gleed_bench::{Machine, Measurable};
use gleed_model::{Arithmetic, Batch, StepError};

use crate::device::Placed;

impl Measurable for Placed {
    fn arithmetic(&self) -> Arithmetic {
        self.arithmetic()
    }

    fn machine(&self) -> Option<Machine> {
        if let Some((isa, threads)) = self.cpu() {
            return Some(Machine::Cpu { isa, threads });
        }
        #[cfg(feature = "gpu")]
        if let Some(gpu) = self.gpu() {
            return Some(Machine::Gpu(gpu.clone()));
        }
        None
    }

    fn time_step(&mut self, batch: &Batch, nodes: &mut [f64]) -> Result<(), StepError> {
        self.time_step(batch, nodes)
    }
}
