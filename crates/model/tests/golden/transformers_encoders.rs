//! The reference executor against the vectors of Hugging Face transformers, on small random encoders.
//! `tests/transformers/make_encoders.py` made the files.

use std::sync::Arc;

use gleed_gguf::Gguf;
use gleed_model::arithmetic::PAGE;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::{Activation, Op, Output};
use gleed_model::reference::Options;
use gleed_model::{Arithmetic, Batch, Executor, KvType, Program, Reference, Row};

/// Both sides compute in f32 and differ in the order of additions: at most 1.1e-6 was measured, in vectors whose values
/// are about as large as 1.
const LIMIT: f32 = 5e-6;
/// What leaving out any detail of a model must move some value by, at the very least.
const VISIBLE: f32 = 60.0 * LIMIT;

#[derive(serde::Deserialize)]
struct Truth {
    texts: Vec<Text>,
}

#[derive(serde::Deserialize)]
struct Text {
    tokens: Vec<u32>,
    vector: Vec<f32>,
}

/// A model and what transformers computes with it.
struct Case {
    name: &'static str,
    file: Arc<Gguf>,
    program: Program,
    texts: Vec<Text>,
}

impl Case {
    fn open(name: &'static str) -> Case {
        let (file, model, Truth { texts }) = crate::open("encoders", name);
        Case { name, file, program: model.program, texts }
    }

    /// The largest difference from transformers, all texts in one step.
    fn difference(&self, program: &Program) -> f32 {
        let Output::Embedding(pooling) = program.output else { panic!("{} gives logits", self.name) };
        let (mut batch, mut page) = (Batch::default(), 0);
        for Text { tokens, .. } in &self.texts {
            let count = tokens.len().div_ceil(PAGE) as u32;
            let table = batch.add_table(&(page..page + count).collect::<Vec<_>>());
            page += count;
            for (position, &token) in tokens.iter().enumerate() {
                let wants_logits = position == pooling.wanted(tokens.len());
                batch.push(Row { table, position: position as u32, token, wants_logits });
            }
        }
        let (arithmetic, kv, rounds_to_groups) = (Arithmetic::F32, KvType::F32, None);
        let options =
            Options { arithmetic, rounds_to_groups, kv, max_rows: batch.rows().len(), pages: page as usize };
        let mut executor = Reference::new(self.file.clone(), program.clone(), options).unwrap();
        executor.step(&batch, &mut ()).unwrap();
        let mut worst = 0f32;
        for (index, Text { vector, .. }) in self.texts.iter().enumerate() {
            let ours = executor.logits(index);
            assert_eq!(ours.len(), vector.len());
            worst = ours.iter().zip(vector).map(|(a, b)| (a - b).abs()).fold(worst, f32::max);
        }
        worst
    }

    fn agrees(&self) {
        for rules in [Rules::NONE, Rules::ALL] {
            let difference = self.difference(&fuse(&self.program, rules));
            println!("{}: {difference:.1e}", self.name);
            assert!(difference < LIMIT, "{}: vectors differ by {difference}", self.name);
        }
    }

    /// A wrong program must be visibly wrong: otherwise the comparison would not notice that mistake.
    fn notices(&self, what: &str, mut change: impl FnMut(&mut Op)) {
        let mut program = self.program.clone();
        program.nodes.iter_mut().for_each(|node| change(&mut node.op));
        assert_ne!(program, self.program, "{}: {what} changes nothing", self.name);
        let difference = self.difference(&program);
        assert!(difference > VISIBLE, "{}: {what} moves the vectors by {difference} only", self.name);
    }
}

#[test]
fn bert() {
    let case = Case::open("bert");
    case.agrees();
    case.notices("causality", |op| {
        if let Op::Attention { attention, .. } = op {
            attention.causal = true;
        }
    });
    case.notices("another GELU", |op| {
        if let Op::Activate { activation, .. } = op {
            *activation = Activation::Gelu;
        }
    });
    let mut without = case.program.clone();
    for kind in ["add-vector", "add-positions"] {
        without.nodes.retain(|node| node.op.kind() != kind);
        assert!(case.difference(&without) > VISIBLE, "{kind}");
    }
}

#[test]
fn modern_bert() {
    let case = Case::open("modern-bert");
    case.agrees();
    case.notices("no windows", |op| {
        if let Op::Attention { attention, .. } = op {
            attention.window = None;
        }
    });
    case.notices("a window that is wider by one on either side", |op| {
        if let Op::Attention { attention, .. } = op {
            attention.window = attention.window.map(|window| window + 2);
        }
    });
    case.notices("one rotary table for all layers", |op| {
        if let Op::Rope { rope, .. } = op {
            *rope = 0;
        }
    });
    case.notices("norms of rows that keep their mean", |op| {
        if let Op::Center { input, out, .. } = op {
            let (input, out) = (*input, *out);
            *op = Op::Activate { activation: Activation::Identity, gate: input, up: None, out };
        }
    });
}
