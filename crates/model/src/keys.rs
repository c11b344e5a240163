//! The hyper-parameters of a file: `<architecture>.<key>` entries, of which each read is recorded.
//!
//! A key that nothing reads may say that the model computes something else than the program does, such as a sliding
//! window under a family that has none here. [`Keys::judge_unread`] tells those that change the result, which is an
//! error, from those that do not.

use std::cell::RefCell;
use std::collections::BTreeSet;

use gleed_gguf::{Array, Metadata, Value};

use crate::config::MOST;
use crate::program::Pooling;
use crate::{Config, Error, Result};

/// Reads `<architecture>.<key>` entries; errors name the full key.
pub(crate) struct Keys<'a> {
    metadata: &'a Metadata,
    prefix: &'a str,
    read: RefCell<BTreeSet<String>>,
}

impl<'a> Keys<'a> {
    /// The keys of the architecture that the metadata names.
    pub(crate) fn new(metadata: &'a Metadata) -> Result<Self> {
        let key = "general.architecture";
        let missing = || gleed_gguf::Error::MissingKey { key: key.to_string() };
        let prefix = metadata.str(key)?.ok_or_else(missing)?;
        Ok(Keys { metadata, prefix, read: RefCell::default() })
    }

    /// `general.architecture`.
    pub(crate) fn architecture(&self) -> &'a str {
        self.prefix
    }

    /// `general.name`, when the file has one.
    pub(crate) fn model_name(&self) -> Result<Option<&'a str>> {
        Ok(self.metadata.str("general.name")?)
    }

    fn full(&self, key: &str) -> String {
        let full = format!("{}.{key}", self.prefix);
        self.read.borrow_mut().insert(full.clone());
        full
    }

    /// An optional size.
    pub(crate) fn size(&self, key: &str) -> Result<Option<usize>> {
        Ok(self.metadata.size(&self.full(key))?)
    }

    /// An optional number of values, of which no model has more than [`MOST`].
    pub(crate) fn width(&self, key: &str) -> Result<Option<usize>> {
        match self.size(key)? {
            Some(width) if width > MOST => {
                Err(Error::Invalid(format!("{}: {width} is not a model", self.full(key))))
            }
            width => Ok(width),
        }
    }

    /// A size that must be there and be at least 1.
    pub(crate) fn required(&self, key: &str) -> Result<usize> {
        match self.size(key)? {
            Some(0) => Err(Error::Invalid(format!("metadata key {}: must be at least 1", self.full(key)))),
            Some(n) => Ok(n),
            None => Err(gleed_gguf::Error::MissingKey { key: self.full(key) }.into()),
        }
    }

    pub(crate) fn f32(&self, key: &str) -> Result<Option<f32>> {
        Ok(self.metadata.f32(&self.full(key))?)
    }

    /// A size that is the same for all layers or listed for each; empty when there is none.
    pub(crate) fn of_layers(&self, key: &str, layers: usize) -> Result<Vec<usize>> {
        let full = self.full(key);
        let Some(Value::Array(array)) = self.metadata.get(&full) else {
            return Ok(self.size(key)?.map_or_else(Vec::new, |size| vec![size; layers]));
        };
        let size = |index| usize::try_from(array.get(index)?.as_u64()?).ok();
        let sizes: Option<Vec<usize>> = (0..layers.min(array.len())).map(size).collect();
        sizes.filter(|sizes| sizes.len() == layers).ok_or_else(|| {
            Error::Invalid(format!("metadata key {full}: {} for {layers} layers", array_of(array)))
        })
    }

    /// A number that is the same for all layers or listed for each, by its whole name; an error where there is none.
    pub(crate) fn numbers_of_layers(&self, full: &str, layers: usize) -> Result<Vec<f32>> {
        let number = |layer| match self.metadata.get(full)? {
            Value::Array(array) => array.get(layer)?.as_f32(),
            all => all.as_f32(),
        };
        let numbers: Option<Vec<f32>> = (0..layers).map(number).collect();
        numbers.ok_or_else(|| {
            Error::Invalid(format!("metadata key {full}: not a number for each of {layers} layers"))
        })
    }

    /// A limit for each layer; none where there is none, or where it is zero.
    pub(crate) fn limits(&self, key: &str, layers: usize) -> Result<Vec<Option<f32>>> {
        let full = self.full(key);
        if self.metadata.get(&full).is_none() {
            return Ok(vec![None; layers]);
        }
        let limits = self.numbers_of_layers(&full, layers)?;
        Ok(limits.into_iter().map(|limit| Some(limit).filter(|limit| *limit > 1e-6)).collect())
    }

    /// How many standard deviations above the mean the gates of each layer open; none where all of them do. Without the
    /// key, it is the best twentieth in the first ten layers.
    pub(crate) fn spreads(&self, key: &str, layers: usize) -> Result<Vec<Option<f32>>> {
        let full = self.full(key);
        if self.metadata.get(&full).is_none() {
            return Ok((0..layers).map(|layer| (layer < 10).then_some(1.644_853_6)).collect());
        }
        let spreads = self.numbers_of_layers(&full, layers)?;
        // Writers put minus infinity where no gate is to stay shut.
        Ok(spreads.into_iter().map(|spread| Some(spread).filter(|spread| *spread > 0.0)).collect())
    }

    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>> {
        Ok(self.metadata.bool(&self.full(key))?)
    }

    pub(crate) fn str(&self, key: &str) -> Result<Option<&'a str>> {
        Ok(self.metadata.str(&self.full(key))?)
    }

    /// Refuses rows that see later ones, in a model that generates one token after the other.
    pub(crate) fn must_be_causal(&self) -> Result<()> {
        match self.bool("attention.causal")? {
            Some(false) => {
                Err(Error::UnknownKey { key: self.full("attention.causal"), value: "false".to_string() })
            }
            _ => Ok(()),
        }
    }

    /// How the rows of a text become one vector, where the file says that they do.
    pub(crate) fn pooling(&self) -> Result<Option<Pooling>> {
        match self.size("pooling_type")? {
            None | Some(0) => Ok(None),
            Some(1) => Ok(Some(Pooling::Mean)),
            Some(2) => Ok(Some(Pooling::First)),
            Some(3) => Ok(Some(Pooling::Last)),
            Some(4) => Err(Error::Invalid(format!(
                "metadata key {}: 4 (rank): models that rank texts are not supported yet",
                self.full("pooling_type")
            ))),
            Some(other) => Err(Error::Invalid(format!(
                "metadata key {}: {other} is not known; known: 1 (mean), 2 (first), 3 (last)",
                self.full("pooling_type")
            ))),
        }
    }

    /// Which layers see a window: as the file lists them, or all but every `period`-th, which the file may say too.
    pub(crate) fn windowed_layers(&self, layers: usize, period: usize) -> Result<Vec<bool>> {
        self.windowed(layers, period, 1)
    }

    /// The same, where the first of each `period` layers sees everything, and not the last.
    pub(crate) fn windowed_after_first(&self, layers: usize, period: usize) -> Result<Vec<bool>> {
        self.windowed(layers, period, 0)
    }

    fn windowed(&self, layers: usize, period: usize, offset: usize) -> Result<Vec<bool>> {
        let key = self.full("attention.sliding_window_pattern");
        let period = match self.metadata.get(&key) {
            Some(Value::Array(Array::Bool(listed))) if listed.len() >= layers => {
                return Ok(listed[..layers].to_vec());
            }
            Some(Value::Array(array)) => {
                let what = format!("metadata key {key}: {} for {layers} layers", array_of(array));
                return Err(Error::Invalid(what));
            }
            _ => self.size("attention.sliding_window_pattern")?.unwrap_or(period).max(1),
        };
        Ok((0..layers).map(|layer| !(layer + offset).is_multiple_of(period)).collect())
    }

    /// Which layers are recurrent: as the file lists them, or all but every fourth, or as often as the file says.
    pub(crate) fn recurrent_layers(&self, layers: usize) -> Result<Vec<bool>> {
        let period = self.size("full_attention_interval")?.unwrap_or(4).max(1);
        let listed = self.listed_layers("attention.recurrent_layers", layers)?;
        Ok(listed.unwrap_or_else(|| (0..layers).map(|layer| !(layer + 1).is_multiple_of(period)).collect()))
    }

    /// For which layers something holds, where the file lists it.
    pub(crate) fn listed_layers(&self, key: &str, layers: usize) -> Result<Option<Vec<bool>>> {
        let key = self.full(key);
        match self.metadata.array(&key)? {
            Some(Array::Bool(listed)) if listed.len() >= layers => Ok(Some(listed[..layers].to_vec())),
            Some(array) => {
                let what = format!("metadata key {key}: {} for {layers} layers", array_of(array));
                Err(Error::Invalid(what))
            }
            None => Ok(None),
        }
    }

    /// Takes note of how a head's pairs are shared out among streams of positions. Text has the same position in the
    /// first three and none in a fourth, so that only that one must be empty.
    pub(crate) fn sections_of_text(&self) -> Result<()> {
        let key = self.full("rope.dimension_sections");
        let fourth = self.metadata.array(&key)?.and_then(|sections| sections.get(3));
        match fourth.and_then(|pairs| pairs.as_u64()) {
            Some(0) | None => Ok(()),
            Some(pairs) => Err(Error::Invalid(format!(
                "metadata key {key}: {pairs} pairs in a fourth stream of positions, which text has not"
            ))),
        }
    }

    /// Says of a key that it means nothing for what is computed.
    pub(crate) fn ignore(&self, key: &str) {
        self.full(key);
    }

    /// A float that must be there.
    pub(crate) fn required_f32(&self, key: &str) -> Result<f32> {
        self.f32(key)?.ok_or_else(|| gleed_gguf::Error::MissingKey { key: self.full(key) }.into())
    }

    /// The keys that nothing has read and that are not known to be of no account; an error where one of them changes
    /// what the model computes.
    pub(crate) fn judge_unread(&self, config: &Config) -> Result<Vec<String>> {
        // Asked for here without being read: a family that knows no experts must not pass them by.
        let experts = self.metadata.size(&format!("{}.expert_count", self.prefix))?;
        let has_experts = experts.is_some_and(|count| count > 0);
        let read = self.read.borrow();
        let mut unread = Vec::new();
        for (full, value) in self.metadata.iter().filter(|(key, _)| !read.contains(*key)) {
            let Some(key) = full.strip_prefix(self.prefix).and_then(|rest| rest.strip_prefix('.')) else {
                continue;
            };
            let idle = !has_experts && OF_EXPERTS.contains(&key);
            if HARMLESS.contains(&key) || idle || is_neutral(key, value, config) {
                continue;
            }
            if describes_computation(key) {
                return Err(Error::UnknownKey { key: full.to_string(), value: short(value) });
            }
            unread.push(full.to_string());
        }
        Ok(unread)
    }
}

