//! The vocabulary in which architecture files are written: each method emits the ops of one idea.
//!
//! Tensors are found through [`Tensors`], so that the same architecture file serves an opened GGUF file
//! and the planning of a file that does not exist yet.

mod altup;
mod attention;
mod encoder;
mod experts;
mod latent;
mod per_layer;
mod rwkv;
mod state;

use gleed_gguf::{Format, Gguf};

pub(crate) use self::attention::{AttentionStyle, OutputGate, QueryNorms};
pub(crate) use self::experts::Experts;
pub(crate) use self::latent::{Index, Latent};
pub(crate) use self::rwkv::Receptance;
pub(crate) use self::state::StepNorms;

use crate::config::Config;
use crate::keys::Keys;
use crate::program::{
    Activation, Buffer, Map, Node, Norm, Op, Output, Program, Projection, View, Weight, WeightId,
};
use crate::rope::{Pairing, Rope};
use crate::{Error, Result};

/// Where the builder finds tensors.
pub trait Tensors {
    /// The shape (fastest dimension first) and format of a tensor, if there is one of that name.
    /// `expected` is the shape that the program will check for, `required` whether it can do without.
    fn find(&self, name: &str, expected: &[usize], required: bool) -> Option<(Vec<usize>, Format)>;

    /// The values of a small tensor.
    fn values(&self, name: &str) -> Option<Vec<f32>>;
}

impl Tensors for Gguf {
    fn find(&self, name: &str, _expected: &[usize], _required: bool) -> Option<(Vec<usize>, Format)> {
        self.tensor(name).map(|t| (t.shape.clone(), t.format))
    }

    fn values(&self, name: &str) -> Option<Vec<f32>> {
        let tensor = self.tensor(name)?;
        let mut values = vec![0.0; tensor.shape.iter().product()];
        tensor.format.decode(self.data(tensor), &mut values);
        Some(values)
    }
}

/// Whether a linear layer has a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bias {
    /// It must have one.
    Required,
    /// It has one where the file has one.
    Optional,
}

/// Whether two shapes differ in nothing but ones, which say nothing.
fn is_alike(a: &[usize], b: &[usize]) -> bool {
    let several = |size: &&usize| **size != 1;
    a.iter().filter(several).eq(b.iter().filter(several))
}

