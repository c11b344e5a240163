//! Weights repacked for `q8` arithmetic: tiles of sixteen rows, interleaved so that a lane is a row, in as
//! many bits as the file has. One row of activations streams them as they lie; many rows share a tile
//! while it is in the innermost cache.
//!
//! A tile is the integers of all its columns, then what their scales are made of. A *cell* is 32 columns;
//! its integers are eight words of four columns for each lane. Formats with two levels of scales have
//! *super-blocks* of eight cells.

use gleed_gguf::Format;
use gleed_model::arithmetic::{ACTIVATION_BLOCK, LANES};

mod layouts;
mod pack;

use self::layouts::{Layout, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
pub use self::pack::{pack_integers, pack_scales};
use super::integer::{Panel, Quantized, TILE};
use super::quantize::{QuantizedRow, row_words};
use super::simd::{Kernel, Simd};

/// A cache line of packed weights: sixteen lanes of four bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Line(pub [i32; LANES]);

// SAFETY: sixteen integers without padding; all bit patterns, zeros among them, are valid.
unsafe impl bytemuck::Zeroable for Line {}
// SAFETY: as above, and the type is `Copy` and `repr(C)`.
unsafe impl bytemuck::Pod for Line {}

/// Bytes of a line.
const LINE: usize = size_of::<Line>();

/// How the tiles of a weight are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    format: Format,
    columns: usize,
}

impl Packing {
    /// The packing of a weight; `None` when its format is not packed.
    pub fn new(format: Format, columns: usize) -> Option<Packing> {
        use Format::*;
        matches!(format, Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 | Q4_K | Q5_K | Q6_K)
            .then_some(Packing { format, columns })
    }

    /// Lines of integers per cell, bytes of scales per super-block, cells per super-block.
    fn sizes(self) -> (usize, usize, usize) {
        match self.format {
            Format::Q4_0 => (Q4_0::LINES, Q4_0::SCALES, Q4_0::CELLS),
            Format::Q4_1 => (Q4_1::LINES, Q4_1::SCALES, Q4_1::CELLS),
            Format::Q5_0 => (Q5_0::LINES, Q5_0::SCALES, Q5_0::CELLS),
            Format::Q5_1 => (Q5_1::LINES, Q5_1::SCALES, Q5_1::CELLS),
            Format::Q4_K => (Q4K::LINES, Q4K::SCALES, Q4K::CELLS),
            Format::Q5_K => (Q5K::LINES, Q5K::SCALES, Q5K::CELLS),
            Format::Q6_K => (Q6K::LINES, Q6K::SCALES, Q6K::CELLS),
            _ => (Q8_0::LINES, Q8_0::SCALES, Q8_0::CELLS),
        }
    }

    fn cells(self) -> usize {
        self.columns / ACTIVATION_BLOCK
    }

    /// Lines of a tile.
    pub fn lines(self) -> usize {
        let (lines, scales, cells) = self.sizes();
        self.cells() * lines + (self.cells() / cells * scales).div_ceil(LINE)
    }
}

/// Multiplies a packed tile with all rows of activations.
#[derive(Debug)]
pub struct MultiplyPacked<'a> {
    /// How the tile is laid out.
    pub packing: Packing,
    /// The tile.
    pub tile: &'a [Line],
    /// The activations.
    pub x: Quantized<'a>,
    /// One result per row of activations and row of weights.
    pub out: &'a mut [[f32; TILE]],
}

impl Kernel for MultiplyPacked<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        assert!(self.tile.len() == self.packing.lines() && self.out.len() == self.x.rows);
        assert_eq!(self.x.columns, self.packing.columns);
        match self.packing.format {
            Format::Q4_0 => self.rows::<S, Q4_0>(s),
            Format::Q4_1 => self.rows::<S, Q4_1>(s),
            Format::Q5_0 => self.rows::<S, Q5_0>(s),
            Format::Q5_1 => self.rows::<S, Q5_1>(s),
            Format::Q4_K => self.rows::<S, Q4K>(s),
            Format::Q5_K => self.rows::<S, Q5K>(s),
            Format::Q6_K => self.rows::<S, Q6K>(s),
            _ => self.rows::<S, Q8_0>(s),
        }
    }
}

/// Unpacks a tile to a panel: plain signed integers, and a scale (and min) for every group.
#[derive(Debug)]
pub struct UnpackTile<'a> {
    /// How the tile is laid out.
    pub packing: Packing,
    /// The tile.
    pub tile: &'a [Line],
    /// Room for `[columns / 4][TILE]`.
    pub integers: &'a mut [[i32; TILE]],
    /// Room for `[columns / 16][TILE]`.
    pub scales: &'a mut [[f32; TILE]],
    /// Room for `[columns / 32][TILE]`.
    pub mins: &'a mut [[f32; TILE]],
}

impl<'a> Kernel for UnpackTile<'a> {
    type Output = Panel<'a>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Panel<'a> {
        match self.packing.format {
            Format::Q4_0 => self.unpack::<S, Q4_0>(s),
            Format::Q4_1 => self.unpack::<S, Q4_1>(s),
            Format::Q5_0 => self.unpack::<S, Q5_0>(s),
            Format::Q5_1 => self.unpack::<S, Q5_1>(s),
            Format::Q4_K => self.unpack::<S, Q4K>(s),
            Format::Q5_K => self.unpack::<S, Q5K>(s),
            Format::Q6_K => self.unpack::<S, Q6K>(s),
            _ => self.unpack::<S, Q8_0>(s),
        }
    }
}

