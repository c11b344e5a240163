//! A model as a program: a flat list of ops over named buffers, built once, replayed for every step.
//!
//! Buffers are matrices of f32, one row per token of the batch. Ops name their operands by [`View`], a
//! range of columns of a buffer, so that Q, K and V can be parts of one buffer and be computed by one
//! or by three linear ops without copying.

mod adapters;
mod attention;
mod norms;
mod view;

use std::fmt;

use gleed_gguf::Format;

use crate::arithmetic::Xielu;
use crate::operands::Role;
use crate::recurrence::{Convolution, Decay, DeltaRule, Scan, Wkv};
use crate::rope::Rope;
use crate::routing::Routing;

pub use adapters::{AdapterInfo, LowRank};
pub use attention::{Attention, Indexer, Sight};
pub use view::View;

/// A buffer of activations: one row per token.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffer {
    /// A name for people.
    pub name: &'static str,
    /// Values per row.
    pub width: usize,
}

/// A tensor that the program uses. A vector has one row; only experts have more matrices than one.
#[derive(Debug, Clone, PartialEq)]
pub struct Weight {
    /// The tensor's name in the file.
    pub name: String,
    /// Matrices of equal shape that it has, one after the other.
    pub experts: usize,
    /// Outputs of a linear layer, entries of a table; 1 for vectors.
    pub rows: usize,
    /// Inputs of a linear layer, values per entry.
    pub columns: usize,
    /// How the file stores it.
    pub format: Format,
}

impl Weight {
    /// How many values it has.
    pub fn size(&self) -> usize {
        self.experts * self.rows * self.columns
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> usize {
        self.size() / self.format.block_len() * self.format.block_bytes()
    }
}

/// The index of a weight in [`Program::weights`].
pub type WeightId = usize;

/// Which norm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm {
    /// The factor per column.
    pub weight: WeightId,
    /// Layer norm adds this after subtracting the mean; `None` is RMS norm.
    pub bias: Option<WeightId>,
    /// Added to the mean square.
    pub epsilon: f32,
}

/// One matrix of a linear op.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Projection {
    /// The matrix.
    pub weight: WeightId,
    /// Added to its outputs.
    pub bias: Option<WeightId>,
}

/// The non-linearity of a feed-forward layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x · sigmoid(x).
    Silu,
    /// GELU in its tanh form.
    Gelu,
    /// GELU by the error function.
    ExactGelu,
    /// max(x, 0)².
    SquaredRelu,
    /// 1 / (1 + e^-x).
    Sigmoid,
    /// ln(1 + e^x).
    Softplus,
    /// x, where only the gate's other factor is wanted.
    Identity,
    /// GPT-OSS's SwiGLU, which bounds gate and up and adds one to up: see
    /// [`clamped_swiglu`](crate::arithmetic::clamped_swiglu). Only with `up`.
    ClampedSwiglu,
}

/// What is done to each value by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Map {
    /// x · factor.
    Scale(f32),
    /// cap · tanh(x / cap), which stays between -cap and cap.
    SoftCap(f32),
    /// x, and no more than this.
    AtMost(f32),
    /// x, and no further from zero than this.
    Within(f32),
    /// e^(-rate · sigmoid(x)): the share that is kept of what is forgotten at this rate at the most.
    Kept(f32),
    /// A non-linearity with learned numbers, see [`xielu`](crate::arithmetic::xielu).
    Xielu(Xielu),
}

/// How many of `experts` experts each row uses in an [`Op::ExpertLinear`].
pub fn experts_used(choice: Option<View>, experts: usize) -> usize {
    choice.map_or(experts, |choice| choice.width / 2)
}

/// How the rows of a text become the one vector that stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first of them.
    First,
    /// The last of them.
    Last,
}

impl Pooling {
    /// The row of a text that is wanted. That of a mean is the last one.
    pub fn wanted(self, length: usize) -> usize {
        match self {
            Pooling::First => 0,
            Pooling::Mean | Pooling::Last => length.saturating_sub(1),
        }
    }
}

/// What a program computes of the rows that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// A score for every entry of the vocabulary: logits.
    Logits,
    /// A vector that stands for a whole text.
    Embedding(Pooling),
}

