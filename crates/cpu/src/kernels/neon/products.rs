//! Eight rows of weights times four rows of activations, eight columns at a time, in two ways: with dot products, and
//! with products of matrices of two rows. Their sums are eight registers, in an order of each one's own.

use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

use super::lanes::{bytes, sdot};
use super::{Neon, QuadI32};

/// The sums of four rows of activations with eight of weights. Register `i` has sums with the weights of register
/// `i % 4` of what [`Products::of_weights`] gives and with the rows of register `i / 2` of [`Products::of_rows`].
pub(super) type Sums<T> = [T; 8];

/// A way to multiply.
pub trait Products: Copy {
    /// Two words of four columns of sixteen rows of weights as [`Products::add`] takes them, eight rows together.
    fn arrange(self, words: [QuadI32; 2]) -> [QuadI32; 2];
    /// Sixteen columns of four rows of activations as [`Products::add`] takes them.
    fn arrange_rows(self, rows: [int8x16_t; 4]) -> [int8x16_t; 4];
    /// Adds the products of eight columns: the first of the sixteen, or (`SECOND`) the others.
    fn add<const SECOND: bool>(self, sums: &mut Sums<int32x4_t>, weights: QuadI32, rows: [int8x16_t; 4]);
    /// A number of each of eight rows of weights, in the order of the sums.
    fn of_weights(self, low: float32x4_t, high: float32x4_t) -> [float32x4_t; 4];
    /// A number of each of four rows of activations, in the order of the sums.
    fn of_rows(self, numbers: float32x4_t) -> [float32x4_t; 4];
    /// The sums row by row.
    fn to_rows(self, sums: Sums<float32x4_t>) -> [[float32x4_t; 2]; 4];
    /// The inverse.
    fn from_rows(self, rows: [[float32x4_t; 2]; 4]) -> Sums<float32x4_t>;
}

/// Runs instructions that the value proves to exist.
macro_rules! proven {
    ($($body:tt)*) => {{
        // SAFETY: values of `Dots` and `Matrices` exist only where their features were found; no memory is reached.
        unsafe { $($body)* }
    }};
}

/// With dot products: register `2r + q` has row `r` and weights `4q` to `4q + 3`.
#[derive(Debug, Clone, Copy)]
pub struct Dots(Neon);

impl Dots {
    /// Given a proof that they are there.
    pub fn new(neon: Neon) -> Dots {
        Dots(neon)
    }
}

impl Products for Dots {
    #[inline(always)]
    fn arrange(self, [even, odd]: [QuadI32; 2]) -> [QuadI32; 2] {
        [[even[0], even[1], odd[0], odd[1]], [even[2], even[3], odd[2], odd[3]]]
    }

    #[inline(always)]
    fn arrange_rows(self, rows: [int8x16_t; 4]) -> [int8x16_t; 4] {
        rows
    }

    #[inline(always)]
    fn add<const SECOND: bool>(self, sums: &mut Sums<int32x4_t>, weights: QuadI32, rows: [int8x16_t; 4]) {
        let weights = as_bytes(weights);
        for (i, sum) in sums.iter_mut().enumerate() {
            let (even, odd, row) = (weights[i % 2], weights[2 + i % 2], rows[i / 2]);
            *sum = if SECOND {
                proven!(sdot::<3>(sdot::<2>(*sum, even, row), odd, row))
            } else {
                proven!(sdot::<1>(sdot::<0>(*sum, even, row), odd, row))
            };
        }
    }

    #[inline(always)]
    fn of_weights(self, low: float32x4_t, high: float32x4_t) -> [float32x4_t; 4] {
        [low, high, low, high]
    }

    #[inline(always)]
    fn of_rows(self, numbers: float32x4_t) -> [float32x4_t; 4] {
        proven!([
            vdupq_laneq_f32::<0>(numbers),
            vdupq_laneq_f32::<1>(numbers),
            vdupq_laneq_f32::<2>(numbers),
            vdupq_laneq_f32::<3>(numbers),
        ])
    }

    #[inline(always)]
    fn to_rows(self, [a, b, c, d, e, f, g, h]: Sums<float32x4_t>) -> [[float32x4_t; 2]; 4] {
        [[a, b], [c, d], [e, f], [g, h]]
    }

    #[inline(always)]
    fn from_rows(self, [[a, b], [c, d], [e, f], [g, h]]: [[float32x4_t; 2]; 4]) -> Sums<float32x4_t> {
        [a, b, c, d, e, f, g, h]
    }
}

/// With products of matrices: register `4p + w` has rows `2p` and `2p + 1` and of each weights `2w` and `2w + 1`.
#[derive(Debug, Clone, Copy)]
pub struct Matrices(());

impl Matrices {
    /// The proof, where the machine has them.
    pub fn detect() -> Option<Matrices> {
        (Neon::detect().is_some() && is_aarch64_feature_detected!("i8mm")).then_some(Matrices(()))
    }

