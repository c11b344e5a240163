//! How long nodes of a step take on the device, by its own clock.

use std::ops::Range;
use std::time::Duration;

use gleed_model::batch::{check, check_states};
use gleed_model::{Batch, StepError};

use super::GpuExecutor;
use super::run::write_count;
use crate::plan::Recorded;
use crate::{Error, Gpu, Result};

/// Timestamps of compute passes.
struct Clock {
    queries: wgpu::QuerySet,
    passes: u32,
    resolved: wgpu::Buffer,
    readable: wgpu::Buffer,
}

impl Clock {
    fn new(gpu: &Gpu, passes: usize) -> Result<Clock> {
        if !gpu.info.timestamps {
            return Err(Error::Device {
                adapter: gpu.info.name.clone(),
                what: "timing nodes".to_string(),
                reason: "it has no timestamps".to_string(),
            });
        }
        let (passes, size) = (passes as u32, (2 * size_of::<u64>() * passes) as u64);
        let label = Some("timestamps");
        let (queries, resolved) = gpu.scoped("timestamps", || {
            let ty = wgpu::QueryType::Timestamp;
            let queries =
                gpu.device.create_query_set(&wgpu::QuerySetDescriptor { label, ty, count: 2 * passes });
            let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
            let resolved = wgpu::BufferDescriptor { label, size, usage, mapped_at_creation: false };
            (queries, gpu.device.create_buffer(&resolved))
        })?;
        Ok(Clock { queries, passes, resolved, readable: gpu.readable("timestamps", size)? })
    }

    fn pass<'a>(&self, encoder: &'a mut wgpu::CommandEncoder, index: usize) -> wgpu::ComputePass<'a> {
        encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
            label: None,
            timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                query_set: &self.queries,
                beginning_of_pass_write_index: Some(2 * index as u32),
                end_of_pass_write_index: Some(2 * index as u32 + 1),
            }),
        })
    }

    /// Submits what was recorded, waits for it, and returns the time of each pass.
    fn finish(self, gpu: &Gpu, mut encoder: wgpu::CommandEncoder) -> Result<Vec<Duration>> {
        encoder.resolve_query_set(&self.queries, 0..2 * self.passes, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.readable, 0, self.resolved.size());
        gpu.queue.submit([encoder.finish()]);
        let mut ticks: Vec<u64> = Vec::new();
        gpu.read(&self.readable, 2 * self.passes as usize, &mut ticks)?;
        let period = f64::from(gpu.queue.get_timestamp_period());
        let time =
            |pair: &[u64]| Duration::from_nanos((pair[1].saturating_sub(pair[0]) as f64 * period) as u64);
        Ok(ticks.chunks(2).map(time).collect())
    }
}

impl GpuExecutor {
    /// Runs a step and returns the time of each node; a node without rows takes none. The step leaves keys
    /// and values behind but no logits, and no more rows may want them than are computed at once.
    pub fn time_nodes(&mut self, batch: &Batch) -> std::result::Result<Vec<Duration>, StepError> {
        self.check_timed(batch)?;
        self.run_timed(batch).map_err(|error| StepError::Device(error.to_string()))
    }

    /// Runs some nodes of a step alone, one after the other and all of them `times` times, and returns the
    /// time of all together: what they take when nothing else is waited for, which single nodes are too
    /// short to tell. They compute with whatever the nodes before them left last.
    pub fn time_together(
        &mut self,
        batch: &Batch,
        nodes: Range<usize>,
        times: usize,
    ) -> std::result::Result<Duration, StepError> {
        self.check_timed(batch)?;
        self.run_together(batch, nodes, times).map_err(|error| StepError::Device(error.to_string()))
    }

    fn check_timed(&self, batch: &Batch) -> std::result::Result<(), StepError> {
        check(batch, &self.program, self.options.max_rows, &self.resources.page_groups)?;
        check_states(batch, &self.program, self.options.slots)?;
        let wanted = batch.wanted().count();
        if wanted > self.logits_rows {
            return Err(StepError::TooManyRows { rows: wanted, limit: self.logits_rows });
        }
        Ok(())
    }

    fn run_timed(&mut self, batch: &Batch) -> Result<Vec<Duration>> {
        let clock = Clock::new(&self.gpu, self.nodes.len())?;
        let mut encoder = self.begin_timed(batch);
        for (index, node) in self.nodes.iter().enumerate() {
            let mut pass = clock.pass(&mut encoder, index);
            self.record_node(&mut pass, node, self.counts(node.list), Recorded::Apart)?;
        }
        clock.finish(&self.gpu, encoder)
    }

    fn run_together(&mut self, batch: &Batch, nodes: Range<usize>, times: usize) -> Result<Duration> {
        let clock = Clock::new(&self.gpu, 1)?;
        let mut encoder = self.begin_timed(batch);
        let mut pass = clock.pass(&mut encoder, 0);
        for _ in 0..times {
            for node in self.nodes.get(nodes.clone()).unwrap_or_default() {
                self.record_node(&mut pass, node, self.counts(node.list), Recorded::Apart)?;
            }
        }
        drop(pass);
        Ok(clock.finish(&self.gpu, encoder)?.into_iter().sum())
    }

    /// Uploads the rows of a step that is timed.
    fn begin_timed(&mut self, batch: &Batch) -> wgpu::CommandEncoder {
        self.begin(batch, false);
        let last = self.nodes.last().map_or(0, |node| self.counts(node.list).rows);
        write_count(&self.gpu, &self.buffers[self.resources.row_counts.logits], last);
        self.encoder()
    }
}
