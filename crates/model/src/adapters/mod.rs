//! LoRA adapters: files of low-rank matrices that change what a model computes, without changing its weights.
//!
//! An adapter has two small matrices for each weight that it changes: W·x becomes W·x + scale · alpha/rank · B·(A·x). The
//! products with A are linear ops of the program like others, those with B an op of their own
//! ([`Op::AddLowRank`]), and how much of each adapter a row takes is said by its batch: rows
//! of different adapters share a step, and every weight of the model is read once for all of them.

mod attach;
mod made;

use std::collections::BTreeMap;
use std::sync::Arc;

use gleed_gguf::{Gguf, TensorInfo, shown};

use crate::program::{AdapterInfo, Op, Program, Weight};
use crate::{Error, Model, Result};

/// An adapter that fits a model.
#[derive(Debug, Clone)]
pub struct Adapter {
    /// What it is called and how much of it rows take that do not say.
    pub info: AdapterInfo,
    /// Tensors of the file that are not used: norms, which some tools put beside the matrices.
    pub unused: Vec<String>,
    file: Arc<Gguf>,
    alpha: f32,
    /// By the weight that they change.
    pairs: BTreeMap<String, Pair>,
}

/// The two matrices of a weight.
#[derive(Debug, Clone)]
struct Pair {
    /// `[inputs, rank]`, and of experts one for each; of the token embedding `[rank, vocabulary]`.
    lower: TensorInfo,
    /// `[rank, outputs]`, likewise.
    upper: TensorInfo,
    rank: usize,
    /// Whether the lower one is looked up in.
    is_embedding: bool,
}

impl Adapter {
    /// Reads an adapter for a model, of which rows take `scale` if they do not say.
    pub fn read(file: Gguf, scale: f32, model: &Model) -> Result<Adapter> {
        let wrong = |what: String| Error::Adapter { file: file.name().to_string(), what };
        let text = |key: &str| file.metadata().str(key).map_err(|error| wrong(error.to_string()));
        let named = |found: Option<&str>| found.map_or("nothing".to_string(), |name| shown(name).to_string());
        for (key, expected) in [("general.type", "adapter"), ("adapter.type", "lora")] {
            let found = text(key)?;
            if found != Some(expected) {
                let found = named(found);
                return Err(wrong(format!("is not a LoRA adapter: {key} is {found} instead of {expected}")));
            }
        }
        let (found, expected) = (text("general.architecture")?, model.config.architecture.as_str());
        if found != Some(expected) {
            let found = named(found);
            return Err(wrong(format!("is an adapter of architecture {found}, and the model is {expected}")));
        }
        if file.metadata().get("adapter.alora.invocation_tokens").is_some() {
            let what =
                "begins in the middle of a text, at its invocation tokens (aLoRA), which is not supported";
            return Err(wrong(what.to_string()));
        }
        let alpha = file.metadata().f32("adapter.lora.alpha").map_err(|error| wrong(error.to_string()))?;
        let alpha = alpha.unwrap_or(0.0);
        if !alpha.is_finite() || !scale.is_finite() {
            let (what, number) =
                if scale.is_finite() { ("adapter.lora.alpha", alpha) } else { ("its scale", scale) };
            return Err(wrong(format!("{what} is {number}, which is not a number to multiply with")));
        }
        let (halves, unused) = halves(&file).map_err(wrong)?;
        if halves.is_empty() {
            return Err(wrong("has no matrices".to_string()));
        }
        let mut pairs = BTreeMap::new();
        for (name, [lower, upper]) in halves {
            let (Some(lower), Some(upper)) = (lower, upper) else {
                let missing = if lower.is_none() { "lora_a" } else { "lora_b" };
                return Err(wrong(format!("tensor {}.{missing} is missing", shown(name))));
            };
            let (weight, is_embedding) = changed(&model.program, name)
                .ok_or_else(|| wrong(format!(
                    "changes {}, which is not a matrix that the model multiplies with; is it for another model?",
                    shown(name)
                )))?;
            let rank = rank(weight, lower, upper, is_embedding).map_err(wrong)?;
            let pair = Pair { lower: lower.clone(), upper: upper.clone(), rank, is_embedding };
            pairs.insert(name.to_string(), pair);
        }
        let info = AdapterInfo { name: file.name().to_string(), scale };
        Ok(Adapter { info, unused, alpha, pairs, file: Arc::new(file) })
    }

