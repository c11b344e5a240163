//! What goes into a model's linear layers while it reads a text: the [importance matrix](Importance) by which weights
//! are quantised.
//!
//! The method is llama.cpp's, so that the files can be used for each other: windows of `context` tokens, each computed
//! from an empty sequence, its first token replaced by the beginning-of-sequence token if the model uses one; of every
//! row that a matrix is multiplied with, the square of each value is added to the sum of its column.

use gleed_gguf::{Importance, InputSquares};
use gleed_model::executor::{Buffers, Observer};
use gleed_model::program::{Op, Program, View, WeightId, experts_used};

use crate::engine::Turn;
use crate::perplexity::windows;
use crate::{Engine, Result, Sequence};

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportanceSettings {
    /// Tokens per window.
    pub context: usize,
    /// The most windows to measure; none measures the whole text.
    pub chunks: Option<usize>,
    /// Replaces the first token of each window, for models that put it before every text.
    pub bos: Option<u32>,
    /// Whether the matrix of the output is measured too, beside those of the layers.
    pub output: bool,
}

/// Measures what goes into the linear layers, telling `progress` how many windows are done and of how many. A last
/// window that is not full is left out. The tokens should begin as the model's prompts do.
pub fn importance(
    engine: &mut Engine,
    tokens: &[u32],
    settings: ImportanceSettings,
    mut progress: impl FnMut(usize, usize),
) -> Result<Importance> {
    let windows = windows(engine, tokens, settings.context, settings.chunks)?;
    let chunks = windows.len();
    let mut inputs = Inputs::of(engine.executor().program(), settings.output);
    let rows = engine.max_rows().max(1);
    for (chunk, text) in windows.enumerate() {
        let mut sequence = Sequence::default();
        sequence.push(settings.bos.unwrap_or(text[0]));
        sequence.extend(&text[1..]);
        while !sequence.pending().is_empty() {
            // A row that wants no logits would not go through all of the last layer.
            let turn = Turn { sequence: &mut sequence, rows, logits: 0..settings.context, guesses: 0 };
            engine.step_observed(&mut [turn], &mut inputs)?;
        }
        progress(chunk + 1, chunks);
    }
    Ok(Importance {
        datasets: vec![],
        chunks: chunks as u32,
        chunk_size: settings.context as u32,
        inputs: inputs.measured.into_iter().map(Measured::finished).collect(),
    })
}

/// What has been read of all layers.
struct Inputs {
    /// For each node of the program what it multiplies with which of the measured weights.
    nodes: Vec<Option<Product>>,
    measured: Vec<Measured>,
    /// The rows that were read last, and the experts that they chose.
    rows: Vec<f32>,
    choices: Vec<f32>,
}

/// A linear op.
struct Product {
    /// What it multiplies with, as indices of [`Inputs::measured`].
    weights: Vec<usize>,
    input: View,
    choice: Option<View>,
}

/// The sums of one weight, in f64 so that long texts lose nothing.
struct Measured {
    name: String,
    columns: usize,
    experts: usize,
    sums: Vec<f64>,
    /// One for each expert, or one for all matrices where every row is multiplied with all of them.
    counts: Vec<u64>,
}

impl Inputs {
    /// Nothing yet of the weights of a program's layers, and of its output if that is wanted too. Adapters' matrices
    /// are not part of the model.
    fn of(program: &Program, output: bool) -> Inputs {
        let mut measured: Vec<Measured> = Vec::new();
        let mut places: Vec<Option<usize>> = vec![None; program.weights.len()];
        let mut product = |op: &Op, in_layer: bool| {
            let (input, choice) = match op {
                Op::Linear { input, .. } | Op::GatedLinear { input, .. } => (*input, None),
                Op::ExpertLinear { input, choice, .. } => (*input, *choice),
                _ => return None,
            };
            let mut place = |id: WeightId| {
                let weight = &program.weights[id];
                if !weight.name.ends_with(".weight") || !(in_layer || output) {
                    return None;
                }
                Some(*places[id].get_or_insert_with(|| {
                    let counts = if choice.is_some() { weight.experts } else { 1 };
                    measured.push(Measured {
                        name: weight.name.clone(),
                        columns: weight.columns,
                        experts: weight.experts,
                        sums: vec![0.0; weight.columns * weight.experts],
                        counts: vec![0; counts],
                    });
                    measured.len() - 1
                }))
            };
            let weights: Vec<usize> = op.matrices().into_iter().filter_map(&mut place).collect();
            (!weights.is_empty()).then_some(Product { weights, input, choice })
        };
        let nodes = program.nodes.iter().map(|node| product(&node.op, node.layer.is_some())).collect();
        Inputs { nodes, measured, rows: vec![], choices: vec![] }
    }
}

impl Observer for Inputs {
    fn after(&mut self, node: usize, buffers: &dyn Buffers) {
        let Some(Some(Product { weights, input, choice })) = self.nodes.get(node) else { return };
        self.rows.clear();
        buffers.read(*input, &mut self.rows);
        self.choices.clear();
        if let Some(choice) = choice {
            buffers.read(*choice, &mut self.choices);
        }
        for &weight in weights {
            self.measured[weight].add(&self.rows, input.width, &self.choices, *choice);
        }
    }
}

impl Measured {
    /// Adds rows of `width` values, each of them multiplied with the experts of its choice or with all matrices.
    fn add(&mut self, rows: &[f32], width: usize, choices: &[f32], choice: Option<View>) {
        let used = experts_used(choice, self.experts);
        for (r, row) in rows.chunks_exact(width).enumerate() {
            for slot in 0..used {
                let expert = choice.map_or(slot, |choice| choices[r * choice.width + slot] as usize);
                // One input for all experts of a row, or one for each.
                let from = if width == self.columns { 0 } else { slot * self.columns };
                let sums = &mut self.sums[expert * self.columns..][..self.columns];
                for (sum, value) in sums.iter_mut().zip(&row[from..from + self.columns]) {
                    *sum += f64::from(*value) * f64::from(*value);
                }
                if choice.is_some() {
                    self.counts[expert] += 1;
                }
            }
            if choice.is_none() {
                self.counts[0] += 1;
            }
        }
    }

    fn finished(self) -> (String, InputSquares) {
        let sums = self.sums.iter().map(|sum| *sum as f32).collect();
        (self.name, InputSquares { sums, counts: self.counts.iter().map(|count| *count as f32).collect() })
    }
}
