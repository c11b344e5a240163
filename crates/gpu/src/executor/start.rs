//! The start: kernels are compiled beside the upload of weights and beside the first steps, those first that fewer rows
//! need; and what all of it took.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::GpuExecutor;
use crate::bind::Bound;
use crate::compiler::{Compiled, Turn};
use crate::device::Opened;
use crate::launch::KernelId;
use crate::plan::{Choosers, Planned, Recorded};
use crate::upload::Uploaded;
use crate::{Gpu, Result};

/// What it took to make an executor, and what its steps waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Start {
    /// Opening the device.
    pub opened: Opened,
    /// Making buffers, for weights and for all else.
    pub allocating: Duration,
    /// Writing the texts of kernels and binding buffers, while weights were uploaded.
    pub planning: Duration,
    /// Packing weights and copying them to the device, from the first to the last.
    pub uploading: Duration,
    /// Bytes of weights on the device.
    pub uploaded_bytes: u64,
    /// The time that threads spent packing weights, all of them together.
    pub packing: Duration,
    /// The same of copying them, and of waiting for the device.
    pub copying: Duration,
    /// All of the loading, after the device was open.
    pub loading: Duration,
    /// Kernels that steps may need.
    pub kernels: usize,
    /// Those of the device that are compiled by now, for whichever executor.
    pub compiled: Compiled,
    /// The first step, with what it waited for kernels.
    pub first_step: Option<Duration>,
    /// The time that all steps so far have waited for kernels.
    pub waited: Duration,
}

/// Looks at an executor's [`Start`].
#[derive(Debug, Clone)]
pub struct StartWatch {
    gpu: Gpu,
    start: Arc<Mutex<Start>>,
}

impl StartWatch {
    /// What the start took, and what steps have waited for by now.
    pub fn start(&self) -> Start {
        Start { compiled: self.gpu.compiled(), ..*lock(&self.start) }
    }
}

pub(super) fn lock(start: &Mutex<Start>) -> MutexGuard<'_, Start> {
    start.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Start {
    pub(super) fn uploaded(&mut self, uploaded: Uploaded) {
        let Uploaded { bytes, packing, copying } = uploaded;
        (self.uploaded_bytes, self.packing, self.copying) = (bytes, packing, copying);
    }
}

/// All kernels that a program's steps may need, those first that fewer rows need.
pub(super) struct Ordered {
    pub all: Vec<KernelId>,
    /// How many of them steps of a single row need, about.
    single: usize,
}

impl Ordered {
    pub fn new(nodes: &[Planned], choosers: &Choosers) -> Ordered {
        let (mut all, mut seen) = (Vec::new(), HashSet::new());
        let of_nodes = nodes.iter().flat_map(Planned::kernels);
        all.extend(of_nodes.chain(choosers.kernels()).filter(|(_, kernel)| seen.insert(*kernel)));
        all.sort_by_key(|(rows, _)| *rows);
        let single = all.partition_point(|(rows, _)| *rows <= 1);
        Ordered { all: all.into_iter().map(|(_, kernel)| kernel).collect(), single }
    }

    /// Has them compiled before they are needed, unless the device is the CPU, which has better things to do.
    pub fn begin(&self, gpu: &Gpu, bound: &Bound) {
        if !gpu.info.is_software() {
            let (single, others) = self.all.split_at(self.single);
            gpu.compiler.begin(bound.pipelines(single), Turn::Now);
            gpu.compiler.begin(bound.pipelines(others), Turn::Ahead);
        }
    }

    /// Waits for what [`Ordered::begin`] began first: a device that cannot have it is no device for the program.
    pub fn wait(&self, gpu: &Gpu, bound: &Bound) -> Result<()> {
        let begun = if gpu.info.is_software() { 0 } else { self.single };
        self.all[..begun].iter().try_for_each(|kernel| bound.pipeline(*kernel).get().map(drop))
    }
}

impl GpuExecutor {
    /// What the start took.
    pub fn start(&self) -> Start {
        self.start_watch().start()
    }

    /// The same, to be asked for when something else has the executor.
    pub fn start_watch(&self) -> StartWatch {
        StartWatch { gpu: self.gpu.clone(), start: Arc::clone(&self.start) }
    }

    /// Compiles all kernels that are not yet, so that no step waits for one.
    pub fn compile_all(&mut self) -> Result<()> {
        let all = std::mem::take(&mut self.uncompiled);
        self.gpu.compiler.begin(self.bound.pipelines(&all), Turn::Now);
        all.iter().try_for_each(|kernel| self.bound.pipeline(*kernel).get().map(drop))
    }

    /// Has those kernels compiled that the step needs, all at once.
    pub(super) fn prepare(&mut self, recorded: Recorded) -> Result<()> {
        self.uncompiled.retain(|kernel| !self.bound.pipeline(*kernel).is_made());
        if self.uncompiled.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        let mut needed = Vec::new();
        for node in &self.nodes {
            node.visit(self.counts(node.list), recorded, &mut |run| {
                if !self.bound.pipeline(run.kernel).is_made() && !needed.contains(&run.kernel) {
                    needed.push(run.kernel);
                }
                Ok(())
            })?;
        }
        self.gpu.compiler.begin(self.bound.pipelines(&needed), Turn::Now);
        needed.iter().try_for_each(|kernel| self.bound.pipeline(*kernel).get().map(drop))?;
        lock(&self.start).waited += start.elapsed();
        Ok(())
    }
}