    /// How many weights it changes.
    pub fn weights(&self) -> usize {
        self.pairs.len()
    }

    /// What the scale of a row is multiplied with; without an alpha nothing.
    fn factor(&self, rank: usize) -> f32 {
        if self.alpha == 0.0 { 1.0 } else { self.alpha / rank as f32 }
    }
}

/// The lower and the upper matrix of each weight, as far as they are there, and what is neither.
type Halves<'a> = (BTreeMap<&'a str, [Option<&'a TensorInfo>; 2]>, Vec<String>);

fn halves(file: &Gguf) -> std::result::Result<Halves<'_>, String> {
    let (mut halves, mut unused) = (BTreeMap::<_, [Option<&TensorInfo>; 2]>::new(), Vec::new());
    for tensor in file.tensors() {
        if let Some(name) = tensor.name.strip_suffix(".lora_a") {
            halves.entry(name).or_default()[0] = Some(tensor);
        } else if let Some(name) = tensor.name.strip_suffix(".lora_b") {
            halves.entry(name).or_default()[1] = Some(tensor);
        } else if tensor.name.ends_with("_norm.weight") {
            unused.push(tensor.name.clone());
        } else {
            return Err(format!(
                "tensor {} is no matrix of an adapter (lora_a, lora_b)",
                shown(&tensor.name)
            ));
        }
    }
    Ok((halves, unused))
}

/// The weight of that name, if an adapter can change it, and whether that is as a table of embeddings.
fn changed<'a>(program: &'a Program, name: &str) -> Option<(&'a Weight, bool)> {
    let id = program.weights.iter().position(|weight| weight.name == name)?;
    let uses = |op: &Op| match op {
        Op::Embed { table, .. } => (*table == id).then_some(true),
        Op::Linear { parts, .. } | Op::ExpertLinear { parts, .. } => {
            parts.iter().any(|part| part.weight == id).then_some(false)
        }
        _ => None,
    };
    // Tied embeddings are looked up in before they are multiplied with, and only the former is changed.
    let is_embedding = program.nodes.iter().find_map(|node| uses(&node.op))?;
    Some((&program.weights[id], is_embedding))
}

/// The rank of a weight's matrices, if they have the shapes that they must have.
fn rank(
    weight: &Weight,
    lower: &TensorInfo,
    upper: &TensorInfo,
    is_embedding: bool,
) -> std::result::Result<usize, String> {
    let sized = |tensor: &TensorInfo| {
        let mut shape = tensor.shape.clone();
        shape.resize(shape.len().max(3), 1);
        shape
    };
    let (found_lower, found_upper) = (sized(lower), sized(upper));
    let rank = found_upper[0];
    let Weight { experts, rows, columns, .. } = *weight;
    let (expected_lower, expected_upper) = if is_embedding {
        (vec![rank, rows, 1], vec![rank, columns, 1])
    } else {
        (vec![columns, rank, experts], vec![rank, rows, experts])
    };
    for (tensor, found, expected) in
        [(lower, found_lower, expected_lower), (upper, found_upper, expected_upper)]
    {
        if found != expected || rank == 0 {
            return Err(format!(
                "tensor {} has shape {:?}, and {} needs {:?} of rank {rank}; is it for another model?",
                shown(&tensor.name),
                tensor.shape,
                weight.name,
                expected
            ));
        }
    }
    Ok(rank)
}

/// The model's file with the matrices of adapters beside its own tensors, as the [adapted](Model::adapted) program names
/// them.
pub fn join(file: Gguf, adapters: &[Adapter]) -> Result<Gguf> {
    Ok(file.with_made(made::tensors(adapters))?)
}

impl Model {
    /// The same model with adapters that rows may take. Its executors need the [joined](join) file.
    pub fn adapted(self, adapters: &[Adapter]) -> Result<Model> {
        let program = attach::attach(self.program, adapters)?;
        Ok(Model { program, ..self })
    }
}
