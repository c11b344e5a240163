//! The block formats of tensors: identity, size and dispatch to the file that knows the layout.

use crate::{Error, Result};

/// How the values of a tensor are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(non_camel_case_types, missing_docs, reason = "the names are those of the format")]
#[repr(u32)]
pub enum Format {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    Q8_K = 15,
    IQ2_XXS = 16,
    IQ2_XS = 17,
    IQ3_XXS = 18,
    IQ1_S = 19,
    IQ4_NL = 20,
    IQ3_S = 21,
    IQ2_S = 22,
    IQ4_XS = 23,
    I8 = 24,
    I16 = 25,
    I32 = 26,
    I64 = 27,
    F64 = 28,
    IQ1_M = 29,
    BF16 = 30,
    TQ1_0 = 34,
    TQ2_0 = 35,
    MXFP4 = 39,
}

/// How a format's values split into integer groups: `value = scale * integer [+ min]` with one scale
/// (and one min) for every `len` values. This is what integer kernels compute with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    /// Values per group: 16 or 32.
    pub len: usize,
    /// Whether groups have a min; when not, every min is zero and need not be computed with.
    pub mins: bool,
}

impl Format {
    /// Values per block.
    pub fn block_len(self) -> usize {
        unimplemented!()
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        unimplemented!()
    }

    /// Bytes of a row of `columns` values.
    pub fn row_bytes(self, columns: usize) -> Result<usize> {
        if columns.is_multiple_of(self.block_len()) {
            return Ok(columns / self.block_len() * self.block_bytes());
        }
        Err(Error::Unsupported(format!(
            "{self:?} needs a multiple of {} columns, has {columns}",
            self.block_len()
        )))
    }

    /// Decodes whole blocks. Panics unless `out` is as long as `bytes` says.
    pub fn decode(self, _bytes: &[u8], _out: &mut [f32]) {
        unimplemented!()
    }

    /// How this format's values split into integer groups; `None` for float and plain integer formats.
    pub fn groups(self) -> Option<Groups> {
        unimplemented!()
    }

    /// Unpacks whole blocks into integers, scales and mins: see [`Groups`].
    pub fn unpack(self, _bytes: &[u8], _integers: &mut [i8], _scales: &mut [f32], _mins: &mut [f32]) {
        unimplemented!()
    }
}
