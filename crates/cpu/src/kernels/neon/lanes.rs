//! What a few registers of NEON are turned into. The dot product of bytes is written as the instruction that it is,
//! for which the compiler has no stable function yet.

use std::arch::aarch64::*;
use std::arch::asm;

use gleed_model::arithmetic::{LANES, SUPER_BLOCK};

use super::{Quad, QuadI32};

/// A register, which in memory is an array.
pub(super) trait Register: Copy {
    /// The array.
    type Array;

    /// From memory.
    fn load(x: &Self::Array) -> Self;
    /// To memory.
    fn store(self, out: &mut Self::Array);
}

macro_rules! registers {
    ($($register:ty = [$number:ty; $count:literal]),* $(,)?) => {$(
        impl Register for $register {
            type Array = [$number; $count];

            #[inline(always)]
            fn load(x: &[$number; $count]) -> $register {
                // SAFETY: numbers in the same order and in as many bytes.
                unsafe { std::mem::transmute::<[$number; $count], $register>(*x) }
            }

            #[inline(always)]
            fn store(self, out: &mut [$number; $count]) {
                // SAFETY: as above.
                *out = unsafe { std::mem::transmute::<$register, [$number; $count]>(self) };
            }
        }
    )*};
}

registers! {
    float32x4_t = [f32; 4],
    int32x4_t = [i32; 4],
    int16x8_t = [i16; 8],
    int8x16_t = [i8; 16],
    int8x8_t = [i8; 8],
    uint16x4_t = [u16; 4],
}

/// Four registers from memory.
#[inline(always)]
pub(super) fn load_four<R: Register<Array = [T; N]>, T, const N: usize>(x: &[T]) -> [R; 4] {
    let [a, b, c, d] = x.as_chunks::<N>().0 else { unreachable!("four registers fill the lanes") };
    [R::load(a), R::load(b), R::load(c), R::load(d)]
}

/// Four registers to memory.
#[inline(always)]
pub(super) fn store_four<R: Register<Array = [T; N]>, T, const N: usize>(x: [R; 4], out: &mut [T]) {
    let [a, b, c, d] = out.as_chunks_mut::<N>().0 else { unreachable!("four registers fill the lanes") };
    x[0].store(a);
    x[1].store(b);
    x[2].store(c);
    x[3].store(d);
}

/// Each word's four bytes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn bytes(x: int32x4_t) -> int8x16_t {
    vreinterpretq_s8_s32(x)
}

/// Words of four bytes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn words(x: int8x16_t) -> int32x4_t {
    vreinterpretq_s32_s8(x)
}

/// Adds the dot product of each word's four bytes with word `WORD` of the others.
#[inline]
#[target_feature(enable = "neon,dotprod")]
pub(super) fn sdot<const WORD: u32>(mut acc: int32x4_t, a: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: an instruction that this function is compiled for, from register to register.
    unsafe {
        asm!(
            "sdot {acc:v}.4s, {a:v}.16b, {x:v}.4b[{word}]",
            acc = inout(vreg) acc,
            a = in(vreg) a,
            x = in(vreg) x,
            word = const WORD,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    acc
}

/// Each lane's bits moved up, or down by a negative number.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn shift(x: int32x4_t, by: i32) -> int32x4_t {
    vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x), vdupq_n_s32(by)))
}

/// Half precision (bits) to f32.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn from_half(x: uint16x4_t) -> float32x4_t {
    vcvt_f32_f16(vreinterpret_f16_u16(x))
}

/// F32 to half precision (bits), rounded to nearest even.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn to_half(x: float32x4_t) -> uint16x4_t {
    vreinterpret_u16_f16(vcvt_f16_f32(x))
}

/// Sixteen bytes to lanes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn widen(x: int8x16_t) -> QuadI32 {
    let (low, high) = (vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x));
    [vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)]
}

/// The low bytes of sixteen lanes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn narrow(x: QuadI32) -> int8x16_t {
    let pair = |a, b| vreinterpretq_s8_s16(vuzp1q_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b)));
    vuzp1q_s8(pair(x[0], x[1]), pair(x[2], x[3]))
}

