//! How weights lie in device memory: which numbers there are for every 32 columns, and how large rows are.
//!
//! A row is cut in *groups* of 32 columns. The *low* plane has every row's numbers: floats, or the low bits
//! of unsigned integers. The *rest* plane has, row by row, the integers' extra bits and then what their scales
//! are made of. Both are little-endian words of 32 bits.
//!
//! Rows of integers are interleaved, [`TOGETHER`] at a time, so that neighbouring outputs read neighbouring memory:
//! the first vector of the low plane of each, then the second of each, and so on; the same for words of the rest
//! plane. Rows of floats follow each other.
//!
//! Floats are in the order of the columns. Integers are in *quads* of four columns, one in each byte of a word
//! after one shift and one mask, which is what products of four bytes want: quads follow each other from the
//! low bits of the bytes to their high bits, then from word to word.

use gleed_gguf::Format;

use super::half_layout::{FRAGMENT, HalfLayout, Terms, UNIT};

/// Columns per group: the unit of a chain of the sum, and of one load of a lane.
pub(crate) const GROUP: usize = 32;

/// Rows of integers that are interleaved; a last few are padded to this number.
pub(crate) const TOGETHER: usize = 32;

/// Columns of a block that has one scale and a small factor for each of its parts.
pub(crate) const SUPER_BLOCK: usize = 256;

/// Words of what the scales of a super-block are made of: its scale (and min), and 16 bits for each group.
pub(crate) const SUPER_BLOCK_WORDS: usize = 5;

/// What the weights of a matrix are stored as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Floats of 32 bits.
    F32,
    /// Half-precision floats.
    F16,
    /// The upper halves of floats.
    Bf16,
    /// Integers with scales.
    Integers(Integers),
    /// For matrix units of halves: see [`HalfLayout`].
    Halves(HalfLayout),
}

/// Integers of few bits: `weight = (scale · factor) · (integer - offset) [+ min · min factor]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Integers {
    /// Bits of each integer in the low plane: 2, 4 or 8.
    pub low_bits: u32,
    /// Further bits, above those: 0, 1 or 2.
    pub extra_bits: u32,
    /// How much higher than they are the integers are stored, so that none is negative.
    pub offset: u32,
    /// The scales.
    pub scales: Scales,
}

/// What the scales of integers are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scales {
    /// One half per group, two in a word.
    Half,
    /// One half and a half min per group, together a word.
    HalfMin,
    /// One float per group.
    Float,
    /// One scale per 256 columns, and factors.
    Super(Factors),
}

/// The factors of a super-block's parts: 16 bits for each group of 32 columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Factors {
    /// A signed byte for all 32 columns; the scale is a float.
    Whole,
    /// A byte for all 32 columns and, above it, one for their min; scale and min are halves.
    WholeMin,
    /// A signed byte for each 16 columns; the scale is a half.
    Halves,
    /// The same; the scale is a float.
    WideHalves,
    /// Four bits for 16 columns and, above them, four for their min, twice; scale and min are halves.
    HalvesMin,
}

impl Layout {
    /// The layout that a format is packed to, and whether that is a conversion: to a different number of
    /// bits than the file has, though of exactly the same values.
    pub fn of(format: Format) -> (Layout, bool) {
        let integers = |low_bits, extra_bits, offset, scales| {
            Layout::Integers(Integers { low_bits, extra_bits, offset, scales })
        };
        let native = match format {
            Format::F32 => Layout::F32,
            Format::F16 => Layout::F16,
            Format::BF16 => Layout::Bf16,
            Format::Q4_0 => integers(4, 0, 8, Scales::Half),
            Format::Q4_1 => integers(4, 0, 0, Scales::HalfMin),
            Format::Q5_0 => integers(4, 1, 16, Scales::Half),
            Format::Q5_1 => integers(4, 1, 0, Scales::HalfMin),
            Format::Q8_0 => integers(8, 0, 128, Scales::Half),
            Format::Q2_K => integers(2, 0, 0, Scales::Super(Factors::HalvesMin)),
            Format::Q3_K => integers(2, 1, 4, Scales::Super(Factors::Halves)),
            Format::Q4_K => integers(4, 0, 0, Scales::Super(Factors::WholeMin)),
            Format::Q5_K => integers(4, 1, 0, Scales::Super(Factors::WholeMin)),
            Format::Q6_K => integers(4, 2, 32, Scales::Super(Factors::Halves)),
            _ => {
                let scales = match format.groups() {
                    Some(groups) if groups.block == GROUP => Scales::Float,
                    Some(groups) if groups.len == GROUP => Scales::Super(Factors::Whole),
                    Some(_) => Scales::Super(Factors::WideHalves),
                    // Whole numbers and F64 become what decoding makes of them.
                    None => return (Layout::F32, true),
                };
                return (integers(8, 0, 128, scales), true);
            }
        };
        (native, false)
    }

