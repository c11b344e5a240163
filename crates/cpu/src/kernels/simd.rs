//! The vector unit that kernels are written against: sixteen lanes of f32 or i32, whatever the hardware.
//!
//! A kernel is written once, generic over [`Simd`], and compiled for every instruction set. Values of
//! the types that implement it are proofs: one exists only where its instructions were detected, so all
//! methods are safe to call.

use gleed_model::arithmetic::{LANES, SUPER_BLOCK};

/// Something to compute, written once for all instruction sets.
///
/// `run` and everything it calls must be `#[inline(always)]`, so that it is compiled with the
/// instructions of the vector unit it runs on.
pub trait Kernel {
    /// What it returns.
    type Output;

    /// Computes it.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// One instruction set's sixteen lanes.
pub trait Simd: Copy {
    /// Sixteen f32.
    type F32: Copy;
    /// Sixteen i32.
    type I32: Copy;
    /// Sixteen times four i8 of weights, ready for [`Simd::dot4`].
    type Weights: Copy;

    /// Whether there are registers for large blocks (32 of them, each as wide as the lanes).
    const WIDE: bool;

    /// Whether several rows, and several vectors, are worth code of their own besides that for one.
    const SEVERAL: bool;

    /// Whether few rows meet several tiles of weights in turn, because memory likes to be read in several places.
    const IN_TURN: bool;

    /// Runs a kernel compiled with this instruction set.
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output;

    /// Asks for a value's memory ahead of its use.
    fn prefetch<T>(self, value: &T);

    /// All lanes the same.
    fn splat(self, x: f32) -> Self::F32;
    /// All lanes from memory.
    fn load(self, x: &[f32; LANES]) -> Self::F32;
    /// The first lanes from memory, the rest zero. At most sixteen values.
    fn load_partial(self, x: &[f32]) -> Self::F32;
    /// All lanes to memory.
    fn store(self, x: Self::F32, out: &mut [f32; LANES]);
    /// The first lanes to memory. At most sixteen values.
    fn store_partial(self, x: Self::F32, out: &mut [f32]);

