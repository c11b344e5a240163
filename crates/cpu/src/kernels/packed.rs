//! Weights repacked for `q8` arithmetic: tiles of sixteen rows, interleaved so that a lane is a row, in as
//! many bits as the file has. One row of activations streams them as they lie; many rows share a tile
//! while it is in the innermost cache.
//!
//! A tile is the integers of all its columns, then what their scales are made of. A *cell* is 32 columns;
//! its integers are eight words of four columns for each lane. Formats with two levels of scales have
//! *super-blocks* of eight cells.

use gleed_gguf::Format;
use gleed_model::arithmetic::{ACTIVATION_BLOCK, LANES};

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

/// What a format needs: where its integers and scales are in a tile.
trait Layout {
    /// Lines of integers per cell.
    const LINES: usize;
    /// Bytes of scales per super-block.
    const SCALES: usize;
    /// Cells per super-block.
    const CELLS: usize;
    /// Groups per cell, each with a scale of its own.
    const GROUPS: usize;
    /// Whether groups have mins.
    const MINS: bool;
    /// Four columns of sixteen rows, ready to be multiplied.
    type Word<S: Simd>: Copy;
    /// What a super-block's scales share.
    type Head<S: Simd>: Copy;

    /// Calls `f` with each word of a cell and its number.
    fn words<S: Simd>(s: S, lines: &[Line], f: impl FnMut(usize, Self::Word<S>));
    /// Stores a word as plain signed integers.
    fn store<S: Simd>(s: S, word: Self::Word<S>, out: &mut [i32; TILE]);
    /// Where a group's sum starts, given the sum of its activations.
    fn start<S: Simd>(s: S, activation_sum: i32) -> S::I32;
    /// Adds four columns.
    fn dot<S: Simd>(s: S, acc: S::I32, word: Self::Word<S>, activations: i32) -> S::I32;
    /// Reads what a super-block's scales share.
    fn head<S: Simd>(s: S, scales: &[u8]) -> Self::Head<S>;
    /// The scales of one group of one cell of a super-block.
    fn scale<S: Simd>(s: S, head: Self::Head<S>, scales: &[u8], cell: usize, group: usize) -> S::F32;
    /// The mins of one cell of a super-block.
    fn min<S: Simd>(s: S, head: Self::Head<S>, scales: &[u8], cell: usize) -> S::F32;
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

/// Sixteen half-precision numbers at a byte.
#[inline(always)]
fn halves<S: Simd>(s: S, scales: &[u8], at: usize) -> S::F32 {
    s.load_half(bytemuck::from_bytes(&scales[at..at + 2 * LANES]))
}

/// Sixteen unsigned codes at a byte.
#[inline(always)]
fn codes<S: Simd>(s: S, scales: &[u8], at: usize) -> S::F32 {
    s.load_u8(scales[at..].first_chunk().expect("a cell's codes lie inside the tile"))
}

/// Four lines of nibbles: the low ones are words 0 to 3, the high ones words 4 to 7.
#[inline(always)]
fn nibbles<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::I32)) {
    for (i, line) in lines[..4].iter().enumerate() {
        let both = s.load_i32(&line.0);
        f(i, s.and_bytes(both, 0x0f));
        f(i + 4, s.and_bytes(s.shift_right::<4>(both), 0x0f));
    }
}

/// Four lines of nibbles, and one whose bit k is the fifth bit of word k.
#[inline(always)]
fn five_bits<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::I32)) {
    let bits = s.load_i32(&lines[4].0);
    nibbles(
        s,
        lines,
        #[inline(always)]
        |k, low| {
            let fifth = match k {
                0 => s.shift_left::<4>(bits),
                1 => s.shift_left::<3>(bits),
                2 => s.shift_left::<2>(bits),
                3 => s.shift_left::<1>(bits),
                4 => bits,
                5 => s.shift_right::<1>(bits),
                6 => s.shift_right::<2>(bits),
                _ => s.shift_right::<3>(bits),
            };
            f(k, s.or(low, s.and_bytes(fifth, 0x10)));
        },
    );
}

