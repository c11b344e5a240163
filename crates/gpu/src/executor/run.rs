//! One step on the device: what is uploaded, recorded, submitted and read back.

use std::cell::RefCell;

use gleed_model::Batch;
use gleed_model::executor::{Buffers, Observer};
use gleed_model::program::View;

use super::GpuExecutor;
use crate::kernels::List;
use crate::plan::{self, Planned, Recorded};
use crate::step::Counts;
use crate::{Error, Gpu, Result};

/// Steps that may still be computed when one returns whose logits no caller wants: enough for the device never to wait
/// for the host, and few enough that a long prompt which is cancelled ends soon.
const STEPS_IN_FLIGHT: usize = 2;

impl GpuExecutor {
    /// Uploads the rows of a step; `chained` when their tokens are those that the device chose last.
    pub(super) fn begin(&mut self, batch: &Batch, chained: bool) {
        self.step.fill(&self.program, batch, chained);
        self.gpu.queue.write_buffer(
            &self.buffers[self.resources.step],
            0,
            bytemuck::cast_slice(&self.step.words),
        );
        self.upload_counts();
        self.upload_inputs(batch);
        self.logits.clear();
    }

    /// Uploads how many rows the step has, where it has not as many as the one before.
    pub(super) fn upload_counts(&mut self) {
        let counts = self.step.rows.into_iter().zip(&mut self.uploaded_counts);
        for ((rows, uploaded), buffer) in counts.zip(self.resources.row_counts.lists) {
            if *uploaded != Some(rows) {
                write_count(&self.gpu, &self.buffers[buffer], rows);
                *uploaded = Some(rows);
            }
        }
    }

    /// Uploads what a batch brings to a program that begins in the middle of a model.
    fn upload_inputs(&self, batch: &Batch) {
        let mut rest = batch.inputs();
        for view in self.program.inputs() {
            let place = self.resources.activations.place(*view, List::All);
            let (values, others) = rest.split_at(batch.rows().len() * view.width);
            // All rows at once where they lie as closely on the device.
            let rows = if place.stride == view.width { values.len() } else { view.width };
            for (index, values) in values.chunks(rows.max(1)).enumerate() {
                let at = 4 * (index * place.stride) as u64;
                self.gpu.queue.write_buffer(&self.buffers[place.buffer], at, bytemuck::cast_slice(values));
            }
            rest = others;
        }
    }

