//! Measures linear layers on an adapter: GB/s of weights for few rows, TFLOP/s for many.
//!
//! `linear_bench [--adapter NAME] [--tiling auto|few1|few1x2|many64|halves64x1x2] [--floats] [--halves | --single]
//! [--gated] [--spread-mib N] [--dispatches N] [OUTPUTSxCOLUMNS]… [FORMAT]… [ROWS]…`
//! `--single` measures a single row of halves. With no shape, those of an 8B model. Times are from timestamp queries around
//! dispatches in one pass, over so many copies of the weights that no cache holds them.

use std::error::Error;
use std::time::{Duration, Instant};

use gleed_gguf::Format;
use gleed_gpu::linear::{
    Conversion, HalfRows, Input, Layout, Linear, LinearKernels, Matrix, Operands, PackedWeight, Packing,
    Quantized, RowsView, Tiling,
};
use gleed_gpu::{Bound, Buffers, Gpu, Kernels, Run, Selection, upload};
use gleed_model::program::Activation;

/// Bytes of weights that one measurement goes through before it reads any of them again.
const SPREAD: u64 = 1 << 30;

/// Dispatches of a measurement.
const DISPATCHES: usize = 200;

/// Times that all tilings take their turns.
const ROUNDS: usize = 5;

struct Arguments {
    adapter: Option<String>,
    tilings: Option<Vec<Tiling>>,
    floats: bool,
    halves: bool,
    single: bool,
    shapes: Vec<(usize, usize)>,
    formats: Vec<Format>,
    rows: Vec<u32>,
    gated: bool,
    spread: u64,
    dispatches: usize,
}

fn parse() -> Result<Arguments, Box<dyn Error>> {
    let mut parsed = Arguments {
        adapter: None,
        tilings: None,
        floats: false,
        halves: false,
        single: false,
        shapes: vec![],
        formats: vec![],
        rows: vec![],
        gated: false,
        spread: SPREAD,
        dispatches: DISPATCHES,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        if argument == "--adapter" {
            parsed.adapter = Some(value()?);
        } else if argument == "--tiling" {
            let more = tilings(&value()?)?;
            parsed.tilings = parsed.tilings.into_iter().chain(more).reduce(|all, more| [all, more].concat());
        } else if argument == "--spread-mib" {
            parsed.spread = value()?.parse::<u64>()? << 20;
        } else if argument == "--dispatches" {
            parsed.dispatches = value()?.parse()?;
        } else if argument == "--floats" {
            parsed.floats = true;
        } else if argument == "--halves" {
            parsed.halves = true;
        } else if argument == "--single" {
            (parsed.halves, parsed.single) = (true, true);
        } else if argument == "--gated" {
            parsed.gated = true;
        } else if let Some((outputs, columns)) = argument.split_once('x') {
            parsed.shapes.push((outputs.parse()?, columns.parse()?));
        } else if let Some(format) = Format::from_name(&argument) {
            parsed.formats.push(format);
        } else {
            parsed.rows.push(argument.parse().map_err(|_| format!("{argument} is nothing known"))?);
        }
    }
    if parsed.shapes.is_empty() {
        parsed.shapes = vec![(4096, 4096), (12288, 4096), (4096, 12288)];
    }
    if parsed.formats.is_empty() {
        parsed.formats = vec![Format::Q4_K, Format::Q6_K, Format::Q8_0];
    }
    if parsed.rows.is_empty() {
        parsed.rows = vec![1, 2, 4, 8, 16, 32, 64, 512];
    }
    Ok(parsed)
}