/// Emits a program.
pub(crate) struct Builder<'a> {
    pub config: &'a Config,
    /// For what is of one family alone.
    pub keys: &'a Keys<'a>,
    tensors: &'a dyn Tensors,
    program: Program,
    layer: Option<usize>,
    /// Tensors whose values are in the program already, or that it has no need of.
    read: Vec<String>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(config: &'a Config, keys: &'a Keys<'a>, tensors: &'a dyn Tensors) -> Self {
        let nothing = View { buffer: 0, offset: 0, width: 0 };
        Builder {
            config,
            keys,
            tensors,
            program: Program {
                buffers: vec![],
                weights: vec![],
                nodes: vec![],
                caches: vec![],
                states: vec![],
                ropes: vec![],
                adapters: vec![],
                output: Output::Logits,
                logits: nothing,
                vocabulary: 0,
                context: config.context,
            },
            layer: None,
            read: vec![],
        }
    }

    /// The program, and the names of the tensors that it has no need of any more.
    pub(crate) fn finish(self) -> (Program, Vec<String>) {
        (self.program, self.read)
    }

    /// Everything emitted from here on belongs to this layer.
    pub(crate) fn enter(&mut self, layer: usize) {
        self.layer = Some(layer);
    }

    /// Everything emitted from here on comes after the layers.
    pub(crate) fn leave(&mut self) {
        self.layer = None;
    }

    /// The full name of a tensor or label in the current layer.
    fn name(&self, name: &str) -> String {
        match self.layer {
            Some(layer) => format!("blk.{layer}.{name}"),
            None => name.to_string(),
        }
    }

    /// The first columns of the buffer of that name, which is made on first use and as wide as its widest use:
    /// layers may have heads and feed-forwards of several sizes.
    pub(crate) fn buffer(&mut self, name: &'static str, width: usize) -> View {
        let buffers = &mut self.program.buffers;
        let buffer = buffers.iter().position(|b| b.name == name).unwrap_or_else(|| {
            buffers.push(Buffer { name, width });
            buffers.len() - 1
        });
        buffers[buffer].width = buffers[buffer].width.max(width);
        View { buffer, offset: 0, width }
    }

    fn emit(&mut self, label: &str, op: Op) {
        let labels = vec![self.name(label)];
        self.program.nodes.push(Node { op, labels, layer: self.layer });
    }

    /// A tensor of the current layer, checked against its shape.
    fn tensor(&mut self, name: &str, shape: &[usize], required: bool) -> Result<Option<WeightId>> {
        let name = self.name(name);
        let Some((found, format)) = self.tensors.find(&name, shape, required) else {
            if required {
                return Err(Error::MissingTensor { name });
            }
            return Ok(None);
        };
        if !is_alike(&found, shape) {
            return Err(Error::Shape { name, expected: format!("{shape:?}"), found: format!("{found:?}") });
        }
        let weights = &mut self.program.weights;
        if let Some(known) = weights.iter().position(|w| w.name == name) {
            return Ok(Some(known));
        }
        let size = |dimension: usize| shape.get(dimension).copied().unwrap_or(1);
        weights.push(Weight { name, experts: size(2), rows: size(1), columns: size(0), format });
        Ok(Some(weights.len() - 1))
    }

    fn required(&mut self, name: &str, shape: &[usize]) -> Result<WeightId> {
        Ok(self.tensor(name, shape, true)?.expect("required tensors are found or an error"))
    }

    fn optional(&mut self, name: &str, shape: &[usize]) -> Result<Option<WeightId>> {
        self.tensor(name, shape, false)
    }

    fn projection(&mut self, name: &str, columns: usize, rows: usize, bias: Bias) -> Result<Projection> {
        let weight = self.required(&format!("{name}.weight"), &[columns, rows])?;
        let bias = match bias {
            Bias::Required => Some(self.required(&format!("{name}.bias"), &[rows])?),
            Bias::Optional => self.optional(&format!("{name}.bias"), &[rows])?,
        };
        Ok(Projection { weight, bias })
    }

    /// The height of the table of embeddings, which is the vocabulary: there is no other number to check it against.
    pub(crate) fn vocabulary(&self) -> Option<usize> {
        match self.tensors.find("token_embd.weight", &[self.config.width, 0], true) {
            Some((shape, _)) if shape.len() == 2 => Some(shape[1]),
            _ => None,
        }
    }

    /// Token embeddings into the residual stream `x`; also settles the vocabulary.
    pub(crate) fn embed(&mut self) -> Result<View> {
        let width = self.config.width;
        let rows = self.vocabulary().unwrap_or(0);
        let table = self.required("token_embd.weight", &[width, rows])?;
        self.program.vocabulary = rows;
        let x = self.buffer("x", width);
        self.emit("embed", Op::Embed { table, out: x });
        Ok(x)
    }

    /// Adds learned position embeddings.
    pub(crate) fn add_positions(&mut self, x: View) -> Result<()> {
        let shape = [self.config.width, self.config.context];
        let table = self.required("position_embd.weight", &shape)?;
        self.emit("positions", Op::AddPositions { table, x });
        Ok(())
    }

    /// The rotary embedding of the configuration, with the file's own factors where it has them.
    pub(crate) fn rope(&mut self, pairing: Pairing) -> Result<usize> {
        let rope = self.configured_rope(pairing)?;
        Ok(self.add_rope(rope))
    }

    /// The same before it is added, for families that change something about it.
    pub(crate) fn configured_rope(&mut self, pairing: Pairing) -> Result<Rope> {
        self.needs_attention()?;
        let (c, own) = (self.config, self.values("rope_freqs.weight"));
        let (long, short) =
            (self.values("rope_factors_long.weight"), self.values("rope_factors_short.weight"));
        if long.is_none() && short.is_none() {
            return Rope::new(pairing, c.rope_dimensions, c.rope_base, &c.rope_scaling, own.as_deref());
        }
        // Of two tables of factors the longer one holds where the context in use is longer than the one that the
        // model began with.
        let original = self.keys.size("rope.scaling.original_context_length")?.unwrap_or(c.context);
        let factors = if c.used_context > original { long } else { short };
        let rope = Rope::new(pairing, c.rope_dimensions, c.rope_base, &c.rope_scaling, factors.as_deref())?;
        let magnitude = self.keys.f32("rope.scaling.attn_factor")?.unwrap_or(1.0);
        Ok(Rope { magnitude, ..rope })
    }

    /// Another rotary embedding than the configuration's.
    pub(crate) fn add_rope(&mut self, rope: Rope) -> usize {
        self.program.ropes.push(rope);
        self.program.ropes.len() - 1
    }

    /// The values of a small tensor that is needed while building and not afterwards.
    pub(crate) fn values(&mut self, name: &str) -> Option<Vec<f32>> {
        let values = self.tensors.values(name)?;
        self.read.push(name.to_string());
        Some(values)
    }

    /// x = map(x), unless it leaves everything as it is. What is done to logits is not done to an embedding.
    pub(crate) fn map(&mut self, label: &str, map: Map, x: View) {
        let pooled = self.program.output != Output::Logits && x == self.program.logits;
        if map != Map::Scale(1.0) && map != Map::SoftCap(0.0) && !pooled {
            self.emit(label, Op::Map { map, x });
        }
    }

    /// RMS norm of a row into the buffer `h`, by the full name of its tensor.
    pub(crate) fn rms_norm_of(&mut self, tensor: &str, input: View) -> Result<View> {
        let weight = self.required(tensor, &[input.width])?;
        let norm = Norm { weight, bias: None, epsilon: self.config.norm_epsilon };
        let out = self.buffer("h", input.width);
        let label = tensor.strip_suffix(".weight").unwrap_or(tensor);
        self.emit(label, Op::Norm { norm, heads: 1, input, out });
        Ok(out)
    }

    fn norm_weights(&mut self, name: &str, width: usize, layer_norm: bool) -> Result<Norm> {
        let weight = self.required(&format!("{name}.weight"), &[width])?;
        let bias = if layer_norm { Some(self.required(&format!("{name}.bias"), &[width])?) } else { None };
        Ok(Norm { weight, bias, epsilon: self.config.norm_epsilon })
    }

    /// RMS norm of a row into the buffer `h`.
    pub(crate) fn rms_norm(&mut self, name: &str, input: View) -> Result<View> {
        let out = self.buffer("h", input.width);
        self.rms_norm_into(name, input, out)?;
        Ok(out)
    }

    /// RMS norm of a row into another buffer, and then a bias.
    pub(crate) fn biased_rms_norm(&mut self, name: &str, input: View, out: View) -> Result<()> {
        self.rms_norm_into(name, input, out)?;
        let table = self.required(&format!("{name}.bias"), &[input.width])?;
        self.emit(&format!("{name}_bias"), Op::AddVector { table, x: out });
        Ok(())
    }

    /// RMS norm of a row in its own place.
    pub(crate) fn rms_norm_in_place(&mut self, name: &str, x: View) -> Result<()> {
        let norm = self.norm_weights(name, x.width, false)?;
        self.emit(name, Op::Norm { norm, heads: 1, input: x, out: x });
        Ok(())
    }

    /// Layer norm of a row into another buffer, or in its own place.
    pub(crate) fn layer_norm(&mut self, name: &str, input: View, out: View) -> Result<()> {
        let norm = self.norm_weights(name, input.width, true)?;
        self.emit(name, Op::Norm { norm, heads: 1, input, out });
        Ok(())
    }

    /// RMS norm of a row into another buffer.
    pub(crate) fn rms_norm_into(&mut self, name: &str, input: View, out: View) -> Result<()> {
        let norm = self.norm_weights(name, input.width, false)?;
        self.emit(name, Op::Norm { norm, heads: 1, input, out });
        Ok(())
    }

    /// One linear layer.
    pub(crate) fn linear(&mut self, name: &str, input: View, out: View, bias: Bias) -> Result<()> {
        let projection = self.projection(name, input.width, out.width, bias)?;
        self.emit(name, Op::Linear { parts: vec![projection], input, out });
        Ok(())
    }

    /// x += y.
    pub(crate) fn add(&mut self, label: &str, x: View, y: View) {
        self.emit(label, Op::Add { x, y });
    }

    /// out = input.
    pub(crate) fn copy(&mut self, label: &str, input: View, out: View) {
        self.emit(label, Op::Unzip { heads: 1, input, outs: vec![out] });
    }

    /// Values inside the current layer's feed-forward.
    fn feed_forward_width(&self) -> Result<usize> {
        match self.layer.and_then(|layer| self.config.layer_feed_forward.get(layer)) {
            Some(width) if *width > 0 => Ok(*width),
            _ => self.keys.required("feed_forward_length"),
        }
    }

    /// A feed-forward layer with a gate: down(activation(gate(input)) · up(input)).
    pub(crate) fn gated_feed_forward(&mut self, activation: Activation, input: View) -> Result<View> {
        let (gate, up) = self.gate_and_up(input)?;
        self.down(activation, gate, Some(up))
    }

    fn gate_and_up(&mut self, input: View) -> Result<(View, View)> {
        let width = self.feed_forward_width()?;
        let both = self.buffer("gate_up", 2 * self.config.feed_forward).part(0, 2 * width);
        let (gate, up) = (both.part(0, width), both.part(width, width));
        self.linear("ffn_gate", input, gate, Bias::Optional)?;
        self.linear("ffn_up", input, up, Bias::Optional)?;
        Ok((gate, up))
    }

    /// The same with gate and up in one tensor, `ffn_up`.
    pub(crate) fn fused_feed_forward(&mut self, activation: Activation, input: View) -> Result<View> {
        let width = self.feed_forward_width()?;
        let both = self.buffer("gate_up", 2 * self.config.feed_forward).part(0, 2 * width);
        self.linear("ffn_up", input, both, Bias::Optional)?;
        self.down(activation, both.part(0, width), Some(both.part(width, width)))
    }

    /// A feed-forward layer without a gate: down(activation(up(input))).
    pub(crate) fn feed_forward(&mut self, activation: Activation, input: View, bias: Bias) -> Result<View> {
        let width = self.feed_forward_width()?;
        let up = self.buffer("up", self.config.feed_forward).part(0, width);
        self.linear("ffn_up", input, up, bias)?;
        self.down(activation, up, None)
    }

    /// The same with a map in the place of the activation: down(map(up(input))).
    pub(crate) fn mapped_feed_forward(&mut self, map: Map, input: View) -> Result<View> {
        let width = self.feed_forward_width()?;
        let up = self.buffer("up", self.config.feed_forward).part(0, width);
        self.linear("ffn_up", input, up, Bias::Optional)?;
        self.emit("ffn_act", Op::Map { map, x: up });
        let out = self.buffer("y", self.config.width);
        self.linear("ffn_down", up, out, Bias::Optional)?;
        Ok(out)
    }

    fn down(&mut self, activation: Activation, gate: View, up: Option<View>) -> Result<View> {
        let hidden = self.buffer("hidden", self.config.feed_forward).part(0, gate.width);
        self.emit("ffn_act", Op::Activate { activation, gate, up, out: hidden });
        let out = self.buffer("y", self.config.width);
        self.linear("ffn_down", hidden, out, Bias::Optional)?;
        Ok(out)
    }

    /// Only wanted rows, through the output matrix (or the embeddings, when the model ties them): the logits. Where
    /// the file says how rows are pooled, it is the rows that are wanted.
    pub(crate) fn head(&mut self, input: View) -> Result<View> {
        if let Some(pooling) = self.keys.pooling()? {
            self.pool(pooling, input);
            return Ok(input);
        }
        self.keys.must_be_causal()?;
        self.emit("gather", Op::Gather { views: vec![input] });
        let shape = [self.config.width, self.program.vocabulary];
        let weight = match self.optional("output.weight", &shape)? {
            Some(weight) => weight,
            None => self.required("token_embd.weight", &shape)?,
        };
        let bias = self.optional("output.bias", &shape[1..])?;
        let out = self.buffer("logits", self.program.vocabulary);
        self.emit("output", Op::Linear { parts: vec![Projection { weight, bias }], input, out });
        self.program.logits = out;
        Ok(out)
    }
}
