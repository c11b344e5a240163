//! Attention over a sequence: what families change about it, and its ops.

use super::{Bias, Builder};
use crate::program::{Activation, Attention, KvLayer, Op, View};
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
    /// `attn_q` holds beside each query head a gate, whose sigmoid is a factor of the head's result.
    pub gated: bool,
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
    /// Each head by itself, without factors and when it has been rotated.
    AfterRope,
}

impl Builder<'_> {
    /// Attention over the sequence, from the normed input to the output projection's result.
    pub(crate) fn attention(&mut self, style: AttentionStyle, input: View, bias: Bias) -> Result<View> {
        self.needs_attention()?;
        let (c, kv_heads) = (self.config, self.kv_heads());
        let [key_dim, value_dim] = style.head.map_or([c.key_dim, c.value_dim], |dim| [dim; 2]);
        let (queries, keys, values) = (c.heads * key_dim, kv_heads * key_dim, kv_heads * value_dim);
        let has_keys = style.keys_of.is_none();
        let qkv = self.buffer("qkv", queries + keys + values);
        let query = qkv.part(0, queries);
        let key = qkv.part(queries, keys);
        let value = qkv.part(queries + keys, values);
        let gate = style.gated.then(|| self.buffer("attention_gate", queries));
        if style.fused_qkv {
            self.linear("attn_qkv", input, qkv, bias)?;
        } else {
            match gate {
                Some(gate) => {
                    let both = self.buffer("query_gate", 2 * queries);
                    self.linear("attn_q", input, both, bias)?;
                    self.emit(
                        "attn_q_apart",
                        Op::Unzip { heads: c.heads, input: both, outs: vec![query, gate] },
                    );
                }
                None => self.linear("attn_q", input, query, bias)?,
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
            &[("attn_q_norm", c.heads, query), ("attn_k_norm", kv_heads, key)][..]
        } else {
            &[("attn_q_norm", c.heads, query)]
        };
        for &(name, heads, x) in own {
            match style.norms {
                QueryNorms::None | QueryNorms::AfterRope => {}
                QueryNorms::HeadsWhereGiven if !self.has(&self.name(&format!("{name}.weight"))) => {}
                QueryNorms::Heads | QueryNorms::HeadsWhereGiven => {
                    let norm = self.norm_weights(name, key_dim, false)?;
                    self.emit(name, Op::Norm { norm, heads, input: x, out: x });
                }
                QueryNorms::Rows => self.rms_norm_in_place(name, x)?,
                QueryNorms::LayerRows => self.layer_norm_in_place(name, x)?,
            }
        }
        if let Some(rope) = style.query_rope.or(style.rope) {
            self.emit("rope_q", Op::Rope { rope, heads: c.heads, x: query });
        }
        if let Some(rope) = style.rope.filter(|_| has_keys) {
            self.emit("rope_k", Op::Rope { rope, heads: kv_heads, x: key });
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
        let mixed = self.buffer("attention", c.heads * value_dim);
        let sinks = if style.sinks { Some(self.required("attn_sinks.weight", &[c.heads])?) } else { None };
        let attention = Attention {
            cache,
            heads: c.heads,
            scale,
            // Models that were made to generate may have been trained to see both ways.
            causal: self.keys.bool("attention.causal")?.unwrap_or(true) && !style.both_ways,
            // A window as long as the context hides nothing; zero is what files say that have none.
            window: style.window.filter(|window| (1..c.context).contains(window)),
            chunk: style.chunk.filter(|chunk| (1..c.context).contains(chunk)),
            soft_cap: style.soft_cap.filter(|cap| *cap > 0.0),
            alibi: style.alibi,
            sinks,
        };
        self.emit("attention", Op::Attention { attention, query, out: mixed });
        let mixed = match gate {
            Some(gate) => {
                let gated = self.buffer("gated_attention", mixed.width);
                self.gate("attn_gated", Activation::Sigmoid, gate, mixed, gated);
                gated
            }
            None => mixed,
        };
        let out = self.buffer("y", c.width);
        self.linear("attn_output", mixed, out, Bias::Optional)?;
        Ok(out)
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
            Some(layer) if self.kv_heads() == 0 => {
                Err(Error::Invalid(format!("layer {layer} has attention and no key-value heads")))
            }
            _ => Ok(()),
        }
    }
}
