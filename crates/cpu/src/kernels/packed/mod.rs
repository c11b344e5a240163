//! Weights repacked for `q8` arithmetic: tiles of sixteen rows, interleaved so that a lane is a row, in as
//! many bits as the file has. One row of activations streams them as they lie; many rows share a tile
//! while it is in the innermost cache.
//!
//! A tile is a sequence of *units*, each one block of columns or two: what their scales are made of, in whole
//! lines, then their integers. So a tile is read from its first line to its last, without looking elsewhere.
//! A *cell* is 32 columns; its integers are eight words of four columns for each lane.

use std::ops::Range;

use gleed_gguf::{Format, Groups};
use gleed_model::arithmetic::BLOCK;

mod layouts;
mod multiply;
mod pack;

use self::layouts::{
    Iq1M, Iq1S, Iq2S, Iq2Xxs, Iq3S, Iq3Xxs, Iq4Nl, Iq4Xs, Layout, Mxfp4, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0,
    Q5_1, Q5K, Q6K, Q8_0,
};
pub use self::multiply::{MultiplyPacked, STREAMS};
pub use self::pack::{pack_integers, pack_scales};
use super::simd::{Kernel, Simd};
use super::tile::{Line, TILE};

/// Bytes of a line.
const LINE: usize = size_of::<Line>();

/// How the tiles of a weight are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    format: Format,
    columns: usize,
}

/// What a layout fixes, as numbers.
///
/// The scales of a block are sixteen half-precision numbers, or sixteen exponents of a byte; with mins, sixteen
/// numbers more; for blocks of 256, per group sixteen factors; and with mins, per two groups sixteen pairs of min
/// factors.
#[derive(Debug, Clone, Copy)]
struct UnitSizes {
    /// Lines of integers per cell.
    lines: usize,
    /// Columns per scale.
    block: usize,
    /// Columns per factor.
    group: usize,
    /// Whether there are mins.
    mins: bool,
    /// Bytes of a scale.
    scale: usize,
    /// Bytes of scales per block.
    bytes: usize,
    /// Blocks per unit: so many that their scales about fill their lines.
    unit_blocks: usize,
}

impl UnitSizes {
    const fn of<L: Layout>() -> UnitSizes {
        let factors = if L::BLOCK == BLOCK { 0 } else { L::BLOCK / L::GROUP * TILE };
        let scale = if L::EXPONENTS { 1 } else { 2 };
        let bytes = if L::MINS { 2 } else { 1 } * (scale * TILE + factors);
        let unit_blocks = if bytes < LINE { LINE / bytes } else { 1 };
        let (lines, block, group, mins) = (L::LINES, L::BLOCK, L::GROUP, L::MINS);
        UnitSizes { lines, block, group, mins, scale, bytes, unit_blocks }
    }

    const fn has_factors(self) -> bool {
        self.block != BLOCK
    }

    /// Lines of scales per unit.
    const fn scale_lines(self) -> usize {
        (self.unit_blocks * self.bytes).div_ceil(LINE)
    }

    const fn unit_cells(self) -> usize {
        self.unit_blocks * self.block / BLOCK
    }

    const fn unit_lines(self) -> usize {
        self.scale_lines() + self.unit_cells() * self.lines
    }

    /// The line at which a cell's integers begin.
    #[inline(always)]
    const fn integers_at(self, cell: usize) -> usize {
        (cell / self.unit_cells() + 1) * self.scale_lines() + cell * self.lines
    }

    /// The byte at which a block's scales begin.
    #[inline(always)]
    const fn scales_at(self, block: usize) -> usize {
        block / self.unit_blocks * self.unit_lines() * LINE + block % self.unit_blocks * self.bytes
    }

    /// The line up to which everything before a cell lies.
    #[inline(always)]
    const fn end_before(self, cell: usize) -> usize {
        cell.div_ceil(self.unit_cells()) * self.scale_lines() + cell * self.lines
    }

    /// Where the parts of a block's scales are, in bytes.
    const fn mins_at(self) -> usize {
        self.scale * TILE
    }

    const fn factors_at(self) -> usize {
        if self.mins { 2 * self.scale * TILE } else { self.scale * TILE }
    }

    const fn min_factors_at(self) -> usize {
        self.factors_at() + self.block / self.group * TILE
    }
}

