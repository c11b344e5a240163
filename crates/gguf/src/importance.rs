//! Importance matrices: for every linear layer, how large its inputs are, column by column, measured over a text. A
//! weight matters as much as the input that it is multiplied with, and a quantised format should spend its precision
//! accordingly.
//!
//! The files are llama.cpp's: GGUF with `general.type` = `imatrix`, two tensors of f32 for each layer, `NAME.in_sum2`
//! `[columns, matrices]` with the sums of the squares of the inputs and `NAME.counts` `[1, matrices]` with how many inputs
//! there were (a tensor of one matrix has neither second dimension), and what was measured: `imatrix.datasets`, `imatrix.chunk_count`, `imatrix.chunk_size`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{
    Array, Bytes, Error, Format, Gguf, Metadata, Result, Strings, TensorSpec, Value, Writer, importance_dat,
    shown, wire,
};

const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";
const DATASETS: &str = "imatrix.datasets";
const CHUNK_COUNT: &str = "imatrix.chunk_count";
const CHUNK_SIZE: &str = "imatrix.chunk_size";

/// How important the inputs of a model's linear layers are.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Importance {
    /// The texts it was measured on.
    pub datasets: Vec<String>,
    /// Windows of text that were measured.
    pub chunks: u32,
    /// Tokens per window.
    pub chunk_size: u32,
    /// What was measured of each tensor, by its name, such as `blk.0.attn_q.weight`.
    pub inputs: BTreeMap<String, InputSquares>,
}

/// The squares of what the matrices of one tensor were multiplied with.
#[derive(Debug, Clone, PartialEq)]
pub struct InputSquares {
    /// The sums over all inputs, column by column, of one matrix after the other.
    pub sums: Vec<f32>,
    /// How many inputs there were: one count for each expert, or one for all matrices.
    pub counts: Vec<f32>,
}

impl InputSquares {
    /// The mean squares, where there was something to take them of; an expert that no row chose has ones.
    pub fn means(&self) -> Vec<f32> {
        let columns = self.sums.len() / self.counts.len().max(1);
        let mut means = Vec::with_capacity(self.sums.len());
        for (sums, &count) in self.sums.chunks(columns.max(1)).zip(&self.counts) {
            means.extend(sums.iter().map(|sum| if count > 0.0 { sum / count } else { 1.0 }));
        }
        means
    }

    /// None of the numbers may be negative, infinite or not a number.
    pub(crate) fn check(&self, name: &str) -> std::result::Result<(), String> {
        match self.sums.iter().chain(&self.counts).find(|number| !(number.is_finite() && **number >= 0.0)) {
            Some(number) => {
                Err(format!("tensor {}: {number} is neither a sum of squares nor a count", shown(name)))
            }
            None => Ok(()),
        }
    }
}

impl Importance {
    /// Reads a file, of GGUF or of the format that llama.cpp had before.
    pub fn read(path: &Path) -> Result<Importance> {
        let bytes = Bytes::map(path)?;
        if !bytes.starts_with(wire::MAGIC) && importance_dat::looks_like(&bytes) {
            return importance_dat::parse(&bytes)
                .map_err(|what| Error::Malformed { file: path.display().to_string(), what });
        }
        let file = Gguf::open(path)?;
        let malformed = |what: String| Error::Malformed { file: file.name().to_owned(), what };
        let metadata = file.metadata();
        if metadata.str("general.type")? != Some("imatrix") {
            return Err(malformed(
                "is not an importance matrix (general.type is not imatrix); `gleed imatrix` makes one".into(),
            ));
        }
        let number = |key: &str| -> Result<u32> {
            let value = metadata.u64(key)?.unwrap_or(0);
            u32::try_from(value).map_err(|_| malformed(format!("key {key}: {value} is too large")))
        };
        let mut importance = Importance {
            datasets: match metadata.strings(DATASETS)? {
                Some(names) => names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect(),
                None => vec![],
            },
            chunks: number(CHUNK_COUNT)?,
            chunk_size: number(CHUNK_SIZE)?,
            inputs: BTreeMap::new(),
        };
        for tensor in file.tensors() {
            let Some(name) = tensor.name.strip_suffix(SUMS) else { continue };
            let counts = file.require_tensor(&format!("{name}{COUNTS}"))?;
            let inputs = InputSquares { sums: file.decode(tensor)?, counts: file.decode(counts)? };
            inputs.check(name).map_err(malformed)?;
            if inputs.counts.is_empty() || !inputs.sums.len().is_multiple_of(inputs.counts.len()) {
                let (sums, counts) = (inputs.sums.len(), inputs.counts.len());
                return Err(malformed(format!(
                    "tensor {name}: {sums} sums do not belong to {counts} counts"
                )));
            }
            importance.inputs.insert(name.to_owned(), inputs);
        }
        Ok(importance)
    }

    /// Writes a file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut metadata = Metadata::default();
        let mut datasets = Strings::default();
        self.datasets.iter().for_each(|name| datasets.push(name.as_bytes()));
        metadata.set("general.type", Value::Str("imatrix".to_owned()));
        metadata.set(DATASETS, Value::Array(Array::Str(datasets)));
        metadata.set(CHUNK_COUNT, Value::U32(self.chunks));
        metadata.set(CHUNK_SIZE, Value::U32(self.chunk_size));
        let mut tensors = Vec::with_capacity(2 * self.inputs.len());
        for (name, InputSquares { sums, counts }) in &self.inputs {
            let matrices = counts.len();
            for (ending, values) in [(SUMS, sums), (COUNTS, counts)] {
                let columns = values.len() / matrices.max(1);
                let shape = if matrices == 1 { vec![columns] } else { vec![columns, matrices] };
                let spec = TensorSpec { name: format!("{name}{ending}"), shape, format: Format::F32 };
                let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                tensors.push((spec, data));
            }
        }
        let specs: Vec<TensorSpec> = tensors.iter().map(|(spec, _)| spec.clone()).collect();
        let mut writer = Writer::create(path, &metadata, &specs)?;
        for (spec, data) in &tensors {
            writer.write(&spec.name, data)?;
        }
        writer.finish()
    }
}
