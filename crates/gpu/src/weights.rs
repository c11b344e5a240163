//! The weights of a program on the device: vectors as f32, matrices and tables cut by rows where a binding
//! could not see all of them.

use gleed_gguf::Gguf;
use gleed_model::program::{Program, Weight, WeightId};
use gleed_model::verify::vectors;

use crate::{Error, Gpu, Result};

/// All weights of a program.
pub(crate) struct Weights {
    /// Norms and biases; none for matrices.
    vectors: Vec<Option<wgpu::Buffer>>,
    /// Matrices and tables; none for vectors.
    matrices: Vec<Option<Matrix>>,
}

/// A matrix, `[rows][columns]` in f32.
pub(crate) struct Matrix {
    pub parts: Vec<Part>,
}

/// Some rows of a matrix.
pub(crate) struct Part {
    pub first: usize,
    pub count: usize,
    pub buffer: wgpu::Buffer,
}

impl Weights {
    /// Checks that the file has every weight as the program says.
    pub fn check(file: &Gguf, program: &Program) -> Result<()> {
        program.weights.iter().try_for_each(|weight| find(file, weight).map(|_| ()))
    }

    /// Bytes that the weights of a program take on the device.
    pub fn bytes(program: &Program) -> u64 {
        program.weights.iter().map(|weight| 4 * weight.size() as u64).sum()
    }

    /// Uploads every weight, telling `progress` how many bytes of the file are done, and of how many.
    pub fn load(
        gpu: &Gpu,
        file: &Gguf,
        program: &Program,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Weights> {
        let is_vector: Vec<WeightId> = vectors(program).collect();
        let total = program.weights.iter().map(Weight::bytes).sum();
        let mut done = 0;
        let mut all = Weights { vectors: Vec::new(), matrices: Vec::new() };
        for (id, weight) in program.weights.iter().enumerate() {
            let bytes = find(file, weight)?;
            let (vector, matrix) = if is_vector.contains(&id) {
                (Some(upload(gpu, weight, bytes)?), None)
            } else {
                (None, Some(Matrix::upload(gpu, weight, bytes)?))
            };
            all.vectors.push(vector);
            all.matrices.push(matrix);
            done += weight.bytes();
            progress(done, total);
        }
        Ok(all)
    }

    pub fn vector(&self, id: WeightId) -> &wgpu::Buffer {
        self.vectors[id].as_ref().expect("vectors are those that programs use as such")
    }

    pub fn matrix(&self, id: WeightId) -> &Matrix {
        self.matrices[id].as_ref().expect("what is not used as a vector is a matrix")
    }
}

impl Matrix {
    fn upload(gpu: &Gpu, weight: &Weight, bytes: &[u8]) -> Result<Matrix> {
        let row_bytes = bytes.len() / weight.rows;
        let most = (gpu.info.largest_binding / (4 * weight.columns as u64)).max(1) as usize;
        let parts = (0..weight.rows).step_by(most).map(|first| {
            let count = most.min(weight.rows - first);
            let buffer = upload(gpu, weight, &bytes[first * row_bytes..(first + count) * row_bytes])?;
            Ok(Part { first, count, buffer })
        });
        Ok(Matrix { parts: parts.collect::<Result<_>>()? })
    }
}

/// Decodes whole rows of a weight and uploads them.
fn upload(gpu: &Gpu, weight: &Weight, bytes: &[u8]) -> Result<wgpu::Buffer> {
    let mut values = vec![0.0f32; bytes.len() / weight.format.block_bytes() * weight.format.block_len()];
    weight.format.decode(bytes, &mut values);
    let buffer = gpu.storage(&weight.name, 4 * values.len() as u64)?;
    gpu.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&values));
    Ok(buffer)
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