/// Runs an expression with `L` as the layout of a format.
macro_rules! with_layout {
    ($format:expr, $L:ident => $run:expr) => {{
        macro_rules! run {
            ($layout:ty) => {{
                type $L = $layout;
                $run
            }};
        }
        match $format {
            Format::Q4_0 => run!(Q4_0),
            Format::Q4_1 => run!(Q4_1),
            Format::Q5_0 => run!(Q5_0),
            Format::Q5_1 => run!(Q5_1),
            Format::Q2_K => run!(Q2K),
            Format::Q3_K => run!(Q3K),
            Format::Q4_K => run!(Q4K),
            Format::Q5_K => run!(Q5K),
            Format::Q6_K => run!(Q6K),
            Format::MXFP4 => run!(Mxfp4),
            Format::IQ1_S => run!(Iq1S),
            Format::IQ1_M => run!(Iq1M),
            Format::IQ2_XXS => run!(Iq2Xxs),
            Format::IQ2_XS | Format::IQ2_S => run!(Iq2S),
            Format::IQ3_XXS => run!(Iq3Xxs),
            Format::IQ3_S => run!(Iq3S),
            Format::IQ4_NL => run!(Iq4Nl),
            Format::IQ4_XS => run!(Iq4Xs),
            _ => run!(Q8_0),
        }
    }};
}
use with_layout;

impl Packing {
    /// The packing of a weight; `None` when its format is not packed.
    pub fn new(format: Format, columns: usize) -> Option<Packing> {
        use Format::*;
        let plain = matches!(format, Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 | Q2_K | Q3_K | Q4_K | Q5_K | Q6_K);
        (plain || format.levels().is_some()).then_some(Packing { format, columns })
    }

    fn sizes(self) -> UnitSizes {
        with_layout!(self.format, L => UnitSizes::of::<L>())
    }

    /// How the columns split into blocks and groups.
    pub fn groups(self) -> Groups {
        let UnitSizes { block, group, mins, .. } = self.sizes();
        Groups { block, len: group, mins }
    }

    fn cells(self) -> usize {
        self.columns / BLOCK
    }

    /// Whether its integers are 0 to 15, and their factors 0 to 63.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn is_nibbles(self) -> bool {
        matches!(self.format, Format::Q2_K | Format::Q4_K)
    }

    /// Lines of a tile.
    pub fn lines(self) -> usize {
        self.sizes().end_before(self.cells())
    }
}

/// Packed tiles, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Tiles<'a> {
    /// How each is laid out.
    pub packing: Packing,
    /// Whole tiles.
    pub lines: &'a [Line],
}

impl<'a> Tiles<'a> {
    /// How many there are.
    #[inline(always)]
    pub fn count(self) -> usize {
        self.lines.len() / self.packing.lines()
    }

    /// How many columns they have.
    pub fn columns(self) -> usize {
        self.packing.columns
    }

    /// Calls `f` with each word of four columns of some cells of 32 of the first tile, as plain signed
    /// integers, and its number.
    #[inline(always)]
    pub(super) fn each_word<S: Simd>(self, s: S, cells: Range<usize>, f: impl FnMut(usize, S::I32)) {
        with_layout!(self.packing.format, L => each_word::<S, L>(s, self.lines, cells, f));
    }

    /// The one of this number, if it is there.
    #[inline(always)]
    pub fn get(self, tile: usize) -> Option<&'a [Line]> {
        let size = self.packing.lines();
        self.lines.get(tile * size..(tile + 1) * size)
    }

    /// The lines of at most `count` of them, from a tile on that need not be there.
    pub fn some(self, tile: usize, count: usize) -> &'a [Line] {
        let size = self.packing.lines();
        let end = self.lines.len().min((tile + count) * size);
        self.lines.get(tile * size..end).unwrap_or_default()
    }
}

#[inline(always)]
fn each_word<S: Simd, L: Layout>(s: S, tile: &[Line], cells: Range<usize>, mut f: impl FnMut(usize, S::I32)) {
    let sizes = const { UnitSizes::of::<L>() };
    for (c, cell) in cells.enumerate() {
        L::words(
            s,
            &tile[sizes.integers_at(cell)..][..L::LINES],
            #[inline(always)]
            |k, word| f(8 * c + k, L::signed(s, word)),
        );
    }
}

/// The scales of one block of a tile.
#[derive(Clone, Copy)]
struct BlockScales<'a>(&'a [u8]);

