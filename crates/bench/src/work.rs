//! How much work a test is: bytes that must be read and operations that must be done, op by op, whatever
//! the kernels do. What is measured is held against this.

use std::ops::{AddAssign, Range};

use gleed_model::program::{Node, Op, Program, experts_used};
use gleed_model::{Arithmetic, KvType};
use serde::Serialize;

use crate::limits::{Limits, Machine};
use crate::measurable::Measurable;
use crate::test::Test;

/// Bytes and operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Work {
    /// Bytes of weights, read once a step.
    #[serde(rename = "weight_bytes")]
    pub weights: f64,
    /// Bytes of keys and values, read once a step for each sequence.
    #[serde(rename = "kv_bytes")]
    pub kv: f64,
    /// Bytes of activations, read and written; of a GPU alone, whose small ops do nothing else. Those of a CPU
    /// stay in its caches.
    #[serde(rename = "activation_bytes")]
    pub activations: f64,
    /// Operations on bytes; a multiply-add is two.
    #[serde(rename = "int8_operations")]
    pub integer: f64,
    /// Operations on halves, likewise.
    #[serde(rename = "f16_operations")]
    pub half: f64,
    /// Operations on f32, likewise.
    #[serde(rename = "f32_operations")]
    pub float: f64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        self.weights += other.weights;
        self.kv += other.kv;
        self.activations += other.activations;
        self.integer += other.integer;
        self.half += other.half;
        self.float += other.float;
    }
}

impl Work {
    /// All bytes that must come from memory.
    pub fn bytes(&self) -> f64 {
        self.weights + self.kv
    }

    /// All operations.
    pub fn operations(&self) -> f64 {
        self.integer + self.half + self.float
    }

    /// The seconds that it takes at least, and which limit says so; `None` where there is no work to count.
    pub fn least_seconds(&self, limits: &Limits) -> Option<(f64, &'static str)> {
        let (int8, unit) = limits.best_int8();
        let halves = self.half / limits.f16_units.unwrap_or(limits.f32);
        let parts = [(self.integer / int8, unit), (halves, "f16 units"), (self.float / limits.f32, "f32")];
        let compute: f64 = parts.iter().map(|(seconds, _)| seconds).sum();
        let most = parts.into_iter().reduce(|most, part| if part.0 > most.0 { part } else { most });
        let memory = self.bytes() / limits.memory;
        let least = match most {
            Some((_, unit)) if compute > memory => (compute, unit),
            _ => (memory, "memory"),
        };
        // What has no work but to pass activations on is held against memory.
        let least = if least.0 > 0.0 { least } else { (self.activations / limits.memory, "memory") };
        (least.0 > 0.0).then_some(least)
    }
}

/// The rows of a test, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rows {
    /// Steps that have rows.
    steps: usize,
    /// Rows of all steps.
    rows: usize,
    /// Positions that each row sees, over all rows.
    seen: usize,
    /// Positions that each sequence holds, over all its steps.
    held: usize,
}

/// The rows of a test before and after those that want logits are gathered, each of which sees a range of positions.
fn rows_of(test: &Test, max_rows: usize, visible: impl Fn(usize) -> Range<usize>) -> (Rows, Rows) {
    let mut all = Rows::default();
    let chunk = test.chunk(max_rows);
    for from in (test.depth..test.positions()).step_by(chunk) {
        let to = test.positions().min(from + chunk);
        all.steps += 1;
        all.rows += test.sequences * (to - from);
        all.seen += test.sequences * (from..to).map(|own| visible(own).len()).sum::<usize>();
        all.held += test.sequences * (visible(to - 1).end - visible(from).start);
    }
    let wanted = if test.is_prompt() { Rows { steps: 1, rows: 1, ..all } } else { all };
    (all, wanted)
}

/// What work is counted for: a program and how it is run.
pub struct Counter<'a> {
    pub program: &'a Program,
    pub arithmetic: Arithmetic,
    pub kv: KvType,
    /// The most rows of a step.
    pub max_rows: usize,
    /// Whether activations are counted.
    pub activations: bool,
}

