//! 256 columns of a panel, unpacked and laid out for [`super::blocks`]: as registers will be loaded, half of the rows
//! after the other.

use std::arch::aarch64::*;

use gleed_model::arithmetic::{BLOCK, SUPER_BLOCK};

use super::products::Products;
use super::{Neon, QuadI32};
use crate::kernels::blocked::{CELLS, WORDS};
use crate::kernels::integer::Panel;
use crate::kernels::simd::Simd;
use crate::kernels::tile::{Line, TILE};

/// The most groups of 256 columns.
const GROUPS: usize = SUPER_BLOCK / 16;

/// Eight rows of weights. A number of each of them is a line, in the order of the sums.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Half {
    /// Eight columns to a line.
    pub integers: [[Line; WORDS / 2]; CELLS],
    /// Of each cell, or one of all of them.
    pub scales: [Line; CELLS],
    /// The same of mins, where there are any.
    pub mins: [Line; CELLS],
    /// Of each group, where there are any.
    pub factors: [Line; GROUPS],
    /// The min factors of eight groups to a line, as if they were columns, where there are any.
    pub min_factors: [Line; GROUPS / 8],
}

// SAFETY: lines and nothing else; all bit patterns, zeros among them, are valid.
unsafe impl bytemuck::Zeroable for Half {}
// SAFETY: as above, without padding, and the type is `Copy` and `repr(C)`.
unsafe impl bytemuck::Pod for Half {}

/// Lays out some cells, from one on.
#[inline(never)]
#[target_feature(enable = "neon,dotprod")]
pub(super) fn lay_out<P: Products>(
    neon: Neon,
    products: P,
    panel: &Panel,
    first: usize,
    cells: usize,
    halves: &mut [Half; 2],
) {
    for cell in 0..cells {
        let mut words = [neon.to_i32(0); WORDS];
        panel.each_word(
            neon,
            first + cell,
            #[inline(always)]
            |k, word| words[k] = word,
        );
        for (i, words) in words.as_chunks().0.iter().enumerate() {
            let [first, second] = halves;
            let [low, high] = products.arrange(*words);
            neon.store_i32(low, &mut first.integers[cell][i].0);
            neon.store_i32(high, &mut second.integers[cell][i].0);
        }
    }
    let [low, high] = halves;
    let of_weights = |numbers: &[f32; TILE], low_out: &mut Line, high_out: &mut Line| {
        let [a, b, c, d] = neon.load(numbers);
        neon.store(products.of_weights(a, b), bytemuck::cast_mut(&mut low_out.0));
        neon.store(products.of_weights(c, d), bytemuck::cast_mut(&mut high_out.0));
    };
    let blocks = first * BLOCK / panel.groups.block..(first + cells) * BLOCK / panel.groups.block;
    for (i, scale) in panel.scales[blocks.clone()].iter().enumerate() {
        of_weights(scale, &mut low.scales[i], &mut high.scales[i]);
    }
    if panel.groups.mins {
        for (i, min) in panel.mins[blocks].iter().enumerate() {
            of_weights(min, &mut low.mins[i], &mut high.mins[i]);
        }
    }
    if panel.groups.block == BLOCK {
        return;
    }
    let groups = first * BLOCK / panel.groups.len..(first + cells) * BLOCK / panel.groups.len;
    for (i, factor) in panel.factors[groups.clone()].iter().enumerate() {
        of_weights(bytemuck::cast_ref(factor), &mut low.factors[i], &mut high.factors[i]);
    }
    if panel.groups.mins {
        let pairs = panel.min_pairs[groups.start / 2..groups.end / 2].as_chunks::<4>().0;
        for (i, [a, b, c, d]) in pairs.iter().enumerate() {
            let word = |a, b| join(neon.load_i32(a), neon.load_i32(b));
            let [low_half, high_half] = products.arrange([word(a, b), word(c, d)]);
            neon.store_i32(low_half, &mut low.min_factors[i].0);
            neon.store_i32(high_half, &mut high.min_factors[i].0);
        }
    }
}

/// Pairs of halves, each a byte in 16 bits, become words of four bytes.
#[inline]
#[target_feature(enable = "neon")]
fn join(low: QuadI32, high: QuadI32) -> QuadI32 {
    // The low bytes of each lane's halves: two bytes of each of four lanes.
    let narrow = |pairs| vreinterpret_s16_s8(vmovn_s16(vreinterpretq_s16_s32(pairs)));
    let word = |low, high| vreinterpretq_s32_s16(vcombine_s16(vzip1_s16(low, high), vzip2_s16(low, high)));
    let lanes = |i: usize| word(narrow(low[i]), narrow(high[i]));
    [lanes(0), lanes(1), lanes(2), lanes(3)]
}
