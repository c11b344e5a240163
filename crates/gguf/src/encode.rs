//! Encodes everything in a file that comes before the data: metadata and tensor table.

use crate::TensorSpec;
use crate::metadata::{Array, Metadata, Value};
use crate::wire::{self, kind, shown};

/// Everything before the data, as bytes.
pub struct Header {
    pub bytes: Vec<u8>,
    pub alignment: usize,
    /// Bytes of each tensor.
    pub sizes: Vec<usize>,
}

impl Header {
    /// Checks that all of this can be in one file, and says what cannot.
    pub fn new(metadata: &Metadata, tensors: &[TensorSpec]) -> Result<Header, String> {
        let alignment = match metadata.get("general.alignment") {
            None => wire::DEFAULT_ALIGNMENT,
            Some(&Value::U32(value)) => wire::checked_alignment(value.into())?,
            Some(other) => {
                return Err(format!("key general.alignment: must be a u32, is of type {}", other.kind()));
            }
        };
        let mut bytes = Vec::new();
        bytes.extend(wire::MAGIC);
        put_u32(&mut bytes, wire::VERSION);
        put_u64(&mut bytes, tensors.len());
        put_u64(&mut bytes, metadata.len());
        for (key, value) in metadata.iter() {
            if key.len() > wire::MAX_KEY_BYTES {
                return Err(format!(
                    "key {} has {} bytes, at most {} are allowed",
                    shown(key),
                    key.len(),
                    wire::MAX_KEY_BYTES
                ));
            }
            put_string(&mut bytes, key.as_bytes());
            put_value(&mut bytes, value).map_err(|what| format!("key {}: {what}", shown(key)))?;
        }
        let mut sizes = Vec::with_capacity(tensors.len());
        let mut offset = 0usize;
        for tensor in tensors {
            let size =
                checked_size(tensor).map_err(|what| format!("tensor {}: {what}", shown(&tensor.name)))?;
            put_string(&mut bytes, tensor.name.as_bytes());
            put_u32(&mut bytes, tensor.shape.len() as u32);
            for &length in &tensor.shape {
                put_u64(&mut bytes, length);
            }
            put_u32(&mut bytes, tensor.format as u32);
            put_u64(&mut bytes, offset);
            offset = offset
                .checked_add(size)
                .and_then(|end| wire::align_up(end, alignment))
                .ok_or("the tensors together are too large for a file")?;
            sizes.push(size);
        }
        let mut names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("tensor {} is there twice", shown(pair[0])));
        }
        let start = wire::align_up(bytes.len(), alignment).ok_or("key general.alignment: is too large")?;
        bytes.resize(start, 0);
        Ok(Header { bytes, alignment, sizes })
    }
}

fn checked_size(tensor: &TensorSpec) -> Result<usize, String> {
    if tensor.name.len() > wire::MAX_TENSOR_NAME_BYTES {
        return Err(format!(
            "its name has {} bytes, other readers take at most {}",
            tensor.name.len(),
            wire::MAX_TENSOR_NAME_BYTES
        ));
    }
    if tensor.shape.len() > wire::MAX_DIMENSIONS {
        return Err(format!(
            "has {} dimensions, at most {} are possible",
            tensor.shape.len(),
            wire::MAX_DIMENSIONS
        ));
    }
    wire::tensor_bytes(tensor.format, &tensor.shape)
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend(value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: usize) {
    out.extend((value as u64).to_le_bytes());
}

fn put_string(out: &mut Vec<u8>, string: &[u8]) {
    put_u64(out, string.len());
    out.extend(string);
}

fn put_value(out: &mut Vec<u8>, value: &Value) -> Result<(), String> {
    match value {
        Value::U8(v) => put_scalar(out, kind::U8, v.to_le_bytes()),
        Value::I8(v) => put_scalar(out, kind::I8, v.to_le_bytes()),
        Value::U16(v) => put_scalar(out, kind::U16, v.to_le_bytes()),
        Value::I16(v) => put_scalar(out, kind::I16, v.to_le_bytes()),
        Value::U32(v) => put_scalar(out, kind::U32, v.to_le_bytes()),
        Value::I32(v) => put_scalar(out, kind::I32, v.to_le_bytes()),
        Value::U64(v) => put_scalar(out, kind::U64, v.to_le_bytes()),
        Value::I64(v) => put_scalar(out, kind::I64, v.to_le_bytes()),
        Value::F32(v) => put_scalar(out, kind::F32, v.to_le_bytes()),
        Value::F64(v) => put_scalar(out, kind::F64, v.to_le_bytes()),
        Value::Bool(v) => put_scalar(out, kind::BOOL, [u8::from(*v)]),
        Value::Str(v) => {
            put_u32(out, kind::STRING);
            put_string(out, v.as_bytes());
        }
        Value::Array(array) => {
            put_u32(out, kind::ARRAY);
            put_array(out, array, 1)?;
        }
    }
    Ok(())
}

fn put_scalar<const N: usize>(out: &mut Vec<u8>, kind: u32, bytes: [u8; N]) {
    put_u32(out, kind);
    out.extend(bytes);
}

fn put_array(out: &mut Vec<u8>, array: &Array, depth: usize) -> Result<(), String> {
    if depth > wire::MAX_DEPTH {
        return Err(format!("arrays nest deeper than {} levels", wire::MAX_DEPTH));
    }
    match array {
        Array::U8(v) => put_numbers(out, kind::U8, v, u8::to_le_bytes),
        Array::I8(v) => put_numbers(out, kind::I8, v, i8::to_le_bytes),
        Array::U16(v) => put_numbers(out, kind::U16, v, u16::to_le_bytes),
        Array::I16(v) => put_numbers(out, kind::I16, v, i16::to_le_bytes),
        Array::U32(v) => put_numbers(out, kind::U32, v, u32::to_le_bytes),
        Array::I32(v) => put_numbers(out, kind::I32, v, i32::to_le_bytes),
        Array::U64(v) => put_numbers(out, kind::U64, v, u64::to_le_bytes),
        Array::I64(v) => put_numbers(out, kind::I64, v, i64::to_le_bytes),
        Array::F32(v) => put_numbers(out, kind::F32, v, f32::to_le_bytes),
        Array::F64(v) => put_numbers(out, kind::F64, v, f64::to_le_bytes),
        Array::Bool(v) => put_numbers(out, kind::BOOL, v, |bit| [u8::from(bit)]),
        Array::Str(strings) => {
            put_u32(out, kind::STRING);
            put_u64(out, strings.len());
            for string in strings.iter() {
                put_string(out, string);
            }
        }
        Array::Nested(arrays) => {
            put_u32(out, kind::ARRAY);
            put_u64(out, arrays.len());
            for array in arrays {
                put_array(out, array, depth + 1)?;
            }
        }
    }
    Ok(())
}

fn put_numbers<T: Copy, const N: usize>(
    out: &mut Vec<u8>,
    kind: u32,
    values: &[T],
    encode: fn(T) -> [u8; N],
) {
    put_u32(out, kind);
    put_u64(out, values.len());
    out.extend(values.iter().flat_map(|&value| encode(value)));
}
