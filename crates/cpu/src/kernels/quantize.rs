//! Activations to int8: one scale per 32 values, and the sums that integer dot products need.

use gleed_model::arithmetic::{ACTIVATION_BLOCK, LANES};

use super::simd::{Kernel, Simd};

/// One quantised row, all parts in one run of words.
///
/// The words are, for `c` columns: `c/4` of four integers each, `c/32` scales, then for groups of 32
/// and of 16 columns the sums of the integers and the sums times their scale.
#[derive(Debug, Clone, Copy)]
pub struct QuantizedRow<'a> {
    /// Four integers each.
    pub q: &'a [i32],
    /// One scale per 32 columns.
    pub scales: &'a [f32],
    /// Σ q per group.
    pub sums: &'a [i32],
    /// scale · Σ q per group: what a group's min is multiplied with.
    pub scaled_sums: &'a [f32],
}

/// Words of a quantised row.
pub const fn row_words(columns: usize) -> usize {
    columns / 4 + 3 * (columns / 32) + 2 * (columns / 16)
}

impl<'a> QuantizedRow<'a> {
    /// The parts of a row of `columns`, with sums over groups of 16 or 32.
    #[inline(always)]
    pub fn new(words: &'a [i32], columns: usize, group: usize) -> QuantizedRow<'a> {
        let blocks = columns / ACTIVATION_BLOCK;
        let (q, rest) = words[..row_words(columns)].split_at(columns / 4);
        let (scales, rest) = rest.split_at(blocks);
        let (by_32, by_16) = rest.split_at(2 * blocks);
        let (sums, scaled_sums) =
            if group == 16 { by_16.split_at(2 * blocks) } else { by_32.split_at(blocks) };
        let (scales, scaled_sums) = (bytemuck::cast_slice(scales), bytemuck::cast_slice(scaled_sums));
        QuantizedRow { q, scales, sums, scaled_sums }
    }
}

/// Quantises one row.
#[derive(Debug)]
pub struct Quantize<'a> {
    /// The row; a multiple of 32 values.
    pub x: &'a [f32],
    /// Room for the [`QuantizedRow`].
    pub words: &'a mut [i32],
}

impl Kernel for Quantize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Quantize { x, words } = self;
        let (blocks, rest) = x.as_chunks::<ACTIVATION_BLOCK>();
        assert!(rest.is_empty(), "rows are whole blocks");
        let count = blocks.len();
        let (q, rest) = words[..row_words(x.len())].split_at_mut(x.len() / 4);
        let (scales, rest) = rest.split_at_mut(count);
        let (sums_32, rest) = rest.split_at_mut(count);
        let (scaled_32, rest) = rest.split_at_mut(count);
        let (sums_16, scaled_16) = rest.split_at_mut(2 * count);
        let q = &mut bytemuck::cast_slice_mut::<i32, i8>(q).as_chunks_mut().0[..count];
        let scales = &mut bytemuck::cast_slice_mut::<i32, f32>(scales)[..count];
        let scaled_32 = &mut bytemuck::cast_slice_mut::<i32, f32>(scaled_32)[..count];
        let scaled_16 = &mut bytemuck::cast_slice_mut::<i32, f32>(scaled_16).as_chunks_mut::<2>().0[..count];
        let sums_16 = &mut sums_16.as_chunks_mut::<2>().0[..count];
        for i in 0..count {
            let scale = block(s, &blocks[i], &mut q[i]);
            let [low, high] = q[i].as_chunks::<LANES>().0 else { unreachable!("two times sixteen") };
            let (low, high) = (sum(low), sum(high));
            scales[i] = scale;
            sums_16[i] = [low, high];
            scaled_16[i] = [scale * low as f32, scale * high as f32];
            sums_32[i] = low + high;
            scaled_32[i] = scale * (low + high) as f32;
        }
    }
}

#[inline(always)]
fn sum(q: &[i8; LANES]) -> i32 {
    q.iter().map(|&q| i32::from(q)).sum()
}

/// `arithmetic::quantize` of a full block.
#[inline(always)]
pub(super) fn block<S: Simd>(s: S, x: &[f32; ACTIVATION_BLOCK], q: &mut [i8; ACTIVATION_BLOCK]) -> f32 {
    let [low, high] = x.as_chunks::<LANES>().0 else { unreachable!("two times sixteen") };
    let (low, high) = (s.load(low), s.load(high));
    // Values that are no number count as nothing: `max` gives the second where the first is none.
    let magnitudes = s.max(s.abs(high), s.max(s.abs(low), s.splat(0.0)));
    let largest = s.largest(magnitudes);
    let inverse = 127.0 / largest;
    let inverse = s.splat(if inverse.is_finite() { inverse } else { 0.0 });
    let [q_low, q_high] = q.as_chunks_mut::<LANES>().0 else { unreachable!("two times sixteen") };
    s.store_i8(s.round(s.mul(low, inverse)), q_low);
    s.store_i8(s.round(s.mul(high, inverse)), q_high);
    largest / 127.0
}
