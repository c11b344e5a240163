//! One small file per family: which classes of transformers it is, its keys and its tensors.

mod cohere;
mod deepseek;
mod delta;
mod dense;
mod encoders;
mod experts;
mod gemma;
mod gemma4;
mod gpt;
mod gpt_oss;
mod granite;
mod hybrid;
mod kimi;
mod llama;
mod olmo;
mod phi;
mod qwen;
mod recurrent;

use serde_json::Value as Json;

use crate::config::Config;
use crate::error::Result;
use crate::keys::{EXPERT_COUNTS, HEADS, Key, Keys, SHAPE};
use crate::names::{LLAMA, Rule};

/// Tensors of one dimension, by name.
pub type Vectors = Vec<(&'static str, Vec<f32>)>;

/// How checkpoints of a family become models.
pub struct Family {
    /// Classes in `architectures` of the configuration.
    pub models: &'static [&'static str],
    /// Whether a checkpoint of one of these classes is of this family, where one class is several.
    pub when: fn(&Config) -> Result<bool>,
    /// `general.architecture` of the model.
    pub architecture: &'static str,
    /// What configurations say by leaving it out.
    pub defaults: fn(&mut Config) -> Result<()>,
    /// Keys of the configuration.
    pub keys: &'static [&'static [Key]],
    /// Keys that a table cannot say.
    pub more: fn(&Config, &mut Keys) -> Result<()>,
    /// Names of tensors; the first table that knows one counts.
    pub tensors: &'static [&'static [Rule]],
    /// Tensors of one value a layer that become lists in the metadata, and the keys of these.
    pub lists: &'static [(&'static str, &'static str)],
    /// Tensors that follow from the configuration.
    pub vectors: fn(&Config) -> Result<Vectors>,
    /// Ways of quantising that are read, by their names in the configuration.
    pub quantised: &'static [&'static str],
    /// What a vocabulary has beside what its files say.
    pub vocabulary: Vocabulary,
}

/// What a family says about its vocabulary.
#[derive(Clone, Copy, Default)]
pub struct Vocabulary {
    /// Whether SentencePiece puts a space in front of a text, where the family knows.
    pub space_prefix: Option<bool>,
    /// Whether `add_prefix_space` of the tokenizer's configuration says so too.
    pub asks_prefix: bool,
    /// Which tokens with a role are put around a text, whatever files say.
    pub adds: &'static [(&'static str, bool)],
    /// Which are where files do not say it.
    pub usually_adds: &'static [(&'static str, bool)],
    /// Tokens with a role, by their text, where no file says which they are.
    pub roles: &'static [(&'static str, &'static str)],
    /// Tokens with a role, by number, whatever files say.
    pub numbers: &'static [(&'static str, u32)],
    /// Tokens with a role, by keys of the configuration that count before all others.
    pub keys: &'static [(&'static str, &'static str)],
    /// Whether added tokens stand in a SentencePiece vocabulary as they are written, those of `tokenizer.json` too.
    pub as_written: bool,
    /// Whether the merges of `tokenizer.json` are of characters and are kept, as Gemma 4's are.
    pub of_characters: bool,
    /// Tokens that are of another kind than files say, by their text.
    pub kinds: &'static [(&'static str, i32)],
    /// Whether another token of a list of EOS ends a turn.
    pub lists_ends: bool,
}

/// A decoder as most are.
const PLAIN: Family = Family {
    models: &[],
    when: |_| Ok(true),
    architecture: "",
    defaults: |_| Ok(()),
    keys: &[SHAPE, EXPERT_COUNTS, HEADS],
    more: common,
    tensors: &[LLAMA],
    lists: &[],
    vectors: |_| Ok(Vec::new()),
    quantised: &[],
    vocabulary: Vocabulary {
        space_prefix: None,
        asks_prefix: false,
        adds: &[],
        usually_adds: &[],
        roles: &[],
        numbers: &[],
        keys: &[],
        as_written: false,
        of_characters: false,
        kinds: &[],
        lists_ends: false,
    },
};

/// Rotation and the scores of experts.
fn common(config: &Config, keys: &mut Keys) -> Result<()> {
    keys.rope(config)?;
    keys.gating(config)
}

/// The size of the vocabulary.
fn vocabulary_size(config: &Config, keys: &mut Keys) -> Result<()> {
    keys.size("vocab_size", config.require_size(&["vocab_size"])?);
    Ok(())
}

/// How much of each head is rotated; `default` where the configuration does not say.
fn rotated_share(config: &Config, keys: &mut Keys, default: f64) -> Result<()> {
    let share = config.rope_float("partial_rotary_factor")?.unwrap_or(default);
    keys.size("rope.dimension_count", (f64::from(config.head_size()?) * share) as u32);
    Ok(())
}

/// Which layers see a window, if any does: by `layer_types`, or all but every fourth.
fn windows(config: &Config, keys: &mut Keys) -> Result<()> {
    if let Some(window) = config.size(&["sliding_window"])? {
        keys.size("attention.sliding_window", window);
        let windowed = match config.list("layer_types")? {
            Some(types) => types.iter().map(|kind| kind == "sliding_attention").collect(),
            None => (0..config.layers()?).map(|layer| (layer + 1) % 4 != 0).collect(),
        };
        keys.flags("attention.sliding_window_pattern", windowed);
    }
    Ok(())
}

/// How many pairs turn with time, height and width of an image: the same angle for all of them in text.
fn sections(config: &Config, keys: &mut Keys, usual: &[i32]) {
    let told = config.rope("mrope_section").and_then(Json::as_array);
    let size = |number: usize| told?.get(number)?.as_i64().and_then(|size| i32::try_from(size).ok());
    let sections = match told {
        Some(_) => (0..4).map(|number| size(number).unwrap_or(0)).collect(),
        None => usual.to_vec(),
    };
    keys.list("rope.dimension_sections", sections);
}

/// All families.
pub fn all() -> impl Iterator<Item = &'static Family> {
    const ALL: &[&[Family]] = &[
        llama::FAMILIES,
        qwen::FAMILIES,
        gemma::FAMILIES,
        gemma4::FAMILIES,
        phi::FAMILIES,
        granite::FAMILIES,
        olmo::FAMILIES,
        cohere::FAMILIES,
        gpt::FAMILIES,
        gpt_oss::FAMILIES,
        dense::FAMILIES,
        experts::FAMILIES,
        deepseek::FAMILIES,
        delta::FAMILIES,
        recurrent::FAMILIES,
        hybrid::FAMILIES,
        kimi::FAMILIES,
        encoders::FAMILIES,
    ];
    ALL.iter().flat_map(|families| families.iter())
}
