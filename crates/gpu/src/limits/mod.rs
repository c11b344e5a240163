//! What a device itself can do: bytes read from its memory, and operations, measured with kernels that do
//! nothing else. What other kernels reach is held against this.

use std::time::{Duration, Instant};

use crate::kernels::{Dispatch, Grid, Kernels, Source};
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
        let mut kernels = Kernels::new(gpu.clone(), 0);
        let out = gpu.storage("limits", 16)?;
        let inputs = [0, 0.999f32.to_bits(), 0.001f32.to_bits(), 0];
        gpu.queue.write_buffer(&out, 0, bytemuck::cast_slice(&inputs));
        let memory = memory(&mut kernels, &out)?;
        let per_group = |each: usize| (THREADS * 16 * STEPS * each) as f64;
        let mut compute = |name, text, each| {
            let source = Source::new(name, text).size("STEPS", STEPS).write("out", "u32", &out);
            let dispatch = kernels.dispatch(source, Grid::Rows(1))?;
            rate(gpu, &dispatch, 64, MOST_WORKGROUPS, per_group(each))
        };
        let f16_units = gpu.fragments().map(|fragments| of_units(gpu, fragments, &out)).transpose()?;
        Ok(Limits {
            f16_units,
            memory,
            f32: compute("limit of f32", include_str!("f32.wgsl"), 2)?,
            int8: compute("limit of int8", include_str!("int8.wgsl"), 8)?,
        })
    }
}

/// Operations on halves of matrix units.
fn of_units(gpu: &Gpu, fragments: Fragments, out: &wgpu::Buffer) -> Result<f64> {
    let text = format!("const STEPS = {STEPS}u;\n{}", include_str!("units.wgsl"));
    let dispatch = units::kernel(gpu, fragments, "the limit of matrix units", &text, out)?;
    let per_subgroup = STEPS * 4 * 2 * 16 * 16 * 16;
    rate(gpu, &dispatch, 64, MOST_WORKGROUPS, (THREADS / 32 * per_subgroup) as f64)
}

/// Bytes read per second. A device that is nearly full gets a smaller buffer.
fn memory(kernels: &mut Kernels, out: &wgpu::Buffer) -> Result<f64> {
    let gpu = kernels.gpu.clone();
    let group = (THREADS * EACH * 16) as u64;
    let room =
        gpu.info.largest_binding.min(gpu.info.largest_buffer).min(gpu.free_memory().unwrap_or(BYTES) / 4);
    let mut groups = (BYTES.min(room) / group).max(1);
    let data = loop {
        match gpu.storage("what is read", groups * group) {
            Err(Error::OutOfMemory { .. }) if groups > 1 => groups /= 2,
            data => break data?,
        }
    };
    let source = Source::new("limit of memory", include_str!("memory.wgsl"));
    let source = source.size("EACH", EACH).read("data", "vec4<u32>", &data).write("out", "u32", out);
    let dispatch = kernels.dispatch(source, Grid::Rows(1))?;
    // The first time, the device clears the buffer.
    run(&gpu, &dispatch, 1, 1)?;
    rate(&gpu, &dispatch, groups as u32, groups as u32, group as f64)
}

/// Amounts per second of a kernel, each of whose workgroups does `each`; as many of them, and as often, as take
/// long enough to be timed.
fn rate(gpu: &Gpu, dispatch: &Dispatch, groups: u32, most_groups: u32, each: f64) -> Result<f64> {
    let (mut groups, mut times) = (groups, 1);
    let mut best = 0.0f64;
    let mut passes = 0;
    while passes < PASSES {
        let took = run(gpu, dispatch, groups, times)?;
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

/// Dispatches so many workgroups so many times, and waits for them.
fn run(gpu: &Gpu, dispatch: &Dispatch, groups: u32, times: u32) -> Result<Duration> {
    let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(dispatch.pipeline.get()?);
        pass.set_bind_group(0, &dispatch.bindings, &[]);
        (0..times).for_each(|_| pass.dispatch_workgroups(groups, 1, 1));
    }
    let commands = encoder.finish();
    gpu.wait()?;
    let start = Instant::now();
    gpu.queue.submit([commands]);
    gpu.wait()?;
    Ok(start.elapsed())
}