impl<'a> UnpackTile<'a> {
    #[inline(always)]
    fn unpack<S: Simd, L: Layout>(self, s: S) -> Panel<'a> {
        let UnpackTile { packing, tile, integers, scales, mins } = self;
        let cells = packing.cells();
        let (lines, packed_scales) = tile[..packing.lines()].split_at(cells * L::LINES);
        let packed_scales: &[u8] = bytemuck::cast_slice(packed_scales);
        let integers = &mut integers[..8 * cells];
        let scales = &mut scales[..L::GROUPS * cells];
        let mins = &mut mins[..if L::MINS { cells } else { 0 }];
        for (lines, out) in lines.chunks_exact(L::LINES).zip(integers.as_chunks_mut::<8>().0) {
            L::words(
                s,
                lines,
                #[inline(always)]
                |k, word| L::store(s, word, &mut out[k]),
            );
        }
        for (super_block, packed) in packed_scales.chunks_exact(L::SCALES).take(cells / L::CELLS).enumerate()
        {
            let head = L::head(s, packed);
            for c in 0..L::CELLS {
                let cell = super_block * L::CELLS + c;
                for g in 0..L::GROUPS {
                    s.store(L::scale(s, head, packed, c, g), &mut scales[cell * L::GROUPS + g]);
                }
                if L::MINS {
                    s.store(L::min(s, head, packed, c), &mut mins[cell]);
                }
            }
        }
        Panel { integers, scales, mins, group: ACTIVATION_BLOCK / L::GROUPS }
    }
}

impl MultiplyPacked<'_> {
    /// All rows, as many at a time as there are registers for.
    #[inline(always)]
    fn rows<S: Simd, L: Layout>(mut self, s: S) {
        let (mut row, count) = (0, self.x.rows);
        if S::WIDE {
            // Two groups per cell are two sums per row.
            while L::GROUPS == 1 && row + 8 <= count {
                self.block::<S, L, 8>(s, row);
                row += 8;
            }
            while row + 4 <= count {
                self.block::<S, L, 4>(s, row);
                row += 4;
            }
        }
        while row + 2 <= count {
            self.block::<S, L, 2>(s, row);
            row += 2;
        }
        if row < count {
            self.block::<S, L, 1>(s, row);
        }
    }

    #[inline(always)]
    fn block<S: Simd, L: Layout, const R: usize>(&mut self, s: S, row: usize) {
        let MultiplyPacked { packing, tile, x, ref mut out } = *self;
        let cells = packing.cells();
        let (integers, scales) = tile.split_at(cells * L::LINES);
        let scales: &[u8] = bytemuck::cast_slice(scales);
        let group = ACTIVATION_BLOCK / L::GROUPS;
        let words = row_words(x.columns);
        let mut q = [&[][..]; R];
        let (mut x_scales, mut x_sums, mut x_scaled) = ([&[][..]; R], [&[][..]; R], [&[][..]; R]);
        for r in 0..R {
            let all = QuantizedRow::new(&x.words[(row + r) * words..][..words], x.columns, group);
            q[r] = &all.q.as_chunks::<8>().0[..cells];
            x_scales[r] = &all.scales[..cells];
            x_sums[r] = &all.sums[..cells * L::GROUPS];
            x_scaled[r] = &all.scaled_sums[..cells * L::GROUPS];
        }
        let mut products = [s.splat(0.0); R];
        let mut offsets = [s.splat(0.0); R];
        let supers = scales.chunks_exact(L::SCALES).zip(integers.chunks_exact(L::CELLS * L::LINES));
        for (super_block, (scales, integers)) in supers.enumerate() {
            let head = L::head(s, scales);
            for (c, lines) in integers.chunks_exact(L::LINES).enumerate() {
                let cell = super_block * L::CELLS + c;
                let mut acc = [[s.to_i32(0); R]; 2];
                for r in 0..R {
                    for (g, acc) in acc.iter_mut().enumerate().take(L::GROUPS) {
                        acc[r] = L::start(s, x_sums[r][cell * L::GROUPS + g]);
                    }
                }
                L::words(
                    s,
                    lines,
                    #[inline(always)]
                    |k, word| {
                        let g = k * L::GROUPS / 8;
                        for r in 0..R {
                            acc[g][r] = L::dot(s, acc[g][r], word, q[r][cell][k]);
                        }
                    },
                );
                for (g, acc) in acc.iter().enumerate().take(L::GROUPS) {
                    let scale = L::scale(s, head, scales, c, g);
                    for r in 0..R {
                        let factor = s.mul(scale, s.splat(x_scales[r][cell]));
                        products[r] = s.mul_add(factor, s.to_f32(acc[r]), products[r]);
                    }
                }
                if L::MINS {
                    let min = L::min(s, head, scales, c);
                    for r in 0..R {
                        offsets[r] = s.mul_add(min, s.splat(x_scaled[r][cell]), offsets[r]);
                    }
                }
            }
        }
        for r in 0..R {
            s.store(s.add(products[r], offsets[r]), &mut out[row + r]);
        }
    }
}