/// One operation. The first group is plain; the second is what [`crate::fuse`] makes of it.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "operands are named after what they hold")]
pub enum Op {
    /// These buffers = what the batch brings for each row, see [`crate::Batch::inputs`]. Only as the first op.
    Input { views: Vec<View> },
    /// out = the table's entry of each row's token.
    Embed { table: WeightId, out: View },
    /// x += the table's entry of each row's position.
    AddPositions { table: WeightId, x: View },
    /// x += the table's first entry, which may be all there is: the same vector for all rows.
    AddVector { table: WeightId, x: View },
    /// out = norm(input), over each of `heads` equal parts of the row by itself.
    Norm { norm: Norm, heads: usize, input: View, out: View },
    /// out = input less its mean, in each of `heads` equal parts of the row: with a norm after it, a layer norm without
    /// a bias.
    Center { heads: usize, input: View, out: View },
    /// out = the outputs of all parts, one after the other.
    Linear { parts: Vec<Projection>, input: View, out: View },
    /// Rotates each of `heads` parts of the row by the row's position, in place.
    Rope { rope: usize, heads: usize, x: View },
    /// Stores keys and values at the row's position of its sequence, in one layer's cache.
    KvWrite { cache: usize, key: View, value: View },
    /// out = the positions up to the row's own with the largest scores, in ascending order, as many as there are columns;
    /// the context's length in the columns that are left. See [`index_score`](crate::arithmetic::index_score).
    Choose { indexer: Indexer, query: View, weights: View, out: View },
    /// out = for each query head, the softmax-weighted values of the positions that the row sees.
    Attention { attention: Attention, query: View, out: View },
    /// out = activation(gate) · up, or activation(gate) without `up`.
    Activate { activation: Activation, gate: View, up: Option<View>, out: View },
    /// x += y.
    Add { x: View, y: View },
    /// x = map(x), value by value.
    Map { map: Map, x: View },
    /// Each of `heads` parts of the row is cut into pieces, one for each output, in which those of all heads follow
    /// each other.
    Unzip { heads: usize, input: View, outs: Vec<View> },
    /// The reverse: each of `heads` parts of out = a piece of the first input, then one of the second, which all
    /// heads share where there is only one.
    Zip { heads: usize, first: View, second: View, out: View },
    /// Each of `heads` parts of the row is scaled to length one, x / √(Σx² + ε), or to the length of `like`.
    UnitNorm { heads: usize, epsilon: f32, like: Option<View>, x: View },
    /// out = input · weight, column by column.
    ScaleColumns { weight: WeightId, input: View, out: View },
    /// out = x, moved towards y by a share for each column: with each row of shares, one after the other.
    Blend { shares: WeightId, x: View, y: View, out: View },
    /// out = Σ x · y of each of `heads` equal parts of the row.
    Dot { heads: usize, x: View, y: View, out: View },
    /// x = what lies above its mean by more than `spread` standard deviations, in each row; zero for all else.
    Sparsify { spread: f32, x: View },
    /// out = the input, which is as many streams as each has coefficients: each stream and the sum of all of them times
    /// its coefficients.
    MixStreams { coefficients: View, input: View, out: View },
    /// out = the input, a stream for each coefficient: each stream, moved by how far the first is from the truth, times
    /// one more than its coefficient.
    CorrectStreams { coefficients: View, truth: View, input: View, out: View },
    /// out = the input of the row before, and zeros for the first row.
    Shift { state: usize, input: View, out: View },
    /// out = a short convolution of each channel over its last inputs.
    Convolve { convolution: Convolution, input: View, out: View },
    /// out = what a selective scan reads from its state when it has taken in `x`.
    Scan { scan: Scan, x: View, dt: View, b: View, c: View, out: View },
    /// x = the shares that are kept after the time steps x, in as many equal parts as there are decays.
    Keep { decay: Decay, x: View },
    /// out = what the gated delta rule reads from its state with the query when it has taken in key and value.
    DeltaRule { rule: DeltaRule, query: View, key: View, value: View, alpha: View, beta: View, out: View },
    /// out = what RWKV's rule reads from its state with the query, see [`wkv`](crate::recurrence::wkv).
    Wkv { wkv: Wkv, query: View, kept: View, key: View, value: View, asked: View, removed: View, out: View },
    /// x, cut into as many equal parts as `gate` has columns, is multiplied part by part with activation(gate).
    Gate { activation: Activation, gate: View, x: View },
    /// out = which experts the row uses, in order of rank, then with what weights.
    Route { routing: Routing, scores: View, out: View },
    /// out = for each part, the outputs of each expert of the row in order of rank. The input is the same for all
    /// experts of a row, or there is one for each. Without a choice every row uses all of them in order, as where
    /// each head has a matrix of its own.
    ExpertLinear { parts: Vec<Projection>, choice: Option<View>, input: View, out: View },
    /// out = the input times the weight of each expert of the row, in order of rank.
    Weigh { choice: View, input: View, out: View },
    /// out = the sum of what the experts of the row gave, in order of rank, times their weights if `weighted`.
    Combine { choice: View, weighted: bool, input: View, out: View },
    /// out = how much of each adapter of the program the row takes, see [`crate::Batch::adapter_scale`].
    AdapterScales { out: View },
    /// x += what the adapters of the row add to an op that gave x, or to its outputs of each expert of the row: see
    /// [`LowRank`]. The input is what the lower matrices gave, part by part, and in each part expert by expert.
    AddLowRank { parts: Vec<LowRank>, choice: Option<View>, scales: View, input: View, x: View },
    /// Keeps only the rows that want logits, in these views; all later ops see only those.
    Gather { views: Vec<View> },
    /// Keeps only the rows that want logits, and of these only x, which becomes the mean of x over all rows of the
    /// sequence. All rows of each sequence must be in the step.
    Pool { x: View },

