//! The plain executor: one row, one op, one value at a time, in the order that [`crate::arithmetic`]
//! defines. It is the truth that every other path is held against, so it has no cleverness at all; only the outputs
//! of linear layers and the rows of attention are shared out among threads.

mod experts;
mod linear;
mod state;
mod streams;
mod threads;

use std::ops::Range;
use std::sync::Arc;

use gleed_gguf::Gguf;

use self::threads::Threads;
use crate::arithmetic::{self as plain, Arithmetic, PAGE, SPAN, Softmax, accumulate, score};
use crate::batch::{Batch, Row, Save, check, check_states};
use crate::executor::{Buffers, Executor, Observer, StepError};
use crate::groups::{PageGroup, PageGroups};
use crate::kernels::with_fused_multiply_add;
use crate::kv::KvType;
use crate::program::{Activation, Attention, KvLayer, Map, Norm, Op, Program, View, WeightId};
use crate::{Error, Result};

/// What a reference executor is made for.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The order of operations of linear layers.
    pub arithmetic: Arithmetic,
    /// The node from which on activations that meet block-quantised weights are rounded to int8 in groups of
    /// 32, whatever the blocks of the weights, and then multiplied as in `F32`: what a GPU that has these nodes
    /// computes in `Q8`, but for the order. Those of an RMS norm are rounded before they are multiplied with the
    /// factor of their row, except for the logits.
    pub rounds_to_groups: Option<usize>,
    /// The element type of the KV cache.
    pub kv: KvType,
    /// The most rows of a step.
    pub max_rows: usize,
    /// KV pages.
    pub pages: usize,
}

/// How linear layers of block-quantised weights have their activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// As int8 in the blocks of the weights.
    Blocks,
    /// Rounded to int8 in groups of 32.
    Groups,
    /// As they are.
    Floats,
}

impl Order {
    fn of(arithmetic: Arithmetic) -> Order {
        match arithmetic {
            Arithmetic::Q8 => Order::Blocks,
            Arithmetic::F32 => Order::Floats,
        }
    }
}

/// The plain executor.
pub struct Reference {
    file: Arc<Gguf>,
    program: Program,
    options: Options,
    /// Per layer, `[page][position][head][dim]`, each value as the cache's type would give it back.
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
    /// Per recurrent layer, `[slot][row][channel]`.
    states: Vec<Vec<f32>>,
    slots: usize,
    /// `[row][width]` for each buffer of the program.
    buffers: Vec<Vec<f32>>,
    /// The rows that the next op sees: all of the batch, then the wanted ones.
    rows: Vec<Row>,
    /// The group of each cache.
    page_groups: PageGroups,
    groups: Vec<PageGroup>,
    /// The pages of the batch's sequences in each group.
    tables: Vec<Vec<Vec<u32>>>,
    /// Where each of them ends.
    lengths: Vec<usize>,
    /// The slot that each sequence's state is in before the batch.
    befores: Vec<Option<u32>>,
    /// The states that the batch wants kept.
    saves: Vec<Save>,
    /// What the batch brings.
    inputs: Vec<f32>,
    /// The last RMS norm of whole rows, if what it wrote is still there.
    normed: Option<Normed>,
    threads: Threads,
}

/// An RMS norm before it is finished.
struct Normed {
    /// What it wrote.
    view: View,
    /// Rows times its weights.
    rows: Vec<Vec<f32>>,
    /// What each row is multiplied with.
    factors: Vec<f32>,
}

impl Reference {
    /// Makes an executor; tensors are decoded row by row when they are used.
    pub fn new(file: Arc<Gguf>, program: Program, options: Options) -> Result<Reference> {
        for weight in &program.weights {
            if file.tensor(&weight.name).is_none() {
                return Err(Error::MissingTensor { name: weight.name.clone() });
            }
        }
        let positions = options.pages * PAGE;
        let keys = program.caches.iter().map(|c| vec![0.0; positions * c.heads * c.key_dim]).collect();
        let values = program.caches.iter().map(|c| vec![0.0; positions * c.heads * c.value_dim]).collect();
        let buffers = program.buffers.iter().map(|_| Vec::new()).collect();
        let page_groups = PageGroups::of(&program);
        Ok(Reference {
            file,
            groups: page_groups.with_pages(options.pages, options.max_rows, None),
            page_groups,
            program,
            options,
            keys,
            values,
            states: vec![],
            slots: 0,
            buffers,
            rows: vec![],
            tables: vec![],
            lengths: vec![],
            befores: vec![],
            saves: vec![],
            inputs: vec![],
            normed: None,
            threads: Threads::all(),
        })
    }