fn tilings(name: &str) -> Result<Option<Vec<Tiling>>, Box<dyn Error>> {
    let numbers = |text: &str| -> Result<Vec<u32>, Box<dyn Error>> {
        Ok(text.split('x').map(str::parse).collect::<Result<_, _>>()?)
    };
    let chosen = if name == "auto" {
        return Ok(None);
    } else if let Some(text) = name.strip_prefix("few") {
        let numbers = numbers(text)?;
        vec![Tiling::Few { rows: numbers[0], outputs: numbers.get(1).copied().unwrap_or(1) }]
    } else if let Some(text) = name.strip_prefix("many") {
        vec![Tiling::Many { rows: numbers(text)?[0] }]
    } else if let Some(text) = name.strip_prefix("halves") {
        let [rows, split, across] = numbers(text)?[..] else {
            return Err(format!("{name}: halves64x1x2").into());
        };
        vec![Tiling::Halves { rows, split, across }]
    } else {
        return Err(format!("no tiling is called {name}: auto, few1, few1x2, many64, halves64x1x2").into());
    };
    Ok(Some(chosen))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = parse()?;
    let choice = arguments.adapter.as_deref().map_or(Selection::BestOrSoftware, Selection::Named);
    let gpu = Gpu::open(choice)?;
    println!("{} {:?}", gpu.info, gpu.info.cooperative_matrices);
    if !gpu.info.timestamps {
        return Err("the adapter has no timestamps".into());
    }
    println!("{:>14} {:>8} {:>5} {:>10} {:>8} {:>8}", "shape", "format", "rows", "us", "GB/s", "TFLOP/s");
    for &(outputs, columns) in &arguments.shapes {
        for &format in &arguments.formats {
            for &rows in &arguments.rows {
                measure(&gpu, &arguments, (outputs, columns), format, rows)?;
            }
        }
    }
    Ok(())
}

/// The kernels that are measured in turns: tilings for halves; of others the one that fits the number of rows.
fn variants(kernels: &mut Kernels, arguments: &Arguments) -> Vec<(String, LinearKernels)> {
    let tilings = |all: &[Tiling]| arguments.tilings.clone().unwrap_or(all.to_vec());
    let of_halves = |tiling: &Tiling| {
        let linear = LinearKernels::new(kernels, &[], &[]).with_halves(vec![*tiling]);
        (tiling.to_string(), linear)
    };
    match &arguments.tilings {
        Some(all) if arguments.halves => all.iter().map(of_halves).collect(),
        _ => {
            let (floats, integers) = (tilings(&Tiling::ALL), tilings(&Tiling::INTEGERS));
            vec![("".to_string(), LinearKernels::new(kernels, &floats, &integers))]
        }
    }
}

