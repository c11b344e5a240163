//! The tensors of a model: every tensor of the checkpoint gets its place by the family's tables, experts are joined, and
//! what fits no table is an error.

use std::collections::BTreeMap;
use std::path::Path;

use gleed_gguf::{Format, Piece, Place, TensorSpec, shown};

use crate::config::Config;
use crate::error::{Result, malformed};
use crate::mxfp4::Mxfp4;
use crate::names::{How, Rule, Target, targets};
use crate::recipe::{Order, Recipe, Source};
use crate::safetensors::{Tensor, Type};
use crate::shaped::{Shaped, shaped};
use crate::shards::Shards;

/// Ends of names that are F32 in every file, beside those of vectors: small, and sensitive.
const ALWAYS_F32: [&str; 13] = [
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_inp_shexp.weight",
    "position_embd.weight",
    "token_types.weight",
    "ssm_conv1d.weight",
    "ssm_conv1d_q.weight",
    "ssm_conv1d_k.weight",
    "ssm_conv1d_v.weight",
    "indexer.proj.weight",
    "shortconv.conv.weight",
    "altup_correct_coef.weight",
    "altup_predict_coef.weight",
];

/// A tensor of a model and how it is made.
pub struct Planned {
    pub spec: TensorSpec,
    pub making: Making,
}

/// How a tensor is made.
pub enum Making {
    /// Of floats.
    Floats(Recipe),
    /// Of blocks of four bits.
    Blocks(Mxfp4),
}

/// A source tensor on its way to a place.
struct Part<'a> {
    name: &'a str,
    tensor: &'a Tensor,
    format: Format,
    how: How,
    /// Whether it is one of several in one place, though it may be the only one.
    stacked: bool,
}

/// All tensors of a model, those of the embedding first and then by layer.
pub fn plan(folder: &Path, config: &Config, shards: &Shards, tables: &[&[Rule]]) -> Result<Vec<Planned>> {
    let file = folder.display().to_string();
    // Layers after the last one guess further tokens; nothing here runs them.
    let guessing =
        config.size(&["num_nextn_predict_layers", "num_mtp_layers"])?.is_some_and(|count| count > 0);
    let layers = guessing.then_some(config.layers()? as usize);
    // By place, and by expert where there are several.
    let mut places: BTreeMap<String, BTreeMap<usize, Part>> = BTreeMap::new();
    let mut planned = Vec::new();
    for (name, tensor) in &shards.tensors {
        let Some(plain) = text_name(name).filter(|name| !guesses(name, layers)) else { continue };
        if plain
            .strip_suffix("_scales")
            .is_some_and(|name| shards.tensors.contains_key(&format!("{name}_blocks")))
        {
            continue;
        }
        let Some(found) = found_as(tables, &plain) else {
            return Err(malformed(
                &file,
                format!("tensor {} has no place in this kind of model", shown(name)),
            ));
        };
        for Target { name: place, expert, how } in found {
            if let How::Blocks(first, step) = how {
                let made = blocks(&place, name, tensor, (first, step), shards);
                planned.push(made.map_err(|what| malformed(&file, what))?);
                continue;
            }
            let Type::Float(format) = tensor.dtype else {
                let what = format!(
                    "tensor {} is of type {:?}: only F32, F16 and BF16 are read",
                    shown(name),
                    tensor.dtype
                );
                return Err(malformed(&file, what));
            };
            let part = Part { name, tensor, format, how, stacked: expert.is_some() };
            if let Some(other) = places.entry(place.clone()).or_default().insert(expert.unwrap_or(0), part) {
                let what =
                    format!("tensors {} and {} have the same place, {place}", shown(other.name), shown(name));
                return Err(malformed(&file, what));
            }
        }
    }
    for (place, parts) in places {
        let made = join(&place, parts, config, shards);
        planned.push(made.map_err(|what| malformed(&file, what))?);
    }
    planned.sort_by_cached_key(|tensor| order(&tensor.spec.name));
    Ok(planned)
}

/// The pieces of an assembled model.
pub fn pieces(planned: Vec<Planned>) -> Vec<Piece> {
    planned
        .into_iter()
        .map(|Planned { spec, making }| {
            let place = match making {
                Making::Floats(recipe) => match recipe.plain() {
                    Some(source) => Place::In { file: source.file, offset: source.offset },
                    None => Place::Made(Box::new(recipe)),
                },
                Making::Blocks(blocks) => Place::Made(Box::new(blocks)),
            };
            Piece { spec, place }
        })
        .collect()
}

