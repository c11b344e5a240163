//! The block formats of tensors: identity, size and dispatch to the file that knows the layout.

use std::fmt;

use half::bf16;

use crate::formats::{
    grids, iq1, iq2, iq3, iq4, mxfp4, plain, q2_k, q3_k, q4, q4_k, q5, q5_k, q6_k, q8, ternary,
    unpack_offset, unpack_plain, unpack_plain_offset, unpack_scaled,
};
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

/// How a format's values split into integers: `value = (scale · factor) · integer [+ min · min factor]`
/// with one scale (and min) for every `block` values and one small integer factor (and min factor) for
/// every `len`. This is what integer kernels compute with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    /// Values per scale: 32, where every factor is 1, or 256.
    pub block: usize,
    /// Values per factor: 16 or 32.
    pub len: usize,
    /// Whether there are mins; when not, every min is zero and need not be computed with.
    pub mins: bool,
}

/// Room for what [`Format::unpack`] makes of whole blocks.
#[derive(Debug)]
pub struct Unpacked<'a> {
    /// One per value.
    pub integers: &'a mut [i8],
    /// One per group. Factor times integer is at most 4096 in magnitude.
    pub factors: &'a mut [i8],
    /// One per block of [`Groups::block`] values.
    pub scales: &'a mut [f32],
    /// One per group, never negative; or empty when there are no mins.
    pub min_factors: &'a mut [i8],
    /// One per block; or empty when there are no mins.
    pub mins: &'a mut [f32],
}

impl Unpacked<'_> {
    /// The same room, lent for less long.
    #[inline(always)]
    pub fn reborrow(&mut self) -> Unpacked<'_> {
        let Unpacked { integers, factors, scales, min_factors, mins } = self;
        Unpacked { integers, factors, scales, min_factors, mins }
    }
}

/// What is fixed about a format: its name in files and tools, and the size of its blocks.
struct Layout {
    format: Format,
    name: &'static str,
    block_len: usize,
    block_bytes: usize,
}

/// Every format, in the order of the enum.
const LAYOUTS: [Layout; 31] = [
    layout(Format::F32, "F32", 1, 4),
    layout(Format::F16, "F16", 1, 2),
    layout(Format::Q4_0, "Q4_0", 32, 18),
    layout(Format::Q4_1, "Q4_1", 32, 20),
    layout(Format::Q5_0, "Q5_0", 32, 22),
    layout(Format::Q5_1, "Q5_1", 32, 24),
    layout(Format::Q8_0, "Q8_0", 32, 34),
    layout(Format::Q2_K, "Q2_K", 256, 84),
    layout(Format::Q3_K, "Q3_K", 256, 110),
    layout(Format::Q4_K, "Q4_K", 256, 144),
    layout(Format::Q5_K, "Q5_K", 256, 176),
    layout(Format::Q6_K, "Q6_K", 256, 210),
    layout(Format::Q8_K, "Q8_K", 256, 292),
    layout(Format::IQ2_XXS, "IQ2_XXS", 256, 66),
    layout(Format::IQ2_XS, "IQ2_XS", 256, 74),
    layout(Format::IQ3_XXS, "IQ3_XXS", 256, 98),
    layout(Format::IQ1_S, "IQ1_S", 256, 50),
    layout(Format::IQ4_NL, "IQ4_NL", 32, 18),
    layout(Format::IQ3_S, "IQ3_S", 256, 110),
    layout(Format::IQ2_S, "IQ2_S", 256, 82),
    layout(Format::IQ4_XS, "IQ4_XS", 256, 136),
    layout(Format::I8, "I8", 1, 1),
    layout(Format::I16, "I16", 1, 2),
    layout(Format::I32, "I32", 1, 4),
    layout(Format::I64, "I64", 1, 8),
    layout(Format::F64, "F64", 1, 8),
    layout(Format::IQ1_M, "IQ1_M", 256, 56),
    layout(Format::BF16, "BF16", 1, 2),
    layout(Format::TQ1_0, "TQ1_0", 256, 54),
    layout(Format::TQ2_0, "TQ2_0", 256, 66),
    layout(Format::MXFP4, "MXFP4", 32, 17),
];

