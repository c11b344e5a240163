//! What the machine itself can do. Of a CPU, measured with as many threads as the model gets: bytes read from
//! memory, and operations of each unit of the instruction set in use; of a GPU the same, by kernels of its own.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use gleed_cpu::Isa;
use gleed_cpu::kernels::Kernels;
use gleed_cpu::kernels::limits::Arithmetic;
use gleed_cpu::kernels::tile::Line;
use serde::Serialize;

use crate::spread::Spread;
use crate::{Error, Result};

/// Bytes that all threads together read in a pass: much more than the caches hold.
const BYTES: usize = 256 << 20;
/// How long a pass computes, in portions of `PORTION` operations.
const COMPUTE: Duration = Duration::from_millis(8);
const PORTION: u64 = 1 << 24;
/// Passes of a measurement; the best one counts, because whatever disturbs a pass only makes it slower.
const PASSES: usize = 5;

/// Amounts per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limits {
    /// Bytes read from memory.
    pub memory: f64,
    /// f32 operations of the vector unit; a multiply-add is two.
    pub f32: f64,
    /// Operations on bytes of the vector unit, likewise.
    pub int8: f64,
    /// Operations on bytes of the tile unit, where there is one.
    pub int8_tiles: Option<f64>,
    /// Operations on halves of a GPU's matrix units, where there are any.
    pub f16_units: Option<f64>,
}

impl Limits {
    /// The faster unit for bytes, and its name.
    pub fn best_int8(&self) -> (f64, &'static str) {
        match self.int8_tiles {
            Some(tiles) if tiles > self.int8 => (tiles, "int8 tiles"),
            _ => (self.int8, "int8"),
        }
    }
}

/// What has limits.
#[derive(Clone)]
pub enum Machine {
    /// The cores of a CPU.
    Cpu {
        /// The instruction set in use.
        isa: Isa,
        /// The threads in use.
        threads: usize,
    },
    /// A GPU.
    #[cfg(feature = "gpu")]
    Gpu(gleed_gpu::Gpu),
}

/// Measures the limits again and again, so that they belong to the same minutes as what is compared
/// with them.
pub struct Meter {
    measured: Ready,
    samples: Vec<Limits>,
}

/// A machine with what measuring it takes.
enum Ready {
    Cpu(Cores),
    #[cfg(feature = "gpu")]
    Gpu(gleed_gpu::Gpu),
}

impl Meter {
    /// Of a machine; a CPU's takes memory.
    pub fn new(machine: Machine) -> Result<Meter> {
        let measured = match machine {
            Machine::Cpu { isa, threads } => Ready::Cpu(Cores::new(isa, threads)?),
            #[cfg(feature = "gpu")]
            Machine::Gpu(gpu) => Ready::Gpu(gpu),
        };
        Ok(Meter { measured, samples: Vec::new() })
    }

    /// Measures every limit once.
    pub fn measure(&mut self) -> Result<()> {
        self.samples.push(match &self.measured {
            Ready::Cpu(cores) => cores.measure(),
            #[cfg(feature = "gpu")]
            Ready::Gpu(gpu) => {
                let gleed_gpu::Limits { memory, f32, int8, f16_units } = gleed_gpu::Limits::measure(gpu)?;
                Limits { memory, f32, int8, int8_tiles: None, f16_units }
            }
        });
        Ok(())
    }

    /// The median of every limit over all measurements.
    pub fn limits(&self) -> Limits {
        let median =
            |of: &dyn Fn(&Limits) -> f64| Spread::of(&self.samples.iter().map(of).collect::<Vec<_>>()).median;
        let unit = |of: fn(&Limits) -> Option<f64>| {
            let all: Vec<f64> = self.samples.iter().filter_map(of).collect();
            (!all.is_empty()).then(|| Spread::of(&all).median)
        };
        Limits {
            memory: median(&|l| l.memory),
            f32: median(&|l| l.f32),
            int8: median(&|l| l.int8),
            int8_tiles: unit(|l| l.int8_tiles),
            f16_units: unit(|l| l.f16_units),
        }
    }

    /// All measurements.
    pub fn samples(&self) -> &[Limits] {
        &self.samples
    }
}

/// The cores of a CPU.
struct Cores {
    kernels: Kernels,
    threads: usize,
    /// What each thread reads.
    buffers: Vec<Vec<Line>>,
}

impl Cores {
    /// Takes its memory here.
    fn new(isa: Isa, threads: usize) -> Result<Cores> {
        let kernels = Kernels::new(isa).ok_or(Error::Isa(isa))?;
        let lines = BYTES / size_of::<Line>() / threads.max(1);
        // Not zeros: those would be the same page of memory again and again.
        let buffers = (0..threads).map(|_| vec![Line([1; 16]); lines]).collect();
        Ok(Cores { kernels, threads, buffers })
    }

    /// Measures every limit once.
    fn measure(&self) -> Limits {
        let best = |pass: &dyn Fn() -> Option<f64>| (0..PASSES).filter_map(|_| pass()).reduce(f64::max);
        let compute = |unit: Arithmetic| best(&|| self.together(|_| self.compute(unit)));
        let memory = best(&|| {
            self.together(|thread| {
                let lines = &self.buffers[thread];
                std::hint::black_box(self.kernels.read_all(lines));
                Some(size_of_val(&lines[..]) as u64)
            })
        });
        Limits {
            memory: memory.unwrap_or(f64::NAN),
            f32: compute(Arithmetic::F32).unwrap_or(f64::NAN),
            int8: compute(Arithmetic::Int8).unwrap_or(f64::NAN),
            int8_tiles: compute(Arithmetic::Int8Tiles),
            f16_units: None,
        }
    }

    /// Computes for a while and returns how many operations it were.
    fn compute(&self, unit: Arithmetic) -> Option<u64> {
        let start = Instant::now();
        let mut done = 0;
        while start.elapsed() < COMPUTE {
            done += self.kernels.compute(unit, PORTION)?;
        }
        Some(done)
    }

    /// What all threads do together per second, from the start of the first to the end of the last;
    /// `None` where there is no such unit.
    fn together(&self, work: impl Fn(usize) -> Option<u64> + Sync) -> Option<f64> {
        let barrier = Barrier::new(self.threads);
        let timed = &|thread| {
            barrier.wait();
            let start = Instant::now();
            let amount = work(thread);
            (start, Instant::now(), amount)
        };
        let runs: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|t| scope.spawn(move || timed(t))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let amount: u64 = runs.iter().map(|run| run.2).sum::<Option<u64>>()?;
        let start = runs.iter().map(|run| run.0).min()?;
        let end = runs.iter().map(|run| run.1).max()?;
        Some(amount as f64 / (end - start).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_found_for_every_instruction_set_and_grow_with_it() {
        let mut before = 0.0;
        for isa in Isa::available() {
            let limits = Cores::new(isa, 1).unwrap().measure();
            assert!(limits.memory > 1e8 && limits.memory < 1e13, "{limits:?}");
            assert!(limits.f32 > 1e8 && limits.int8 > 1e8, "{limits:?}");
            assert_eq!(limits.int8_tiles.is_some(), matches!(isa, Isa::Amx | Isa::NeonI8mm));
            let (best, _) = limits.best_int8();
            assert!(best > before / 2.0, "{isa} is far slower than what it extends: {limits:?}");
            before = best;
        }
    }
}
