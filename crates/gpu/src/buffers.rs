//! Activations on the device, and buffers in general: made when a model is loaded, within the device's limits.

use gleed_model::program::{Program, View};

use crate::kernels::{List, Place};
use crate::{Error, Gpu, Result};

impl Gpu {
    /// A buffer that kernels read and write, all of it through one binding.
    pub(crate) fn storage(&self, what: &str, bytes: u64) -> Result<wgpu::Buffer> {
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        self.within(what, bytes, self.info.largest_binding, "binding")?;
        self.buffer(what, bytes, usage)
    }

    /// A buffer that results are copied to, for the host to read.
    pub(crate) fn readable(&self, what: &str, bytes: u64) -> Result<wgpu::Buffer> {
        self.buffer(what, bytes, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST)
    }

    /// A buffer of four words that kernels read as constants.
    pub(crate) fn uniform(&self, what: &str) -> Result<wgpu::Buffer> {
        self.buffer(what, 16, wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST)
    }

    fn buffer(&self, what: &str, bytes: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer> {
        self.within(what, bytes, self.info.largest_buffer, "buffer")?;
        let size = bytes.max(4).next_multiple_of(4);
        let descriptor = wgpu::BufferDescriptor { label: Some(what), size, usage, mapped_at_creation: false };
        self.scoped(what, || self.device.create_buffer(&descriptor))
    }

    fn within(&self, what: &str, needed: u64, limit: u64, unit: &'static str) -> Result<()> {
        if needed <= limit {
            return Ok(());
        }
        let (what, adapter) = (what.to_string(), self.info.name.clone());
        Err(Error::Limit { what, needed, limit, unit, adapter })
    }

    /// Waits for everything submitted, then appends the first `count` numbers of a readable buffer.
    pub(crate) fn read<T: bytemuck::Pod>(
        &self,
        buffer: &wgpu::Buffer,
        count: usize,
        out: &mut Vec<T>,
    ) -> Result<()> {
        self.read_when(wgpu::PollType::wait_indefinitely(), buffer, count, out)
    }

    /// The same, waiting for one submission and those before it only.
    pub(crate) fn read_after<T: bytemuck::Pod>(
        &self,
        submission: wgpu::SubmissionIndex,
        buffer: &wgpu::Buffer,
        count: usize,
        out: &mut Vec<T>,
    ) -> Result<()> {
        let wait = wgpu::PollType::Wait { submission_index: Some(submission), timeout: None };
        self.read_when(wait, buffer, count, out)
    }

    fn read_when<T: bytemuck::Pod>(
        &self,
        wait: wgpu::PollType,
        buffer: &wgpu::Buffer,
        count: usize,
        out: &mut Vec<T>,
    ) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let failed = |reason: String| Error::Device {
            adapter: self.info.name.clone(),
            what: "reading results".to_string(),
            reason,
        };
        let slice = buffer.slice(..(size_of::<T>() * count) as u64);
        let (sender, receiver) = std::sync::mpsc::channel();
        slice.map_async(wgpu::MapMode::Read, move |result| {
            // Whoever waits for it may have given up: then nobody needs the answer.
            let _ = sender.send(result);
        });
        self.wait_for(wait)?;
        receiver.recv().map_err(|e| failed(e.to_string()))?.map_err(|e| failed(e.to_string()))?;
        let bytes = slice.get_mapped_range().map_err(|e| failed(e.to_string()))?;
        out.extend_from_slice(bytemuck::cast_slice(&bytes));
        drop(bytes);
        buffer.unmap();
        Ok(())
    }
}

/// Columns that a row takes on the device: whole vectors of four, as linear layers read them.
pub(crate) fn stride(width: usize) -> usize {
    width.next_multiple_of(4)
}

/// The activations of a program: `[row][stride]` for each of its buffers.
#[derive(Debug)]
pub(crate) struct Activations {
    buffers: Vec<Activation>,
}

#[derive(Debug)]
struct Activation {
    stride: usize,
    /// Of all rows.
    all: wgpu::Buffer,
    /// Of the wanted rows, where a gather moves them; else the same.
    wanted: wgpu::Buffer,
}

/// Rows that each buffer has room for.
pub(crate) fn rows_of(program: &Program, buffer: usize, max_rows: usize, logits_rows: usize) -> usize {
    if buffer == program.logits.buffer { logits_rows } else { max_rows }
}

/// Bytes of all activations.
pub(crate) fn bytes(program: &Program, gathered: &[View], max_rows: usize, logits_rows: usize) -> u64 {
    let buffers = program.buffers.iter().enumerate().map(|(index, buffer)| {
        let copies = if gathered.iter().any(|view| view.buffer == index) { 2 } else { 1 };
        let rows = rows_of(program, index, max_rows, logits_rows) as u64;
        rows.saturating_mul(4 * copies * stride(buffer.width) as u64)
    });
    buffers.fold(0, u64::saturating_add)
}

impl Activations {
    /// Buffers for so many rows; those of `gathered` views twice.
    pub fn new(
        gpu: &Gpu,
        program: &Program,
        gathered: &[View],
        max_rows: usize,
        logits_rows: usize,
    ) -> Result<Activations> {
        let buffers = program.buffers.iter().enumerate().map(|(index, buffer)| {
            let rows = rows_of(program, index, max_rows, logits_rows) as u64;
            let stride = stride(buffer.width);
            let bytes = rows.saturating_mul(4 * stride as u64);
            let what = || format!("the activations {} of {rows} rows", buffer.name);
            let all = gpu.storage(&what(), bytes)?;
            let moves = gathered.iter().any(|view| view.buffer == index);
            let wanted = if moves { gpu.storage(&what(), bytes)? } else { all.clone() };
            Ok(Activation { stride, all, wanted })
        });
        Ok(Activations { buffers: buffers.collect::<Result<_>>()? })
    }

    pub fn place(&self, view: View, list: List) -> Place<'_> {
        let Activation { stride, all, wanted } = &self.buffers[view.buffer];
        let buffer = match list {
            List::All => all,
            List::Wanted => wanted,
        };
        Place { buffer, offset: view.offset, width: view.width, stride: *stride }
    }
}