/// A layout of one scale per cell: how its words are read, from how many lines, its bytes of scales,
/// whether it has mins, and how much too high its integers are.
macro_rules! single_scale {
    ($name:ident, $words:ident, $lines:expr, $scales:expr, $mins:expr, $offset:expr, $doc:literal) => {
        #[doc = $doc]
        struct $name;

        impl Layout for $name {
            const LINES: usize = $lines;
            const SCALES: usize = $scales;
            const CELLS: usize = 1;
            const GROUPS: usize = 1;
            const MINS: bool = $mins;
            type Word<S: Simd> = S::I32;
            type Head<S: Simd> = ();

            #[inline(always)]
            fn words<S: Simd>(s: S, lines: &[Line], f: impl FnMut(usize, S::I32)) {
                $words(s, lines, f);
            }

            #[inline(always)]
            fn store<S: Simd>(s: S, word: S::I32, out: &mut [i32; TILE]) {
                s.store_i32(s.sub_bytes(word, $offset), out);
            }

            #[inline(always)]
            fn start<S: Simd>(s: S, activation_sum: i32) -> S::I32 {
                s.to_i32(-$offset * activation_sum)
            }

            #[inline(always)]
            fn dot<S: Simd>(s: S, acc: S::I32, word: S::I32, activations: i32) -> S::I32 {
                s.dot4_unsigned(acc, word, activations)
            }

            #[inline(always)]
            fn head<S: Simd>(_s: S, _scales: &[u8]) {}

            #[inline(always)]
            fn scale<S: Simd>(s: S, _head: (), scales: &[u8], _cell: usize, _group: usize) -> S::F32 {
                halves(s, scales, 0)
            }

            #[inline(always)]
            fn min<S: Simd>(s: S, _head: (), scales: &[u8], _cell: usize) -> S::F32 {
                halves(s, scales, $scales - 2 * LANES)
            }
        }
    };
}

single_scale!(Q4_0, nibbles, 4, 2 * LANES, false, 8, "Per cell sixteen scales.");
single_scale!(Q4_1, nibbles, 4, 4 * LANES, true, 0, "Per cell sixteen scales and sixteen mins.");
single_scale!(Q5_0, five_bits, 5, 2 * LANES, false, 16, "Per cell sixteen scales.");
single_scale!(Q5_1, five_bits, 5, 4 * LANES, true, 0, "Per cell sixteen scales and sixteen mins.");

/// Signed bytes, and per cell sixteen scales.
struct Q8_0;

impl Layout for Q8_0 {
    const LINES: usize = 8;
    const SCALES: usize = 2 * LANES;
    const CELLS: usize = 1;
    const GROUPS: usize = 1;
    const MINS: bool = false;
    type Word<S: Simd> = S::Weights;
    type Head<S: Simd> = ();

    #[inline(always)]
    fn words<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::Weights)) {
        for (k, line) in lines[..8].iter().enumerate() {
            f(k, s.weights(&line.0));
        }
    }

    #[inline(always)]
    fn store<S: Simd>(s: S, word: S::Weights, out: &mut [i32; TILE]) {
        s.store_weights(word, out);
    }

    #[inline(always)]
    fn start<S: Simd>(s: S, activation_sum: i32) -> S::I32 {
        s.dot_start(activation_sum)
    }

    #[inline(always)]
    fn dot<S: Simd>(s: S, acc: S::I32, word: S::Weights, activations: i32) -> S::I32 {
        s.dot4(acc, word, activations)
    }

    #[inline(always)]
    fn head<S: Simd>(_s: S, _scales: &[u8]) {}

    #[inline(always)]
    fn scale<S: Simd>(s: S, _head: (), scales: &[u8], _cell: usize, _group: usize) -> S::F32 {
        halves(s, scales, 0)
    }

    #[inline(always)]
    fn min<S: Simd>(s: S, _head: (), _scales: &[u8], _cell: usize) -> S::F32 {
        s.splat(0.0)
    }
}

