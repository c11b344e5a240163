//! The weights of a program on the device: norms as f32, matrices and tables packed.

use gleed_gguf::{Format, Gguf};
use gleed_model::Arithmetic;
use gleed_model::program::{Op, Program, Projection, Weight, WeightId};
use gleed_model::verify::vectors;

use crate::launch::{Buffer, Kernels};
use crate::linear::{Chunk, Layout, PackedWeight, Packing};
use crate::{Error, Result};

/// All weights of a program.
pub(crate) struct Weights {
    weights: Vec<Loaded>,
    stacks: Vec<Vec<Projection>>,
}

/// What is to be written to the weights.
#[derive(Debug, Default)]
pub(crate) struct Contents<'f> {
    /// Norms and biases.
    pub vectors: Vec<(Buffer, Vec<f32>)>,
    /// All else.
    pub chunks: Vec<Chunk<'f>>,
}

/// Tensors of one format that the device keeps in more bits than the file, because no kernel reads the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// The format in the file.
    pub format: Format,
    /// How they are kept, in words.
    pub kept_as: &'static str,
    /// How many tensors.
    pub tensors: usize,
    /// How many bytes they take more than in the file.
    pub more_bytes: u64,
}

/// The tensors of a program that are converted, by format.
pub(crate) fn converted(program: &Program, arithmetic: Arithmetic) -> Result<Vec<Converted>> {
    let mut all: Vec<Converted> = Vec::new();
    for (id, weight) in program.weights.iter().enumerate() {
        let packing = packing(program, arithmetic, id)?;
        if !packing.converted() {
            continue;
        }
        let more_bytes = packing.bytes().saturating_sub(weight.bytes() as u64);
        if let Some(known) = all.iter_mut().find(|known| known.format == weight.format) {
            known.tensors += 1;
            known.more_bytes += more_bytes;
            continue;
        }
        let kept_as = match packing.layout() {
            Layout::Integers(_) => "8-bit integers",
            Layout::F32 | Layout::F16 | Layout::Bf16 => "f32",
            Layout::Halves(_) => "halves, or integers with halves as scales",
        };
        all.push(Converted { format: weight.format, kept_as, tensors: 1, more_bytes });
    }
    Ok(all)
}

/// One weight.
enum Loaded {
    /// A norm or a bias.
    Vector(Buffer),
    /// A matrix of a linear layer or a table of embeddings.
    Matrix(PackedWeight),
    /// Projection of a stack, which is in the place of its first weight.
    Stacked,
}

impl Weights {
    /// Vectors alone.
    #[cfg(test)]
    pub fn of_vectors(vectors: Vec<Buffer>) -> Weights {
        Weights { weights: vectors.into_iter().map(Loaded::Vector).collect(), stacks: vec![] }
    }

    /// Checks that the file has every weight as the program says, and returns the bytes that they take on
    /// the device.
    pub fn check(file: &Gguf, program: &Program, arithmetic: Arithmetic) -> Result<u64> {
        let bytes = program.weights.iter().enumerate().map(|(id, weight)| {
            find(file, weight)?;
            Ok(packing(program, arithmetic, id)?.bytes())
        });
        bytes.sum()
    }

