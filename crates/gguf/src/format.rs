//! The block formats of tensors: identity, size and dispatch to the file that knows the layout.

use std::fmt;

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

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