    /// x += y, then out = norm(x).
    AddNorm { x: View, y: View, norm: Norm, out: View },
    /// Head norms of query and key where given, rotation of both, and the write of key and value.
    RopeKvWrite {
        cache: usize,
        heads: usize,
        query_rope: usize,
        key_rope: usize,
        query_norm: Option<Norm>,
        key_norm: Option<Norm>,
        query: View,
        key: View,
        value: View,
    },
    /// out = activation(gate(input)) · up(input).
    GatedLinear { activation: Activation, gate: Projection, up: Projection, input: View, out: View },
}

/// One step of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// The names of the plain ops that it stands for, in order, such as `blk.3.attn_q`.
    pub labels: Vec<String>,
    /// The layer it belongs to; none for what comes before and after the layers.
    pub layer: Option<usize>,
}

/// The keys and values of one attention layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvLayer {
    /// Heads that are stored; query heads share them in equal groups.
    pub heads: usize,
    /// Values per key.
    pub key_dim: usize,
    /// Values per value.
    pub value_dim: usize,
}

/// What a recurrent layer keeps of a sequence: a matrix of f32, each of whose columns is a channel that knows nothing
/// of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateLayer {
    /// Values per channel.
    pub rows: usize,
    /// Channels.
    pub columns: usize,
}

impl StateLayer {
    /// How many values it has.
    pub fn size(&self) -> usize {
        self.rows * self.columns
    }
}

/// A model, as what it computes.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The activations.
    pub buffers: Vec<Buffer>,
    /// The tensors.
    pub weights: Vec<Weight>,
    /// The steps, in order.
    pub nodes: Vec<Node>,
    /// The caches of keys and values that the ops name by index.
    pub caches: Vec<KvLayer>,
    /// The states of recurrent layers that the ops name by index; a slot holds all of them for one sequence.
    pub states: Vec<StateLayer>,
    /// The rotary embeddings that the ops name by index.
    pub ropes: Vec<Rope>,
    /// The adapters that rows may take, see [`crate::adapters`].
    pub adapters: Vec<AdapterInfo>,
    /// What is computed of wanted rows.
    pub output: Output,
    /// Where the logits of wanted rows (or whatever else is computed of them) are when the program has run; of no
    /// columns where it has none, as the first half of a split one.
    pub logits: View,
    /// Entries of the vocabulary.
    pub vocabulary: usize,
    /// Positions that a sequence may have.
    pub context: usize,
}

impl Program {
    /// How many layers there are up to the last one.
    pub fn layers(&self) -> usize {
        self.nodes.iter().filter_map(|node| node.layer).max().map_or(0, |last| last + 1)
    }

    /// Whether linear layers have a weight, those of experts among them.
    pub fn is_multiplied(&self, id: WeightId) -> bool {
        let linear =
            |op: &Op| matches!(op, Op::Linear { .. } | Op::GatedLinear { .. } | Op::ExpertLinear { .. });
        self.nodes.iter().any(|node| linear(&node.op) && node.op.matrices().contains(&id))
    }