    /// The same with this many threads at most, which changes how long it takes and nothing else.
    pub fn with_threads(self, threads: usize) -> Reference {
        Reference { threads: Threads(threads), ..self }
    }

    /// Takes in a batch; its nodes are then run one by one with [`Reference::run_node`].
    pub fn begin(&mut self, batch: &Batch) -> std::result::Result<(), StepError> {
        check(batch, &self.program, self.options.max_rows, &self.groups)?;
        check_states(batch, &self.program, self.slots)?;
        self.rows = batch.rows().to_vec();
        let tables = self.rows.iter().map(|r| r.table as usize + 1).max().unwrap_or(0);
        let of_table =
            |t| (0..self.groups.len()).map(|group| batch.pages(t as u32, group).to_vec()).collect();
        self.tables = (0..tables).map(of_table).collect();
        self.lengths = (0..tables).map(|t| batch.length(t as u32)).collect();
        self.befores = (0..tables).map(|t| batch.state(t as u32)).collect();
        self.saves = batch.saves().to_vec();
        self.inputs = batch.inputs().to_vec();
        for (buffer, data) in self.program.buffers.iter().zip(&mut self.buffers) {
            data.resize(buffer.width * batch.rows().len(), 0.0);
        }
        Ok(())
    }

    /// Runs one node of the program on the batch of [`Reference::begin`].
    pub fn run_node(&mut self, index: usize) {
        let op = self.program.nodes[index].op.clone();
        let grouped = self.options.rounds_to_groups.is_some_and(|first| index >= first);
        self.run(&op, if grouped { Order::Groups } else { Order::of(self.options.arithmetic) });
    }

    /// Replaces the values of a view, row by row, so that a node can be run on another executor's inputs.
    pub fn load(&mut self, view: View, values: &[f32]) {
        for (r, values) in values.chunks(view.width).enumerate() {
            self.set(view, r).copy_from_slice(values);
        }
    }

    /// A vector of weights, decoded; of the biases of experts, all of them.
    fn vector(&self, weight: WeightId) -> Vec<f32> {
        (0..self.program.weights[weight].rows).flat_map(|row| self.weight_row(weight, row)).collect()
    }

    /// One row of a weight, decoded.
    fn weight_row(&self, weight: WeightId, row: usize) -> Vec<f32> {
        let w = &self.program.weights[weight];
        let data = self.data(weight);
        let bytes = data.len() / (w.experts * w.rows);
        let mut out = vec![0.0; w.columns];
        w.format.decode(&data[row * bytes..(row + 1) * bytes], &mut out);
        out
    }

    /// The bytes of a weight.
    fn data(&self, weight: WeightId) -> &[u8] {
        let name = &self.program.weights[weight].name;
        self.file.data(self.file.tensor(name).expect("checked when the executor was made"))
    }

    fn get(&self, view: View, row: usize) -> &[f32] {
        let width = self.program.buffers[view.buffer].width;
        &self.buffers[view.buffer][row * width + view.offset..][..view.width]
    }

    fn set(&mut self, view: View, row: usize) -> &mut [f32] {
        let width = self.program.buffers[view.buffer].width;
        &mut self.buffers[view.buffer][row * width + view.offset..][..view.width]
    }

