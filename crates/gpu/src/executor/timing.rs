//! How long each node of a step takes on the device, by its own clock.

use std::time::Duration;

use gleed_model::executor::check;
use gleed_model::{Batch, StepError};

use super::{GpuExecutor, record_command, write_count};
use crate::{Error, Result};

impl GpuExecutor {
    /// Runs a step and returns the time of each node; a node without rows takes none. The step leaves keys
    /// and values behind but no logits, and no more rows may want them than are computed at once.
    pub fn time_nodes(&mut self, batch: &Batch) -> std::result::Result<Vec<Duration>, StepError> {
        check(batch, &self.program, self.options.max_rows, self.options.pages)?;
        let wanted = batch.wanted().count();
        if wanted > self.logits_rows {
            return Err(StepError::TooManyRows { rows: wanted, limit: self.logits_rows });
        }
        self.run_timed(batch).map_err(|error| StepError::Device(error.to_string()))
    }

    fn run_timed(&mut self, batch: &Batch) -> Result<Vec<Duration>> {
        if !self.gpu.info.timestamps {
            return Err(Error::Device {
                adapter: self.gpu.info.name.clone(),
                what: "timing nodes".to_string(),
                reason: "it has no timestamps".to_string(),
            });
        }
        self.begin(batch, false);
        let last = self.nodes.last().map_or(0, |node| self.counts(node.list).rows);
        write_count(&self.gpu, &self.row_counts.logits, last);
        let count = 2 * self.nodes.len();
        let (device, bytes) = (&self.gpu.device, (size_of::<u64>() * count) as u64);
        let (queries, resolved) = self.gpu.scoped("timestamps", || {
            let queries = device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("timestamps"),
                ty: wgpu::QueryType::Timestamp,
                count: count as u32,
            });
            let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
            let label = Some("timestamps");
            let resolved = wgpu::BufferDescriptor { label, size: bytes, usage, mapped_at_creation: false };
            (queries, device.create_buffer(&resolved))
        })?;
        let readable = self.gpu.readable("timestamps", bytes)?;
        let mut encoder = self.encoder();
        for (index, node) in self.nodes.iter().enumerate() {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: None,
                timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                    query_set: &queries,
                    beginning_of_pass_write_index: Some(2 * index as u32),
                    end_of_pass_write_index: Some(2 * index as u32 + 1),
                }),
            });
            let counts = self.counts(node.list);
            node.commands.iter().for_each(|command| record_command(&mut pass, command, counts));
        }
        encoder.resolve_query_set(&queries, 0..count as u32, &resolved, 0);
        encoder.copy_buffer_to_buffer(&resolved, 0, &readable, 0, bytes);
        self.gpu.queue.submit([encoder.finish()]);
        let mut ticks: Vec<u64> = Vec::with_capacity(count);
        self.gpu.read(&readable, count, &mut ticks)?;
        let period = f64::from(self.gpu.queue.get_timestamp_period());
        let time =
            |pair: &[u64]| Duration::from_nanos((pair[1].saturating_sub(pair[0]) as f64 * period) as u64);
        Ok(ticks.chunks(2).map(time).collect())
    }
}