fn measure(
    gpu: &Gpu,
    arguments: &Arguments,
    (outputs, columns): (usize, usize),
    format: Format,
    rows: u32,
) -> Result<(), Box<dyn Error>> {
    let kernels = &mut Kernels::new(gpu.facts(), 0);
    let all_kernels = variants(kernels, arguments);
    let linear = &all_kernels[0].1;
    let packing = Packing::new("weights", format, outputs, columns)?;
    let packing = if arguments.halves { packing.for_halves() } else { packing };
    let values: Vec<f32> = (0..columns).map(|i| ((i * 37 % 101) as f32 - 50.0) / 500.0).collect();
    let mut row = vec![0; format.row_bytes(columns)?];
    format.encode(&values, &mut row)?;
    let file = row.repeat(outputs);
    let matrices = if arguments.gated { 2 } else { 1 };
    let bytes = matrices * packing.bytes();
    let copies = arguments.spread.div_ceil(bytes).clamp(1, arguments.dispatches as u64);
    let input = kernels.storage("input", 4 * (rows as usize * columns) as u64);
    let output = kernels.storage("output", 4 * (rows as usize * outputs) as u64);
    let batch = kernels.uniform("rows");
    let floats = RowsView { buffer: input, offset: 0, stride: columns as u32 };
    let quantized = Quantized::new(kernels, rows as usize, columns);
    let half_rows = HalfRows::new(kernels, rows as usize, columns);
    let integers = !arguments.floats && !arguments.halves && matches!(packing.layout(), Layout::Integers(_));
    let conversion = match (arguments.halves, integers) {
        (true, _) => Some(Conversion::to_halves(kernels, linear, floats, columns, half_rows, batch)),
        (_, true) => Some(Conversion::to_integers(kernels, linear, floats, columns, quantized, batch)),
        _ => None,
    };
    let operands = Operands {
        input: match integers {
            true => Input::Integers(quantized),
            false if arguments.single => Input::Single(half_rows),
            false if arguments.halves => Input::Halves(half_rows),
            false => Input::Floats(floats),
        },
        output: RowsView { buffer: output, offset: 0, stride: outputs as u32 },
        rounded: None,
        batch,
    };
    let mut room = || PackedWeight::new(kernels, "weights", packing.clone());
    let weights = (0..copies * matrices).map(|_| room()).collect::<Result<Vec<_>, _>>()?;
    let mut layers = |linear: &LinearKernels| {
        let layer = |weights: &[PackedWeight]| {
            let all: Vec<Matrix> = weights.iter().map(|weight| Matrix { weight, bias: None }).collect();
            match all[..] {
                [gate, up] => Linear::gated(kernels, linear, "bench", Activation::Silu, [gate, up], operands),
                _ => Linear::new(kernels, linear, "bench", all[0], operands),
            }
        };
        weights.chunks(matrices as usize).map(layer).collect::<Result<Vec<_>, _>>()
    };
    let all = all_kernels.iter().map(|(_, linear)| layers(linear)).collect::<Result<Vec<_>, _>>()?;
    let (mut buffers, mut bound) = (Buffers::default(), Bound::default());
    buffers.allocate(gpu, kernels)?;
    bound.bind(gpu, kernels, &buffers)?;
    gpu.queue.write_buffer(&buffers[batch], 0, bytemuck::cast_slice(&[rows, 0, 0, 0]));
    gpu.queue.write_buffer(&buffers[input], 0, bytemuck::cast_slice(&values.repeat(rows as usize)));
    let chunks: Vec<_> = weights.iter().flat_map(|weight| weight.chunks(&[&file])).collect();
    upload(gpu, &buffers, &chunks, &mut |_| {})?;
    let runs = |layers: &[Linear]| -> Vec<Run> { layers.iter().flat_map(|layer| layer.runs(rows)).collect() };
    let all: Vec<Vec<Run>> = all.iter().map(|layers| runs(layers)).collect();
    time(gpu, &bound, conversion.and_then(|conversion| conversion.run(rows)).as_slice(), 1)?;
    // A device that had nothing to do while the weights were packed takes a while to reach its full clock.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(400) {
        time(gpu, &bound, &all[0], all[0].len())?;
    }
    let mut times = vec![Vec::new(); all.len()];
    for _ in 0..ROUNDS {
        for (runs, times) in all.iter().zip(&mut times) {
            times.push(time(gpu, &bound, runs, arguments.dispatches)? / arguments.dispatches as f64);
        }
    }
    for ((name, _), times) in all_kernels.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let seconds = times[ROUNDS / 2];
        let work = 2.0 * (matrices as usize * outputs * columns * rows as usize) as f64;
        println!(
            "{:>14} {format:>8} {rows:>5} {:>10.2} {:>8.0} {:>8.2} {name}",
            format!("{outputs}x{columns}"),
            seconds * 1e6,
            bytes as f64 / seconds / 1e9,
            work / seconds / 1e12
        );
    }
    Ok(())
}

/// Seconds of `dispatches` dispatches, one layer after the other.
fn time(gpu: &Gpu, bound: &Bound, runs: &[Run], dispatches: usize) -> Result<f64, Box<dyn Error>> {
    let queries = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
        label: None,
        ty: wgpu::QueryType::Timestamp,
        count: 2,
    });
    let buffer = |usage| {
        gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 16,
            usage,
            mapped_at_creation: false,
        })
    };
    let resolved = buffer(wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC);
    let read = buffer(wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ);
    let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
            label: None,
            timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                query_set: &queries,
                beginning_of_pass_write_index: Some(0),
                end_of_pass_write_index: Some(1),
            }),
        });
        for run in runs.iter().cycle().take(dispatches) {
            bound.record(&mut pass, *run)?;
        }
    }
    encoder.resolve_query_set(&queries, 0..2, &resolved, 0);
    encoder.copy_buffer_to_buffer(&resolved, 0, &read, 0, 16);
    gpu.queue.submit([encoder.finish()]);
    read.slice(..).map_async(wgpu::MapMode::Read, |_| {});
    gpu.wait()?;
    let mapped = read.slice(..).get_mapped_range()?;
    let ticks: &[u64] = bytemuck::cast_slice(&mapped);
    Ok((ticks[1] - ticks[0]) as f64 * f64::from(gpu.queue.get_timestamp_period()) * 1e-9)
}
