//! Measures what a decoded token or a prompt waits for besides its linear layers: attention, the residual sum
//! with its norm, and head norms with rotation and KV write, each alone, many in one pass.
//!
//! `attention_bench [--adapter NAME] [--arithmetic q8|f32|f16] [--kv f16|f32|q8_0] [--heads QUERYxKEYxDIM[xVALUEDIM]]
//! [--layers N] [--times N] [--only attention|norm|heads] [--window N] [--soft-cap X] [--sinks]
//! [ROWS@DEPTH | SEQUENCESxDEPTH]…`
//! `512@0` is a prompt of 512 rows, `1@8192` a row that sees 8,192 others, `32x500` one row of each of 32
//! sequences. Layers have caches of their own, so that a deep context does not stay in the device's cache.
//! Of an 8B model, with no arguments.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gleed_gguf::{Format, Gguf, Metadata, TensorSpec, Writer};
use gleed_gpu::{Gpu, GpuExecutor, Options, Selection};
use gleed_model::program::{
    Attention, Buffer, KvLayer, Node, Norm, Op, Output, Program, Projection, View, Weight,
};
use gleed_model::rope::{Pairing, Rope, Scaling};
use gleed_model::{Arithmetic, Batch, KvType, Row};

const PAGE: usize = 64;
const VOCABULARY: usize = 8;

/// Rows of a step: `sequences` sequences, each with `rows` rows from the position `depth` on.
#[derive(Debug, Clone, Copy)]
struct Load {
    sequences: usize,
    rows: usize,
    depth: usize,
}

struct Arguments {
    adapter: Option<String>,
    arithmetic: Arithmetic,
    kv: KvType,
    heads: usize,
    cache: KvLayer,
    layers: usize,
    times: Option<usize>,
    only: Option<String>,
    window: Option<usize>,
    soft_cap: Option<f32>,
    sinks: bool,
    loads: Vec<Load>,
}

fn parse() -> Result<Arguments, Box<dyn Error>> {
    let mut parsed = Arguments {
        adapter: None,
        arithmetic: Arithmetic::Q8,
        kv: KvType::F16,
        heads: 32,
        cache: KvLayer { heads: 8, key_dim: 128, value_dim: 128 },
        layers: 8,
        times: None,
        only: None,
        window: None,
        soft_cap: None,
        sinks: false,
        loads: vec![],
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--adapter" => parsed.adapter = Some(value()?),
            "--arithmetic" => parsed.arithmetic = value()?.parse()?,
            "--kv" => parsed.kv = value()?.parse()?,
            "--layers" => parsed.layers = value()?.parse()?,
            "--times" => parsed.times = Some(value()?.parse()?),
            "--only" => parsed.only = Some(value()?),
            "--window" => parsed.window = Some(value()?.parse()?),
            "--soft-cap" => parsed.soft_cap = Some(value()?.parse()?),
            "--sinks" => parsed.sinks = true,
            "--heads" => {
                let text = value()?;
                let numbers = text.split('x').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
                let (heads, kv_heads, key_dim, value_dim) = match numbers[..] {
                    [heads, kv_heads, dim] => (heads, kv_heads, dim, dim),
                    [heads, kv_heads, key_dim, value_dim] => (heads, kv_heads, key_dim, value_dim),
                    _ => return Err("--heads 32x8x128, --heads 16x1x576x512".into()),
                };
                (parsed.heads, parsed.cache) = (heads, KvLayer { heads: kv_heads, key_dim, value_dim });
            }
            load => parsed.loads.push(load_of(load)?),
        }
    }
    if parsed.loads.is_empty() {
        let texts = ["1@100", "1@1000", "1@8192", "32x500", "19@0", "103@0", "512@0", "2048@0", "512@8192"];
        parsed.loads = texts.into_iter().map(load_of).collect::<Result<_, _>>()?;
    }
    Ok(parsed)
}

fn load_of(text: &str) -> Result<Load, Box<dyn Error>> {
    let unknown = || format!("{text} is nothing known: 1@8192, 512@0, 32x500");
    if let Some((rows, depth)) = text.split_once('@') {
        return Ok(Load { sequences: 1, rows: rows.parse()?, depth: depth.parse()? });
    }
    let (sequences, depth) = text.split_once('x').ok_or_else(unknown)?;
    Ok(Load { sequences: sequences.parse()?, rows: 1, depth: depth.parse()? })
}