    pub(super) fn encoder(&self) -> wgpu::CommandEncoder {
        self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("step") })
    }

    /// What the nodes of a list see.
    pub(super) fn counts(&self, list: List) -> Counts<'_> {
        self.step.counts(list as usize)
    }

    /// Records a node for as many rows as `counts` has.
    pub(super) fn record_node(
        &self,
        pass: &mut wgpu::ComputePass,
        node: &Planned,
        counts: Counts,
        recorded: Recorded,
    ) -> Result<()> {
        node.visit(counts, recorded, &mut |run| self.bound.record(pass, run))
    }

    /// Records nodes, those with no rows left out.
    fn record(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        nodes: &[Planned],
        recorded: Recorded,
    ) -> Result<()> {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        nodes.iter().try_for_each(|node| self.record_node(&mut pass, node, self.counts(node.list), recorded))
    }

    /// Records and runs the node that writes the logits and those after it, up to one of them, and reads the logits:
    /// some rows at a time, each time with the inputs of these rows at the beginning of their buffer. While some are
    /// read, the device computes the next.
    fn run_logits(&mut self, mut encoder: wgpu::CommandEncoder, last: usize) -> Result<()> {
        let (head, stride) = (self.head, self.logits_stride);
        let list = self.nodes[head].list;
        self.logits.clear();
        let rows = self.counts(list).rows;
        let logits = self.resources.activations.place(self.program.logits, list);
        if rows == 0 {
            let submission = self.gpu.queue.submit([encoder.finish()]);
            self.gpu.check()?;
            return self.bound_flight(submission);
        }
        self.in_flight.clear();
        let mut before: Option<(wgpu::SubmissionIndex, &wgpu::Buffer, usize)> = None;
        for (first, readable) in (0..rows).step_by(self.logits_rows).zip(self.readable.iter().cycle()) {
            let count = self.logits_rows.min(rows - first);
            if first > 0 {
                for buffer in plan::logits_inputs(&self.program) {
                    let place = self.resources.activations.place(View { buffer, offset: 0, width: 0 }, list);
                    let bytes = |rows: usize| 4 * (rows * place.stride) as u64;
                    let (all, some) = (&self.buffers[place.buffer], &self.buffers[self.resources.inputs]);
                    encoder.copy_buffer_to_buffer(all, bytes(first), some, 0, bytes(count));
                    encoder.copy_buffer_to_buffer(some, 0, all, 0, bytes(count));
                }
            }
            write_count(&self.gpu, &self.buffers[self.resources.row_counts.logits], count);
            let counts = Counts { rows: count, ..Counts::default() };
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for node in &self.nodes[head..=last] {
                self.record_node(&mut pass, node, counts, Recorded::Together)?;
            }
            drop(pass);
            let bytes = 4 * (count * stride) as u64;
            encoder.copy_buffer_to_buffer(&self.buffers[logits.buffer], 0, readable, 0, bytes);
            let submission =
                self.gpu.queue.submit([std::mem::replace(&mut encoder, self.encoder()).finish()]);
            if let Some((submission, readable, values)) =
                before.replace((submission, readable, count * stride))
            {
                self.gpu.read_after(submission, readable, values, &mut self.logits)?;
            }
        }
        let (submission, readable, values) = before.expect("there is a row");
        self.gpu.read_after(submission, readable, values, &mut self.logits)
    }

    /// Waits until few enough steps are in flight, with the one that was just submitted.
    fn bound_flight(&mut self, submission: wgpu::SubmissionIndex) -> Result<()> {
        self.in_flight.push_back(submission);
        if self.in_flight.len() <= STEPS_IN_FLIGHT {
            return Ok(());
        }
        let oldest = self.in_flight.pop_front();
        self.gpu.wait_for(wgpu::PollType::Wait { submission_index: oldest, timeout: None })
    }

    /// All nodes in one submission.
    pub(super) fn run(&mut self) -> Result<()> {
        self.prepare(Recorded::Together)?;
        let mut encoder = self.encoder();
        self.record(&mut encoder, &self.nodes[..self.head], Recorded::Together)?;
        self.run_logits(encoder, self.nodes.len() - 1)
    }

    /// One submission per node, with an observer looking at the buffers after each.
    pub(super) fn run_observed(&mut self, observer: &mut dyn Observer) -> Result<()> {
        self.prepare(Recorded::Apart)?;
        for index in 0..self.nodes.len() {
            let mut encoder = self.encoder();
            if index >= self.head {
                self.run_logits(encoder, index)?;
            } else {
                self.record(&mut encoder, &self.nodes[index..=index], Recorded::Apart)?;
                self.gpu.queue.submit([encoder.finish()]);
                self.gpu.wait()?;
            }
            let (list, head) = (self.nodes[index].list, index >= self.head);
            let seen = Seen { executor: self, list, head, error: RefCell::default() };
            observer.after(index, &seen);
            seen.error.into_inner().map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// Reads the rows of a view that a list has.
    fn read_view(&self, view: View, list: List, out: &mut Vec<f32>) -> Result<()> {
        let place = self.resources.activations.place(view, list);
        let count = self.counts(list).rows * place.stride;
        let bytes = 4 * count as u64;
        let readable = self.gpu.readable("looking at activations", bytes)?;
        let mut encoder = self.encoder();
        encoder.copy_buffer_to_buffer(&self.buffers[place.buffer], 0, &readable, 0, bytes);
        self.gpu.queue.submit([encoder.finish()]);
        let mut rows = Vec::with_capacity(count);
        self.gpu.read(&readable, count, &mut rows)?;
        for row in rows.chunks(place.stride) {
            out.extend_from_slice(&row[place.offset..place.offset + place.width]);
        }
        Ok(())
    }
}

/// Uploads how many rows there are.
pub(super) fn write_count(gpu: &Gpu, buffer: &wgpu::Buffer, rows: usize) {
    gpu.queue.write_buffer(buffer, 0, bytemuck::bytes_of(&[rows as u32, 0, 0, 0]));
}

/// The activations after a node.
struct Seen<'a> {
    executor: &'a GpuExecutor,
    list: List,
    /// Whether the logits are read already.
    head: bool,
    /// What went wrong while the observer looked.
    error: RefCell<Option<Error>>,
}

impl Buffers for Seen<'_> {
    fn read(&self, view: View, out: &mut Vec<f32>) {
        let rows = self.executor.counts(self.list).rows;
        if self.head && view.buffer == self.executor.program.logits.buffer {
            for row in self.executor.logits.chunks(self.executor.logits_stride) {
                out.extend_from_slice(&row[view.offset..view.offset + view.width]);
            }
        } else if let Err(error) = self.executor.read_view(view, self.list, out) {
            // The observer gets as many values as it expects; the step fails when it has returned.
            out.resize(out.len() + rows * view.width, 0.0);
            self.error.borrow_mut().get_or_insert(error);
        }
    }
}