    fn run(&mut self, op: &Op, order: Order) {
        let overwritten = |normed: &Normed| op.outputs().iter().any(|view| view.overlaps(normed.view));
        self.normed.take_if(|normed| overwritten(normed));
        match op {
            Op::Input { views } => {
                let inputs = std::mem::take(&mut self.inputs);
                let mut rest = &inputs[..];
                for view in views {
                    let (values, others) = rest.split_at(self.rows.len() * view.width);
                    self.load(*view, values);
                    rest = others;
                }
            }
            Op::Embed { table, out } => {
                for r in 0..self.rows.len() {
                    let entry = self.weight_row(*table, self.rows[r].token as usize);
                    self.set(*out, r).copy_from_slice(&entry);
                }
            }
            Op::AddPositions { table, x } => {
                for r in 0..self.rows.len() {
                    let entry = self.weight_row(*table, self.rows[r].position as usize);
                    self.set(*x, r).iter_mut().zip(entry).for_each(|(x, p)| *x += p);
                }
            }
            Op::AddVector { table, x } => {
                let entry = self.weight_row(*table, 0);
                for r in 0..self.rows.len() {
                    self.set(*x, r).iter_mut().zip(&entry).for_each(|(x, t)| *x += t);
                }
            }
            Op::Norm { norm, heads, input, out } => self.norm(order, *norm, *heads, *input, *out),
            Op::Center { input, out } => {
                for r in 0..self.rows.len() {
                    let x = self.get(*input, r).to_vec();
                    plain::center(&x, self.set(*out, r));
                }
            }
            Op::Linear { parts, input, out } => {
                let mut offset = 0;
                for part in parts {
                    let outputs = self.program.weights[part.weight].rows;
                    self.linear(order, *part, *input, out.part(offset, outputs));
                    offset += outputs;
                }
            }
            Op::Rope { rope, heads, x } => self.rope(*rope, *heads, *x),
            Op::KvWrite { cache, key, value } => self.kv_write(*cache, *key, *value),
            Op::Attention { attention, query, out } => self.attention(*attention, *query, *out),
            Op::Activate { activation, gate, up, out } => {
                for r in 0..self.rows.len() {
                    let gate = self.get(*gate, r).to_vec();
                    let up = up.map(|up| self.get(up, r).to_vec());
                    activate(*activation, &gate, up.as_deref(), self.set(*out, r));
                }
            }
            Op::Add { x, y } => self.add(*x, *y),
            Op::Map { map, x } => {
                for r in 0..self.rows.len() {
                    for x in self.set(*x, r) {
                        *x = match *map {
                            Map::Scale(factor) => *x * factor,
                            Map::SoftCap(cap) => plain::soft_cap(*x, cap),
                        };
                    }
                }
            }
            Op::Unzip { heads, input, outs } => self.unzip(*heads, *input, outs),
            Op::Zip { heads, first, second, out } => self.zip(*heads, *first, *second, *out),
            Op::UnitNorm { heads, epsilon, like, x } => self.unit_norm(*heads, *epsilon, *like, *x),
            Op::ScaleColumns { weight, input, out } => self.scale_columns(*weight, *input, *out),
            Op::Sparsify { spread, x } => self.sparsify(*spread, *x),
            Op::MixStreams { coefficients, input, out } => self.mix_streams(*coefficients, *input, *out),
            Op::CorrectStreams { coefficients, truth, input, out } => {
                self.correct_streams(*coefficients, *truth, *input, *out);
            }
            Op::Convolve { convolution, input, out } => self.convolve(*convolution, *input, *out),
            Op::Scan { scan, x, dt, b, c, out } => self.scan(*scan, [*x, *dt, *b, *c], *out),
            Op::DeltaRule { rule, query, key, value, alpha, beta, out } => {
                self.delta_rule(*rule, [*query, *key, *value, *alpha, *beta], *out);
            }
            Op::Gate { activation, gate, x } => {
                for r in 0..self.rows.len() {
                    let gates = self.get(*gate, r).to_vec();
                    let width = x.width / gate.width;
                    for (x, gate) in self.set(*x, r).chunks_mut(width).zip(gates) {
                        let factor = activated(*activation, gate);
                        x.iter_mut().for_each(|x| *x *= factor);
                    }
                }
            }
            Op::Route { routing, scores, out } => self.route(*routing, *scores, *out),
            Op::ExpertLinear { parts, choice, input, out } => {
                self.expert_linear(order, parts, *choice, *input, *out);
            }
            Op::Weigh { choice, input, out } => self.weigh(*choice, *input, *out),
            Op::Combine { choice, weighted, input, out } => self.combine(*choice, *weighted, *input, *out),
            Op::Gather { views } => self.gather(views),
            Op::Pool { x } => self.pool(*x),
            Op::AddNorm { x, y, norm, out } => {
                self.add(*x, *y);
                self.norm(order, *norm, 1, *x, *out);
            }
            Op::RopeKvWrite {
                cache,
                heads,
                query_rope,
                key_rope,
                query_norm,
                key_norm,
                query,
                key,
                value,
            } => {
                let kv_heads = self.program.caches[*cache].heads;
                if let Some(norm) = query_norm {
                    self.norm(order, *norm, *heads, *query, *query);
                }
                if let Some(norm) = key_norm {
                    self.norm(order, *norm, kv_heads, *key, *key);
                }
                self.rope(*query_rope, *heads, *query);
                self.rope(*key_rope, kv_heads, *key);
                self.kv_write(*cache, *key, *value);
            }
            Op::GatedLinear { activation, gate, up, input, out } => {
                // In groups, both meet the same activations: rounded only if both have integers.
                let both = [gate, up].map(|part| self.program.weights[part.weight].format.groups());
                let mixed = order == Order::Groups && both.iter().any(Option::is_none);
                let order = if mixed { Order::Floats } else { order };
                // The result has the width of one part: gate first, then up beside it.
                self.linear(order, *gate, *input, *out);
                let gates: Vec<Vec<f32>> = (0..self.rows.len()).map(|r| self.get(*out, r).to_vec()).collect();
                self.linear(order, *up, *input, *out);
                for (r, gate) in gates.iter().enumerate() {
                    let up = self.get(*out, r).to_vec();
                    activate(*activation, gate, Some(&up), self.set(*out, r));
                }
            }
        }
    }

