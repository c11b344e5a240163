//! Buffers on the device: made when a model is loaded, within the device's limits.

use crate::{Error, Gpu, Result};

impl Gpu {
    /// A buffer that kernels read and write, all of it through one binding.
    pub(crate) fn storage(&self, what: &str, bytes: u64) -> Result<wgpu::Buffer> {
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        self.within(what, bytes, self.info.largest_binding, "binding")?;
        self.buffer(what, bytes, usage)
    }

    /// One that kernels read, some of it through each binding.
    pub(crate) fn weights(&self, what: &str, bytes: u64) -> Result<wgpu::Buffer> {
        self.buffer(what, bytes, wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST)
    }

    /// A buffer that results are copied to, for the host to read.
    pub(crate) fn readable(&self, what: &str, bytes: u64) -> Result<wgpu::Buffer> {
        self.buffer(what, bytes, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST)
    }

    /// A buffer of four words that kernels read as constants.
    pub(crate) fn uniform(&self, what: &str) -> Result<wgpu::Buffer> {
        self.buffer(what, 16, wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST)
    }

    /// Words that kernels read as constants.
    pub(crate) fn constants(&self, what: &str, words: &[u32]) -> Result<wgpu::Buffer> {
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let buffer = self.buffer(what, 4 * words.len() as u64, usage)?;
        self.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(words));
        Ok(buffer)
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
            // The thread that waits for it may have given up: then the answer is not needed.
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
