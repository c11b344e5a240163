//! Attention over a sequence: what families change about it, and its ops.

use super::{Bias, Builder};
use crate::program::{Activation, Attention, KvLayer, Norm, Op, View};
use crate::{Error, Result};

/// What an attention block of a family looks like, beyond its sizes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AttentionStyle {
    /// Q, K and V are one tensor, `attn_qkv`.
    pub fused_qkv: bool,
    /// How queries and keys are normed.
    pub norms: QueryNorms,
    /// The rotary embedding, if there is one.
    pub rope: Option<usize>,
    /// That of queries, where it is another one.
    pub query_rope: Option<usize>,
    /// The factor of scores; 1/√(values of a head) where there is none.
    pub scale: Option<f32>,
    /// How many positions a row sees, if not all.
    pub window: Option<usize>,
    /// How many positions a row's chunk has, if it sees only those.
    pub chunk: Option<usize>,
    /// What bounds scores.
    pub soft_cap: Option<f32>,
    /// What the result is multiplied with.
    pub gate: OutputGate,
    /// Rows see later ones too.
    pub both_ways: bool,
    /// What scores lose with distance.
    pub alibi: Option<f32>,
    /// Whether each head has a score that takes its share of the softmax and has no value.
    pub sinks: bool,
    /// Values of a head, where they are not the configuration's.
    pub head: Option<usize>,
    /// Whether the heads of values are normed too, without factors; those are the keys before their norm where the
    /// file has no `attn_v`.
    pub norms_values: bool,
    /// The earlier layer whose keys and values are read, where a layer has none of its own.
    pub keys_of: Option<usize>,
}

/// How queries and keys are normed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum QueryNorms {
    /// Not at all.
    #[default]
    None,
    /// Each head by itself, with the same factors.
    Heads,
    /// The same if the file has the factors.
    HeadsWhereGiven,
    /// All heads of a row together.
    Rows,
    /// All heads of a row together, by layer norms.
    LayerRows,
    /// Each head by itself and with factors of its own, by layer norms without biases, if the file has the factors.
    LayerHeadsWhereGiven,
    /// Each head by itself, with the same factors and when it has been rotated.
    HeadsAfterRope,
    /// Each head by itself, without factors and when it has been rotated.
    AfterRope,
}

/// What the result of attention is multiplied with before its last linear layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OutputGate {
    /// Nothing.
    #[default]
    None,
    /// The sigmoid of what `attn_q` holds beside each query head.
    BesideQueries,
    /// What an activation makes of a linear layer of the input, `attn_gate`, which gives a value for each head or one
    /// for each value.
    Own(Activation),
}