    /// Room for every weight, and what is to be copied there.
    pub fn new<'f>(
        kernels: &mut Kernels,
        file: &'f Gguf,
        program: &Program,
        arithmetic: Arithmetic,
    ) -> Result<(Weights, Contents<'f>)> {
        let channels = program.nodes.iter().flat_map(|node| node.op.channels());
        let vectors: Vec<WeightId> = vectors(program).chain(channels).collect();
        let stacks = stacks(program);
        let mut contents = Contents::default();
        let weights = program.weights.iter().enumerate().map(|(id, first)| {
            let stack = stacks.iter().find_map(|stack| stacked_with(stack, id));
            let ids = stack.unwrap_or(vec![id]);
            if ids[0] != id {
                return Ok(Loaded::Stacked);
            }
            let weights: Vec<&Weight> = ids.iter().map(|id| &program.weights[*id]).collect();
            let tensors = weights.iter().map(|weight| find(file, weight)).collect::<Result<Vec<_>>>()?;
            if vectors.contains(&id) {
                let values = values(&weights, &tensors);
                let buffer = kernels.storage(&first.name, 4 * values.len() as u64);
                contents.vectors.push((buffer, values));
                return Ok(Loaded::Vector(buffer));
            }
            let rows = weights.iter().map(|weight| weight.experts * weight.rows).sum();
            let packing = packing(program, arithmetic, id)?.with_rows(rows);
            let matrix = PackedWeight::new(kernels, &first.name, packing)?;
            contents.chunks.extend(matrix.chunks(&tensors));
            Ok(Loaded::Matrix(matrix))
        });
        let weights = weights.collect::<Result<_>>()?;
        Ok((Weights { weights, stacks }, contents))
    }

    /// How many of an op's parts, from the first of these on, are one matrix on the device: that of the first.
    pub fn stacked(&self, parts: &[Projection]) -> usize {
        let stack = self.stacks.iter().find(|stack| parts.starts_with(stack));
        stack.map_or(1, Vec::len)
    }

    /// A norm or a bias, on the device.
    pub fn vector(&self, id: WeightId) -> Buffer {
        match &self.weights[id] {
            Loaded::Vector(buffer) => *buffer,
            Loaded::Matrix(_) | Loaded::Stacked => {
                unreachable!("what programs use as vectors is loaded as vectors, or in the first one's place")
            }
        }
    }

    /// A matrix or a table; none when the program uses the weight as a vector too.
    pub fn matrix(&self, id: WeightId) -> Option<&PackedWeight> {
        match &self.weights[id] {
            Loaded::Matrix(matrix) => Some(matrix),
            Loaded::Vector(_) | Loaded::Stacked => None,
        }
    }
}

fn packing(program: &Program, arithmetic: Arithmetic, id: WeightId) -> Result<Packing> {
    let weight = &program.weights[id];
    let packing = Packing::new(&weight.name, weight.format, weight.experts * weight.rows, weight.columns)?;
    let in_halves = arithmetic == Arithmetic::F16 && program.is_multiplied(id);
    Ok(if in_halves { packing.for_halves() } else { packing })
}

/// The values of a norm or a bias, or of several that are one on the device.
fn values(weights: &[&Weight], tensors: &[&[u8]]) -> Vec<f32> {
    let mut values = Vec::new();
    for (weight, bytes) in weights.iter().zip(tensors) {
        let start = values.len();
        values.resize(start + weight.size(), 0.0f32);
        weight.format.decode(bytes, &mut values[start..]);
    }
    values
}

/// Neighbouring parts of linear ops, such as Q and K, that can be one matrix on the device and so one dispatch:
/// of one format, with or without biases, and used by nothing else.
fn stacks(program: &Program) -> Vec<Vec<Projection>> {
    let uses =
        |id: WeightId| program.nodes.iter().flat_map(|node| node.op.weights()).filter(|w| *w == id).count();
    let parts = program.nodes.iter().filter_map(|node| match &node.op {
        Op::Linear { parts, .. } => Some(parts),
        _ => None,
    });
    let alike = |a: &Projection, b: &Projection| {
        let [first, second] = [a, b].map(|part| &program.weights[part.weight]);
        let once =
            [Some(a.weight), Some(b.weight), a.bias, b.bias].into_iter().flatten().all(|id| uses(id) == 1);
        once && first.format == second.format
            && first.columns == second.columns
            && a.bias.is_some() == b.bias.is_some()
    };
    parts
        .flat_map(|parts| parts.chunk_by(alike))
        .filter(|run| run.len() > 1)
        .map(<[Projection]>::to_vec)
        .collect()
}

/// The weights, or the biases, of a stack that has this one.
fn stacked_with(stack: &[Projection], id: WeightId) -> Option<Vec<WeightId>> {
    let weights: Vec<WeightId> = stack.iter().map(|part| part.weight).collect();
    let biases: Vec<WeightId> = stack.iter().filter_map(|part| part.bias).collect();
    [weights, biases].into_iter().find(|ids| ids.contains(&id))
}

/// The bytes of a weight in the file.
fn find<'a>(file: &'a Gguf, weight: &Weight) -> Result<&'a [u8]> {
    let Weight { ref name, experts, rows, columns, format } = *weight;
    let tensor = file.tensor(name).ok_or_else(|| Error::MissingTensor { name: name.clone() })?;
    let rows = experts.saturating_mul(rows);
    let bytes = format.row_bytes(columns).ok().and_then(|bytes| bytes.checked_mul(rows));
    if tensor.format != format || bytes != Some(tensor.bytes) {
        return Err(Error::Tensor {
            name: name.clone(),
            expected: format!("{rows} rows of {columns} values of {format}"),
            found: format!("shape {:?} of {}", tensor.shape, tensor.format),
        });
    }
    Ok(file.data(tensor))
}