    /// Whether all rows of a sequence must be in one step, one after the other: rows see later ones, or are pooled.
    pub fn needs_whole_sequences(&self) -> bool {
        self.nodes.iter().any(|node| match &node.op {
            Op::Attention { attention, .. } => !attention.causal,
            Op::Pool { .. } => true,
            _ => false,
        })
    }

    /// Whether rows choose experts.
    pub fn has_experts(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.op, Op::Route { .. }))
    }

    /// The buffers that a batch brings the values of; none in a program that begins with tokens.
    pub fn inputs(&self) -> &[View] {
        match self.nodes.first() {
            Some(Node { op: Op::Input { views }, .. }) => views,
            _ => &[],
        }
    }

    /// Bytes of one state slot: what all recurrent layers keep of one sequence.
    pub fn slot_bytes(&self) -> usize {
        self.states
            .iter()
            .map(StateLayer::size)
            .fold(0, usize::saturating_add)
            .saturating_mul(size_of::<f32>())
    }
}

impl Op {
    /// What kind of op this is, for tables.
    pub fn kind(&self) -> &'static str {
        match self {
            Op::Input { .. } => "input",
            Op::Embed { .. } => "embed",
            Op::AddPositions { .. } => "add-positions",
            Op::AddVector { .. } => "add-vector",
            Op::Norm { .. } => "norm",
            Op::Center { .. } => "center",
            Op::Linear { .. } => "linear",
            Op::Rope { .. } => "rope",
            Op::KvWrite { .. } => "kv-write",
            Op::Choose { .. } => "choose",
            Op::Attention { .. } => "attention",
            Op::Activate { .. } => "activate",
            Op::Add { .. } => "add",
            Op::Map { .. } => "map",
            Op::Unzip { .. } => "unzip",
            Op::Zip { .. } => "zip",
            Op::UnitNorm { .. } => "unit-norm",
            Op::ScaleColumns { .. } => "scale-columns",
            Op::Blend { .. } => "blend",
            Op::Dot { .. } => "dot",
            Op::Sparsify { .. } => "sparsify",
            Op::MixStreams { .. } => "mix-streams",
            Op::CorrectStreams { .. } => "correct-streams",
            Op::Shift { .. } => "shift",
            Op::Convolve { .. } => "convolve",
            Op::Scan { .. } => "scan",
            Op::Keep { .. } => "keep",
            Op::DeltaRule { .. } => "delta-rule",
            Op::Wkv { .. } => "wkv",
            Op::Gate { .. } => "gate",
            Op::Route { .. } => "route",
            Op::ExpertLinear { .. } => "expert-linear",
            Op::Weigh { .. } => "weigh",
            Op::Combine { .. } => "combine",
            Op::AdapterScales { .. } => "adapter-scales",
            Op::AddLowRank { .. } => "add-low-rank",
            Op::Gather { .. } => "gather",
            Op::Pool { .. } => "pool",
            Op::AddNorm { .. } => "add-norm",
            Op::RopeKvWrite { .. } => "rope-kv-write",
            Op::GatedLinear { .. } => "gated-linear",
        }
    }
}

/// Prints a program one op per line, with buffers and weights by name.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let view = |v: &View| {
            let buffer = &self.buffers[v.buffer];
            if v.width == buffer.width {
                buffer.name.to_string()
            } else {
                format!("{}[{}..{}]", buffer.name, v.offset, v.offset + v.width)
            }
        };
        let weight = |w: WeightId| {
            let w = &self.weights[w];
            let experts = if w.experts > 1 { format!("{}x", w.experts) } else { String::new() };
            format!("{} {} {experts}{}x{}", w.name, w.format, w.rows, w.columns)
        };
        for (index, node) in self.nodes.iter().enumerate() {
            let list = |views: Vec<View>| views.iter().map(view).collect::<Vec<_>>().join(", ");
            let weights = node.op.weights_that(|role| role != Role::Bias);
            let weights = weights.into_iter().map(weight).collect::<Vec<_>>().join(" | ");
            let (inputs, outputs) = (list(node.op.inputs()), list(node.op.outputs()));
            let line = format!("{index:4}  {:14} {inputs} -> {outputs}", node.op.kind());
            writeln!(f, "{line:70} {weights}")?;
        }
        Ok(())
    }
}
