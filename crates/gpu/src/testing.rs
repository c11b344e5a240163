//! What the tests inside this crate share: one device, which keeps its compiled kernels from test to test; and what a test
//! plans for it, which is made when it is needed and gone with the test's thread.

use std::cell::{RefCell, RefMut};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::launch::{Buffer, Kernels, Run};
use crate::linear::{Chunk, PackedWeight};
use crate::{Bound, Buffers, Gpu, Selection, upload};

/// The adapter that `GLEED_TEST_ADAPTER` names, else the best one, be it software.
pub(crate) fn gpu() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| {
        let named = std::env::var("GLEED_TEST_ADAPTER").ok();
        let choice = named.as_deref().map_or(Selection::BestOrSoftware, Selection::Named);
        Gpu::open(choice).expect("a GPU, be it software")
    })
}

thread_local! {
    static KERNELS: &'static RefCell<Kernels> =
        Box::leak(Box::new(RefCell::new(Kernels::new(gpu().facts(), 0))));
    static MADE: Made = {
        // Not dropped with a thread, when wgpu cannot be called any more, but by the next one.
        static ALL: Mutex<Vec<Made>> = Mutex::new(Vec::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|made| Arc::strong_count(made) > 1);
        all.push(Made::default());
        Arc::clone(&all[all.len() - 1])
    };
}

type Made = Arc<Mutex<(Buffers, Bound)>>;

/// What the test has planned.
pub(crate) fn kernels() -> RefMut<'static, Kernels> {
    KERNELS.with(|kernels| *kernels).borrow_mut()
}

/// Looks at it as it is on the device.
fn made<T>(look: impl FnOnce(&Buffers, &Bound) -> T) -> T {
    MADE.with(|made| {
        let (buffers, bound) = &mut *made.lock().unwrap_or_else(PoisonError::into_inner);
        buffers.allocate(gpu(), &kernels()).unwrap();
        bound.bind(gpu(), &kernels(), buffers).unwrap();
        look(buffers, bound)
    })
}

/// A buffer with these values.
pub(crate) fn buffer(values: &[f32]) -> Buffer {
    let buffer = kernels().storage("test", 4 * values.len() as u64);
    write(buffer, values);
    buffer
}

/// A number as constants of kernels.
pub(crate) fn number(number: usize) -> Buffer {
    let buffer = kernels().uniform("test");
    write(buffer, &[number as u32, 0, 0, 0]);
    buffer
}

/// Copies the rows of tensors to a matrix.
pub(crate) fn fill(weight: &PackedWeight, tensors: &[&[u8]], progress: &mut dyn FnMut(u64)) {
    let chunks: Vec<Chunk> = weight.chunks(tensors);
    made(|buffers, _| upload(gpu(), buffers, &chunks, progress)).unwrap();
}

pub(crate) fn write<T: bytemuck::Pod>(buffer: Buffer, values: &[T]) {
    made(|buffers, _| gpu().queue.write_buffer(&buffers[buffer], 0, bytemuck::cast_slice(values)));
}

pub(crate) fn run(runs: impl IntoIterator<Item = Run>) {
    let mut encoder = gpu().device.create_command_encoder(&Default::default());
    made(|_, bound| {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        runs.into_iter().for_each(|run| bound.record(&mut pass, run).unwrap());
    });
    gpu().queue.submit([encoder.finish()]);
}

/// What a buffer holds.
pub(crate) fn read<T: bytemuck::Pod>(buffer: Buffer) -> Vec<T> {
    let readable = gpu().readable("test", buffer.size()).unwrap();
    let mut encoder = gpu().device.create_command_encoder(&Default::default());
    made(|buffers, _| encoder.copy_buffer_to_buffer(&buffers[buffer], 0, &readable, 0, buffer.size()));
    gpu().queue.submit([encoder.finish()]);
    let mut values = Vec::new();
    gpu().read(&readable, buffer.size() as usize / size_of::<T>(), &mut values).unwrap();
    values
}
