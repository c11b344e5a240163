//! Activations to int8 in the blocks of the weights they will be multiplied with, and the sums that
//! integer dot products need.

use gleed_model::arithmetic::{BLOCK, LANES, SUPER_BLOCK, UNEVEN};

use super::simd::{Kernel, Simd};

/// One quantised row, all parts in one run of words.
#[derive(Debug, Clone, Copy)]
pub struct QuantizedRow<'a> {
    /// Four integers each.
    pub q: &'a [i32],
    /// One scale per block of 32 or 256 columns.
    pub scales: &'a [f32],
    /// Σ q per group of 16 or 32 columns.
    pub sums: &'a [i32],
    /// What mins are multiplied with: for blocks of 32, scale · Σ q in f32.
    pub scaled_sums: &'a [f32],
    /// For blocks of 256, the sums of two groups in the halves of a word.
    pub pairs: &'a [i32],
}

/// Words of a row quantised in blocks of `block` columns.
///
/// For `c` columns they are: `c/4` of four integers each, and a scale per block; then, for blocks of 32,
/// the sums and the scaled sums; for blocks of 256, sums over 32 columns, sums over 16, pairs of the
/// former, pairs of the latter.
pub const fn row_words(columns: usize, block: usize) -> usize {
    let (blocks, cells) = (columns / block, columns / BLOCK);
    columns / 4 + blocks + if block == BLOCK { 2 * cells } else { 3 * cells + cells / 2 + cells }
}

impl<'a> QuantizedRow<'a> {
    /// The parts of a row of `columns`, with sums over groups of 16 or 32 (in blocks of 32: of 32).
    #[inline(always)]
    pub fn new(words: &'a [i32], columns: usize, block: usize, group: usize) -> QuantizedRow<'a> {
        let cells = columns / BLOCK;
        let (q, rest) = words[..row_words(columns, block)].split_at(columns / 4);
        let (scales, rest) = rest.split_at(columns / block);
        let scales = bytemuck::cast_slice(scales);
        let (sums, rest) = rest.split_at(cells);
        if block == BLOCK {
            return QuantizedRow { q, scales, sums, scaled_sums: bytemuck::cast_slice(rest), pairs: &[] };
        }
        let (sums_16, rest) = rest.split_at(2 * cells);
        let (pairs_32, pairs_16) = rest.split_at(cells / 2);
        let (sums, pairs) = if group == 16 { (sums_16, pairs_16) } else { (sums, pairs_32) };
        QuantizedRow { q, scales, sums, scaled_sums: &[], pairs }
    }
}

/// Quantised activations: rows of [`QuantizedRow`], one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Quantized<'a> {
    /// `[rows][row_words(columns, block)]`.
    pub words: &'a [i32],
    /// Columns per row.
    pub columns: usize,
    /// Columns per scale: 32 or 256.
    pub block: usize,
    /// How many rows.
    pub rows: usize,
}

impl<'a> Quantized<'a> {
    /// One row, with sums over groups of `group` columns.
    #[inline(always)]
    pub fn row(self, row: usize, group: usize) -> QuantizedRow<'a> {
        let words = row_words(self.columns, self.block);
        QuantizedRow::new(&self.words[row * words..][..words], self.columns, self.block, group)
    }

    /// The rows from `first` on.
    pub fn from_row(self, first: usize) -> Quantized<'a> {
        let words = &self.words[first * row_words(self.columns, self.block)..];
        Quantized { words, rows: self.rows - first, ..self }
    }
}

/// Quantises one row.
#[derive(Debug)]
pub struct Quantize<'a> {
    /// The row; whole blocks.
    pub x: &'a [f32],
    /// Columns that share a scale: 32 or 256.
    pub block: usize,
    /// Room for the [`QuantizedRow`].
    pub words: &'a mut [i32],
}

impl Kernel for Quantize<'_> {
    /// Whether the row is uneven, see `arithmetic::is_uneven`.
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> bool {
        match self.block {
            BLOCK => self.blocks(s),
            SUPER_BLOCK => self.super_blocks(s),
            block => panic!("blocks have 32 or 256 columns, not {block}"),
        }
    }
}