    fn norm(&mut self, order: Order, norm: Norm, heads: usize, input: View, out: View) {
        let weight = self.whole(norm.weight);
        let bias = norm.bias.map(|b| self.vector(b));
        if order == Order::Groups && heads == 1 && bias.is_none() {
            let rows: Vec<&[f32]> = (0..self.rows.len()).map(|r| self.get(input, r)).collect();
            let factors = rows.iter().map(|x| plain::rms_factor(x, norm.epsilon)).collect();
            let times = |x: &&[f32]| x.iter().zip(&weight).map(|(x, w)| x * w).collect();
            self.normed = Some(Normed { view: out, rows: rows.iter().map(times).collect(), factors });
        }
        for r in 0..self.rows.len() {
            let x = self.get(input, r).to_vec();
            let width = x.len() / heads;
            // All heads have the same factors, or each its own.
            let weights = weight.chunks(width).cycle();
            for ((x, out), weight) in x.chunks(width).zip(self.set(out, r).chunks_mut(width)).zip(weights) {
                match &bias {
                    None => plain::rms_norm(x, weight, norm.epsilon, out),
                    Some(bias) => plain::layer_norm(x, weight, bias, norm.epsilon, out),
                }
            }
        }
    }

    fn rope(&mut self, rope: usize, heads: usize, x: View) {
        let rope = self.program.ropes[rope].clone();
        let pairs = rope.dimensions / 2;
        let (mut cos, mut sin) = (vec![0.0; pairs], vec![0.0; pairs]);
        for r in 0..self.rows.len() {
            rope.angles(self.rows[r].position, &mut cos, &mut sin);
            let x = self.set(x, r);
            let width = x.len() / heads;
            x.chunks_mut(width).for_each(|head| rope.apply(head, &cos, &sin));
        }
    }

