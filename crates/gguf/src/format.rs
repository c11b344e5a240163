//! The block formats of tensors: identity, size and dispatch to the file that knows the layout.

use std::fmt;

use half::bf16;

use crate::formats::{
    encode_blocks, iq1, iq2, iq3, iq4, mxfp4, plain, q2_k, q3_k, q4, q4_k, q5, q5_k, q6_k, q8, ternary,
    unpack_offset, unpack_scaled,
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

/// How a format's values split into integer groups: `value = scale * integer [+ min]` with one scale
/// (and one min) for every `len` values. This is what integer kernels compute with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    /// Values per group: 16 or 32.
    pub len: usize,
    /// Whether groups have a min; when not, every min is zero and need not be computed with.
    pub mins: bool,
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

    /// Decodes a format with groups: `value = scale * integer [+ min]`, 256 values at a time.
    fn decode_groups(self, bytes: &[u8], out: &mut [f32]) {
        let Some(groups) = self.groups() else { return };
        let (mut integers, mut scales, mut mins) = ([0; 256], [0.0; 16], [0.0; 16]);
        let bytes = bytes.chunks(256 / self.block_len() * self.block_bytes());
        for (bytes, out) in bytes.zip(out.chunks_mut(256)) {
            let integers = &mut integers[..out.len()];
            let scales = &mut scales[..out.len() / groups.len];
            let mins = &mut mins[..if groups.mins { scales.len() } else { 0 }];
            self.unpack(bytes, integers, scales, mins);
            for (g, (integers, out)) in
                integers.chunks_exact(groups.len).zip(out.chunks_exact_mut(groups.len)).enumerate()
            {
                // Without mins nothing is added: adding zero would turn -0 into 0.
                match mins.get(g) {
                    Some(min) => {
                        for (integer, out) in integers.iter().zip(out) {
                            *out = scales[g] * f32::from(*integer) + min;
                        }
                    }
                    None => {
                        for (integer, out) in integers.iter().zip(out) {
                            *out = scales[g] * f32::from(*integer);
                        }
                    }
                }
            }
        }
    }

    /// How this format's values split into integer groups; `None` for float and plain integer formats.
    pub fn groups(self) -> Option<Groups> {
        let (len, mins) = match self {
            Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K => (32, true),
            Format::Q2_K => (16, true),
            Format::Q3_K | Format::Q6_K | Format::IQ1_M | Format::IQ2_XS | Format::IQ2_S => (16, false),
            _ if self.block_len() > 1 => (32, false),
            _ => return None,
        };
        Some(Groups { len, mins })
    }

    /// Unpacks whole blocks into integers, scales and mins: see [`Groups`]. The integers are in the order
    /// of the row. Each file of `formats` says what they are; in short (`d`, `m`: the numbers stored in
    /// the block, `s`: the stored scale of the group, products in f32 from the left):
    ///
    /// | formats | group | integer | scale | min |
    /// | --- | ---: | --- | --- | --- |
    /// | Q4_0, Q5_0, Q8_0 | 32 | `q - 8`, `q - 16`, `q` | `d` | |
    /// | Q4_1, Q5_1 | 32 | `q` | `d` | `m` |
    /// | Q2_K | 16 | `q` | `d * s` | `-(dmin * m)` |
    /// | Q4_K, Q5_K | 32 | `q` | `d * s` | `-(dmin * m)` |
    /// | Q3_K, Q6_K | 16 | `q - 4`, `q - 32` | `d * (s - 32)`, `d * s` | |
    /// | Q8_K | 32 | `q` | `d` | |
    /// | IQ1_S, IQ1_M | 32, 16 | `8 * grid ± 1` | `d * (2 * s + 1) * 1/8` | |
    /// | IQ2_XXS; IQ2_XS, IQ2_S | 32; 16 | `±grid` | `d * (1/2 + s) * 1/4` | |
    /// | IQ3_XXS, IQ3_S | 32 | `±grid` | `d * (1/2 + s) * 1/2`, `d * (2 * s + 1)` | |
    /// | IQ4_NL, IQ4_XS | 32 | level | `d`, `d * (s - 32)` | |
    /// | MXFP4 | 32 | level, doubled | `2^(e - 128)` | |
    /// | TQ1_0, TQ2_0 | 32 | `digit - 1` | `d` | |
    ///
    /// # Panics
    /// When the format has no groups, and unless `bytes` is whole blocks, `integers` has their number of
    /// values, `scales` their number of groups and `mins` too when there are mins. Without mins it may
    /// be empty and is left as it is.
    pub fn unpack(self, bytes: &[u8], integers: &mut [i8], scales: &mut [f32], mins: &mut [f32]) {
        self.check_lengths(bytes.len(), integers.len());
        if let Some(groups) = self.groups() {
            assert_eq!(scales.len(), integers.len() / groups.len, "{self}: one scale a group");
            assert!(!groups.mins || mins.len() == scales.len(), "{self}: one min a group");
        }
        let (i, s, m) = (integers, scales, mins);
        match self {
            Format::Q4_0 => unpack_scaled(q4::unpack_0, bytes, i, s),
            Format::Q4_1 => unpack_offset(q4::unpack_1, bytes, i, s, m),
            Format::Q5_0 => unpack_scaled(q5::unpack_0, bytes, i, s),
            Format::Q5_1 => unpack_offset(q5::unpack_1, bytes, i, s, m),
            Format::Q8_0 => unpack_scaled(q8::unpack_0, bytes, i, s),
            Format::Q2_K => unpack_offset(q2_k::unpack, bytes, i, s, m),
            Format::Q3_K => unpack_scaled(q3_k::unpack, bytes, i, s),
            Format::Q4_K => unpack_offset(q4_k::unpack, bytes, i, s, m),
            Format::Q5_K => unpack_offset(q5_k::unpack, bytes, i, s, m),
            Format::Q6_K => unpack_scaled(q6_k::unpack, bytes, i, s),
            Format::Q8_K => unpack_scaled(q8::unpack_k, bytes, i, s),
            Format::IQ1_S => unpack_scaled(iq1::unpack_s, bytes, i, s),
            Format::IQ1_M => unpack_scaled(iq1::unpack_m, bytes, i, s),
            Format::IQ2_XXS => unpack_scaled(iq2::unpack_xxs, bytes, i, s),
            Format::IQ2_XS => unpack_scaled(iq2::unpack_xs, bytes, i, s),
            Format::IQ2_S => unpack_scaled(iq2::unpack_s, bytes, i, s),
            Format::IQ3_XXS => unpack_scaled(iq3::unpack_xxs, bytes, i, s),
            Format::IQ3_S => unpack_scaled(iq3::unpack_s, bytes, i, s),
            Format::IQ4_NL => unpack_scaled(iq4::unpack_nl, bytes, i, s),
            Format::IQ4_XS => unpack_scaled(iq4::unpack_xs, bytes, i, s),
            Format::TQ1_0 => unpack_scaled(ternary::unpack_1, bytes, i, s),
            Format::TQ2_0 => unpack_scaled(ternary::unpack_2, bytes, i, s),
            Format::MXFP4 => unpack_scaled(mxfp4::unpack, bytes, i, s),
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

    /// Encodes a row of values as whole blocks. Q4_0 to Q8_0, F16, BF16, TQ1_0, TQ2_0 and MXFP4 give the
    /// bytes that PyPI `gguf` gives; the K formats and IQ4_NL search for scales of small error.
    ///
    /// Fails when the format cannot be encoded, when the values are not whole blocks or `out` has not
    /// their length, when a value is not finite (F32, F16 and BF16 can store such values), and when one
    /// is too large for the format.
    pub fn encode(self, values: &[f32], out: &mut [u8]) -> Result<()> {
        let bytes = self.row_bytes(values.len())?;
        if out.len() != bytes {
            return Err(Error::Unsupported(format!(
                "{} values of {self} take {bytes} bytes, not {}",
                values.len(),
                out.len()
            )));
        }
        if self.groups().is_some()
            && let Some(i) = values.iter().position(|value| !value.is_finite())
        {
            return Err(Error::Unsupported(format!("value {i} is {}: {self} cannot store it", values[i])));
        }
        let encoded = match self {
            Format::F32 => plain::encode(values, out, |value| Some(value.to_le_bytes())),
            Format::F16 => plain::encode(values, out, plain::f16_bytes),
            Format::BF16 => plain::encode(values, out, |value| Some(bf16::from_f32(value).to_le_bytes())),
            Format::Q4_0 => encode_blocks(q4::encode_0, values, out),
            Format::Q4_1 => encode_blocks(q4::encode_1, values, out),
            Format::Q5_0 => encode_blocks(q5::encode_0, values, out),
            Format::Q5_1 => encode_blocks(q5::encode_1, values, out),
            Format::Q8_0 => encode_blocks(q8::encode_0, values, out),
            Format::Q2_K => encode_blocks(q2_k::encode, values, out),
            Format::Q3_K => encode_blocks(q3_k::encode, values, out),
            Format::Q4_K => encode_blocks(q4_k::encode, values, out),
            Format::Q5_K => encode_blocks(q5_k::encode, values, out),
            Format::Q6_K => encode_blocks(q6_k::encode, values, out),
            Format::Q8_K => encode_blocks(q8::encode_k, values, out),
            Format::IQ4_NL => encode_blocks(iq4::encode_nl, values, out),
            Format::TQ1_0 => encode_blocks(ternary::encode_1, values, out),
            Format::TQ2_0 => encode_blocks(ternary::encode_2, values, out),
            Format::MXFP4 => encode_blocks(mxfp4::encode, values, out),
            _ => {
                return Err(Error::Unsupported(format!(
                    "{self} cannot be encoded; these can: F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K \
                     Q4_K Q5_K Q6_K Q8_K IQ4_NL TQ1_0 TQ2_0 MXFP4"
                )));
            }
        };
        encoded.map_err(|block| {
            let from = block * self.block_len();
            let largest =
                values[from..][..self.block_len()].iter().fold(0.0, |most: f32, v| most.max(v.abs()));
            Error::Unsupported(format!("values {from}.. reach {largest:e}, which is too large for {self}"))
        })
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
