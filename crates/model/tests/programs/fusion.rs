//! No rule changes a bit: random programs, and those of every family, fused in every way and run on the reference.
//!
//! The random programs are made of the runs of ops that the rules look for, with some operands exchanged for
//! others: heads that are not attention's, results that share columns, values that are read once more. A rule that
//! looks too little at what it replaces makes a program that is not sound, or one that computes something else.

use std::collections::HashMap;
use std::sync::Arc;

use crate::support::{FAMILIES, Random, batch, comparable, file, tiny};
use gleed_gguf::{Format, Gguf, Metadata};
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::{
    Activation, Attention, Buffer, KvLayer, Node, Norm, Op, Output, Program, Projection, View, Weight,
    WeightId,
};
use gleed_model::rope::{Pairing, Rope, Scaling};
use gleed_model::verify::{verify, verify_flow};
use gleed_model::{Arithmetic, KvType, Reference, reference};

const TOKENS: usize = 23;
const PAGES: usize = 2;
/// Views begin and end at multiples of this; heads are half as wide.
const UNIT: usize = 8;
const WIDEST: usize = 5;

/// Every way to switch rules on and off.
fn all_rules() -> Vec<Rules> {
    let rules = |bits: u32| Rules {
        merge_linears: bits & 1 > 0,
        gated_linear: bits & 2 > 0,
        rope_kv_write: bits & 4 > 0,
        add_norm: bits & 8 > 0,
        early_gather: bits & 16 > 0,
    };
    (0..32).map(rules).collect()
}

/// The logits of two steps of two sequences, some rows of which want none.
fn run(file: &Arc<Gguf>, program: &Program) -> Vec<Vec<u32>> {
    let (arithmetic, kv) = (Arithmetic::Q8, KvType::F16);
    let options = reference::Options { arithmetic, rounds_to_groups: None, kv, max_rows: 16, pages: PAGES };
    let mut reference = Reference::new(Arc::clone(file), program.clone(), options).unwrap();
    let token = |position: usize, sequence: usize| ((5 * position + 11 * sequence) % TOKENS) as u32;
    let mut all = Vec::new();
    for positions in [0..5, 5..7] {
        let rows: Vec<_> =
            positions.flat_map(|p| [0, 1].map(|s| (s, p, token(p, s), (p + s) % 2 == 0))).collect();
        let batch = batch(&rows, 2, PAGES);
        gleed_model::Executor::step(&mut reference, &batch, &mut ()).unwrap();
        let logits = (0..batch.wanted().count()).map(|i| gleed_model::Executor::logits(&reference, i));
        all.extend(logits.map(comparable));
    }
    all
}

/// A program in the making, with the tensors that it uses.
struct Maker {
    random: Random,
    program: Program,
    tensors: Vec<(String, Vec<usize>, Format, Vec<u8>)>,
}

impl Maker {
    fn new(seed: u64) -> Maker {
        let mut random = Random::new(seed);
        let names = ["a", "b", "c", "d"];
        let buffer = |name| Buffer { name, width: UNIT * (2 + random.below(WIDEST - 1)) };
        let buffers: Vec<Buffer> = names.map(buffer).to_vec();
        let rope = |pairing, base| Rope::new(pairing, 4, base, &Scaling::None, None).unwrap();
        let program = Program {
            buffers,
            weights: vec![],
            nodes: vec![],
            caches: vec![KvLayer { heads: 2, key_dim: 4, value_dim: 4 }; 2],
            states: vec![],
            ropes: vec![rope(Pairing::Interleaved, 100.0), rope(Pairing::SplitHalf, 50.0)],
            adapters: vec![],
            output: Output::Logits,
            logits: View { buffer: 0, offset: 0, width: 0 },
            vocabulary: TOKENS,
            context: 64,
        };
        let mut maker = Maker { random, program, tensors: vec![] };
        for buffer in 0..maker.program.buffers.len() {
            let out = View { buffer, offset: 0, width: maker.program.buffers[buffer].width };
            let table = maker.weight(TOKENS, out.width);
            maker.push(Op::Embed { table, out });
        }
        maker
    }