/// Keys that real files have and that say nothing about what is computed.
const HARMLESS: &[&str] = &[
    // The table of embeddings has its own height.
    "vocab_size",
    "tensor_data_layout",
    // What is done with the results of an encoder.
    "embedding_length_out",
    "decoder_start_token_id",
    // Notes on how a table of rotary factors, which is a tensor, came to be.
    "rope.scaling.finetuned",
    "rope.scaling.low_freq_factor",
    "rope.scaling.high_freq_factor",
];

/// Keys that say nothing where there are no experts.
const OF_EXPERTS: &[&str] = &[
    "expert_used_count",
    "expert_shared_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_group_count",
    "expert_group_used_count",
    "expert_gating_func",
    "expert_weights_norm",
    "expert_weights_scale",
];

/// Groups of keys that are all about what is computed.
const GROUPS: &[&str] =
    &["attention.", "rope.", "ssm.", "wkv.", "shortconv.", "altup.", "laurel.", "xielu.", "feed_forward."];

/// What the names of other keys have in them that are about it.
const WORDS: &[&str] = &[
    "activation",
    "bias",
    "clamp",
    "deepstack",
    "dense_block",
    "expert",
    "hidden_act",
    "interval",
    "moe",
    "nextn",
    "norm",
    "parallel",
    "per_layer",
    "residual",
    "scale",
    "softcap",
    "time_",
    "token_shift",
    "window",
];