    /// The integers, unless it has floats.
    pub(crate) fn integers(self) -> Option<Integers> {
        match self {
            Layout::Integers(integers) => Some(integers),
            _ => None,
        }
    }

    /// Whether its weights are integers times a scale plus a min, for matrix units of halves.
    pub(crate) fn has_half_mins(self) -> bool {
        matches!(self, Layout::Halves(HalfLayout { terms: Some(Terms { mins: true, .. }), .. }))
    }

    /// Words of a group in the low plane.
    pub(crate) fn low_words(self) -> usize {
        match self {
            Layout::F32 => 32,
            Layout::F16 | Layout::Bf16 => 16,
            Layout::Integers(integers) => integers.low_bits as usize,
            Layout::Halves(halves) => halves.low_bits as usize,
        }
    }

    /// Groups that `columns` columns make, with those that rows are padded to.
    pub(crate) fn groups(self, columns: usize) -> usize {
        let groups = columns.div_ceil(GROUP);
        if let Layout::Halves(_) = self { groups.next_multiple_of(UNIT) } else { groups }
    }

    /// Words of the vectors that the low plane is read in.
    pub(crate) fn vector_words(self) -> usize {
        self.low_words().min(4)
    }

    /// Rows that are interleaved.
    pub(crate) fn together(self) -> usize {
        match self {
            Layout::Integers(_) => TOGETHER,
            Layout::Halves(_) => FRAGMENT,
            Layout::F32 | Layout::F16 | Layout::Bf16 => 1,
        }
    }

    /// Words of a row of `groups` groups in the rest plane.
    pub(crate) fn rest_words(self, groups: usize) -> usize {
        let integers = match self {
            Layout::Integers(integers) => integers,
            Layout::Halves(halves) => return halves.rest_words(groups),
            Layout::F32 | Layout::F16 | Layout::Bf16 => return 0,
        };
        let scales = match integers.scales {
            Scales::Half => groups.div_ceil(2),
            Scales::HalfMin | Scales::Float => groups,
            Scales::Super(_) => groups * GROUP / SUPER_BLOCK * SUPER_BLOCK_WORDS,
        };
        groups * integers.extra_bits as usize + scales
    }
}

impl Integers {
    /// Where the low bits of a quad of a group are: the word, and how far up in each of its bytes.
    pub(crate) fn low_at(self, quad: usize) -> (usize, u32) {
        place(self.low_bits, quad)
    }

    /// Where its extra bits are, among the group's words of them.
    pub(crate) fn extra_at(self, quad: usize) -> (usize, u32) {
        place(self.extra_bits, quad)
    }
}

/// The word of a quad and the shift in it, when each column has `bits` bits.
pub(super) fn place(bits: u32, quad: usize) -> (usize, u32) {
    let quads = 8 / bits as usize;
    (quad / quads, bits * (quad % quads) as u32)
}

impl Scales {
    /// Whether both halves of a group have their own.
    pub(crate) fn halves(self) -> bool {
        matches!(self, Scales::Super(Factors::Halves | Factors::WideHalves | Factors::HalvesMin))
    }

    /// Whether there are mins.
    pub(crate) fn mins(self) -> bool {
        matches!(self, Scales::HalfMin | Scales::Super(Factors::WholeMin | Factors::HalvesMin))
    }
}