    fn weight(&mut self, rows: usize, columns: usize) -> WeightId {
        let name = format!("w{}", self.tensors.len());
        let values = self.random.units(rows * columns);
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let shape = if rows == 1 { vec![columns] } else { vec![columns, rows] };
        self.tensors.push((name.clone(), shape, Format::F32, bytes));
        self.program.weights.push(Weight { name, experts: 1, rows, columns, format: Format::F32 });
        self.program.weights.len() - 1
    }

    /// Adds an op where the program stays sound with it.
    fn push(&mut self, op: Op) -> bool {
        let labels = vec![format!("op{}", self.program.nodes.len())];
        self.program.nodes.push(Node { op, labels, layer: None });
        let sound = verify(&self.program).is_ok() && verify_flow(&self.program).is_ok();
        if !sound {
            self.program.nodes.pop();
        }
        sound
    }

    fn one_in(&mut self, chance: usize) -> bool {
        self.random.below(chance) == 0
    }

    /// Some columns of some buffer.
    fn view(&mut self, width: usize) -> View {
        let fitting: Vec<usize> =
            (0..4).filter(|buffer| self.program.buffers[*buffer].width >= width).collect();
        let buffer = fitting[self.random.below(fitting.len())];
        let places = (self.program.buffers[buffer].width - width) / UNIT + 1;
        View { buffer, offset: UNIT * self.random.below(places), width }
    }

    /// The same view, or now and then another.
    fn same(&mut self, view: View) -> View {
        if self.one_in(8) { self.view(view.width) } else { view }
    }

    fn norm(&mut self, width: usize) -> Norm {
        let weight = self.weight(1, width);
        let bias = self.one_in(4).then(|| self.weight(1, width));
        Norm { weight, bias, epsilon: 1e-5 }
    }

    fn part(&mut self, columns: usize, rows: usize) -> Projection {
        let weight = self.weight(rows, columns);
        let bias = self.one_in(3).then(|| self.weight(1, rows));
        Projection { weight, bias }
    }

    fn linear(&mut self, input: View, out: View) -> bool {
        let part = self.part(input.width, out.width);
        self.push(Op::Linear { parts: vec![part], input, out })
    }

    /// Neighbours for merging, and often their activation.
    fn linears(&mut self) {
        let (input, width) = (self.view(UNIT), UNIT);
        let both = self.view(2 * width);
        let (first, second) = (both.part(0, width), both.part(width, width));
        self.linear(input, first);
        let input = self.same(input);
        self.linear(input, second);
        if !self.one_in(3) {
            let activation = if self.one_in(2) { Activation::Silu } else { Activation::Gelu };
            let (gate, up, out) = (self.same(first), self.same(second), self.view(width));
            let up = if self.one_in(6) { None } else { Some(up) };
            self.push(Op::Activate { activation, gate, up, out });
        }
        if self.one_in(4) {
            let (x, y) = (self.view(width), self.same(first));
            self.push(Op::Add { x, y });
        }
    }

    /// A norm of whole rows or of heads, in place.
    fn norm_in_place(&mut self, heads: usize, view: View) {
        let heads = if self.one_in(6) { 1 } else { heads };
        let norm = self.norm(view.width / heads);
        self.push(Op::Norm { norm, heads, input: view, out: view });
    }

    /// Norms, rotations, KV write and attention.
    fn attention(&mut self) {
        let cache = self.random.below(2);
        let heads = 2 * (1 + self.random.below(2));
        let (query, key, value) = (self.view(4 * heads), self.view(UNIT), self.view(UNIT));
        if self.one_in(2) {
            self.norm_in_place(heads, query);
            let key = self.same(key);
            self.norm_in_place(2, key);
        }
        let rope = self.random.below(2);
        self.push(Op::Rope { rope, heads, x: query });
        let key_rope = if self.one_in(8) { 1 - rope } else { rope };
        let key_heads = if self.one_in(8) { 1 } else { 2 };
        let rotated = self.same(key);
        self.push(Op::Rope { rope: key_rope, heads: key_heads, x: rotated });
        self.push(Op::KvWrite { cache, key, value });
        if self.one_in(4) {
            let x = self.view(UNIT);
            self.push(Op::Add { x, y: key });
        }
        // A cache that was never written would hold what no program may read.
        let (query, out) = (self.same(query), self.view(4 * heads));
        let written = |op: &Op| matches!(op, Op::KvWrite { cache: other, .. } if *other == cache);
        if self.program.nodes.iter().any(|node| written(&node.op)) {
            self.push(Op::Attention { attention: Attention::over_all(cache, heads, 0.5), query, out });
        }
    }