impl<'a> BlockScales<'a> {
    /// Those of block `b`.
    #[inline(always)]
    fn of<L: Layout>(tile: &'a [Line], b: usize) -> BlockScales<'a> {
        let sizes = const { UnitSizes::of::<L>() };
        BlockScales(&bytemuck::cast_slice(tile)[sizes.scales_at(b)..][..sizes.bytes])
    }

    #[inline(always)]
    fn halves<S: Simd>(self, s: S, at: usize) -> S::F32 {
        s.load_half(bytemuck::from_bytes(&self.0[at..at + 2 * TILE]))
    }

    #[inline(always)]
    fn scale<S: Simd, L: Layout>(self, s: S) -> S::F32 {
        match (L::EXPONENTS, L::SHARE) {
            (true, _) => s.load_exponents(bytemuck::from_bytes(&self.0[..TILE])),
            (false, 1.0) => self.halves(s, 0),
            (false, share) => s.mul(self.halves(s, 0), s.splat(share)),
        }
    }

    #[inline(always)]
    fn min<S: Simd, L: Layout>(self, s: S) -> S::F32 {
        self.halves(s, const { UnitSizes::of::<L>().mins_at() })
    }

    #[inline(always)]
    fn factor<S: Simd, L: Layout>(self, s: S, group: usize) -> S::I32 {
        let at = const { UnitSizes::of::<L>().factors_at() } + group * TILE;
        s.load_bytes(bytemuck::from_bytes(&self.0[at..at + TILE]))
    }

    #[inline(always)]
    fn min_factors<S: Simd, L: Layout>(self, s: S, pair: usize) -> S::I32 {
        let at = const { UnitSizes::of::<L>().min_factors_at() } + pair * 2 * TILE;
        s.load_byte_pairs(bytemuck::from_bytes(&self.0[at..at + 2 * TILE]))
    }
}

/// Room for an unpacked tile.
#[derive(Debug)]
pub struct PanelRoom<'a> {
    /// `[columns / 4][TILE]`.
    pub integers: &'a mut [[i32; TILE]],
    /// `[columns / 16][TILE]`.
    pub factors: &'a mut [[i32; TILE]],
    /// `[columns / 32][TILE]`.
    pub scales: &'a mut [[f32; TILE]],
    /// `[columns / 32][TILE]`.
    pub min_pairs: &'a mut [[i32; TILE]],
    /// `[columns / 32][TILE]`.
    pub mins: &'a mut [[f32; TILE]],
}

impl<'a> PanelRoom<'a> {
    /// The room that `columns` columns take of it.
    pub fn cut(self, columns: usize, groups: Groups) -> PanelRoom<'a> {
        let (blocks, count) = (columns / groups.block, columns / groups.len);
        let two_levels = groups.block != BLOCK;
        PanelRoom {
            integers: &mut self.integers[..columns / 4],
            factors: &mut self.factors[..if two_levels { count } else { 0 }],
            scales: &mut self.scales[..blocks],
            min_pairs: &mut self.min_pairs[..if two_levels && groups.mins { count / 2 } else { 0 }],
            mins: &mut self.mins[..if groups.mins { blocks } else { 0 }],
        }
    }
}

/// Unpacks a tile, but for the integers of blocks of 256 columns, and returns the room that it took.
#[derive(Debug)]
pub struct UnpackTile<'a> {
    /// How the tile is laid out.
    pub packing: Packing,
    /// The tile.
    pub tile: &'a [Line],
    /// Where its parts go.
    pub room: PanelRoom<'a>,
}

impl<'a> Kernel for UnpackTile<'a> {
    type Output = PanelRoom<'a>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> PanelRoom<'a> {
        with_layout!(self.packing.format, L => self.unpack::<S, L>(s))
    }
}

impl<'a> UnpackTile<'a> {
    #[inline(always)]
    fn unpack<S: Simd, L: Layout>(self, s: S) -> PanelRoom<'a> {
        let UnpackTile { packing, tile, room } = self;
        let sizes = const { UnitSizes::of::<L>() };
        let room = room.cut(packing.columns, packing.groups());
        let tile = &tile[..packing.lines()];
        if L::BLOCK == BLOCK {
            for (b, out) in room.integers.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                each_word::<S, L>(
                    s,
                    tile,
                    b..b + 1,
                    #[inline(always)]
                    |k, word| s.store_i32(word, &mut out[k]),
                );
            }
        }
        let groups_of_block = L::BLOCK / L::GROUP;
        for b in 0..room.scales.len() {
            let scales = BlockScales::of::<L>(tile, b);
            s.store(scales.scale::<S, L>(s), &mut room.scales[b]);
            if L::MINS {
                s.store(scales.min::<S, L>(s), &mut room.mins[b]);
            }
            if sizes.has_factors() {
                for g in 0..groups_of_block {
                    let factor = scales.factor::<S, L>(s, g);
                    s.store_i32(factor, &mut room.factors[b * groups_of_block + g]);
                }
                if L::MINS {
                    for i in 0..groups_of_block / 2 {
                        let pair = scales.min_factors::<S, L>(s, i);
                        s.store_i32(pair, &mut room.min_pairs[b * groups_of_block / 2 + i]);
                    }
                }
            }
        }
        room
    }
}