    fn kv_write(&mut self, cache: usize, key: View, value: View) {
        let KvLayer { heads, key_dim, value_dim } = self.program.caches[cache];
        for r in 0..self.rows.len() {
            let slot = self.slot(cache, r, self.rows[r].position as usize);
            let (mut k, mut v) = (self.get(key, r).to_vec(), self.get(value, r).to_vec());
            k.chunks_mut(key_dim).for_each(|head| self.options.kv.round(head));
            v.chunks_mut(value_dim).for_each(|head| self.options.kv.round(head));
            self.keys[cache][slot * heads * key_dim..][..k.len()].copy_from_slice(&k);
            self.values[cache][slot * heads * value_dim..][..v.len()].copy_from_slice(&v);
        }
    }

    /// Where a position of a row's sequence is stored in a cache.
    fn slot(&self, cache: usize, row: usize, position: usize) -> usize {
        let table = &self.tables[self.rows[row].table as usize][self.page_groups.of_cache(cache)];
        table[position / PAGE] as usize * PAGE + position % PAGE
    }

    /// The positions that a row sees.
    fn visible(&self, attention: Attention, r: usize) -> Range<usize> {
        let Row { table, position, .. } = self.rows[r];
        attention.visible(position as usize, self.lengths[table as usize])
    }

    fn attention(&mut self, attention: Attention, query: View, out: View) {
        let positions: usize = (0..self.rows.len()).map(|r| self.visible(attention, r).len()).sum();
        let work = positions * (query.width + out.width);
        let sinks = attention.sinks.map(|sinks| self.vector(sinks));
        let results = self.threads.run(self.rows.len(), work, |rows| {
            with_fused_multiply_add(
                #[inline(always)]
                || {
                    let mut results = Vec::new();
                    for r in rows {
                        for (head, q) in self.get(query, r).chunks(query.width / attention.heads).enumerate()
                        {
                            let sink = sinks.as_ref().map(|sinks| sinks[head]);
                            results.extend(self.attend(attention, head, sink, r, q));
                        }
                    }
                    results
                },
            )
        });
        self.load(out, &results.concat());
    }

    /// What one query head of a row makes of the values of its key-value head.
    #[inline(always)]
    fn attend(
        &self,
        attention: Attention,
        head: usize,
        sink: Option<f32>,
        r: usize,
        query: &[f32],
    ) -> Vec<f32> {
        let Attention { cache, heads, scale, soft_cap, alibi, .. } = attention;
        let KvLayer { heads: kv_heads, key_dim, value_dim } = self.program.caches[cache];
        let kv_head = head / (heads / kv_heads);
        let visible = self.visible(attention, r);
        let (own, slope) =
            (self.rows[r].position as usize, alibi.map(|largest| plain::alibi_slope(largest, head, heads)));
        let mut softmax = sink.map_or(Softmax::default(), Softmax::of_sink);
        let mut acc = vec![0.0f32; value_dim];
        for span in (visible.start / SPAN * SPAN..visible.end).step_by(SPAN) {
            let mut span_softmax = Softmax::default();
            let mut span_acc = vec![0.0; value_dim];
            for page in (span..visible.end.min(span + SPAN)).step_by(PAGE) {
                let seen = visible.start.max(page)..visible.end.min(page + PAGE);
                // A span may begin with pages that the window has left.
                if seen.is_empty() {
                    continue;
                }
                let slots: Vec<usize> = seen.clone().map(|p| self.slot(cache, r, p)).collect();
                let mut scores: Vec<f32> = slots
                    .iter()
                    .zip(seen)
                    .map(|(slot, position)| {
                        let k = &self.keys[cache][(slot * kv_heads + kv_head) * key_dim..][..key_dim];
                        let score = score(query, k, scale);
                        let score = soft_cap.map_or(score, |cap| plain::soft_cap(score, cap));
                        slope.map_or(score, |slope| plain::faded(score, slope, own, position))
                    })
                    .collect();
                let correction = span_softmax.tile(&mut scores);
                span_acc.iter_mut().for_each(|a| *a *= correction);
                for (weight, slot) in scores.iter().zip(&slots) {
                    let v = &self.values[cache][(slot * kv_heads + kv_head) * value_dim..][..value_dim];
                    accumulate(&mut span_acc, *weight, v);
                }
            }
            let (before, after) = softmax.merge(span_softmax);
            acc.iter_mut().zip(span_acc).for_each(|(acc, span)| *acc = acc.mul_add(before, span * after));
        }
        let inverse = 1.0 / softmax.sum;
        acc.iter_mut().for_each(|a| *a *= inverse);
        acc
    }

