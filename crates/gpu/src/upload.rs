//! The way of packed weights to the device: threads share the rows, and each packs some and copies them by way of two
//! buffers of its own, one of which it fills while the device reads the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use crate::bind::Buffers;
use crate::linear::{Chunk, Packed};
use crate::{Error, Gpu, Result};

/// Bytes for which a further thread is worth its buffers.
const PER_THREAD: u64 = 8 << 20;

/// What was copied, and what it took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Uploaded {
    /// Bytes on the device.
    pub bytes: u64,
    /// The time that all threads together spent packing.
    pub packing: Duration,
    /// The time that they spent copying, and waiting for the device to have copied.
    pub copying: Duration,
}

/// Packs chunks and copies them to their buffers, telling `progress` how many bytes more are on their way.
pub fn upload(gpu: &Gpu, buffers: &Buffers, chunks: &[Chunk], progress: &mut dyn FnMut(u64)) -> Result<()> {
    std::thread::scope(|scope| Upload::begin(scope, gpu, buffers, chunks).finish(progress)).map(drop)
}

/// Chunks on their way to the device. What is not begun when this is dropped is not copied.
pub(crate) struct Upload {
    next: Arc<AtomicUsize>,
    told: Receiver<Result<Uploaded>>,
}

impl Upload {
    /// Begins to copy chunks.
    pub fn begin<'scope>(
        scope: &'scope Scope<'scope, '_>,
        gpu: &'scope Gpu,
        buffers: &'scope Buffers,
        chunks: &'scope [Chunk<'scope>],
    ) -> Upload {
        let bytes: u64 = chunks.iter().map(Chunk::bytes).sum();
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let worth = usize::try_from(bytes.div_ceil(PER_THREAD)).unwrap_or(cores);
        let next = Arc::new(AtomicUsize::new(0));
        let (sender, told) = channel();
        for _ in 0..cores.min(worth).min(chunks.len()) {
            let (next, sender) = (Arc::clone(&next), sender.clone());
            scope.spawn(move || {
                if let Err(error) = copy(gpu, buffers, chunks, &next, &sender) {
                    // The receiver is gone after another error.
                    let _ = sender.send(Err(error));
                }
            });
        }
        Upload { next, told }
    }

    /// Waits until all of it is on its way, telling `progress` how many bytes more are.
    pub fn finish(self, progress: &mut dyn FnMut(u64)) -> Result<Uploaded> {
        let mut all = Uploaded::default();
        while let Ok(told) = self.told.recv() {
            let Uploaded { bytes, packing, copying } = told?;
            all.bytes += bytes;
            all.packing += packing;
            all.copying += copying;
            progress(bytes);
        }
        Ok(all)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // Beyond the last chunk, with room for every thread to count on.
        self.next.store(usize::MAX / 2, Ordering::Relaxed);
    }
}

/// What each thread does.
fn copy(
    gpu: &Gpu,
    buffers: &Buffers,
    chunks: &[Chunk],
    next: &AtomicUsize,
    told: &Sender<Result<Uploaded>>,
) -> Result<()> {
    let room = chunks.iter().map(Chunk::bytes).max().unwrap_or(0);
    let (mut packed, mut ways) = (Packed::default(), [None, None]);
    let mut turn = 0;
    while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
        let start = Instant::now();
        chunk.pack(&mut packed);
        let packing = start.elapsed();
        let way = match ways[turn].take() {
            Some(way) => way,
            None => Way::new(gpu, room)?,
        };
        ways[turn] = Some(way.send(gpu, &buffers[chunk.buffer], chunk, &packed)?);
        turn = 1 - turn;
        let copying = start.elapsed() - packing;
        // Who gave up does not listen any more.
        let _ = told.send(Ok(Uploaded { bytes: chunk.bytes(), packing, copying }));
    }
    Ok(())
}

/// A buffer that the host writes and the device reads.
struct Way {
    buffer: wgpu::Buffer,
    /// The last submission that reads it, and what says that it can be written again.
    used: Option<(wgpu::SubmissionIndex, Receiver<std::result::Result<(), wgpu::BufferAsyncError>>)>,
}

impl Way {
    fn new(gpu: &Gpu, size: u64) -> Result<Way> {
        let buffer = gpu.scoped("weights on their way", || {
            gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("weights on their way"),
                size,
                usage: wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: true,
            })
        })?;
        Ok(Way { buffer, used: None })
    }

    /// Copies a chunk as soon as the device has read what was sent before.
    fn send(self, gpu: &Gpu, to: &wgpu::Buffer, chunk: &Chunk, packed: &Packed) -> Result<Way> {
        let failed = |reason: String| Error::Device {
            adapter: gpu.info.name.clone(),
            what: "copying weights".to_string(),
            reason,
        };
        let Way { buffer, used } = self;
        if let Some((submission_index, writable)) = used {
            gpu.wait_for(wgpu::PollType::Wait { submission_index: Some(submission_index), timeout: None })?;
            writable.recv().map_err(|e| failed(e.to_string()))?.map_err(|e| failed(e.to_string()))?;
        }
        let planes = [(chunk.low_at, &packed.low), (chunk.rest_at, &packed.rest)];
        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut at = 0;
        for (first, words) in planes.into_iter().filter(|(_, words)| !words.is_empty()) {
            let bytes: &[u8] = bytemuck::cast_slice(words);
            let end = at + bytes.len() as u64;
            let mut view = buffer.get_mapped_range_mut(at..end).map_err(|e| failed(e.to_string()))?;
            view.copy_from_slice(bytes);
            encoder.copy_buffer_to_buffer(&buffer, at, to, first, bytes.len() as u64);
            at = end;
        }
        buffer.unmap();
        let submission = gpu.queue.submit([encoder.finish()]);
        let (sender, writable) = channel();
        buffer.slice(..).map_async(wgpu::MapMode::Write, move |result| {
            // The thread may have sent its last chunk.
            let _ = sender.send(result);
        });
        gpu.check()?;
        Ok(Way { buffer, used: Some((submission, writable)) })
    }
}