const fn layout(format: Format, name: &'static str, block_len: usize, block_bytes: usize) -> Layout {
    Layout { format, name, block_len, block_bytes }
}

/// The place of each id in [`LAYOUTS`]; `NONE` where no format has that id.
const PLACES: [u8; 40] = {
    let mut places = [NONE; 40];
    let mut place = 0;
    while place < LAYOUTS.len() {
        places[LAYOUTS[place].format as usize] = place as u8;
        place += 1;
    }
    places
};
const NONE: u8 = u8::MAX;

impl Format {
    /// Every format there is.
    pub fn all() -> impl Iterator<Item = Format> {
        LAYOUTS.iter().map(|layout| layout.format)
    }

    fn layout(self) -> &'static Layout {
        &LAYOUTS[usize::from(PLACES[self as usize])]
    }

    /// The format with this id in the tensor table of a file.
    pub fn from_id(id: u32) -> Option<Format> {
        let place = *PLACES.get(usize::try_from(id).ok()?)?;
        Some(LAYOUTS.get(usize::from(place))?.format)
    }

    /// The id of this format in the tensor table of a file.
    pub fn id(self) -> u32 {
        self as u32
    }

    /// The format of this name, such as `Q4_K`, in upper or lower case.
    pub fn from_name(name: &str) -> Option<Format> {
        LAYOUTS.iter().find(|layout| layout.name.eq_ignore_ascii_case(name)).map(|layout| layout.format)
    }

    /// The name, such as `Q4_K`.
    pub fn name(self) -> &'static str {
        self.layout().name
    }

    /// Values per block.
    pub fn block_len(self) -> usize {
        self.layout().block_len
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        self.layout().block_bytes
    }

    /// Bytes of a row of `columns` values.
    pub fn row_bytes(self, columns: usize) -> Result<usize> {
        if !columns.is_multiple_of(self.block_len()) {
            return Err(Error::Unsupported(format!(
                "{self} needs a multiple of {} columns, has {columns}",
                self.block_len()
            )));
        }
        (columns / self.block_len()).checked_mul(self.block_bytes()).ok_or_else(|| {
            Error::Unsupported(format!("{columns} columns of {self} are more bytes than memory can hold"))
        })
    }

    /// Decodes whole blocks: exactly what PyPI `gguf` computes, operation for operation.
    ///
    /// # Panics
    /// Unless `bytes` is whole blocks and `out` has their number of values.
    pub fn decode(self, bytes: &[u8], out: &mut [f32]) {
        self.check_lengths(bytes.len(), out.len());
        match self {
            Format::F32 => plain::decode(bytes, out, f32::from_le_bytes),
            Format::F16 => plain::decode_f16(bytes, out),
            Format::BF16 => plain::decode(bytes, out, |bytes| bf16::from_le_bytes(bytes).to_f32()),
            Format::F64 => plain::decode(bytes, out, |bytes| f64::from_le_bytes(bytes) as f32),
            Format::I8 => plain::decode(bytes, out, |bytes| f32::from(i8::from_le_bytes(bytes))),
            Format::I16 => plain::decode(bytes, out, |bytes| f32::from(i16::from_le_bytes(bytes))),
            Format::I32 => plain::decode(bytes, out, |bytes| i32::from_le_bytes(bytes) as f32),
            Format::I64 => plain::decode(bytes, out, |bytes| i64::from_le_bytes(bytes) as f32),
            _ => self.decode_groups(bytes, out),
        }
    }

    /// Decodes a format with groups, 256 values at a time.
    fn decode_groups(self, bytes: &[u8], out: &mut [f32]) {
        let Some(groups) = self.groups() else { return };
        let (mut integers, mut factors, mut scales) = ([0; 256], [0; 16], [0.0; 8]);
        let (mut min_factors, mut mins) = ([0; 16], [0.0; 8]);
        let bytes = bytes.chunks(256 / self.block_len() * self.block_bytes());
        for (bytes, out) in bytes.zip(out.chunks_mut(256)) {
            let (count, blocks) = (out.len() / groups.len, out.len() / groups.block);
            let unpacked = Unpacked {
                integers: &mut integers[..out.len()],
                factors: &mut factors[..count],
                scales: &mut scales[..blocks],
                min_factors: &mut min_factors[..if groups.mins { count } else { 0 }],
                mins: &mut mins[..if groups.mins { blocks } else { 0 }],
            };
            self.unpack(bytes, unpacked);
            let values = integers.chunks_exact(groups.len).zip(out.chunks_exact_mut(groups.len));
            for (g, (integers, out)) in values.enumerate() {
                let block = g * groups.len / groups.block;
                let scale = scales[block] * f32::from(factors[g]);
                // Without mins nothing is added: adding zero would turn -0 into 0.
                if groups.mins {
                    let min = mins[block] * f32::from(min_factors[g]);
                    for (integer, out) in integers.iter().zip(out) {
                        *out = scale * f32::from(*integer) + min;
                    }
                } else {
                    for (integer, out) in integers.iter().zip(out) {
                        *out = scale * f32::from(*integer);
                    }
                }
            }
        }
    }

    /// How this format's values split into integers; `None` for float and plain integer formats.
    pub fn groups(self) -> Option<Groups> {
        let (len, mins) = match self {
            Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K => (32, true),
            Format::Q2_K => (16, true),
            Format::Q3_K | Format::Q6_K | Format::IQ1_M | Format::IQ2_XS | Format::IQ2_S => (16, false),
            _ if self.block_len() > 1 => (32, false),
            _ => return None,
        };
        Some(Groups { block: self.block_len(), len, mins })
    }

    /// The integers that there are, in ascending order, then 127 where they are fewer than sixteen; `None` for formats
    /// without such a list.
    pub const fn levels(self) -> Option<[i8; 16]> {
        match self {
            Format::IQ1_S | Format::IQ1_M => Some(grids::IQ1_LEVELS),
            Format::IQ2_XXS | Format::IQ2_XS | Format::IQ2_S => Some(grids::IQ2_LEVELS),
            Format::IQ3_XXS => Some(grids::IQ3_XXS_LEVELS),
            Format::IQ3_S => Some(grids::IQ3_S_LEVELS),
            Format::IQ4_NL | Format::IQ4_XS => Some(iq4::LEVELS),
            Format::MXFP4 => Some(mxfp4::ASCENDING),
            _ => None,
        }
    }

    /// Unpacks whole blocks into integers, factors, scales and mins: see [`Groups`]. The integers are in the
    /// order of the row. Each file of `formats` says what they are; in short (`d`, `m`: the numbers stored in
    /// the block, `s`: the stored scale of the group):
    ///
    /// | formats | block | group | integer | factor | scale | min factor, min |
    /// | --- | ---: | ---: | --- | --- | --- | --- |
    /// | Q4_0, Q5_0, Q8_0 | 32 | 32 | `q - 8`, `q - 16`, `q` | 1 | `d` | |
    /// | Q4_1, Q5_1 | 32 | 32 | `q` | 1 | `d` | 1, `m` |
    /// | IQ4_NL | 32 | 32 | level | 1 | `d` | |
    /// | MXFP4 | 32 | 32 | level, doubled | 1 | `2^(e - 128)` | |
    /// | Q2_K | 256 | 16 | `q` | `s` | `d` | `m`, `-dmin` |
    /// | Q4_K, Q5_K | 256 | 32 | `q` | `s` | `d` | `m`, `-dmin` |
    /// | Q3_K, Q6_K | 256 | 16 | `q - 4`, `q - 32` | `s - 32`, `s` | `d` | |
    /// | Q8_K, TQ1_0, TQ2_0 | 256 | 32 | `q`, `digit - 1` | 1 | `d` | |
    /// | IQ1_S, IQ1_M | 256 | 32, 16 | `8 * grid ± 1` | `2 * s + 1` | `d / 8` | |
    /// | IQ2_XXS; IQ2_XS, IQ2_S | 256 | 32; 16 | `±grid` | `2 * s + 1` | `d / 8` | |
    /// | IQ3_XXS, IQ3_S | 256 | 32 | `±grid` | `2 * s + 1` | `d / 4`, `d` | |
    /// | IQ4_XS | 256 | 32 | level | `s - 32` | `d` | |
    ///
    /// # Panics
    /// When the format has no groups, and unless `bytes` is whole blocks and `out` has room for exactly what
    /// they hold. Without mins the room for mins may be empty and is left as it is.
    #[inline(always)]
    pub fn unpack(self, bytes: &[u8], out: Unpacked) {
        self.check_lengths(bytes.len(), out.integers.len());
        if let Some(Groups { block, len, mins }) = self.groups() {
            let (count, blocks) = (out.integers.len() / len, out.integers.len() / block);
            assert!(out.factors.len() == count && out.scales.len() == blocks, "{self}: room for the scales");
            let room = out.min_factors.len() == count && out.mins.len() == blocks;
            assert!(!mins || room, "{self}: room for the mins");
        }
        match self {
            Format::Q4_0 => unpack_plain(q4::unpack_0, bytes, out),
            Format::Q4_1 => unpack_plain_offset(q4::unpack_1, bytes, out),
            Format::Q5_0 => unpack_plain(q5::unpack_0, bytes, out),
            Format::Q5_1 => unpack_plain_offset(q5::unpack_1, bytes, out),
            Format::Q8_0 => unpack_plain(q8::unpack_0, bytes, out),
            Format::Q2_K => unpack_offset(q2_k::unpack, bytes, out),
            Format::Q3_K => unpack_scaled(q3_k::unpack, bytes, out),
            Format::Q4_K => unpack_offset(q4_k::unpack, bytes, out),
            Format::Q5_K => unpack_offset(q5_k::unpack, bytes, out),
            Format::Q6_K => unpack_scaled(q6_k::unpack, bytes, out),
            Format::Q8_K => unpack_plain(q8::unpack_k, bytes, out),
            Format::IQ1_S => unpack_scaled(iq1::unpack_s, bytes, out),
            Format::IQ1_M => unpack_scaled(iq1::unpack_m, bytes, out),
            Format::IQ2_XXS => unpack_scaled(iq2::unpack_xxs, bytes, out),
            Format::IQ2_XS => unpack_scaled(iq2::unpack_xs, bytes, out),
            Format::IQ2_S => unpack_scaled(iq2::unpack_s, bytes, out),
            Format::IQ3_XXS => unpack_scaled(iq3::unpack_xxs, bytes, out),
            Format::IQ3_S => unpack_scaled(iq3::unpack_s, bytes, out),
            Format::IQ4_NL => unpack_plain(iq4::unpack_nl, bytes, out),
            Format::IQ4_XS => unpack_scaled(iq4::unpack_xs, bytes, out),
            Format::TQ1_0 => unpack_plain(ternary::unpack_1, bytes, out),
            Format::TQ2_0 => unpack_plain(ternary::unpack_2, bytes, out),
            Format::MXFP4 => unpack_plain(mxfp4::unpack, bytes, out),
            Format::F32
            | Format::F16
            | Format::BF16
            | Format::F64
            | Format::I8
            | Format::I16
            | Format::I32
            | Format::I64 => panic!("{self} has no integer groups"),
        }
    }

    /// Panics unless `bytes` bytes are whole blocks of `values` values.
    fn check_lengths(self, bytes: usize, values: usize) {
        let blocks = bytes / self.block_bytes();
        assert!(
            bytes == blocks * self.block_bytes() && values == blocks * self.block_len(),
            "{self}: {bytes} bytes are not the blocks of {values} values"
        );
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
