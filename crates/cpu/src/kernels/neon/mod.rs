//! The vector unit on 64-bit ARM: sixteen lanes are four registers of NEON, four-byte dot products an
//! instruction for each. Many rows are the subject of [`blocks`].

mod blocks;
mod lanes;
mod layout;
mod products;

use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

use gleed_model::arithmetic::{LANES, SUPER_BLOCK};

pub use self::blocks::{FEWEST_ROWS_OF_DOTS, FEWEST_ROWS_OF_MATRICES, SCRATCH_LINES, multiply};
use self::lanes::{
    Register, bytes, dot2, fold_four, from_half, load_four, narrow, sdot, shift, store_four,
    sum_of_magnitudes, sums_of_sixteen, to_half, transpose, widen, words,
};
pub use self::products::{MATRIX_ROUND, Matrices};
use super::simd::{Kernel, Simd};

/// Proof that this machine has NEON and its dot products of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Neon(());

impl Neon {
    /// The proof, where the machine has it.
    pub fn detect() -> Option<Neon> {
        let there = is_aarch64_feature_detected!("neon") && is_aarch64_feature_detected!("dotprod");
        there.then_some(Neon(()))
    }
}

/// Runs instructions that a `Neon` value proves to exist.
macro_rules! proven {
    ($($body:tt)*) => {{
        // SAFETY: a value of `Neon` exists only where `detect` found every feature used here; memory is reached
        // by references alone.
        unsafe { $($body)* }
    }};
}

/// Sixteen f32.
type Quad = [float32x4_t; 4];
/// Sixteen i32.
type QuadI32 = [int32x4_t; 4];

#[inline(never)]
#[target_feature(enable = "neon,dotprod")]
fn vectorized<K: Kernel>(simd: Neon, kernel: K) -> K::Output {
    kernel.run(simd)
}

/// The same operation on all four registers.
macro_rules! each {
    ($op:ident, $($x:ident),+) => {
        proven!([$op($($x[0]),+), $op($($x[1]),+), $op($($x[2]),+), $op($($x[3]),+)])
    };
}

impl Simd for Neon {
    type F32 = Quad;
    type I32 = QuadI32;
    type Weights = QuadI32;

    // 32 registers, but each a quarter as wide as the lanes.
    const WIDE: bool = false;
    const SEVERAL: bool = true;
    const IN_TURN: bool = true;