impl<'a> Counter<'a> {
    /// For what an executor runs, on keys and values of this type.
    pub fn new(executor: &'a impl Measurable, kv: KvType) -> Counter<'a> {
        let (arithmetic, max_rows) = (executor.arithmetic(), executor.max_rows());
        let activations = !matches!(executor.machine(), Some(Machine::Cpu { .. }));
        Counter { program: executor.program(), arithmetic, kv, max_rows, activations }
    }

    /// The work of each node over a whole test.
    pub fn nodes(&self, test: &Test) -> Vec<Work> {
        let mut gathered = false;
        let work = |node: &Node| {
            gathered |= node.op.gathers();
            let (all, wanted) = rows_of(test, self.max_rows, |own| match &node.op {
                Op::Attention { attention, .. } => attention.visible(own, test.positions()),
                _ => 0..own + 1,
            });
            self.op(&node.op, if gathered { wanted } else { all })
        };
        self.program.nodes.iter().map(work).collect()
    }

    /// The work of a whole test.
    pub fn test(&self, test: &Test) -> Work {
        let mut sum = Work::default();
        self.nodes(test).into_iter().for_each(|work| sum += work);
        sum
    }

    /// What is counted of an op: the products of linear ops and of attention. All else is small beside them.
    fn op(&self, op: &Op, rows: Rows) -> Work {
        let mut work = Work::default();
        for weight in op.matrices().into_iter().map(|w| &self.program.weights[w]) {
            // Of experts, those that rows have probably chosen if all are as likely.
            let used = match op {
                Op::ExpertLinear { choice, .. } => experts_used(*choice, weight.experts),
                _ => 1,
            };
            let each = used as f64 / weight.experts as f64;
            let read = 1.0 - (1.0 - each).powf(rows.rows as f64 / rows.steps.max(1) as f64);
            work.weights += read * (weight.bytes() * rows.steps) as f64;
            let operations = 2.0 * each * weight.size() as f64 * rows.rows as f64;
            *match self.arithmetic {
                Arithmetic::Q8 if weight.format.groups().is_some() => &mut work.integer,
                Arithmetic::F16 => &mut work.half,
                Arithmetic::Q8 | Arithmetic::F32 => &mut work.float,
            } += operations;
        }
        if let Op::Attention { attention, .. } = op {
            let (layer, heads) = (&self.program.caches[attention.cache], attention.heads);
            let per_position = layer.heads * (self.kv.bytes(layer.key_dim) + self.kv.bytes(layer.value_dim));
            work.kv += (per_position * rows.held) as f64;
            work.float += 2.0 * (heads * (layer.key_dim + layer.value_dim)) as f64 * rows.seen as f64;
        }
        if self.activations {
            let views = op.inputs().into_iter().chain(op.outputs());
            work.activations = 4.0 * views.map(|view| view.width * rows.rows).sum::<usize>() as f64;
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gleed_gguf::Format;
    use gleed_model::program::{Attention, KvLayer, Output, Projection, View, Weight};

    const VIEW: View = View { buffer: 0, offset: 0, width: 64 };

    /// One matrix, attention of four heads over two, and a head after the gather.
    fn program() -> Program {
        let node = |op| Node { op, labels: vec![], layer: None };
        let matrix =
            |weight| Op::Linear { parts: vec![Projection { weight, bias: None }], input: VIEW, out: VIEW };
        let attention = Op::Attention { attention: Attention::over_all(0, 4, 1.0), query: VIEW, out: VIEW };
        let weight = |rows, format| Weight { name: String::new(), experts: 1, rows, columns: 64, format };
        Program {
            buffers: vec![],
            weights: vec![weight(32, Format::Q8_0), weight(100, Format::F16)],
            nodes: vec![
                node(matrix(0)),
                node(attention),
                node(Op::Gather { views: vec![] }),
                node(matrix(1)),
            ],
            caches: vec![KvLayer { heads: 2, key_dim: 16, value_dim: 32 }],
            states: vec![],
            ropes: vec![],
            adapters: vec![],
            output: Output::Logits,
            logits: VIEW,
            vocabulary: 100,
            context: 4096,
        }
    }

    #[test]
    fn a_prompt_in_two_steps() {
        let program = program();
        let (arithmetic, kv) = (Arithmetic::Q8, KvType::F16);
        let counter = Counter { program: &program, arithmetic, kv, max_rows: 4, activations: false };
        let [matrix, attention, gather, head] = counter.nodes(&Test::prompt(6, 2))[..] else { panic!() };
        // 32 rows of two blocks of 34 bytes, read in two steps; six rows of 2 · 32 · 64 operations.
        assert_eq!(matrix, Work { weights: 2.0 * 2176.0, integer: 6.0 * 4096.0, ..Work::default() });
        // The steps end at positions 6 and 8; the rows see 3, 4, … 8 positions.
        let (held, seen) = (6.0 + 8.0, 33.0);
        assert_eq!(
            attention,
            Work { kv: held * 2.0 * 96.0, float: seen * 4.0 * 2.0 * 48.0, ..Work::default() }
        );
        assert_eq!(gather, Work::default());
        // Only the last row of the last step.
        assert_eq!(head, Work { weights: 12800.0, float: 12800.0, ..Work::default() });
    }

    #[test]
    fn rows_read_what_they_see() {
        // Rows of positions 2 to 5 and 6 to 7. In chunks of three they see 3, 1, 2, 3 and 1, 2 of 6 and 2 positions; with
        // a window of three all see three, of 6 and 4.
        for (window, chunk, held, seen) in [(None, Some(3), 8.0, 12.0), (Some(3), None, 10.0, 18.0)] {
            let mut program = program();
            let attention = Attention { window, chunk, ..Attention::over_all(0, 4, 1.0) };
            program.nodes[1].op = Op::Attention { attention, query: VIEW, out: VIEW };
            let (arithmetic, kv) = (Arithmetic::Q8, KvType::F16);
            let counter = Counter { program: &program, arithmetic, kv, max_rows: 4, activations: false };
            let work = counter.nodes(&Test::prompt(6, 2))[1];
            let expected = Work { kv: held * 2.0 * 96.0, float: seen * 4.0 * 2.0 * 48.0, ..Work::default() };
            assert_eq!(work, expected, "{window:?} {chunk:?}");
        }
    }

    #[test]
    fn sequences_share_the_weights_and_not_the_keys() {
        let program = program();
        let (arithmetic, kv) = (Arithmetic::F32, KvType::Q8_0);
        let counter = Counter { program: &program, arithmetic, kv, max_rows: 512, activations: false };
        let one = counter.test(&Test::generate(5, 1, 7));
        let eight = counter.test(&Test::generate(5, 8, 7));
        assert_eq!(one.integer, 0.0);
        assert_eq!(eight.weights, one.weights);
        assert_eq!(eight.kv, 8.0 * one.kv);
        assert_eq!(eight.float, 8.0 * one.float);
        // Positions 8 to 12, two heads of 18 and 34 bytes.
        assert_eq!(one.kv, 50.0 * 2.0 * 52.0);
    }

    #[test]
    fn the_slower_of_memory_and_arithmetic_is_the_limit() {
        let (int8_tiles, f16_units) = (Some(1000.0), Some(500.0));
        let limits = Limits { memory: 10.0, f32: 100.0, int8: 200.0, int8_tiles, f16_units };
        let work =
            Work { weights: 30.0, kv: 10.0, activations: 5.0, integer: 1000.0, half: 0.0, float: 100.0 };
        assert_eq!(work.least_seconds(&limits), Some((4.0, "memory")));
        assert_eq!(Work { kv: 0.0, weights: 0.0, ..work }.least_seconds(&limits), Some((2.0, "int8 tiles")));
        let vector = Limits { int8_tiles: None, ..limits };
        assert_eq!(work.least_seconds(&vector), Some((6.0, "int8")));
        assert_eq!(Work { float: 4000.0, ..work }.least_seconds(&limits), Some((41.0, "f32")));
        assert_eq!(Work { half: 2000.0, ..work }.least_seconds(&limits), Some((6.0, "f16 units")));
        let without = Limits { f16_units: None, ..limits };
        assert_eq!(Work { half: 2000.0, ..work }.least_seconds(&without), Some((22.0, "f16 units")));
        // Activations count where there is nothing else.
        let small = Work { activations: 5.0, ..Work::default() };
        assert_eq!(small.least_seconds(&limits), Some((0.5, "memory")));
        assert_eq!(Work::default().least_seconds(&limits), None);
    }
}
