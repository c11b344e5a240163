//! The plain executor: one row, one op, one value at a time, in the order that [`crate::arithmetic`]
//! defines. It is the truth that every other path is held against, so it has no cleverness at all; only the outputs
//! of linear layers and the rows of attention are shared out among threads.

mod adapters;
mod attention;
mod experts;
mod linear;
mod rows;
mod state;
mod streams;
mod threads;

use std::sync::Arc;

use gleed_gguf::Gguf;

use self::rows::{activate, activated, mapped};
use self::threads::Threads;
use crate::arithmetic::{Arithmetic, PAGE};
use crate::batch::{Batch, Row, Save, check, check_states};
use crate::executor::{Buffers, Executor, Observer, StepError};
use crate::groups::{PageGroup, PageGroups};
use crate::kv::KvType;
use crate::program::{Op, Program, View, WeightId};
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
    /// As halves, and the weights too.
    Halves,
}

impl Order {
    fn of(arithmetic: Arithmetic) -> Order {
        match arithmetic {
            Arithmetic::Q8 => Order::Blocks,
            Arithmetic::F32 => Order::Floats,
            Arithmetic::F16 => Order::Halves,
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
    /// How much of each adapter the rows of each sequence take.
    adapter_scales: Vec<Vec<f32>>,
    /// What the batch brings.
    inputs: Vec<f32>,
    /// The node that runs.
    node: usize,
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
            adapter_scales: vec![],
            inputs: vec![],
            node: 0,
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
        let program = &self.program;
        let scale = |t: usize, adapter: usize| batch.adapter_scale(program, t as u32, adapter);
        let scales = |t: usize| (0..program.adapters.len()).map(|adapter| scale(t, adapter)).collect();
        self.adapter_scales = (0..tables).map(scales).collect();
        self.inputs = batch.inputs().to_vec();
        for (buffer, data) in self.program.buffers.iter().zip(&mut self.buffers) {
            data.resize(buffer.width * batch.rows().len(), 0.0);
        }
        Ok(())
    }

    /// Runs one node of the program on the batch of [`Reference::begin`].
    pub fn run_node(&mut self, index: usize) {
        let op = self.program.nodes[index].op.clone();
        self.node = index;
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
                let halves = order == Order::Halves && self.program.is_multiplied(*table);
                for r in 0..self.rows.len() {
                    let token = self.rows[r].token as usize;
                    let entry = match halves {
                        true => self.half_weight_row(*table, token),
                        false => self.weight_row(*table, token),
                    };
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
            Op::Center { heads, input, out } => self.center(*heads, *input, *out),
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
            Op::Choose { indexer, query, weights, out } => self.choose(*indexer, *query, *weights, *out),
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
                    self.set(*x, r).iter_mut().for_each(|x| *x = mapped(*map, *x));
                }
            }
            Op::Unzip { heads, input, outs } => self.unzip(*heads, *input, outs),
            Op::Zip { heads, first, second, out } => self.zip(*heads, *first, *second, *out),
            Op::UnitNorm { heads, epsilon, like, x } => self.unit_norm(*heads, *epsilon, *like, *x),
            Op::ScaleColumns { weight, input, out } => self.scale_columns(*weight, *input, *out),
            Op::Blend { shares, x, y, out } => self.blend(*shares, *x, *y, *out),
            Op::Dot { heads, x, y, out } => self.dot(*heads, *x, *y, *out),
            Op::Sparsify { spread, x } => self.sparsify(*spread, *x),
            Op::MixStreams { coefficients, input, out } => self.mix_streams(*coefficients, *input, *out),
            Op::CorrectStreams { coefficients, truth, input, out } => {
                self.correct_streams(*coefficients, *truth, *input, *out);
            }
            Op::Shift { state, input, out } => self.shift(*state, *input, *out),
            Op::Convolve { convolution, input, out } => self.convolve(*convolution, *input, *out),
            Op::Scan { scan, x, dt, b, c, out } => self.scan(*scan, [*x, *dt, *b, *c], *out),
            Op::Keep { decay, x } => self.keep(*decay, *x),
            Op::DeltaRule { rule, query, key, value, alpha, beta, out } => {
                self.delta_rule(*rule, [*query, *key, *value, *alpha, *beta], *out);
            }
            Op::Wkv { wkv, query, kept, key, value, asked, removed, out } => {
                self.wkv(*wkv, [*query, *kept, *key, *value, *asked, *removed], *out);
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
            Op::AdapterScales { out } => self.adapter_scales(*out),
            Op::AddLowRank { parts, choice, scales, input, x } => {
                self.add_low_rank(parts, *choice, [*scales, *input, *x]);
            }
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
