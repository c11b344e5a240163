//! Each linear kernel by itself: programs of one op over the model's own tensors, at several row counts.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::Result;
use gleed_cpu::Cpu;
use gleed_model::executor::{Buffers, Observer};
use gleed_model::program::{Buffer, Node, Op, Part, Program, View, Weight};
use gleed_model::{Batch, Executor, Row};
use serde_json::json;

use super::measure::Spread;
use crate::load::{Loaded, Options};
use crate::output::{self, Align, Table};
use crate::progress::Progress;

const ROWS: [usize; 5] = [1, 4, 16, 64, 512];
/// How long each cell of the table is measured, after one warm-up.
const MEASURE: Duration = Duration::from_millis(200);

/// Measures and prints.
pub fn run(loaded: &Loaded, options: &Options, as_json: bool) -> Result<()> {
    let weights = shapes(&loaded.model.program);
    let progress = Progress::new("kernels", (weights.len() * ROWS.len()) as u64);
    let mut table = Table::new(&[
        ("tensor", Align::Left),
        ("format", Align::Left),
        ("shape", Align::Right),
        ("rows", Align::Right),
        ("µs", Align::Right),
        ("GB/s", Align::Right),
        ("GOP/s", Align::Right),
        ("kernel", Align::Left),
    ]);
    let mut results = Vec::new();
    for weight in &weights {
        let program = alone(weight);
        let settings = gleed_cpu::Options {
            arithmetic: options.arithmetic.unwrap_or_default(),
            kv: options.kv,
            threads: options.threads.unwrap_or(0),
            isa: options.isa,
            max_rows: ROWS[ROWS.len() - 1],
            pages: 1,
            memory: None,
        };
        let mut executor = Cpu::new(loaded.file.clone(), program, settings)?;
        let kernel = executor.kernels().first().map(|k| k.kernel.to_string()).unwrap_or_default();
        for rows in ROWS {
            let seconds = time(&mut executor, rows)?;
            let gb = weight.bytes() as f64 / seconds / 1e9;
            let gop = (2 * weight.size() * rows) as f64 / seconds / 1e9;
            results.push(json!({
                "tensor": weight.name, "format": weight.format.name(), "outputs": weight.rows,
                "inputs": weight.columns, "rows": rows, "seconds": seconds,
                "gigabytes_per_second": gb, "gigaoperations_per_second": gop, "kernel": kernel,
            }));
            let cells = [
                weight.name.clone(),
                weight.format.name().to_string(),
                format!("{}×{}", weight.rows, weight.columns),
                rows.to_string(),
                format!("{:.1}", seconds * 1e6),
                format!("{gb:.1}"),
                format!("{gop:.1}"),
                kernel.clone(),
            ];
            table.row(cells.map(|c| (c, None)));
            progress.advance(1);
        }
    }
    progress.finish();
    if as_json {
        return output::print_json(&json!({ "model": loaded.name, "kernels": results }));
    }
    output::print(table.render(output::colour(&std::io::stdout())))
}

/// One tensor for each combination of format and shape that linear ops use.
fn shapes(program: &Program) -> Vec<Weight> {
    let mut seen = HashSet::new();
    let matrices = program.nodes.iter().flat_map(|n| n.op.matrices());
    matrices
        .map(|weight| program.weights[weight].clone())
        .filter(|w| seen.insert((w.format, w.rows, w.columns)))
        .collect()
}

/// A program that is one linear op, with rows of the same tensor as its inputs.
fn alone(weight: &Weight) -> Program {
    let input = View { buffer: 0, offset: 0, width: weight.columns };
    let out = View { buffer: 1, offset: 0, width: weight.rows };
    let node = |op| Node { op, labels: vec![weight.name.clone()], layer: None };
    let part = Part { weight: 0, bias: None };
    Program {
        buffers: vec![
            Buffer { name: "input", width: weight.columns },
            Buffer { name: "out", width: weight.rows },
        ],
        weights: vec![weight.clone()],
        nodes: vec![
            node(Op::Embed { table: 0, out: input }),
            node(Op::Linear { parts: vec![part], input, out }),
        ],
        caches: vec![],
        ropes: vec![],
        logits: out,
        vocabulary: weight.rows,
        context: 1,
    }
}

/// The time between the embedding's end and the linear op's.
#[derive(Default)]
struct Clock {
    embedded: Option<Instant>,
    seconds: f64,
}

impl Observer for Clock {
    fn after(&mut self, node: usize, _buffers: &dyn Buffers) {
        match node {
            0 => self.embedded = Some(Instant::now()),
            _ => self.seconds = self.embedded.map_or(0.0, |start| start.elapsed().as_secs_f64()),
        }
    }
}

/// The median time of the linear op over so many rows.
fn time(executor: &mut Cpu, rows: usize) -> Result<f64> {
    let mut batch = Batch::default();
    // No KV is used: every row may be position 0 of the same page.
    let table = batch.add_table(&[0]);
    for row in 0..rows {
        let token = (row % executor.program().vocabulary) as u32;
        batch.push(Row { table, position: 0, token, wants_logits: true });
    }
    let mut clock = Clock::default();
    executor.step(&batch, &mut clock)?;
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed() < MEASURE || times.len() < 3 {
        executor.step(&batch, &mut clock)?;
        times.push(clock.seconds);
    }
    Ok(Spread::of(&times).median)
}
