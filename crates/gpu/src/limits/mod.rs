//! What a device itself can do: bytes read from its memory, and operations, measured with kernels that do
//! nothing else. What other kernels reach is held against this.

use std::time::{Duration, Instant};

use crate::bind::{Bound, Buffers};
use crate::compiler::Pipeline;
use crate::kernels::{Grid, Source};
use crate::launch::Kernels;
use crate::units::fragments::Fragments;
use crate::{Error, Gpu, Result, units};

/// Bytes that are read at once, where there is room: much more than caches hold.
const BYTES: u64 = 1 << 30;

/// Vectors of 16 bytes that a thread reads.
const EACH: usize = 16;

/// Steps of a thread's sixteen chains.
const STEPS: usize = 256;

/// Threads of a workgroup.
const THREADS: usize = 256;

/// The most workgroups of a dispatch; what takes longer is dispatched more often.
const MOST_WORKGROUPS: u32 = 1 << 15;

/// How long a measurement takes, at least, so that the way to the device and back does not matter.
const LEAST: Duration = Duration::from_millis(20);

/// Measurements of each limit; the best one counts, because whatever disturbs one only makes it slower.
const PASSES: usize = 3;

/// The words that kernels have.
const INPUTS: [u32; 4] = [0, 0.999f32.to_bits(), 0.001f32.to_bits(), 0];

/// Amounts per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Bytes read from memory.
    pub memory: f64,
    /// f32 operations; a multiply-add is two.
    pub f32: f64,
    /// Operations on bytes, likewise.
    pub int8: f64,
    /// Operations on halves of matrix units, where linear layers use them.
    pub f16_units: Option<f64>,
}

impl Limits {
    /// Measures them in a fraction of a second.
    pub fn measure(gpu: &Gpu) -> Result<Limits> {
        let per_group = |each: usize| (THREADS * 16 * STEPS * each) as f64;
        let compute = |name, text, each| {
            let kernel = kernel(gpu, name, text, ("STEPS", STEPS), None)?;
            rate(gpu, &kernel, 64, MOST_WORKGROUPS, per_group(each))
        };
        let f16_units = gpu.fragments().map(|fragments| of_units(gpu, fragments)).transpose()?;
        Ok(Limits {
            f16_units,
            memory: memory(gpu)?,
            f32: compute("limit of f32", include_str!("f32.wgsl"), 2)?,
            int8: compute("limit of int8", include_str!("int8.wgsl"), 8)?,
        })
    }
}

/// Operations on halves of matrix units.
fn of_units(gpu: &Gpu, fragments: Fragments) -> Result<f64> {
    let out = gpu.storage("limits", 16)?;
    gpu.queue.write_buffer(&out, 0, bytemuck::cast_slice(&INPUTS));
    let text = format!("const STEPS = {STEPS}u;\n{}", include_str!("units.wgsl"));
    let kernel = units::kernel(gpu, fragments, "the limit of matrix units", &text, &out)?;
    let per_subgroup = STEPS * 4 * 2 * 16 * 16 * 16;
    rate(gpu, &kernel, 64, MOST_WORKGROUPS, (THREADS / 32 * per_subgroup) as f64)
}

/// A kernel that has a few words, and `read` bytes to read, if any.
fn kernel(
    gpu: &Gpu,
    name: &'static str,
    text: &str,
    (constant, value): (&str, usize),
    read: Option<u64>,
) -> Result<(Pipeline, wgpu::BindGroup)> {
    let mut kernels = Kernels::new(gpu.facts(), 0);
    let source = Source::new(name, text).size(constant, value);
    let source = match read {
        Some(bytes) => source.read("data", "vec4<u32>", kernels.storage("what is read", bytes)),
        None => source,
    };
    let out = kernels.storage("limits", 16);
    let dispatch = kernels.dispatch(source.write("out", "u32", out), Grid::Rows(1));
    let (mut buffers, mut bound) = (Buffers::default(), Bound::default());
    buffers.allocate(gpu, &kernels)?;
    gpu.queue.write_buffer(&buffers[out], 0, bytemuck::cast_slice(&INPUTS));
    bound.bind(gpu, &kernels, &buffers)?;
    Ok(bound.launch(dispatch.kernel, dispatch.bindings))
}

/// Bytes read per second. A device that is nearly full gets a smaller buffer.
fn memory(gpu: &Gpu) -> Result<f64> {
    let group = (THREADS * EACH * 16) as u64;
    let room =
        gpu.info.largest_binding.min(gpu.info.largest_buffer).min(gpu.free_memory().unwrap_or(BYTES) / 4);
    let mut groups = (BYTES.min(room) / group).max(1);
    let text = include_str!("memory.wgsl");
    let kernel = loop {
        match kernel(gpu, "limit of memory", text, ("EACH", EACH), Some(groups * group)) {
            Err(Error::OutOfMemory { .. }) if groups > 1 => groups /= 2,
            kernel => break kernel?,
        }
    };
    // The first time, the device clears the buffer.
    run(gpu, &kernel, 1, 1)?;
    rate(gpu, &kernel, groups as u32, groups as u32, group as f64)
}

/// Amounts per second of a kernel, each of whose workgroups does `each`; as many of them, and as often, as take
/// long enough to be timed.
fn rate(
    gpu: &Gpu,
    kernel: &(Pipeline, wgpu::BindGroup),
    groups: u32,
    most_groups: u32,
    each: f64,
) -> Result<f64> {
    let (mut groups, mut times) = (groups, 1);
    let mut best = 0.0f64;
    let mut passes = 0;
    while passes < PASSES {
        let took = run(gpu, kernel, groups, times)?;
        if took >= LEAST {
            passes += 1;
            best = best.max(each * f64::from(groups) * f64::from(times) / took.as_secs_f64());
        } else if groups < most_groups {
            groups = (2 * groups).min(most_groups);
        } else {
            times *= 2;
        }
    }
    Ok(best)
}

/// Dispatches `groups` workgroups `times` times, and waits for them.
fn run(gpu: &Gpu, kernel: &(Pipeline, wgpu::BindGroup), groups: u32, times: u32) -> Result<Duration> {
    let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(kernel.0.get()?);
        pass.set_bind_group(0, &kernel.1, &[]);
        (0..times).for_each(|_| pass.dispatch_workgroups(groups, 1, 1));
    }
    let commands = encoder.finish();
    gpu.wait()?;
    let start = Instant::now();
    gpu.queue.submit([commands]);
    gpu.wait()?;
    Ok(start.elapsed())
}
