//! The numbers of the container that the reader and the writer share: magic, type ids, limits, sizes.

use crate::Format;

/// The first four bytes of every file.
pub const MAGIC: &[u8; 4] = b"GGUF";
/// The version of the format that is written.
pub const VERSION: u32 = 3;
/// Where tensor data is aligned when `general.alignment` does not say.
pub const DEFAULT_ALIGNMENT: usize = 32;
/// The most dimensions a tensor has.
pub const MAX_DIMENSIONS: usize = 4;
/// How deep arrays nest: real files use one level, a hostile one would exhaust the stack.
pub const MAX_DEPTH: usize = 8;
/// The longest key, from the format's description.
pub const MAX_KEY_BYTES: usize = 65_535;
/// The longest tensor name that other readers take: they store it in 64 bytes with a zero at the end.
pub const MAX_TENSOR_NAME_BYTES: usize = 63;

/// Ids of value types in the file.
pub mod kind {
    pub const U8: u32 = 0;
    pub const I8: u32 = 1;
    pub const U16: u32 = 2;
    pub const I16: u32 = 3;
    pub const U32: u32 = 4;
    pub const I32: u32 = 5;
    pub const F32: u32 = 6;
    pub const BOOL: u32 = 7;
    pub const STRING: u32 = 8;
    pub const ARRAY: u32 = 9;
    pub const U64: u32 = 10;
    pub const I64: u32 = 11;
    pub const F64: u32 = 12;
}

/// `offset` rounded up to a multiple of `alignment` (a power of two), unless that overflows.
pub fn align_up(offset: usize, alignment: usize) -> Option<usize> {
    Some(offset.checked_add(alignment - 1)? & !(alignment - 1))
}

/// The alignment that a `general.alignment` of `value` asks for, unless it is none.
pub fn checked_alignment(value: u64) -> Result<usize, String> {
    match u32::try_from(value) {
        Ok(alignment) if alignment.is_power_of_two() => Ok(alignment as usize),
        _ => Err(format!("key general.alignment: {value} is not a power of two below 4294967296")),
    }
}

/// How many bytes a tensor takes, or what is wrong with its shape.
pub fn tensor_bytes(format: Format, shape: &[usize]) -> Result<usize, String> {
    let columns = shape.first().copied().unwrap_or(1);
    let block = format.block_len();
    if !columns.is_multiple_of(block) {
        return Err(format!("{format:?} needs a multiple of {block} columns, has {columns}"));
    }
    // An empty dimension makes the tensor empty, but must not hide that the others are too large.
    shape
        .iter()
        .try_fold(1usize, |product, &length| product.checked_mul(length.max(1)))
        .and_then(|values| (values / block).checked_mul(format.block_bytes()))
        .filter(|&bytes| isize::try_from(bytes).is_ok())
        .map(|bytes| if shape.contains(&0) { 0 } else { bytes })
        .ok_or_else(|| format!("the shape {shape:?} is too large for this machine"))
}

/// A name from a file for a message: on one line, and not longer than a reader wants.
pub fn shown(name: &str) -> String {
    let mut text: String = name.chars().take(100).flat_map(char::escape_debug).collect();
    if name.chars().nth(100).is_some() {
        text.push('…');
    }
    text
}