/// A tensor of values that stand nowhere in the checkpoint.
pub fn vector(name: &str, values: &[f32]) -> Piece {
    struct Values(Vec<u8>);
    impl gleed_gguf::Make for Values {
        fn make(&self, start: usize, out: &mut [u8]) {
            out.copy_from_slice(&self.0[start..start + out.len()]);
        }

        fn release(&self) {}
    }
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let spec = TensorSpec { name: name.to_string(), shape: vec![values.len()], format: Format::F32 };
    Piece { spec, place: Place::Made(Box::new(Values(bytes))) }
}

/// The name of a tensor of the text model, `None` for those of eyes and ears.
fn text_name(name: &str) -> Option<String> {
    const OTHERS: [&str; 6] =
        ["visual.", "vision_", "audio_", "multi_modal_projector.", "embed_vision.", "embed_audio."];
    // Neither what guesses further tokens.
    if OTHERS.iter().any(|other| name.contains(other)) || name.starts_with("mtp.") {
        return None;
    }
    Some(name.replace("language_model.model.", "model.").replace("language_model.", ""))
}

/// Whether a tensor is of a layer after the last.
fn guesses(name: &str, layers: Option<usize>) -> bool {
    let number =
        name.strip_prefix("model.layers.").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
    layers.is_some_and(|layers| number.is_some_and(|number| number >= layers))
}

/// What a tensor becomes. Checkpoints of a model without its head leave the model's name out.
fn found_as(tables: &[&[Rule]], name: &str) -> Option<Vec<Target>> {
    let with = |prefix: &str| targets(tables, &format!("{prefix}.{name}"));
    targets(tables, name).or_else(|| with("model")).or_else(|| with("transformer"))
}

/// Where a tensor stands in the file.
fn order(name: &str) -> (usize, usize, String) {
    let layer = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok());
    let group = if name.starts_with("token_embd") { 0 } else { 1 + usize::from(layer.is_none()) };
    (group, layer.unwrap_or(0), name.to_string())
}

/// One tensor of the parts that share its place.
fn join(
    place: &str,
    parts: BTreeMap<usize, Part>,
    config: &Config,
    shards: &Shards,
) -> std::result::Result<Planned, String> {
    let count = parts.len();
    let mut listed = parts.into_iter();
    let Some((0, first)) = listed.next() else {
        return Err(format!("tensor {place}: the first expert is missing"));
    };
    let mut sources = vec![source(first.tensor, shards)];
    for (expected, (number, part)) in (1..).zip(listed) {
        if number != expected {
            return Err(format!("tensor {place}: expert {expected} is missing"));
        }
        if part.tensor.shape != first.tensor.shape || part.format != first.format {
            let what =
                format!("tensors {} and {} differ in shape or type", shown(first.name), shown(part.name));
            return Err(what);
        }
        sources.push(source(part.tensor, shards));
    }
    let wrong =
        |what: String| format!("tensor {}: its shape {:?} {what}", shown(first.name), first.tensor.shape);
    let Shaped { mut shape, order, change } =
        shaped(first.how, first.tensor.shape.clone(), config).map_err(wrong)?;
    // Vectors are rows of one value where their order changes, so that a row is what moves.
    let moves = order != Order::AsIs && shape.len() == 1 || matches!(order, Order::Every { .. });
    let columns = if moves { 1 } else { *shape.last().unwrap_or(&1) };
    let rows = shape.iter().product::<usize>() / columns.max(1);
    if first.stacked {
        shape.insert(0, count);
    }
    let keeps =
        shape.len() > 1 && place.ends_with(".weight") && !ALWAYS_F32.iter().any(|end| place.ends_with(end));
    let to = if keeps { first.format } else { Format::F32 };
    shape.reverse();
    let spec = TensorSpec { name: place.to_string(), shape, format: to };
    let recipe = Recipe { sources, from: first.format, to, columns, rows, order, change };
    Ok(Planned { spec, making: Making::Floats(recipe) })
}

fn source(tensor: &Tensor, shards: &Shards) -> Source {
    let Tensor { file, offset, bytes: length, .. } = *tensor;
    Source { file, bytes: shards.files[file].1.clone(), offset, length }
}

/// A tensor of blocks, whose scales are in the tensor beside.
fn blocks(
    place: &str,
    name: &str,
    tensor: &Tensor,
    every: (usize, usize),
    shards: &Shards,
) -> std::result::Result<Planned, String> {
    let beside = name.strip_suffix("_blocks").map(|name| format!("{name}_scales"));
    let scales = beside.and_then(|beside| shards.tensors.get(&beside));
    let scales = scales.ok_or_else(|| format!("tensor {}: its scales are missing", shown(name)))?;
    let sources = (source(tensor, shards), source(scales, shards));
    let (spec, blocks) = Mxfp4::new(place, (tensor, scales), sources, every)?;
    Ok(Planned { spec, making: Making::Blocks(blocks) })
}