    /// Products alone, as many as the machine can do: sixteen sums in turn, `rounds` times.
    pub fn multiply_only(self, rounds: u64) -> i32 {
        proven!(multiply_only(rounds))
    }
}

/// How many multiply-adds a round of [`Matrices::multiply_only`] has.
pub const MATRIX_ROUND: usize = 16 * 2 * 2 * 8;

impl Products for Matrices {
    #[inline(always)]
    fn arrange(self, [even, odd]: [QuadI32; 2]) -> [QuadI32; 2] {
        let pairs = |q: usize| {
            proven!([
                vzip1q_s32(even[q], odd[q]),
                vzip2q_s32(even[q], odd[q]),
                vzip1q_s32(even[q + 1], odd[q + 1]),
                vzip2q_s32(even[q + 1], odd[q + 1]),
            ])
        };
        [pairs(0), pairs(2)]
    }

    #[inline(always)]
    fn arrange_rows(self, rows: [int8x16_t; 4]) -> [int8x16_t; 4] {
        proven!({
            let (a, b) = (vreinterpretq_s64_s8(rows[0]), vreinterpretq_s64_s8(rows[1]));
            let (c, d) = (vreinterpretq_s64_s8(rows[2]), vreinterpretq_s64_s8(rows[3]));
            [
                vreinterpretq_s8_s64(vzip1q_s64(a, b)),
                vreinterpretq_s8_s64(vzip1q_s64(c, d)),
                vreinterpretq_s8_s64(vzip2q_s64(a, b)),
                vreinterpretq_s8_s64(vzip2q_s64(c, d)),
            ]
        })
    }

    #[inline(always)]
    fn add<const SECOND: bool>(self, sums: &mut Sums<int32x4_t>, weights: QuadI32, rows: [int8x16_t; 4]) {
        let weights = as_bytes(weights);
        let pairs = if SECOND { [rows[2], rows[3]] } else { [rows[0], rows[1]] };
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = proven!(smmla(*sum, pairs[i / 4], weights[i % 4]));
        }
    }

    #[inline(always)]
    fn of_weights(self, low: float32x4_t, high: float32x4_t) -> [float32x4_t; 4] {
        let ([a, b], [c, d]) = (zip(low, low), zip(high, high));
        [a, b, c, d]
    }

    #[inline(always)]
    fn of_rows(self, numbers: float32x4_t) -> [float32x4_t; 4] {
        let (low, high) = proven!((vzip1q_f32(numbers, numbers), vzip2q_f32(numbers, numbers)));
        [low, low, high, high]
    }

    #[inline(always)]
    fn to_rows(self, [a, b, c, d, e, f, g, h]: Sums<float32x4_t>) -> [[float32x4_t; 2]; 4] {
        let ([r0, r1], [r0_more, r1_more]) = (zip(a, b), zip(c, d));
        let ([r2, r3], [r2_more, r3_more]) = (zip(e, f), zip(g, h));
        [[r0, r0_more], [r1, r1_more], [r2, r2_more], [r3, r3_more]]
    }

    #[inline(always)]
    fn from_rows(self, [r0, r1, r2, r3]: [[float32x4_t; 2]; 4]) -> Sums<float32x4_t> {
        let ([a, b], [c, d]) = (zip(r0[0], r1[0]), zip(r0[1], r1[1]));
        let ([e, f], [g, h]) = (zip(r2[0], r3[0]), zip(r2[1], r3[1]));
        [a, b, c, d, e, f, g, h]
    }
}

#[inline(always)]
fn as_bytes([a, b, c, d]: QuadI32) -> [int8x16_t; 4] {
    proven!([bytes(a), bytes(b), bytes(c), bytes(d)])
}

/// The first two numbers of both, and the last two.
#[inline(always)]
fn zip(a: float32x4_t, b: float32x4_t) -> [float32x4_t; 2] {
    proven!({
        let (a, b) = (vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b));
        [vreinterpretq_f32_f64(vzip1q_f64(a, b)), vreinterpretq_f32_f64(vzip2q_f64(a, b))]
    })
}

/// Adds the products of two rows of eight bytes with two others: those of the first row first.
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn smmla(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: an instruction that this function is compiled for, from register to register.
    unsafe {
        asm!(
            "smmla {sums:v}.4s, {a:v}.16b, {b:v}.16b",
            sums = inout(vreg) sums,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

#[inline(never)]
#[target_feature(enable = "neon,i8mm")]
fn multiply_only(rounds: u64) -> i32 {
    let (a, b) = (std::hint::black_box(vdupq_n_s8(1)), std::hint::black_box(vdupq_n_s8(2)));
    let mut sums = [vdupq_n_s32(0); 16];
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = smmla(*sum, a, b);
        }
    }
    sums.into_iter().fold(0, |all, sum| all ^ vaddvq_s32(sum))
}
