//! Attention over a latent vector: keys and values of all heads are made of one short vector per token. An indexer may
//! choose the positions that a row sees.

use super::{Bias, Builder};
use crate::program::{Attention, Indexer, KvLayer, Norm, Op, Projection, View};
use crate::{Error, Result};

/// What latent attention looks like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Latent {
    /// Values of the latent vector.
    pub rank: usize,
    /// Values of the one that queries are made of; none where they are made of the input.
    pub query_rank: Option<usize>,
    /// Values of a head's query, of which the last ones are rotated.
    pub key_dim: usize,
    /// Values that a head gives.
    pub value_dim: usize,
    /// The rotary embedding, if there is one.
    pub rope: Option<usize>,
    /// One of whole queries, before theirs, where they grow with their position.
    pub growth: Option<usize>,
    /// The factor of scores.
    pub scale: f32,
    /// Whether the matrices that make keys and values of the latent vector are apart. What makes keys is then
    /// multiplied with queries, what makes values with the result, and only the latent vector is kept. Older files
    /// have both in one, and keys and values of all heads are kept.
    pub absorbed: bool,
    /// What chooses the positions that a row sees; it sees all of them where there is none.
    pub index: Option<Index>,
}

/// What an indexer looks like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Index {
    /// Heads of queries.
    pub heads: usize,
    /// Values of a head, and of the key that all of them share; the first ones are rotated.
    pub dim: usize,
    /// Positions that a row sees.
    pub count: usize,
    /// The rotary embedding.
    pub rope: usize,
    /// Whether the layer has an indexer of its own; else it sees what the layer before it saw.
    pub own: bool,
}

/// The epsilon of the norm of an indexer's keys; no file says another.
const KEY_EPSILON: f32 = 1e-6;

impl Index {
    /// As the file says. There is none where the context is no longer than what a row sees.
    pub fn read(b: &Builder, rope: usize) -> Result<Option<Index>> {
        let size = |name: &str| b.keys.required(&format!("attention.indexer.{name}"));
        let (heads, dim, count) = (size("head_count")?, size("key_length")?, size("top_k")?);
        let most = 1 << 24;
        if [heads, dim, count].iter().any(|size| !(1..most).contains(size)) || dim < b.config.rope_dimensions
        {
            return Err(Error::Invalid(format!(
                "an indexer of {heads} heads of {dim} values that chooses {count} positions: not a model"
            )));
        }
        Ok((count < b.config.context).then_some(Index { heads, dim, count, rope, own: true }))
    }
}

impl Latent {
    /// As the file says; older files have their heads' sizes where newer ones have those of what is kept.
    pub fn read(b: &Builder, rope: Option<usize>, scale: f32) -> Result<Latent> {
        b.needs_attention()?;
        let c = b.config;
        let (key_dim, value_dim) =
            (b.keys.size("attention.key_length_mla")?, b.keys.size("attention.value_length_mla")?);
        let latent = Latent {
            rank: b.keys.required("attention.kv_lora_rank")?,
            query_rank: b.keys.size("attention.q_lora_rank")?.filter(|rank| *rank > 0),
            key_dim: key_dim.unwrap_or(c.key_dim),
            value_dim: value_dim.unwrap_or(c.value_dim),
            rope,
            growth: None,
            scale: scale / (key_dim.unwrap_or(c.key_dim) as f32).sqrt(),
            absorbed: key_dim.is_some() && value_dim.is_some(),
            index: None,
        };
        let kept = latent.rank + c.rope_dimensions;
        let fits = latent.key_dim > c.rope_dimensions && latent.value_dim > 0;
        // What is kept as a value is as long as the rank, though files of Kimi Linear say another length.
        if !fits || latent.absorbed && c.key_dim != kept {
            return Err(Error::Invalid(format!(
                "latent attention of rank {} with heads of {} and {}, {} of them rotated, over keys of {}",
                latent.rank, latent.key_dim, latent.value_dim, c.rope_dimensions, c.key_dim
            )));
        }
        Ok(latent)
    }
}