/// A layout with per super-block sixteen `d`, sixteen `-dmin`, then per cell sixteen scale codes and
/// sixteen min codes.
macro_rules! two_levels {
    ($name:ident, $words:ident, $lines:expr, $doc:literal) => {
        #[doc = $doc]
        struct $name;

        impl Layout for $name {
            const LINES: usize = $lines;
            const SCALES: usize = 4 * LANES + 8 * 2 * LANES;
            const CELLS: usize = 8;
            const GROUPS: usize = 1;
            const MINS: bool = true;
            type Word<S: Simd> = S::I32;
            type Head<S: Simd> = (S::F32, S::F32);

            #[inline(always)]
            fn words<S: Simd>(s: S, lines: &[Line], f: impl FnMut(usize, S::I32)) {
                $words(s, lines, f);
            }

            #[inline(always)]
            fn store<S: Simd>(s: S, word: S::I32, out: &mut [i32; TILE]) {
                s.store_i32(word, out);
            }

            #[inline(always)]
            fn start<S: Simd>(s: S, _activation_sum: i32) -> S::I32 {
                s.to_i32(0)
            }

            #[inline(always)]
            fn dot<S: Simd>(s: S, acc: S::I32, word: S::I32, activations: i32) -> S::I32 {
                s.dot4_unsigned(acc, word, activations)
            }

            #[inline(always)]
            fn head<S: Simd>(s: S, scales: &[u8]) -> (S::F32, S::F32) {
                (halves(s, scales, 0), halves(s, scales, 2 * LANES))
            }

            #[inline(always)]
            fn scale<S: Simd>(
                s: S,
                head: (S::F32, S::F32),
                scales: &[u8],
                cell: usize,
                _group: usize,
            ) -> S::F32 {
                s.mul(head.0, codes(s, scales, 4 * LANES + cell * 2 * LANES))
            }

            #[inline(always)]
            fn min<S: Simd>(s: S, head: (S::F32, S::F32), scales: &[u8], cell: usize) -> S::F32 {
                s.mul(head.1, codes(s, scales, 5 * LANES + cell * 2 * LANES))
            }
        }
    };
}

two_levels!(Q4K, nibbles, 4, "Nibbles.");
two_levels!(Q5K, five_bits, 5, "Five bits.");

/// Four lines of nibbles and two of bit pairs, 32 too high; per super-block sixteen `d`, then per cell
/// twice sixteen signed scale codes.
struct Q6K;

impl Layout for Q6K {
    const LINES: usize = 6;
    const SCALES: usize = 2 * LANES + 8 * 2 * LANES;
    const CELLS: usize = 8;
    const GROUPS: usize = 2;
    const MINS: bool = false;
    type Word<S: Simd> = S::I32;
    type Head<S: Simd> = S::F32;

    #[inline(always)]
    fn words<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::I32)) {
        // Pair t of line j belongs to word 4j + t; it becomes bits 4 and 5.
        let (first, second) = (s.load_i32(&lines[4].0), s.load_i32(&lines[5].0));
        nibbles(
            s,
            lines,
            #[inline(always)]
            |k, low| {
                let pairs = if k < 4 { first } else { second };
                let high = match k % 4 {
                    0 => s.shift_left::<4>(pairs),
                    1 => s.shift_left::<2>(pairs),
                    2 => pairs,
                    _ => s.shift_right::<2>(pairs),
                };
                f(k, s.or(low, s.and_bytes(high, 0x30)));
            },
        );
    }

    #[inline(always)]
    fn store<S: Simd>(s: S, word: S::I32, out: &mut [i32; TILE]) {
        s.store_i32(s.sub_bytes(word, 32), out);
    }

    #[inline(always)]
    fn start<S: Simd>(s: S, activation_sum: i32) -> S::I32 {
        s.to_i32(-32 * activation_sum)
    }

    #[inline(always)]
    fn dot<S: Simd>(s: S, acc: S::I32, word: S::I32, activations: i32) -> S::I32 {
        s.dot4_unsigned(acc, word, activations)
    }

    #[inline(always)]
    fn head<S: Simd>(s: S, scales: &[u8]) -> S::F32 {
        halves(s, scales, 0)
    }

    #[inline(always)]
    fn scale<S: Simd>(s: S, d: S::F32, scales: &[u8], cell: usize, group: usize) -> S::F32 {
        let at = 2 * LANES + (2 * cell + group) * LANES;
        s.mul(d, s.load_i8(bytemuck::from_bytes(&scales[at..at + LANES])))
    }

    #[inline(always)]
    fn min<S: Simd>(s: S, _d: S::F32, _scales: &[u8], _cell: usize) -> S::F32 {
        s.splat(0.0)
    }
}