    fn add(&mut self, x: View, y: View) {
        for r in 0..self.rows.len() {
            let y = self.get(y, r).to_vec();
            self.set(x, r).iter_mut().zip(y).for_each(|(x, y)| *x += y);
        }
    }

    /// Each wanted row becomes the mean of its sequence's rows, which are all there and follow each other.
    fn pool(&mut self, x: View) {
        let mean = |r: usize| {
            let Row { table, position, .. } = self.rows[r];
            let first = r - position as usize;
            let mut mean = vec![0.0; x.width];
            let rows = (first..first + self.lengths[table as usize]).map(|r| self.get(x, r));
            plain::mean_of_rows(rows, &mut mean);
            mean
        };
        // All of them before any row changes.
        let means: Vec<Vec<f32>> = (0..self.rows.len()).map(mean).collect();
        means.iter().enumerate().for_each(|(r, mean)| self.set(x, r).copy_from_slice(mean));
        self.gather(&[x]);
    }

    fn gather(&mut self, views: &[View]) {
        let wanted: Vec<usize> = (0..self.rows.len()).filter(|r| self.rows[*r].wants_logits).collect();
        for view in views {
            for (to, from) in wanted.iter().enumerate() {
                let kept = self.get(*view, *from).to_vec();
                self.set(*view, to).copy_from_slice(&kept);
            }
        }
        self.rows.retain(|r| r.wants_logits);
    }
}

fn activate(activation: Activation, gate: &[f32], up: Option<&[f32]>, out: &mut [f32]) {
    for (i, (out, gate)) in out.iter_mut().zip(gate).enumerate() {
        *out = match (activation, up) {
            (Activation::ClampedSwiglu, Some(up)) => plain::clamped_swiglu(*gate, up[i]),
            (_, Some(up)) => activated(activation, *gate) * up[i],
            (_, None) => activated(activation, *gate),
        };
    }
}

fn activated(activation: Activation, x: f32) -> f32 {
    match activation {
        Activation::Silu => plain::silu(x),
        Activation::Gelu => plain::gelu(x),
        Activation::SquaredRelu => plain::squared_relu(x),
        Activation::Sigmoid => plain::sigmoid(x),
        Activation::ExactGelu => plain::exact_gelu(x),
        Activation::Identity => x,
        Activation::ClampedSwiglu => plain::clamped_swiglu(x, 0.0),
    }
}

impl Buffers for Reference {
    fn read(&self, view: View, out: &mut Vec<f32>) {
        for r in 0..self.rows.len() {
            out.extend_from_slice(self.get(view, r));
        }
    }
}

impl Executor for Reference {
    fn program(&self) -> &Program {
        &self.program
    }

    fn max_rows(&self) -> usize {
        self.options.max_rows
    }

    fn page_groups(&self) -> &[PageGroup] {
        &self.groups
    }

    fn slot_count(&self) -> usize {
        self.slots
    }

    fn step(&mut self, batch: &Batch, observer: &mut dyn Observer) -> std::result::Result<(), StepError> {
        self.begin(batch)?;
        observer.start();
        for index in 0..self.program.nodes.len() {
            self.run_node(index);
            observer.after(index, self);
        }
        Ok(())
    }

    fn logits(&self, index: usize) -> &[f32] {
        if index < self.rows.len() { self.get(self.program.logits, index) } else { &[] }
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) {
        let both = self.keys.iter_mut().zip(&mut self.values).enumerate();
        for (_, (keys, values)) in both.filter(|(cache, _)| self.page_groups.of_cache(*cache) == group) {
            for data in [keys, values] {
                let page = data.len() / self.options.pages;
                data.copy_within(from as usize * page..(from as usize + 1) * page, to as usize * page);
            }
        }
    }
}
