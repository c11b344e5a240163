//! The weights of a program on the device: norms as f32, matrices and tables packed.

use gleed_gguf::{Format, Gguf};
use gleed_model::program::{Program, Weight, WeightId};
use gleed_model::verify::vectors;

use crate::linear::{Layout, PackedWeight, Packing};
use crate::{Error, Gpu, Result};

/// All weights of a program.
pub(crate) struct Weights {
    weights: Vec<Loaded>,
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
pub(crate) fn converted(program: &Program) -> Result<Vec<Converted>> {
    let mut all: Vec<Converted> = Vec::new();
    for weight in &program.weights {
        let packing = packing(weight)?;
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
        };
        all.push(Converted { format: weight.format, kept_as, tensors: 1, more_bytes });
    }
    Ok(all)
}

/// One weight.
enum Loaded {
    /// A norm or a bias.
    Vector(wgpu::Buffer),
    /// A matrix of a linear layer or a table of embeddings.
    Matrix(PackedWeight),
}

impl Weights {
    /// Checks that the file has every weight as the program says, and returns the bytes that they take on
    /// the device.
    pub fn check(file: &Gguf, program: &Program) -> Result<u64> {
        let bytes = program.weights.iter().map(|weight| {
            find(file, weight)?;
            Ok(packing(weight)?.bytes())
        });
        bytes.sum()
    }

    /// Uploads every weight, telling `progress` how many bytes are on the device, and of how many.
    pub fn load(
        gpu: &Gpu,
        file: &Gguf,
        program: &Program,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Weights> {
        let vectors: Vec<WeightId> = vectors(program).collect();
        let total = Weights::check(file, program)?;
        let mut done = 0;
        let weights = program.weights.iter().enumerate().map(|(id, weight)| {
            let (bytes, packing) = (find(file, weight)?, packing(weight)?);
            if vectors.contains(&id) {
                done += packing.bytes();
                progress(done, total);
                return load_vector(gpu, weight, bytes);
            }
            let mut more = |bytes| {
                done += bytes;
                progress(done, total);
            };
            PackedWeight::upload(gpu, &weight.name, packing, bytes, &mut more).map(Loaded::Matrix)
        });
        Ok(Weights { weights: weights.collect::<Result<_>>()? })
    }

    /// A norm or a bias, on the device.
    pub fn vector(&self, id: WeightId) -> &wgpu::Buffer {
        match &self.weights[id] {
            Loaded::Vector(buffer) => buffer,
            Loaded::Matrix(_) => unreachable!("what programs use as vectors is loaded as vectors"),
        }
    }

    /// A matrix or a table; none when the program uses the weight as a vector too.
    pub fn matrix(&self, id: WeightId) -> Option<&PackedWeight> {
        match &self.weights[id] {
            Loaded::Matrix(matrix) => Some(matrix),
            Loaded::Vector(_) => None,
        }
    }
}

fn packing(weight: &Weight) -> Result<Packing> {
    Packing::new(&weight.name, weight.format, weight.rows, weight.columns)
}

fn load_vector(gpu: &Gpu, weight: &Weight, bytes: &[u8]) -> Result<Loaded> {
    let mut values = vec![0.0f32; weight.size()];
    weight.format.decode(bytes, &mut values);
    let buffer = gpu.storage(&weight.name, 4 * values.len() as u64)?;
    gpu.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&values));
    Ok(Loaded::Vector(buffer))
}

/// The bytes of a weight in the file.
fn find<'a>(file: &'a Gguf, weight: &Weight) -> Result<&'a [u8]> {
    let Weight { ref name, rows, columns, format } = *weight;
    let tensor = file.tensor(name).ok_or_else(|| Error::MissingTensor { name: name.clone() })?;
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