impl Builder<'_> {
    /// Latent attention over the sequence, from the normed input to the output projection's result.
    pub(crate) fn latent_attention(&mut self, latent: &Latent, input: View) -> Result<View> {
        let (heads, rotated) = (self.config.heads, self.config.rope_dimensions);
        let &Latent { rank, query_rank, key_dim, value_dim, rope, growth, .. } = latent;
        let plain = key_dim - rotated;
        let query = self.buffer("query", heads * key_dim);
        let mut chosen = None;
        match query_rank {
            Some(rank) => {
                let short = self.buffer("query_latent", rank);
                self.linear("attn_q_a", input, short, Bias::Optional)?;
                self.rms_norm_in_place("attn_q_a_norm", short)?;
                self.linear("attn_q_b", short, query, Bias::Optional)?;
                chosen = latent.index.map(|index| self.choose(index, short, input)).transpose()?;
            }
            None => self.linear("attn_q", input, query, Bias::Optional)?,
        }
        if let Some(rope) = growth {
            self.emit("attn_q_growth", Op::Rope { rope, heads, x: query });
        }
        let query_plain = self.buffer("query_plain", heads * plain);
        let query_rotated = self.buffer("query_rotated", heads * rotated);
        let outs = vec![query_plain, query_rotated];
        self.emit("attn_q_apart", Op::Unzip { heads, input: query, outs });
        let both = self.buffer("latent", rank + rotated);
        self.linear("attn_kv_a_mqa", input, both, Bias::Optional)?;
        let (kept, key_rotated) = (both.part(0, rank), both.part(rank, rotated));
        self.rms_norm_in_place("attn_kv_a_norm", kept)?;
        if let Some(rope) = rope {
            self.emit("rope_q", Op::Rope { rope, heads, x: query_rotated });
            self.emit("rope_k", Op::Rope { rope, heads: 1, x: key_rotated });
        }

        let attend = |b: &mut Self, query: View, key: View, value: View, layer: KvLayer| {
            let cache = b.program.caches.len();
            b.program.caches.push(layer);
            b.emit("kv_write", Op::KvWrite { cache, key, value });
            let out = b.buffer("attention", heads * layer.value_dim);
            let attention = Attention { chosen, ..Attention::over_all(cache, heads, latent.scale) };
            b.emit("attention", Op::Attention { attention, query, out });
            out
        };
        let mixed = if latent.absorbed {
            let absorbed = self.buffer("query_absorbed", heads * rank);
            self.head_linear("attn_k_b", heads, [plain, rank], query_plain, absorbed)?;
            let query = self.buffer("query_latent_heads", heads * (rank + rotated));
            self.emit("attn_q_zip", Op::Zip { heads, first: absorbed, second: query_rotated, out: query });
            let layer = KvLayer { heads: 1, key_dim: rank + rotated, value_dim: rank };
            let latent_mixed = attend(self, query, both, kept, layer);
            let mixed = self.buffer("attention_values", heads * value_dim);
            self.head_linear("attn_v_b", heads, [rank, value_dim], latent_mixed, mixed)?;
            mixed
        } else {
            let made = self.buffer("keys_values", heads * (plain + value_dim));
            self.linear("attn_kv_b", kept, made, Bias::Optional)?;
            let key_plain = self.buffer("key_plain", heads * plain);
            let value = self.buffer("value", heads * value_dim);
            self.emit("attn_kv_apart", Op::Unzip { heads, input: made, outs: vec![key_plain, value] });
            let key = self.buffer("key", heads * key_dim);
            self.emit("attn_k_zip", Op::Zip { heads, first: key_plain, second: key_rotated, out: key });
            self.emit("attn_q_zip", Op::Zip { heads, first: query_plain, second: query_rotated, out: query });
            attend(self, query, key, value, KvLayer { heads, key_dim, value_dim })
        };
        let out = self.buffer("y", self.config.width);
        self.linear("attn_output", mixed, out, Bias::Optional)?;
        Ok(out)
    }

    /// The positions that each row sees, by an indexer with keys of its own.
    fn choose(&mut self, index: Index, short: View, input: View) -> Result<View> {
        let Index { heads, dim, count, rope, own } = index;
        let out = self.buffer("chosen", count);
        if !own {
            // Files may have them all the same.
            let idle = ["attn_q_b.weight", "attn_k.weight", "k_norm.weight", "k_norm.bias", "proj.weight"]
                .map(|part| self.name(&format!("indexer.{part}")));
            self.read.extend(idle);
            return Ok(out);
        }
        let (query, key) = (self.buffer("index_query", heads * dim), self.buffer("index_key", dim));
        let weights = self.buffer("index_weights", heads);
        self.linear("indexer.attn_q_b", short, query, Bias::Optional)?;
        self.linear("indexer.attn_k", input, key, Bias::Optional)?;
        self.linear("indexer.proj", input, weights, Bias::Optional)?;
        let norm = Norm { epsilon: KEY_EPSILON, ..self.norm_weights("indexer.k_norm", dim, true)? };
        self.emit("indexer.k_norm", Op::Norm { norm, heads: 1, input: key, out: key });
        self.emit("indexer.rope_q", Op::Rope { rope, heads, x: query });
        self.emit("indexer.rope_k", Op::Rope { rope, heads: 1, x: key });
        let cache = self.program.caches.len();
        // A cache has values: one is the least.
        self.program.caches.push(KvLayer { heads: 1, key_dim: dim, value_dim: 1 });
        self.emit("indexer.kv_write", Op::KvWrite { cache, key, value: key.part(0, 1) });
        let indexer = Indexer { cache, heads };
        self.emit("indexer.choose", Op::Choose { indexer, query, weights, out });
        Ok(out)
    }

    /// out = each head's own matrix times its part of the input, or times all of it where heads share one.
    pub(super) fn head_linear(
        &mut self,
        name: &str,
        heads: usize,
        [columns, rows]: [usize; 2],
        input: View,
        out: View,
    ) -> Result<()> {
        let weight = self.required(&format!("{name}.weight"), &[columns, rows, heads])?;
        let parts = vec![Projection { weight, bias: None }];
        self.emit(name, Op::ExpertLinear { parts, choice: None, input, out });
        Ok(())
    }
}
