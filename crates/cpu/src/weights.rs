//! The weights of a program: where they lie in the file, and which kernel multiplies with them.

use std::sync::Arc;

use gleed_gguf::{Format, Gguf, Groups};
use gleed_model::Arithmetic;
use gleed_model::program::{Program, WeightId};

use crate::Error;
use crate::kernels::convert::{FromBf16, FromHalf};
use crate::kernels::unpack::is_direct;
use crate::kernels::{Isa, Kernels};

/// Which code multiplies with a weight, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightKernel {
    /// The tensor's name.
    pub weight: String,
    /// How the file stores it.
    pub format: Format,
    /// The kernel's name: order of operations, instruction set, and how the format is read.
    pub kernel: String,
}

/// One weight.
pub(crate) struct Weight {
    /// The index of its tensor in the file.
    tensor: usize,
    pub format: Format,
    pub rows: usize,
    pub columns: usize,
    pub row_bytes: usize,
    /// How it splits into integer groups; `None` when it is multiplied as f32.
    pub groups: Option<Groups>,
}

/// All weights of a program.
pub(crate) struct Weights {
    file: Arc<Gguf>,
    weights: Vec<Weight>,
    /// Decoded vectors (norms, biases), one entry per weight, empty for matrices.
    vectors: Vec<Vec<f32>>,
}

impl Weights {
    /// Finds and checks every weight; decodes those of `vectors`.
    pub fn new(
        file: Arc<Gguf>,
        program: &Program,
        arithmetic: Arithmetic,
        vectors: impl Iterator<Item = WeightId>,
    ) -> Result<Weights, Error> {
        let weights: Vec<Weight> =
            program.weights.iter().map(|w| find(&file, w, arithmetic)).collect::<Result<_, _>>()?;
        let mut all = Weights { file, vectors: weights.iter().map(|_| Vec::new()).collect(), weights };
        for id in vectors {
            let mut vector = vec![0.0; all.weights[id].columns];
            all.weights[id].format.decode(all.rows(id, 0, 1), &mut vector);
            all.vectors[id] = vector;
        }
        Ok(all)
    }

    pub fn get(&self, id: WeightId) -> &Weight {
        &self.weights[id]
    }

    /// All stored bytes.
    pub fn data(&self, id: WeightId) -> &[u8] {
        self.file.data(&self.file.tensors()[self.weights[id].tensor])
    }

    /// The stored bytes of some rows.
    pub fn rows(&self, id: WeightId, first: usize, count: usize) -> &[u8] {
        let bytes = self.weights[id].row_bytes;
        &self.data(id)[first * bytes..(first + count) * bytes]
    }

    /// A vector that was decoded when the executor was made.
    pub fn vector(&self, id: WeightId) -> &[f32] {
        &self.vectors[id]
    }

    /// Bytes of the decoded vectors.
    pub fn bytes(&self) -> usize {
        self.vectors.iter().map(|v| size_of_val(&v[..])).sum()
    }
}

fn find(file: &Gguf, weight: &gleed_model::program::Weight, arithmetic: Arithmetic) -> Result<Weight, Error> {
    let gleed_model::program::Weight { ref name, rows, columns, format } = *weight;
    let tensor = file
        .tensors()
        .iter()
        .position(|tensor| tensor.name == *name)
        .ok_or_else(|| Error::MissingTensor { name: name.clone() })?;
    let info = &file.tensors()[tensor];
    let differs = || Error::Tensor {
        name: name.clone(),
        expected: format!("{rows} rows of {columns} values of {format}"),
        found: format!("shape {:?} of {}", info.shape, info.format),
    };
    let row_bytes = format.row_bytes(columns).map_err(|_| differs())?;
    if info.format != format || row_bytes.checked_mul(rows) != Some(info.bytes) {
        return Err(differs());
    }
    let groups = match arithmetic {
        Arithmetic::Q8 => format.groups(),
        Arithmetic::F32 => None,
    };
    Ok(Weight { tensor, format, rows, columns, row_bytes, groups })
}

impl Weight {
    /// The name of the kernel that multiplies with it.
    pub fn kernel(&self, isa: Isa) -> String {
        let format = self.format.name().to_ascii_lowercase();
        match (self.groups, self.format) {
            (Some(_), _) if is_direct(self.format) => format!("q8/{isa}/{format}"),
            (Some(_), _) => format!("q8/{isa}/{format} by plain unpack"),
            (None, Format::F32 | Format::F16 | Format::BF16) => format!("f32/{isa}/{format}"),
            (None, _) => format!("f32/{isa}/{format} by plain decode"),
        }
    }
}

/// Rows of f32 that lie in the file as they are; `None` when they must be decoded.
pub(crate) fn as_floats(format: Format, bytes: &[u8]) -> Option<&[f32]> {
    if format == Format::F32 && cfg!(target_endian = "little") {
        bytemuck::try_cast_slice(bytes).ok()
    } else {
        None
    }
}

/// Decodes whole rows.
pub(crate) fn decode(kernels: Kernels, format: Format, bytes: &[u8], out: &mut [f32]) {
    // Values of 16 bits that lie as this machine has them; a file may align them to a byte.
    let halves = || if cfg!(target_endian = "little") { bytemuck::try_cast_slice(bytes).ok() } else { None };
    match (format, as_floats(format, bytes)) {
        (_, Some(floats)) => out.copy_from_slice(floats),
        (Format::F16, _) if let Some(x) = halves() => kernels.run(FromHalf { x, out }),
        (Format::BF16, _) if let Some(x) = halves() => kernels.run(FromBf16 { x, out }),
        _ => format.decode(bytes, out),
    }
}