impl Load {
    fn pages(&self) -> usize {
        (self.depth + self.rows).div_ceil(PAGE)
    }

    fn batch(&self) -> Batch {
        let mut batch = Batch::default();
        let pages = self.pages();
        for sequence in 0..self.sequences {
            let table: Vec<u32> = (0..pages).map(|page| (sequence * pages + page) as u32).collect();
            batch.add_table(&table);
            for row in 0..self.rows {
                let position = (self.depth + row) as u32;
                batch.push(Row { table: sequence as u32, position, token: 1, wants_logits: false });
            }
        }
        batch
    }

    /// Positions that all rows see together, of a window where there is one.
    fn seen(&self, window: Option<usize>) -> usize {
        let seen = |row: usize| (self.depth + row + 1).min(window.unwrap_or(usize::MAX));
        self.sequences * (0..self.rows).map(seen).sum::<usize>()
    }

    /// Positions of the cache that they look at.
    fn stored(&self, window: Option<usize>) -> usize {
        let near = window.map_or(usize::MAX, |window| window + self.rows - 1);
        self.sequences * (self.depth + self.rows).min(near)
    }
}

/// All layers' head norms, rotations and KV writes, then their attention, then their sums and norms.
fn program(arguments: &Arguments) -> Program {
    let Arguments { heads, cache, layers, .. } = arguments;
    let KvLayer { heads: kv_heads, key_dim, value_dim } = *cache;
    let (queries, keys, values) = (heads * key_dim, kv_heads * key_dim, kv_heads * value_dim);
    let widths = [queries + keys + values, heads * value_dim, heads * value_dim, VOCABULARY];
    let view = |buffer: usize| View { buffer, offset: 0, width: widths[buffer] };
    let names = ["projected", "attended", "normed", "logits"];
    let weight = |rows: usize, columns: usize| {
        let name = format!("{rows} x {columns}");
        Weight { name, experts: 1, rows, columns, format: Format::F32 }
    };
    let projected = view(0);
    let norm = |weight: usize| Norm { weight, bias: None, epsilon: 1e-6 };
    let residual = projected.part(0, widths[1].min(projected.width));
    let mut ops = vec![Op::Embed { table: 0, out: projected }];
    ops.extend((0..*layers).map(|cache| Op::RopeKvWrite {
        cache,
        heads: *heads,
        query_rope: 0,
        key_rope: 0,
        query_norm: Some(norm(1)),
        key_norm: Some(norm(1)),
        query: projected.part(0, queries),
        key: projected.part(queries, keys),
        value: projected.part(queries + keys, values),
    }));
    let query = projected.part(0, queries);
    let scale = 1.0 / (key_dim as f32).sqrt();
    ops.extend((0..*layers).map(|cache| Op::Attention {
        attention: Attention {
            window: arguments.window,
            soft_cap: arguments.soft_cap,
            sinks: arguments.sinks.then_some(4),
            ..Attention::over_all(cache, *heads, scale)
        },
        query,
        out: view(1),
    }));
    ops.extend((0..*layers).map(|_| Op::AddNorm { x: residual, y: view(1), norm: norm(2), out: view(2) }));
    ops.push(Op::Gather { views: vec![view(2)] });
    ops.push(Op::Linear { parts: vec![Projection { weight: 3, bias: None }], input: view(2), out: view(3) });
    let rope = Rope::new(Pairing::SplitHalf, key_dim, 1e6, &Scaling::None, None);
    Program {
        buffers: names.iter().zip(widths).map(|(name, width)| Buffer { name, width }).collect(),
        weights: vec![
            weight(VOCABULARY, widths[0]),
            weight(1, key_dim),
            weight(1, widths[1]),
            weight(VOCABULARY, widths[1]),
            weight(1, *heads),
        ],
        nodes: ops.into_iter().map(|op| Node { op, labels: vec![], layer: None }).collect(),
        caches: vec![*cache; *layers],
        states: vec![],
        ropes: rope.into_iter().collect(),
        adapters: vec![],
        output: Output::Logits,
        logits: view(3),
        vocabulary: VOCABULARY,
        context: 1 << 17,
    }
}