/// Whether a key is about what the model computes, as far as its name tells.
fn describes_computation(key: &str) -> bool {
    let in_group = GROUPS.iter().any(|group| key.starts_with(group));
    in_group || !key.contains('.') && WORDS.iter().any(|word| key.contains(word))
}

/// Whether a value says what would hold without the key.
fn is_neutral(key: &str, value: &Value, config: &Config) -> bool {
    let number = value.as_f32().map(f64::from).or_else(|| value.as_u64().map(|n| n as f64));
    match key {
        // A window as long as the context hides nothing.
        "attention.sliding_window" => number.is_some_and(|n| n == 0.0 || n >= config.context as f64),
        "attention.scale" => {
            let usual = 1.0 / (config.key_dim as f64).sqrt();
            number.is_some_and(|n| n == 0.0 || (n / usual - 1.0).abs() < 1e-6)
        }
        _ => says_nothing(value),
    }
}

/// Whether a value is what writers put where a model has none: nothing, or a factor of one.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::F32(x) => *x == 0.0 || *x == 1.0,
        Value::F64(x) => *x == 0.0 || *x == 1.0,
        Value::Bool(x) => !x,
        Value::Str(text) => text.is_empty(),
        Value::Array(array) => (0..array.len()).all(|i| array.get(i).is_some_and(|x| says_nothing(&x))),
        Value::U8(_) | Value::U16(_) | Value::U32(_) | Value::U64(_) => value.as_u64() == Some(0),
        Value::I8(_) | Value::I16(_) | Value::I32(_) | Value::I64(_) => value.as_u64() == Some(0),
    }
}

/// A value for a message.
fn short(value: &Value) -> String {
    match value {
        Value::Str(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        Value::Array(array) => array_of(array),
        Value::F32(x) => x.to_string(),
        Value::F64(x) => x.to_string(),
        Value::Bool(x) => x.to_string(),
        Value::U8(_) | Value::U16(_) | Value::U32(_) | Value::U64(_) => integer(value),
        Value::I8(_) | Value::I16(_) | Value::I32(_) | Value::I64(_) => integer(value),
    }
}

fn array_of(array: &Array) -> String {
    format!("an array of {}", array.len())
}

fn integer(value: &Value) -> String {
    value.as_u64().map_or_else(|| "negative".to_string(), |n| n.to_string())
}