impl Quantize<'_> {
    #[inline(always)]
    fn blocks<S: Simd>(self, s: S) -> bool {
        let Quantize { x, words, .. } = self;
        let (blocks, rest) = x.as_chunks::<BLOCK>();
        assert!(rest.is_empty(), "rows are whole blocks");
        let count = blocks.len();
        let (q, rest) = words[..row_words(x.len(), BLOCK)].split_at_mut(x.len() / 4);
        let (scales, rest) = rest.split_at_mut(count);
        let (sums, scaled) = rest.split_at_mut(count);
        let q = &mut bytemuck::cast_slice_mut::<i32, i8>(q).as_chunks_mut().0[..count];
        let scales = &mut bytemuck::cast_slice_mut::<i32, f32>(scales)[..count];
        let scaled = &mut bytemuck::cast_slice_mut::<i32, f32>(scaled)[..count];
        let sixteens = count - count % LANES;
        let sets = blocks.as_chunks().0.iter().zip(q.as_chunks_mut().0);
        for ((x, q), (scales, sums)) in
            sets.zip(scales.as_chunks_mut().0.iter_mut().zip(sums.as_chunks_mut().0))
        {
            sixteen_blocks(s, x, q, scales, sums);
        }
        for i in sixteens..count {
            scales[i] = block(s, &blocks[i], &mut q[i]);
            sums[i] = q[i].iter().map(|&q| i32::from(q)).sum();
        }
        for ((scaled, scale), sum) in scaled.iter_mut().zip(scales).zip(sums) {
            *scaled = *scale * *sum as f32;
        }
        false
    }

    #[inline(always)]
    fn super_blocks<S: Simd>(self, s: S) -> bool {
        const CELLS: usize = SUPER_BLOCK / BLOCK;
        let Quantize { x, words, .. } = self;
        let (blocks, rest) = x.as_chunks::<SUPER_BLOCK>();
        assert!(rest.is_empty(), "rows are whole blocks");
        let cells = x.len() / BLOCK;
        let (q, rest) = words[..row_words(x.len(), SUPER_BLOCK)].split_at_mut(x.len() / 4);
        let (scales, rest) = rest.split_at_mut(blocks.len());
        let (sums_32, rest) = rest.split_at_mut(cells);
        let (sums_16, rest) = rest.split_at_mut(2 * cells);
        let (pairs_32, pairs_16) = rest.split_at_mut(cells / 2);
        let scales = bytemuck::cast_slice_mut::<i32, f32>(scales);
        let q = bytemuck::cast_slice_mut::<i32, i8>(q).as_chunks_mut::<SUPER_BLOCK>().0;
        let sums_32 = sums_32.as_chunks_mut::<CELLS>().0;
        let sums_16 = sums_16.as_chunks_mut::<{ 2 * CELLS }>().0;
        let pairs = pairs_32.as_chunks_mut::<{ CELLS / 2 }>().0.iter_mut().zip(pairs_16.as_chunks_mut().0);
        let sums = sums_32.iter_mut().zip(sums_16).zip(pairs);
        let mut uneven = false;
        for (((x, q), scale), ((sums_32, sums_16), (pairs_32, pairs_16))) in
            blocks.iter().zip(q).zip(scales).zip(sums)
        {
            *scale = block(s, x, q);
            uneven |= *scale > 0.0 && s.sum_of_magnitudes(q) < UNEVEN;
            *sums_16 = s.sums_of_sixteen(q);
            *sums_32 = std::array::from_fn(|cell| sums_16[2 * cell] + sums_16[2 * cell + 1]);
            *pairs_32 = std::array::from_fn(|i| pair(sums_32[2 * i], sums_32[2 * i + 1]));
            *pairs_16 = std::array::from_fn::<i32, CELLS, _>(|i| pair(sums_16[2 * i], sums_16[2 * i + 1]));
        }
        uneven
    }
}