impl Builder<'_> {
    /// Attention over the sequence, from the normed input to the output projection's result.
    pub(crate) fn attention(&mut self, style: AttentionStyle, input: View, bias: Bias) -> Result<View> {
        self.needs_attention()?;
        let (c, heads, kv_heads) = (self.config, self.heads(), self.kv_heads());
        let [key_dim, value_dim] = style.head.map_or([c.key_dim, c.value_dim], |dim| [dim; 2]);
        let (queries, keys, values) = (heads * key_dim, kv_heads * key_dim, kv_heads * value_dim);
        let has_keys = style.keys_of.is_none();
        let qkv = self.buffer("qkv", queries + keys + values);
        let query = qkv.part(0, queries);
        let key = qkv.part(queries, keys);
        let value = qkv.part(queries + keys, values);
        if style.fused_qkv {
            self.linear("attn_qkv", input, qkv, bias)?;
        } else {
            match style.gate {
                OutputGate::BesideQueries => {
                    let both = self.buffer("query_gate", 2 * queries);
                    self.linear("attn_q", input, both, bias)?;
                    let outs = vec![query, self.buffer("attention_gate", queries)];
                    self.emit("attn_q_apart", Op::Unzip { heads, input: both, outs });
                }
                OutputGate::None | OutputGate::Own(_) => self.linear("attn_q", input, query, bias)?,
            }
            if has_keys {
                self.linear("attn_k", input, key, bias)?;
                self.values_of(style, input, key, value, bias)?;
            }
        }
        if style.norms_values && has_keys {
            self.plain_norm("attn_v_norm", kv_heads, value);
        }
        let own = if has_keys {
            &[("attn_q_norm", heads, query), ("attn_k_norm", kv_heads, key)][..]
        } else {
            &[("attn_q_norm", heads, query)]
        };
        for &(name, heads, x) in own {
            self.norm_before_rope(style.norms, name, heads, x)?;
        }
        if let Some(rope) = style.query_rope.or(style.rope) {
            self.emit("rope_q", Op::Rope { rope, heads, x: query });
        }
        if let Some(rope) = style.rope.filter(|_| has_keys) {
            self.emit("rope_k", Op::Rope { rope, heads: kv_heads, x: key });
        }
        if style.norms == QueryNorms::HeadsAfterRope {
            for &(name, heads, x) in own {
                self.norm_heads(name, heads, x)?;
            }
        }
        let mut scale = style.scale.unwrap_or(1.0 / (key_dim as f32).sqrt());
        if style.norms == QueryNorms::AfterRope {
            // Both are made as long as one, not as the root of their width: scores have the difference.
            let epsilon = c.norm_epsilon * key_dim as f32;
            for &(name, heads, x) in own {
                self.emit(name, Op::UnitNorm { heads, epsilon, like: None, x });
            }
            scale *= key_dim as f32;
        }
        let cache = match style.keys_of {
            Some(layer) => {
                // Files may have them all the same.
                let idle =
                    ["attn_k.weight", "attn_v.weight", "attn_k_norm.weight"].map(|name| self.name(name));
                self.read.extend(idle);
                self.cache_of(layer)?
            }
            None => {
                self.program.caches.push(KvLayer { heads: kv_heads, key_dim, value_dim });
                let cache = self.program.caches.len() - 1;
                self.emit("kv_write", Op::KvWrite { cache, key, value });
                cache
            }
        };
        let mixed = self.buffer("attention", heads * value_dim);
        let sinks = if style.sinks { Some(self.required("attn_sinks.weight", &[heads])?) } else { None };
        let attention = Attention {
            cache,
            heads,
            scale,
            // Models that were made to generate may have been trained to see both ways.
            causal: self.keys.bool("attention.causal")?.unwrap_or(true) && !style.both_ways,
            // A window as long as the context hides nothing; zero is what files say that have none.
            window: style.window.filter(|window| (1..c.context).contains(window)),
            chunk: style.chunk.filter(|chunk| (1..c.context).contains(chunk)),
            soft_cap: style.soft_cap.filter(|cap| *cap > 0.0),
            alibi: style.alibi,
            sinks,
            chosen: None,
        };
        self.emit("attention", Op::Attention { attention, query, out: mixed });
        let mixed = self.gated_output(style.gate, heads, input, mixed)?;
        let out = self.buffer("y", c.width);
        self.linear("attn_output", mixed, out, Bias::Optional)?;
        Ok(out)
    }

    /// What is done to the heads of queries or keys before they are rotated.
    fn norm_before_rope(&mut self, norms: QueryNorms, name: &str, heads: usize, x: View) -> Result<()> {
        let given = self.has(&self.name(&format!("{name}.weight")));
        match norms {
            QueryNorms::None | QueryNorms::HeadsAfterRope | QueryNorms::AfterRope => Ok(()),
            QueryNorms::HeadsWhereGiven | QueryNorms::LayerHeadsWhereGiven if !given => Ok(()),
            QueryNorms::Heads | QueryNorms::HeadsWhereGiven => self.norm_heads(name, heads, x),
            QueryNorms::Rows => self.rms_norm_in_place(name, x),
            QueryNorms::LayerRows => self.layer_norm(name, x, x),
            QueryNorms::LayerHeadsWhereGiven => {
                let weight = self.required(&format!("{name}.weight"), &[x.width / heads, heads])?;
                let norm = Norm { weight, bias: None, epsilon: self.config.norm_epsilon };
                let centered = self.buffer("centered_heads", x.width);
                self.emit(&format!("{name}_center"), Op::Center { heads, input: x, out: centered });
                self.emit(name, Op::Norm { norm, heads, input: centered, out: x });
                Ok(())
            }
        }
    }

    /// RMS norm of each head in its place, with the same factors.
    fn norm_heads(&mut self, name: &str, heads: usize, x: View) -> Result<()> {
        let norm = self.norm_weights(name, x.width / heads, false)?;
        self.emit(name, Op::Norm { norm, heads, input: x, out: x });
        Ok(())
    }

    /// The result of attention behind its gate.
    fn gated_output(&mut self, gate: OutputGate, heads: usize, input: View, mixed: View) -> Result<View> {
        let (activation, gate) = match gate {
            OutputGate::None => return Ok(mixed),
            OutputGate::BesideQueries => (Activation::Sigmoid, self.buffer("attention_gate", mixed.width)),
            OutputGate::Own(activation) => {
                let name = self.name("attn_gate.weight");
                // There are as many as the tensor has: else it is refused for its shape.
                let each = match self.tensors.find(&name, &[input.width, heads], true) {
                    Some((shape, _)) if shape.get(1) == Some(&mixed.width) => mixed.width,
                    _ => heads,
                };
                let gate = self.buffer("attention_gate", each);
                self.linear("attn_gate", input, gate, Bias::Optional)?;
                (activation, gate)
            }
        };
        if gate.width < mixed.width {
            self.emit("attn_gated", Op::Gate { activation, gate, x: mixed });
            return Ok(mixed);
        }
        let gated = self.buffer("gated_attention", mixed.width);
        self.gate("attn_gated", activation, gate, mixed, gated);
        Ok(gated)
    }

    /// The values of an attention layer, of a tensor of their own or, where that is left out, a copy of the keys.
    fn values_of(
        &mut self,
        style: AttentionStyle,
        input: View,
        key: View,
        value: View,
        bias: Bias,
    ) -> Result<()> {
        if style.norms_values && !self.has(&self.name("attn_v.weight")) {
            self.copy("attn_k_as_v", key, value);
            return Ok(());
        }
        self.linear("attn_v", input, value, bias)
    }

    /// The cache that a layer writes.
    fn cache_of(&self, layer: usize) -> Result<usize> {
        let cache = self.program.nodes.iter().find_map(|node| match node.op {
            Op::KvWrite { cache, .. } if node.layer == Some(layer) => Some(cache),
            _ => None,
        });
        cache.ok_or_else(|| Error::Invalid(format!("layer {layer} has no keys that another could read")))
    }

    /// The query heads of the current layer.
    fn heads(&self) -> usize {
        self.layer.map_or(self.config.heads, |layer| self.config.layer_heads[layer])
    }

    /// The key and value heads of the current layer.
    pub(super) fn kv_heads(&self) -> usize {
        self.layer.map_or(self.config.kv_heads, |layer| self.config.layer_kv_heads[layer])
    }

    /// A family with attention needs its sizes.
    pub(super) fn needs_attention(&self) -> Result<()> {
        if self.config.heads == 0 {
            self.keys.required("attention.head_count")?;
        }
        match self.layer {
            Some(layer) if self.heads() == 0 || self.kv_heads() == 0 => {
                Err(Error::Invalid(format!("layer {layer} has attention and no query or key-value heads")))
            }
            _ => Ok(()),
        }
    }
}