/// The folds of four.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn fold_four(a: &[Quad; 4]) -> float32x4_t {
    let four = |a: &Quad| vreinterpretq_f64_f32(vaddq_f32(vaddq_f32(a[0], a[2]), vaddq_f32(a[1], a[3])));
    // Two partial sums of each of two.
    let two = |a: &Quad, b: &Quad| {
        let (a, b) = (four(a), four(b));
        let (low, high) = (vzip1q_f64(a, b), vzip2q_f64(a, b));
        vaddq_f32(vreinterpretq_f32_f64(low), vreinterpretq_f32_f64(high))
    };
    vpaddq_f32(two(&a[0], &a[1]), two(&a[2], &a[3]))
}

#[inline]
#[target_feature(enable = "neon,dotprod")]
pub(super) fn sums_of_sixteen(x: &[i8; SUPER_BLOCK]) -> [i32; LANES] {
    let (zero, ones) = (vdupq_n_s32(0), vdupq_n_s8(1));
    let mut out = [0; LANES];
    for (x, out) in x.as_chunks::<{ 4 * LANES }>().0.iter().zip(out.as_chunks_mut().0) {
        let [a, b, c, d] = load_four(x);
        // Sums of four bytes, then of eight, then of sixteen.
        let low = vpaddq_s32(sdot::<0>(zero, a, ones), sdot::<0>(zero, b, ones));
        let high = vpaddq_s32(sdot::<0>(zero, c, ones), sdot::<0>(zero, d, ones));
        vpaddq_s32(low, high).store(out);
    }
    out
}

#[inline]
#[target_feature(enable = "neon")]
pub(super) fn sum_of_magnitudes(x: &[i8; SUPER_BLOCK]) -> i32 {
    let mut sums = vdupq_n_u16(0);
    for x in x.as_chunks().0 {
        // Each adds at most 256.
        sums = vpadalq_u8(sums, vreinterpretq_u8_s8(vabsq_s8(int8x16_t::load(x))));
    }
    vaddlvq_u16(sums) as i32
}

/// Adds the products of each lane's two signed halves with the same two.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn dot2(acc: QuadI32, pairs: QuadI32, x: i32) -> QuadI32 {
    let x = vreinterpretq_s16_s32(vdupq_n_s32(x));
    // The first halves of eight lanes, and the second.
    let split = |a, b| {
        let (a, b) = (vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b));
        (vuzp1q_s16(a, b), vuzp2q_s16(a, b))
    };
    let add = |low, high, (first, second)| {
        let low = vmlal_laneq_s16::<0>(low, vget_low_s16(first), x);
        let high = vmlal_high_laneq_s16::<0>(high, first, x);
        [vmlal_laneq_s16::<1>(low, vget_low_s16(second), x), vmlal_high_laneq_s16::<1>(high, second, x)]
    };
    let [a, b] = add(acc[0], acc[1], split(pairs[0], pairs[1]));
    let [c, d] = add(acc[2], acc[3], split(pairs[2], pairs[3]));
    [a, b, c, d]
}

#[inline]
#[target_feature(enable = "neon")]
pub(super) fn transpose(rows: [&[i32; LANES]; LANES], out: &mut [[i32; LANES]; LANES]) {
    // Sixteen blocks of four by four words.
    for (r, c) in (0..4).flat_map(|r| (0..4).map(move |c| (r, c))) {
        let load = |row: usize| int32x4_t::load(&rows[4 * r + row].as_chunks().0[c]);
        let pairs = |a, b| {
            let (even, odd) = (vtrn1q_s32(a, b), vtrn2q_s32(a, b));
            (vreinterpretq_s64_s32(even), vreinterpretq_s64_s32(odd))
        };
        let ((even, odd), (next_even, next_odd)) = (pairs(load(0), load(1)), pairs(load(2), load(3)));
        let columns = [
            vtrn1q_s64(even, next_even),
            vtrn1q_s64(odd, next_odd),
            vtrn2q_s64(even, next_even),
            vtrn2q_s64(odd, next_odd),
        ];
        for (i, column) in columns.into_iter().enumerate() {
            vreinterpretq_s32_s64(column).store(&mut out[4 * c + i].as_chunks_mut().0[r]);
        }
    }
}
