//! A program in the making, with random weights.

use std::sync::Arc;

use gleed_gguf::{Format, Gguf, Metadata};
use gleed_model::program::{Buffer, Node, Op, Output, Program, View, Weight, WeightId};

use super::{Random, file};

/// What has been added so far.
pub struct Case {
    pub random: Random,
    tensors: Vec<(String, Vec<usize>, Format, Vec<u8>)>,
    pub program: Program,
}

impl Case {
    /// Nothing yet.
    pub fn empty(seed: u64, vocabulary: usize, context: usize) -> Case {
        let program = Program {
            buffers: vec![],
            weights: vec![],
            nodes: vec![],
            caches: vec![],
            states: vec![],
            ropes: vec![],
            adapters: vec![],
            output: Output::Logits,
            logits: View { buffer: 0, offset: 0, width: 0 },
            vocabulary,
            context,
        };
        Case { random: Random::new(seed), tensors: vec![], program }
    }

    pub fn buffer(&mut self, name: &'static str, width: usize) -> View {
        self.program.buffers.push(Buffer { name, width });
        View { buffer: self.program.buffers.len() - 1, offset: 0, width }
    }

    /// A matrix, or a vector where there is one row.
    pub fn weight(&mut self, rows: usize, columns: usize, format: Format) -> WeightId {
        let name = format!("weight {}", self.program.weights.len());
        let values = self.random.units(rows * columns);
        let mut bytes = vec![0; values.len() / format.block_len() * format.block_bytes()];
        format.encode(&values, &mut bytes).unwrap();
        let shape = if rows == 1 { vec![columns] } else { vec![columns, rows] };
        self.tensors.push((name.clone(), shape, format, bytes));
        self.program.weights.push(Weight { name, experts: 1, rows, columns, format });
        self.program.weights.len() - 1
    }

    /// One of floats.
    pub fn floats(&mut self, rows: usize, columns: usize) -> WeightId {
        self.weight(rows, columns, Format::F32)
    }

    pub fn push(&mut self, op: Op) {
        let labels = vec![format!("{}", self.program.nodes.len())];
        self.program.nodes.push(Node { op, labels, layer: None });
    }

    /// The program is done; its last op writes these.
    pub fn with_logits(mut self, logits: View) -> (Arc<Gguf>, Program) {
        self.program.logits = logits;
        (file(&Metadata::default(), &self.tensors), self.program)
    }
}
