//! Each linear kernel by itself: programs of one op over the model's own tensors, at several row counts.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gleed_cpu::Cpu;
use gleed_gguf::Gguf;
use gleed_model::executor::{Buffers, Observer};
use gleed_model::program::{Buffer, Node, Op, Output, Program, Projection, View, Weight};
use gleed_model::{Batch, Executor, Row};
use serde::Serialize;

use crate::spread::Spread;
use crate::{Progress, Result};

const ROWS: [usize; 5] = [1, 4, 16, 64, 512];
/// How long each cell of the table is measured, after one warm-up.
const MEASURE: Duration = Duration::from_millis(200);

/// The time of one kernel over some rows.
#[derive(Clone, Debug, Serialize)]
pub struct KernelTime {
    /// The tensor that was multiplied.
    pub tensor: String,
    /// Its format.
    pub format: &'static str,
    /// Its rows.
    pub outputs: usize,
    /// Its columns.
    pub inputs: usize,
    /// Rows of activations.
    pub rows: usize,
    /// The median time.
    pub seconds: f64,
    /// Bytes of the tensor over the time, in billions.
    pub gigabytes_per_second: f64,
    /// Operations over the time, in billions.
    pub gigaoperations_per_second: f64,
    /// The kernel that the tensor gets.
    pub kernel: String,
}

/// Measures every combination of format and shape in a program's linear ops, on the CPU. `options` say how;
/// its rows and pages are chosen here.
pub fn kernels(
    file: &Arc<Gguf>,
    program: &Program,
    options: &gleed_cpu::Options,
    progress: Progress<'_>,
) -> Result<Vec<KernelTime>> {
    let weights = shapes(program);
    let total = weights.len() * ROWS.len();
    let options = gleed_cpu::Options { max_rows: ROWS[ROWS.len() - 1], pages: 1, ..*options };
    let mut times = Vec::new();
    for weight in &weights {
        let mut executor = Cpu::new(file.clone(), alone(weight), options)?;
        let kernel = executor.kernels().first().map(|k| k.kernel.to_string()).unwrap_or_default();
        for rows in ROWS {
            progress(times.len(), total, &weight.name);
            let seconds = time(&mut executor, rows)?;
            times.push(KernelTime {
                tensor: weight.name.clone(),
                format: weight.format.name(),
                outputs: weight.rows,
                inputs: weight.columns,
                rows,
                seconds,
                gigabytes_per_second: weight.bytes() as f64 / seconds / 1e9,
                gigaoperations_per_second: (2 * weight.size() * rows) as f64 / seconds / 1e9,
                kernel: kernel.clone(),
            });
        }
    }
    Ok(times)
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
    let part = Projection { weight: 0, bias: None };
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
        states: vec![],
        ropes: vec![],
        adapters: vec![],
        output: Output::Logits,
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

/// The median time of the linear op over some rows.
fn time(executor: &mut Cpu, rows: usize) -> Result<f64> {
    let mut batch = Batch::default();
    // No KV is used: every row may be position 0 of a sequence of its own, all of them in the same page.
    for row in 0..rows {
        let table = batch.add_table(&[0]);
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