    /// A residual and its norm.
    fn residual(&mut self) {
        let width = UNIT * (1 + self.random.below(2));
        let (x, y) = (self.view(width), self.view(width));
        self.push(Op::Add { x, y });
        let (input, out) = (self.same(x), if self.one_in(4) { y } else { self.view(width) });
        let heads = if self.one_in(8) { 2 } else { 1 };
        let norm = self.norm(width / heads);
        self.push(Op::Norm { norm, heads, input, out });
    }

    fn some_ops(&mut self) {
        match self.random.below(3) {
            0 => self.linears(),
            1 => self.attention(),
            _ => self.residual(),
        }
    }

    /// The program, with a gather somewhere before its head.
    fn finish(mut self) -> (Arc<Gguf>, Program) {
        (0..1 + self.random.below(6)).for_each(|_| self.some_ops());
        let mut views: Vec<View> = vec![];
        for _ in 0..1 + self.random.below(3) {
            let view = self.view(UNIT * (1 + self.program.nodes.len() % 2));
            if views.iter().all(|other| !other.overlaps(view)) {
                views.push(view);
            }
        }
        self.push(Op::Gather { views: views.clone() });
        let sum = views[0];
        for view in &views[1..] {
            if view.width == sum.width {
                self.push(Op::Add { x: sum, y: *view });
            }
        }
        self.program.buffers.push(Buffer { name: "logits", width: TOKENS });
        let logits = View { buffer: 4, offset: 0, width: TOKENS };
        assert!(self.linear(sum, logits));
        self.program.logits = logits;
        (file(&Metadata::default(), &self.tensors), self.program)
    }
}

/// What is worth counting of a program.
fn count(program: &Program, plain: &Program, counts: &mut HashMap<&'static str, usize>) {
    for node in &program.nodes {
        let name = match &node.op {
            Op::Linear { parts, .. } if parts.len() > 1 => "merged linears",
            Op::RopeKvWrite { query_norm: Some(_), .. } => "norms, rope and write",
            op => op.kind(),
        };
        *counts.entry(name).or_default() += 1;
    }
    let gather = |program: &Program| program.nodes.iter().rposition(|n| matches!(n.op, Op::Gather { .. }));
    let from_the_end = |program: &Program| gather(program).map(|at| program.nodes.len() - at);
    *counts.entry("raised").or_default() += usize::from(from_the_end(program) > from_the_end(plain));
}

#[test]
fn random_programs_keep_their_bits() {
    let mut counts = HashMap::new();
    for seed in 0..400 {
        let (file, plain) = Maker::new(seed).finish();
        assert_eq!((verify(&plain), verify_flow(&plain)), (Ok(()), Ok(())));
        let truth = run(&file, &plain);
        for rules in all_rules() {
            let fused = fuse(&plain, rules);
            assert_eq!(verify(&fused), Ok(()), "{seed} {rules:?}\n{plain}\n{fused}");
            assert_eq!(verify_flow(&fused), Ok(()), "{seed} {rules:?}\n{plain}\n{fused}");
            if fused != plain {
                assert!(run(&file, &fused) == truth, "{seed} {rules:?}\n{plain}\n{fused}");
            }
            count(&fused, &plain, &mut counts);
        }
    }
    let rare = |name| counts.get(name).copied().unwrap_or(0);
    for name in
        ["merged linears", "gated-linear", "norms, rope and write", "rope-kv-write", "add-norm", "raised"]
    {
        assert!(rare(name) > 100, "{name}: {} of {counts:?}", rare(name));
    }
}

#[test]
fn families_keep_their_bits() {
    for family in FAMILIES {
        let (file, plain) = tiny(family, &[Format::Q4_0, Format::Q6_K, Format::F16], 5);
        let truth = run(&file, &plain);
        for rules in all_rules() {
            let fused = fuse(&plain, rules);
            assert_eq!((verify(&fused), verify_flow(&fused)), (Ok(()), Ok(())), "{family} {rules:?}");
            assert!(run(&file, &fused) == truth, "{family} {rules:?}");
        }
    }
}