    #[inline(always)]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        proven!(vectorized(self, kernel))
    }

    #[inline(always)]
    fn prefetch<T>(self, value: &T) {
        proven!(asm!(
            "prfm pldl1keep, [{value}]",
            value = in(reg) std::ptr::from_ref(value),
            options(readonly, nostack, preserves_flags),
        ))
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Quad {
        proven!([vdupq_n_f32(x); 4])
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Quad {
        load_four(x)
    }

    #[inline(always)]
    fn load_partial(self, x: &[f32]) -> Quad {
        let mut lanes = [0.0; LANES];
        lanes[..x.len()].copy_from_slice(x);
        self.load(&lanes)
    }

    #[inline(always)]
    fn store(self, x: Quad, out: &mut [f32; LANES]) {
        store_four(x, out);
    }

    #[inline(always)]
    fn store_partial(self, x: Quad, out: &mut [f32]) {
        let mut lanes = [0.0; LANES];
        self.store(x, &mut lanes);
        out.copy_from_slice(&lanes[..out.len()]);
    }

    #[inline(always)]
    fn add(self, a: Quad, b: Quad) -> Quad {
        each!(vaddq_f32, a, b)
    }

    #[inline(always)]
    fn sub(self, a: Quad, b: Quad) -> Quad {
        each!(vsubq_f32, a, b)
    }

    #[inline(always)]
    fn mul(self, a: Quad, b: Quad) -> Quad {
        each!(vmulq_f32, a, b)
    }

    #[inline(always)]
    fn div(self, a: Quad, b: Quad) -> Quad {
        each!(vdivq_f32, a, b)
    }

    /// The instruction of this name has another opinion of what is not a number.
    #[inline(always)]
    fn max(self, a: Quad, b: Quad) -> Quad {
        let above = each!(vcgtq_f32, a, b);
        each!(vbslq_f32, above, a, b)
    }

    #[inline(always)]
    fn min(self, a: Quad, b: Quad) -> Quad {
        let below = each!(vcltq_f32, a, b);
        each!(vbslq_f32, below, a, b)
    }

    /// Without signs, floats are ordered like their bits, and NaN is above all.
    #[inline(always)]
    fn max_magnitude(self, a: Quad, b: Quad) -> Quad {
        let (a, b) = (each!(vreinterpretq_u32_f32, a), each!(vreinterpretq_u32_f32, b));
        let larger = each!(vmaxq_u32, a, b);
        each!(vreinterpretq_f32_u32, larger)
    }

    #[inline(always)]
    fn abs(self, a: Quad) -> Quad {
        each!(vabsq_f32, a)
    }

    #[inline(always)]
    fn mul_add(self, a: Quad, b: Quad, c: Quad) -> Quad {
        each!(vfmaq_f32, c, a, b)
    }

    #[inline(always)]
    fn mul_sub(self, a: Quad, b: Quad, c: Quad) -> Quad {
        let c = each!(vnegq_f32, c);
        each!(vfmaq_f32, c, a, b)
    }

    #[inline(always)]
    fn mul_add_partial(self, a: &[f32], b: &[f32], c: Quad) -> Quad {
        let mut lanes = [0.0; LANES];
        self.store(c, &mut lanes);
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane = a.mul_add(*b, *lane);
        }
        self.load(&lanes)
    }

    #[inline(always)]
    fn round(self, a: Quad) -> Quad {
        each!(vrndnq_f32, a)
    }

    #[inline(always)]
    fn power_of_two(self, n: Quad) -> Quad {
        let (n, bias) = (each!(vcvtnq_s32_f32, n), self.to_i32(127));
        let biased = each!(vaddq_s32, n, bias);
        let bits = self.shift_left::<23>(biased);
        each!(vreinterpretq_f32_s32, bits)
    }

    #[inline(always)]
    fn fold(self, a: Quad) -> f32 {
        proven!({
            let a = vaddq_f32(vaddq_f32(a[0], a[2]), vaddq_f32(a[1], a[3]));
            vpadds_f32(vadd_f32(vget_low_f32(a), vget_high_f32(a)))
        })
    }

    #[inline(always)]
    fn fold_each(self, a: &[Quad; LANES]) -> Quad {
        let [a, b, c, d] = a.as_chunks().0 else { unreachable!("sixteen are four times four") };
        proven!([fold_four(a), fold_four(b), fold_four(c), fold_four(d)])
    }

    #[inline(always)]
    fn largest(self, a: Quad) -> f32 {
        proven!(vmaxvq_f32(vmaxq_f32(vmaxq_f32(a[0], a[1]), vmaxq_f32(a[2], a[3]))))
    }

    #[inline(always)]
    fn largest_magnitude(self, a: Quad) -> f32 {
        let a = each!(vreinterpretq_u32_f32, a);
        proven!(f32::from_bits(vmaxvq_u32(vmaxq_u32(vmaxq_u32(a[0], a[1]), vmaxq_u32(a[2], a[3])))))
    }

    #[inline(always)]
    fn load_half(self, x: &[u16; LANES]) -> Quad {
        let halves = load_four(x);
        each!(from_half, halves)
    }

    #[inline(always)]
    fn store_half(self, x: Quad, out: &mut [u16; LANES]) {
        let halves = each!(to_half, x);
        store_four(halves, out);
    }

    /// From 2 on the bits of a normal number, below those of others, which are larger there.
    #[inline(always)]
    fn load_exponents(self, e: &[u8; LANES]) -> Quad {
        let one = self.to_i32(1);
        let e = proven!(widen(int8x16_t::load(&e.map(|e| e as i8))));
        // The bytes have no sign.
        let e = self.and(e, self.to_i32(0xff));
        let (normal, other) = (each!(vsubq_s32, e, one), each!(vaddq_s32, e, one));
        let (normal, other) = (self.shift_left::<23>(normal), self.shift_left::<21>(other));
        let bits = each!(vmaxq_s32, normal, other);
        each!(vreinterpretq_f32_s32, bits)
    }

    #[inline(always)]
    fn half(self, x: u16) -> f32 {
        proven!(vgetq_lane_f32::<0>(from_half(vdup_n_u16(x))))
    }

    #[inline(always)]
    fn load_i8(self, x: &[i8; LANES]) -> Quad {
        self.to_f32(self.load_bytes(x))
    }

    #[inline(always)]
    fn store_i8(self, x: Quad, out: &mut [i8; LANES]) {
        let whole = each!(vcvtnq_s32_f32, x);
        proven!(narrow(whole)).store(out);
    }

    #[inline(always)]
    fn sums_of_sixteen(self, x: &[i8; SUPER_BLOCK]) -> [i32; LANES] {
        proven!(sums_of_sixteen(x))
    }

    #[inline(always)]
    fn sum_of_magnitudes(self, x: &[i8; SUPER_BLOCK]) -> i32 {
        proven!(sum_of_magnitudes(x))
    }

    #[inline(always)]
    fn to_i32(self, x: i32) -> QuadI32 {
        proven!([vdupq_n_s32(x); 4])
    }

    #[inline(always)]
    fn load_i32(self, x: &[i32; LANES]) -> QuadI32 {
        load_four(x)
    }

    #[inline(always)]
    fn load_bytes(self, x: &[i8; LANES]) -> QuadI32 {
        proven!(widen(int8x16_t::load(x)))
    }

    #[inline(always)]
    fn load_byte_pairs(self, x: &[i8; 2 * LANES]) -> QuadI32 {
        let bytes: [int8x8_t; 4] = load_four(x);
        let halves = each!(vmovl_s8, bytes);
        each!(vreinterpretq_s32_s16, halves)
    }

    #[inline(always)]
    fn store_i32(self, x: QuadI32, out: &mut [i32; LANES]) {
        store_four(x, out);
    }

    #[inline(always)]
    fn sub_bytes(self, x: QuadI32, number: u8) -> QuadI32 {
        let (x, number) = (each!(bytes, x), [proven!(vdupq_n_s8(number as i8)); 4]);
        let x = each!(vsubq_s8, x, number);
        each!(words, x)
    }

    #[inline(always)]
    fn shift_right<const N: u32>(self, x: QuadI32) -> QuadI32 {
        let by = [-(N as i32); 4];
        each!(shift, x, by)
    }

    #[inline(always)]
    fn shift_left<const N: u32>(self, x: QuadI32) -> QuadI32 {
        let by = [N as i32; 4];
        each!(shift, x, by)
    }

    #[inline(always)]
    fn and_bytes(self, x: QuadI32, mask: u8) -> QuadI32 {
        self.and(x, self.to_i32(i32::from_ne_bytes([mask; 4])))
    }

    #[inline(always)]
    fn high_nibbles(self, x: QuadI32) -> QuadI32 {
        let x = each!(vreinterpretq_u8_s32, x);
        let x = proven!([
            vshrq_n_u8::<4>(x[0]),
            vshrq_n_u8::<4>(x[1]),
            vshrq_n_u8::<4>(x[2]),
            vshrq_n_u8::<4>(x[3])
        ]);
        each!(vreinterpretq_s32_u8, x)
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; LANES], places: QuadI32) -> QuadI32 {
        let (table, places) = ([int8x16_t::load(table); 4], each!(vreinterpretq_u8_s32, places));
        let found = each!(vqtbl1q_s8, table, places);
        each!(words, found)
    }

    #[inline(always)]
    fn or(self, a: QuadI32, b: QuadI32) -> QuadI32 {
        each!(vorrq_s32, a, b)
    }

    #[inline(always)]
    fn mul_add_i32(self, a: QuadI32, b: QuadI32, c: QuadI32) -> QuadI32 {
        each!(vmlaq_s32, c, a, b)
    }

    #[inline(always)]
    fn dot2(self, acc: QuadI32, pairs: QuadI32, x: i32) -> QuadI32 {
        proven!(dot2(acc, pairs, x))
    }

    /// What has no sign and seven bits may as well have one.
    #[inline(always)]
    fn dot4_unsigned(self, acc: QuadI32, weights: QuadI32, activations: i32) -> QuadI32 {
        self.dot4(acc, weights, activations)
    }

    #[inline(always)]
    fn to_f32(self, x: QuadI32) -> Quad {
        each!(vcvtq_f32_s32, x)
    }

    #[inline(always)]
    fn weights(self, x: QuadI32) -> QuadI32 {
        x
    }

    #[inline(always)]
    fn plain(self, weights: QuadI32) -> QuadI32 {
        weights
    }

    #[inline(always)]
    fn dot_start(self, _activation_sum: i32) -> QuadI32 {
        self.to_i32(0)
    }

    #[inline(always)]
    fn dot4(self, acc: QuadI32, weights: QuadI32, activations: i32) -> QuadI32 {
        let (weights, x) = (each!(bytes, weights), proven!(bytes(vdupq_n_s32(activations))));
        proven!([
            sdot::<0>(acc[0], weights[0], x),
            sdot::<0>(acc[1], weights[1], x),
            sdot::<0>(acc[2], weights[2], x),
            sdot::<0>(acc[3], weights[3], x),
        ])
    }

    #[inline(always)]
    fn transpose(self, rows: [&[i32; LANES]; LANES], out: &mut [[i32; LANES]; LANES]) {
        proven!(transpose(rows, out))
    }
}

impl Neon {
    #[inline(always)]
    fn and(self, a: QuadI32, b: QuadI32) -> QuadI32 {
        each!(vandq_s32, a, b)
    }
}