/// What is left of a row of blocks of 256 when its integers are taken away: `arithmetic::remainder`.
#[derive(Debug)]
pub struct Remainder<'a> {
    /// The row; whole blocks.
    pub x: &'a [f32],
    /// The same, quantised.
    pub quantized: QuantizedRow<'a>,
    /// As long as the row.
    pub out: &'a mut [f32],
}

impl Kernel for Remainder<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        const VECTORS: usize = SUPER_BLOCK / LANES;
        let Remainder { x, quantized, out } = self;
        let x = x.as_chunks::<LANES>().0.chunks_exact(VECTORS);
        let q = bytemuck::cast_slice(quantized.q).as_chunks::<LANES>().0.chunks_exact(VECTORS);
        let out = out.as_chunks_mut::<LANES>().0.chunks_exact_mut(VECTORS);
        for (((x, q), out), scale) in x.zip(q).zip(out).zip(quantized.scales) {
            let scale = s.splat(-scale);
            for ((x, q), out) in x.iter().zip(q).zip(out) {
                s.store(s.mul_add(scale, s.load_i8(q), s.load(x)), out);
            }
        }
    }
}

/// Two sums of at most 32 bytes in the halves of a word.
#[inline(always)]
fn pair(low: i32, high: i32) -> i32 {
    low & 0xffff | high << 16
}

/// `arithmetic::quantize` of sixteen blocks of 32, and the sums of their integers.
#[inline(always)]
fn sixteen_blocks<S: Simd>(
    s: S,
    x: &[[f32; BLOCK]; LANES],
    q: &mut [[i8; BLOCK]; LANES],
    scales: &mut [f32; LANES],
    sums: &mut [i32; LANES],
) {
    let mut magnitudes = [s.splat(0.0); LANES];
    for (magnitudes, x) in magnitudes.iter_mut().zip(x) {
        *magnitudes = largest_magnitudes(s, x.as_chunks().0);
    }
    let largest = s.largest_magnitude_each(&magnitudes);
    let mut inverses = [0.0; LANES];
    s.store(s.div(s.splat(127.0), largest), &mut inverses);
    s.store(s.div(largest, s.splat(127.0)), scales);
    for ((x, q), inverse) in x.iter().zip(&mut *q).zip(inverses) {
        integers(s, x, inverse, q);
    }
    let halves: [[i8; SUPER_BLOCK]; 2] = bytemuck::cast(*q);
    let halves = halves.map(|q| s.sums_of_sixteen(&q));
    let halves = halves.as_flattened().as_chunks::<2>().0;
    sums.iter_mut().zip(halves).for_each(|(sum, [low, high])| *sum = low + high);
}

/// `arithmetic::quantize` of a full block.
#[inline(always)]
pub(super) fn block<S: Simd, const N: usize>(s: S, x: &[f32; N], q: &mut [i8; N]) -> f32 {
    let largest = s.largest_magnitude(largest_magnitudes(s, x.as_chunks().0));
    integers(s, x, 127.0 / largest, q);
    largest / 127.0
}

/// The largest magnitude of each lane; NaN where a value of it is.
#[inline(always)]
fn largest_magnitudes<S: Simd>(s: S, x: &[[f32; LANES]]) -> S::F32 {
    // Several at a time, because each waits for the one before it.
    let mut magnitudes = [s.splat(0.0); 4];
    for x in x.chunks(4) {
        for (magnitudes, x) in magnitudes.iter_mut().zip(x) {
            *magnitudes = s.max_magnitude(s.abs(s.load(x)), *magnitudes);
        }
    }
    let [a, b, c, d] = magnitudes;
    s.max_magnitude(s.max_magnitude(a, b), s.max_magnitude(c, d))
}

/// The integers of a block; all zero when there is no inverse, as where the largest value is none.
#[inline(always)]
fn integers<S: Simd, const N: usize>(s: S, x: &[f32; N], inverse: f32, q: &mut [i8; N]) {
    let inverse = s.splat(if inverse.is_finite() { inverse } else { 0.0 });
    for (x, q) in x.as_chunks::<LANES>().0.iter().zip(q.as_chunks_mut::<LANES>().0) {
        s.store_i8(s.mul(s.load(x), inverse), q);
    }
}
