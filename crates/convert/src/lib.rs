//! Models straight from a training folder: safetensors, `config.json` and a tokenizer become a model as if a GGUF file
//! had been opened.
//!
//! [`open`] reads the small files of a folder and the tables of its weights, and assembles a [`Gguf`] over the mapped
//! weights: tensors that a family stores as they are stay in their files, others are made when they are read. Written
//! to disk by way of [`Gguf::stretch`], nothing of it is ever whole in memory.

mod config;
mod error;
mod families;
mod general;
mod json;
mod keys;
mod mxfp4;
mod names;
mod recipe;
mod safetensors;
mod sentence;
mod shaped;
mod shards;
mod tensors;
mod vocabulary;

use std::collections::BTreeSet;
use std::path::Path;

use gleed_gguf::{Array, Format, Gguf, Mix, Value, shown};

pub use error::{Error, Result};

use config::Config;
use error::malformed;
use families::Family;
use keys::Keys;
use safetensors::Type;
use sentence::{Dense, Modules};
use shards::Shards;
use tensors::Planned;

/// The classes of transformers whose checkpoints can be read, with the architecture that each becomes.
pub fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    families::all().flat_map(|family| family.models.iter().map(|model| (*model, family.architecture)))
}

/// Opens a checkpoint folder as a model.
pub fn open(folder: &Path) -> Result<Gguf> {
    let mut config = Config::open(folder)?;
    let family = family(&config)?;
    if let Some(quantised) = config.value(&["quantization_config"]) {
        let method = quantised.get("quant_method").and_then(|method| method.as_str()).unwrap_or_default();
        if !family.quantised.contains(&method) {
            return Err(config.wrong("its weights are quantised: only those in F32, F16 and BF16 are read"));
        }
    }
    (family.defaults)(&mut config)?;
    let mut shards = Shards::open(folder)?;
    let mut keys = Keys::new(family.architecture);
    for table in family.keys {
        keys.take(&config, table)?;
    }
    (family.more)(&config, &mut keys)?;
    for (from, key) in family.lists {
        let values = list(folder, &config, &mut shards, from)?;
        keys.set_plain(key, Value::Array(Array::F32(values)));
    }
    let modules = Modules::read(folder)?;
    if let Some(pooling) = modules.pooling {
        keys.size("pooling_type", pooling);
    }
    for Dense { path, inputs, outputs } in &modules.dense {
        shards.add_module(folder, path)?;
        // They are called by the number in front of their folder's name.
        let number = path.split('_').next().unwrap_or_default();
        keys.size(&format!("dense_{number}_feat_in"), *inputs);
        keys.size(&format!("dense_{number}_feat_out"), *outputs);
    }
    let planned = tensors::plan(folder, &config, &shards, family.tensors)?;
    let mut metadata = keys.into_metadata();
    general::set(&mut metadata, folder, &planned)?;
    metadata.set("general.file_type", Value::U32(mix(&planned).file_type()));
    metadata.set("general.quantization_version", Value::U32(2));
    let embedding = planned.iter().find(|tensor| tensor.spec.name == "token_embd.weight");
    let Some(&[_, rows]) = embedding.map(|tensor| &tensor.spec.shape[..]) else {
        return Err(malformed(
            &folder.display().to_string(),
            "the token embedding is missing, or is no matrix",
        ));
    };
    vocabulary::set(&mut metadata, folder, &config, &family.vocabulary, rows)?;
    let mut pieces = tensors::pieces(planned);
    pieces
        .extend((family.vectors)(&config)?.into_iter().map(|(name, values)| tensors::vector(name, &values)));
    Ok(Gguf::assemble(&folder.display().to_string(), metadata, shards.files, pieces)?)
}

fn family(config: &Config) -> Result<&'static Family> {
    let model = config.model()?;
    for family in families::all().filter(|family| family.models.contains(&model)) {
        if (family.when)(config)? {
            return Ok(family);
        }
    }
    let known: BTreeSet<&str> = known().map(|(_, architecture)| architecture).collect();
    let known: Vec<&str> = known.into_iter().collect();
    Err(config.wrong(format!(
        "{} is not a model that can be read; known are classes of: {}",
        shown(model),
        known.join(", ")
    )))
}

/// One value of each layer, from tensors that then are no weights.
fn list(folder: &Path, config: &Config, shards: &mut Shards, from: &str) -> Result<Vec<f32>> {
    let mut values = Vec::new();
    for layer in 0..config.layers()? {
        let name = from.replace('#', &layer.to_string());
        let wrong = |what: &str| malformed(&folder.display().to_string(), format!("tensor {name} {what}"));
        let tensor = shards.tensors.remove(&name).ok_or_else(|| wrong("is missing"))?;
        let Type::Float(format) = tensor.dtype else { return Err(wrong("is not of floats")) };
        if tensor.bytes != recipe::width(format) {
            return Err(wrong("has not one value"));
        }
        let mut value = [0.0];
        format.decode(&shards.files[tensor.file].1[tensor.offset..][..tensor.bytes], &mut value);
        values.extend(value);
    }
    Ok(values)
}

/// The mix that the checkpoint is: that of its blocks, or of most of its values.
fn mix(tensors: &[Planned]) -> Mix {
    if tensors.iter().any(|tensor| tensor.spec.format == Format::MXFP4) {
        return Mix::MXFP4;
    }
    let values = |format: Format| {
        let these =
            tensors.iter().filter(|tensor| tensor.spec.shape.len() > 1 && tensor.spec.format == format);
        these
            .map(|tensor| tensor.spec.shape.iter().map(|&length| length as u128).product::<u128>())
            .sum::<u128>()
    };
    let mixes = [(Format::F32, Mix::F32), (Format::F16, Mix::F16), (Format::BF16, Mix::BF16)];
    mixes.into_iter().max_by_key(|(format, _)| values(*format)).map_or(Mix::F32, |(_, mix)| mix)
}
