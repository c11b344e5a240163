//! One safetensors file: a JSON table of names, types, shapes and places, and after it the data. Every number in the
//! table is held against the length of the file before anything is read by it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gleed_gguf::{Bytes, Format, shown};
use serde::Deserialize;

use crate::error::{Result, malformed};

/// The longest table that is read, as in the format's description: 100 MB.
const LONGEST_HEADER: u64 = 100_000_000;

/// An element type, by its name in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// One of the types of weights.
    Float(Format),
    /// Another, by name.
    Other(String),
}

/// One tensor of a file.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Which file of the folder holds it.
    pub file: usize,
    /// Its element type.
    pub dtype: Type,
    /// Its dimensions, slowest first.
    pub shape: Vec<usize>,
    /// Where its data starts, from the start of the file.
    pub offset: usize,
    /// How many bytes its data takes.
    pub bytes: usize,
}

/// A file with its table.
pub struct File {
    /// Where it is.
    pub path: PathBuf,
    /// All of it.
    pub bytes: Arc<Bytes>,
    /// Its tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
}

/// What the table says about a tensor. The entry `__metadata__` has none of these.
#[derive(Deserialize)]
struct Entry {
    dtype: Option<String>,
    shape: Option<Vec<u64>>,
    data_offsets: Option<[u64; 2]>,
}

impl File {
    /// Opens the file that will be the folder's `number`-th.
    pub fn open(path: &Path, number: usize) -> Result<File> {
        let bytes = Bytes::map(path)?;
        let tensors = table(&bytes, number).map_err(|what| malformed(&path.display().to_string(), what))?;
        Ok(File { path: path.to_path_buf(), bytes: Arc::new(bytes), tensors })
    }
}

/// The checked table of a file.
fn table(bytes: &[u8], file: usize) -> std::result::Result<BTreeMap<String, Tensor>, String> {
    let (length, rest) =
        bytes.split_first_chunk().ok_or("is too short for a safetensors file; download it again")?;
    let length = u64::from_le_bytes(*length);
    if length > LONGEST_HEADER {
        return Err(format!("is not a safetensors file: its table would have {length} bytes"));
    }
    let length = length as usize;
    let (header, data) = rest
        .split_at_checked(length)
        .ok_or_else(|| format!("ends inside its table of {length} bytes; download it again"))?;
    let entries: BTreeMap<String, Entry> =
        serde_json::from_slice(header).map_err(|error| format!("its table is not valid: {error}"))?;
    let mut tensors = BTreeMap::new();
    for (name, entry) in entries {
        if name == "__metadata__" {
            continue;
        }
        let tensor = checked(entry, file, 8 + length, data.len())
            .map_err(|what| format!("tensor {}: {what}", shown(&name)))?;
        tensors.insert(name, tensor);
    }
    let mut places: Vec<(usize, usize, &str)> = tensors
        .iter()
        .filter(|(_, tensor)| tensor.bytes > 0)
        .map(|(name, tensor)| (tensor.offset, tensor.offset + tensor.bytes, name.as_str()))
        .collect();
    places.sort_unstable();
    for pair in places.windows(2) {
        if pair[0].1 > pair[1].0 {
            return Err(format!("tensors {} and {} overlap", shown(pair[0].2), shown(pair[1].2)));
        }
    }
    Ok(tensors)
}

/// A tensor whose data lies inside a file with `data` bytes of data from `start` on.
fn checked(entry: Entry, file: usize, start: usize, data: usize) -> std::result::Result<Tensor, String> {
    let (Some(dtype), Some(shape), Some([begin, end])) = (entry.dtype, entry.shape, entry.data_offsets)
    else {
        return Err("has no dtype, shape or data_offsets".into());
    };
    if begin > end || end > data as u64 {
        return Err(format!(
            "its data is said to be at {begin} to {end} of {data} bytes; download the file again"
        ));
    }
    let (begin, bytes) = (begin as usize, (end - begin) as usize);
    let (dtype, width) = match dtype.as_str() {
        "F32" => (Type::Float(Format::F32), Some(4)),
        "F16" => (Type::Float(Format::F16), Some(2)),
        "BF16" => (Type::Float(Format::BF16), Some(2)),
        "I64" | "U64" | "F64" => (Type::Other(dtype), Some(8)),
        "I32" | "U32" => (Type::Other(dtype), Some(4)),
        "I16" | "U16" => (Type::Other(dtype), Some(2)),
        "I8" | "U8" | "BOOL" | "F8_E4M3" | "F8_E5M2" | "F8_E8M0" => (Type::Other(dtype), Some(1)),
        _ => (Type::Other(dtype), None),
    };
    // An empty dimension makes the tensor empty, but must not hide that the others are too large.
    let values = shape.iter().try_fold(1u64, |product, &length| product.checked_mul(length.max(1)));
    let values = values
        .filter(|&values| values <= u64::MAX / 8)
        .ok_or_else(|| format!("its shape {shape:?} is too large"))?;
    let values = if shape.contains(&0) { 0 } else { values };
    if let Some(width) = width
        && values * width != bytes as u64
    {
        return Err(format!("its shape {shape:?} takes {} bytes, but it has {bytes}", values * width));
    }
    let shape = shape.into_iter().map(|length| length as usize).collect();
    Ok(Tensor { file, dtype, shape, offset: start + begin, bytes })
}