fn file(program: &Program) -> Result<Arc<Gguf>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("bench.gguf");
    let shape = |weight: &Weight| match weight.rows {
        1 => vec![weight.columns],
        rows => vec![weight.columns, rows],
    };
    let spec = |weight: &Weight| TensorSpec {
        name: weight.name.clone(),
        shape: shape(weight),
        format: weight.format,
    };
    let specs: Vec<TensorSpec> = program.weights.iter().map(spec).collect();
    let mut writer = Writer::create(&path, &Metadata::default(), &specs)?;
    for weight in &program.weights {
        let value = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 50.0;
        let values = (0..weight.rows * weight.columns).map(value);
        writer.write(&weight.name, &values.flat_map(f32::to_le_bytes).collect::<Vec<u8>>())?;
    }
    writer.finish()?;
    Ok(Arc::new(Gguf::from_vec("bench.gguf", std::fs::read(&path)?)?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = parse()?;
    let choice = arguments.adapter.as_deref().map_or(Selection::BestOrSoftware, Selection::Named);
    let gpu = Gpu::open(choice)?;
    println!("{}, {}, kv {}", gpu.info, arguments.arithmetic, arguments.kv);
    let program = program(&arguments);
    let most = |of: fn(&Load) -> usize| arguments.loads.iter().map(of).max().unwrap_or(0);
    let options = Options {
        arithmetic: arguments.arithmetic,
        kv: arguments.kv,
        max_rows: most(|load| load.sequences * load.rows),
        pages: most(|load| load.sequences * load.pages()),
        window_sequences: None,
        slots: 6,
        logits_rows: Some(1),
    };
    let mut executor = GpuExecutor::new(gpu, &*file(&program)?, program, options)?;
    println!("{:>10} {:>10} {:>12} {:>8} {:>8}", "op", "rows", "us", "GB/s", "TFLOP/s");
    for load in &arguments.loads {
        for (index, kind) in ["heads", "attention", "norm"].into_iter().enumerate() {
            if arguments.only.as_ref().is_none_or(|only| only == kind) {
                measure(&mut executor, &arguments, load, kind, index)?;
            }
        }
    }
    Ok(())
}

fn measure(
    executor: &mut GpuExecutor,
    arguments: &Arguments,
    load: &Load,
    kind: &str,
    index: usize,
) -> Result<(), Box<dyn Error>> {
    let Arguments { heads, cache, layers, window, .. } = arguments;
    let nodes = 1 + index * layers..1 + (index + 1) * layers;
    let batch = load.batch();
    let rows = load.sequences * load.rows;
    let times = arguments.times.unwrap_or(if load.rows > 1 { 4 } else { 25 });
    // The first time is for drivers and caches.
    // A device that had nothing to do takes a while to reach its full clock.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        executor.time_together(&batch, nodes.clone(), 8)?;
    }
    let time = executor.time_together(&batch, nodes, times)?;
    let seconds = time.as_secs_f64() / (times * layers) as f64;
    let element = match arguments.kv {
        KvType::F32 => 4.0,
        KvType::F16 => 2.0,
        KvType::Q8_0 => 1.0625,
    };
    let dims = cache.key_dim + cache.value_dim;
    let width = heads * cache.key_dim;
    // What has to be read and written at least, and multiplied.
    let stored = (load.stored(*window) * cache.heads * dims) as f64 * element;
    let (bytes, work) = match kind {
        "attention" => (stored, 2.0 * (load.seen(*window) * heads * dims) as f64),
        "norm" => (16.0 * (rows * width) as f64, 0.0),
        _ => ((rows * (8 * width + 4 * cache.heads * dims)) as f64, 0.0),
    };
    let name = match load.sequences {
        1 => format!("{}@{}", load.rows, load.depth),
        sequences => format!("{sequences}x{}", load.depth),
    };
    println!(
        "{kind:>10} {name:>10} {:>12.2} {:>8.0} {:>8.2}",
        seconds * 1e6,
        bytes / seconds / 1e9,
        work / seconds / 1e12
    );
    Ok(())
}