    /// a + b.
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a - b.
    fn sub(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a · b.
    fn mul(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a / b.
    fn div(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// The larger; `b` where either is not a number.
    fn max(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// The smaller; `b` where either is not a number.
    fn min(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// The larger of two that have no sign; NaN where either is.
    fn max_magnitude(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// |a|.
    fn abs(self, a: Self::F32) -> Self::F32;
    /// a · b + c, rounded once.
    fn mul_add(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// a · b - c, rounded once.
    fn mul_sub(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// a · b + c in the first lanes (at most sixteen); the rest of `c` stays as it is.
    fn mul_add_partial(self, a: &[f32], b: &[f32], c: Self::F32) -> Self::F32;
    /// The nearest whole number, the even one of two.
    fn round(self, a: Self::F32) -> Self::F32;
    /// 2^n for whole `n` from -126 to 127.
    fn power_of_two(self, n: Self::F32) -> Self::F32;
    /// The lanes folded by halves, as `arithmetic::fold`.
    fn fold(self, a: Self::F32) -> f32;
    /// The fold of each of sixteen.
    fn fold_each(self, a: &[Self::F32; LANES]) -> Self::F32;
    /// The largest of all lanes, none of which may be not a number.
    fn largest(self, a: Self::F32) -> f32;
    /// The largest of all lanes, none of which may have a sign; NaN where one is.
    fn largest_magnitude(self, a: Self::F32) -> f32;

    /// The same of each of sixteen.
    #[inline(always)]
    fn largest_magnitude_each(self, a: &[Self::F32; LANES]) -> Self::F32 {
        self.load(&a.map(|a| self.largest_magnitude(a)))
    }

    /// Sixteen half-precision numbers (bits).
    fn load_half(self, x: &[u16; LANES]) -> Self::F32;
    /// Rounded to half precision, nearest even.
    fn store_half(self, x: Self::F32, out: &mut [u16; LANES]);
    /// 2^(e - 128) of sixteen bytes, the smallest two of which are no normal numbers.
    fn load_exponents(self, e: &[u8; LANES]) -> Self::F32;
    /// One half-precision number.
    fn half(self, x: u16) -> f32;
    /// Sixteen signed bytes.
    fn load_i8(self, x: &[i8; LANES]) -> Self::F32;
    /// The nearest whole numbers, which are -127 to 127, as bytes, the even one of two; 0 where not a number.
    fn store_i8(self, x: Self::F32, out: &mut [i8; LANES]);

    /// The sums of each sixteen bytes.
    #[inline(always)]
    fn sums_of_sixteen(self, x: &[i8; SUPER_BLOCK]) -> [i32; LANES] {
        let mut vectors = [self.splat(0.0); LANES];
        for (vector, x) in vectors.iter_mut().zip(x.as_chunks().0) {
            *vector = self.load_i8(x);
        }
        // Exact in f32.
        let mut sums = [0.0; LANES];
        self.store(self.fold_each(&vectors), &mut sums);
        sums.map(|sum| sum as i32)
    }

    /// The sum of the bytes' magnitudes.
    #[inline(always)]
    fn sum_of_magnitudes(self, x: &[i8; SUPER_BLOCK]) -> i32 {
        x.iter().map(|x| i32::from(x.unsigned_abs())).sum()
    }

    /// All lanes the same.
    fn to_i32(self, x: i32) -> Self::I32;
    /// All lanes from memory.
    fn load_i32(self, x: &[i32; LANES]) -> Self::I32;
    /// All lanes from signed bytes.
    fn load_bytes(self, x: &[i8; LANES]) -> Self::I32;
    /// The halves of all lanes from signed bytes.
    fn load_byte_pairs(self, x: &[i8; 2 * LANES]) -> Self::I32;
    /// All lanes to memory.
    fn store_i32(self, x: Self::I32, out: &mut [i32; LANES]);
    /// Each byte less a number.
    fn sub_bytes(self, x: Self::I32, number: u8) -> Self::I32;
    /// Each lane's bits moved down.
    fn shift_right<const N: u32>(self, x: Self::I32) -> Self::I32;
    /// Each lane's bits moved up.
    fn shift_left<const N: u32>(self, x: Self::I32) -> Self::I32;
    /// The bits of a mask in each byte.
    fn and_bytes(self, x: Self::I32, mask: u8) -> Self::I32;
    /// The high four bits of each byte.
    #[inline(always)]
    fn high_nibbles(self, x: Self::I32) -> Self::I32 {
        self.and_bytes(self.shift_right::<4>(x), 0x0f)
    }
    /// For each byte, which must be 0 to 15, what a table has in that place.
    fn look_up(self, table: &[i8; LANES], places: Self::I32) -> Self::I32;
    /// The bits of both.
    fn or(self, a: Self::I32, b: Self::I32) -> Self::I32;
    /// a · b + c, which must not overflow.
    fn mul_add_i32(self, a: Self::I32, b: Self::I32, c: Self::I32) -> Self::I32;
    /// Adds the products of each lane's two signed halves with the same two packed halves.
    fn dot2(self, acc: Self::I32, pairs: Self::I32, x: i32) -> Self::I32;
    /// Adds each lane's four weights (0 to 127) times the same four packed activations (-127 to 127).
    fn dot4_unsigned(self, acc: Self::I32, weights: Self::I32, activations: i32) -> Self::I32;

    /// Sixteen f32 of sixteen i32.
    fn to_f32(self, x: Self::I32) -> Self::F32;
    /// Sixteen packed quadruples of weights (any i8).
    fn weights(self, x: Self::I32) -> Self::Weights;
    /// The quadruples as they were.
    fn plain(self, weights: Self::Weights) -> Self::I32;
    /// Where [`Simd::dot4`] starts, given the sum of all the activations that will follow.
    fn dot_start(self, activation_sum: i32) -> Self::I32;
    /// Adds each lane's four weights times the same four packed activations (-127 to 127).
    fn dot4(self, acc: Self::I32, weights: Self::Weights, activations: i32) -> Self::I32;
    /// Sixteen rows of sixteen words become columns.
    fn transpose(self, rows: [&[i32; LANES]; LANES], out: &mut [[i32; LANES]; LANES]);
}