/// Packs the integers of a tile: from words of signed bytes with a lane per row, `[columns / 4][TILE]`.
pub fn pack_integers(packing: Packing, words: &[[i32; TILE]], tile: &mut [Line]) {
    let (lines, _, _) = packing.sizes();
    let raised_by = match packing.format {
        Format::Q4_0 => 8,
        Format::Q5_0 => 16,
        Format::Q6_K => 32,
        _ => 0,
    };
    for (words, lines) in words.as_chunks::<8>().0.iter().zip(tile.chunks_exact_mut(lines)) {
        let words = words.map(|lanes| lanes.map(|word| raise(word, raised_by)));
        if packing.format == Format::Q8_0 {
            lines.iter_mut().zip(words).for_each(|(line, word)| line.0 = word);
            continue;
        }
        // Six bits at most: the low four make nibbles, the others single bits or pairs.
        let (nibble_lines, more_lines) = lines.split_at_mut(4);
        for (i, line) in nibble_lines.iter_mut().enumerate() {
            let nibble = |k: usize, lane: usize| words[k][lane] & 0x0f0f_0f0f;
            line.0 = std::array::from_fn(|lane| nibble(i, lane) | nibble(i + 4, lane) << 4);
        }
        if let [line] = more_lines {
            let bit = |k: usize, lane: usize| (words[k][lane] >> 4 & 0x0101_0101) << k;
            line.0 = std::array::from_fn(|lane| (0..8).fold(0, |bits, k| bits | bit(k, lane)));
            continue;
        }
        for (line, words) in more_lines.iter_mut().zip(words.as_chunks::<4>().0) {
            let pair = |t: usize, lane: usize| (words[t][lane] >> 4 & 0x0303_0303) << (2 * t);
            line.0 =
                std::array::from_fn(|lane| pair(0, lane) | pair(1, lane) | pair(2, lane) | pair(3, lane));
        }
    }
}

/// Adds to each byte of a word.
fn raise(word: i32, by: u8) -> i32 {
    i32::from_ne_bytes(word.to_ne_bytes().map(|byte| byte.wrapping_add(by)))
}

/// Packs the scales of one row of a tile, from the row's bytes in the file.
pub fn pack_scales(packing: Packing, lane: usize, bytes: &[u8], tile: &mut [Line]) {
    let (lines, size, _) = packing.sizes();
    let scales: &mut [u8] = bytemuck::cast_slice_mut(&mut tile[packing.cells() * lines..]);
    let blocks = bytes.chunks_exact(packing.format.block_bytes());
    for (block, scales) in blocks.zip(scales.chunks_exact_mut(size)) {
        // Two bytes of the block go to place `at` of halves.
        let mut half = |at: usize, from: usize| {
            scales[at + 2 * lane..][..2].copy_from_slice(&block[from..from + 2]);
        };
        match packing.format {
            Format::Q4_1 | Format::Q5_1 => {
                half(0, 0);
                half(2 * LANES, 2);
            }
            Format::Q4_K | Format::Q5_K => {
                half(0, 0);
                half(2 * LANES, 2);
                // The mins are subtracted: the sign goes with `dmin`.
                scales[2 * LANES + 2 * lane + 1] ^= 0x80;
                let (codes, min_codes) = six_bits(&block[4..16]);
                for cell in 0..8 {
                    scales[4 * LANES + cell * 2 * LANES + lane] = codes[cell];
                    scales[5 * LANES + cell * 2 * LANES + lane] = min_codes[cell];
                }
            }
            Format::Q6_K => {
                half(0, 208);
                for (group, &code) in block[192..208].iter().enumerate() {
                    scales[2 * LANES + group * LANES + lane] = code;
                }
            }
            _ => half(0, 0),
        }
    }
}

/// The eight scales and mins of six bits that Q4_K and Q5_K keep in twelve bytes.
fn six_bits(bytes: &[u8]) -> ([u8; 8], [u8; 8]) {
    let scale = |i: usize| match i {
        0..4 => bytes[i] & 63,
        _ => bytes[i + 4] & 15 | bytes[i - 4] >> 6 << 4,
    };
    let min = |i: usize| match i {
        0..4 => bytes[i + 4] & 63,
        _ => bytes[i + 4] >> 4 | bytes[i] >> 6 << 4,
    };
    (std::array::from_fn(scale), std::array::from_fn(min))
}
