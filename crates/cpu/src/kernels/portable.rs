//! The vector unit in plain Rust: arrays and loops, for every machine.
//!
//! Where 64-bit x86 in general has no instruction for what others have one (a fused multiply-add, rounding, halves), every
//! lane is a call of a function. Such operations are functions of their own there: sixteen calls at each place of each
//! kernel were more code than all other instruction sets together.

use gleed_model::arithmetic::{LANES, fold};
use gleed_model::kernels::with_fused_multiply_add;
use half::f16;

use super::simd::{Kernel, Simd};

/// Plain Rust.
#[derive(Debug, Clone, Copy)]
pub struct Portable;

#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> [f32; LANES] {
    std::array::from_fn(f)
}

impl Simd for Portable {
    type F32 = [f32; LANES];
    type I32 = [i32; LANES];
    type Weights = [[i8; 4]; LANES];

    const WIDE: bool = false;
    // Every 64-bit x86 of the last ten years has better, and need not be as long in the making.
    const SEVERAL: bool = cfg!(not(target_arch = "x86_64"));
    const IN_TURN: bool = false;

    #[inline(never)]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn prefetch<T>(self, _value: &T) {}

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F32 {
        [x; LANES]
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::F32 {
        *x
    }

    #[inline(always)]
    fn load_partial(self, x: &[f32]) -> Self::F32 {
        let mut lanes = [0.0; LANES];
        lanes[..x.len()].copy_from_slice(x);
        lanes
    }

    #[inline(always)]
    fn store(self, x: Self::F32, out: &mut [f32; LANES]) {
        *out = x;
    }

    #[inline(always)]
    fn store_partial(self, x: Self::F32, out: &mut [f32]) {
        out.copy_from_slice(&x[..out.len()]);
    }

    #[inline(always)]
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32 {
        each(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn sub(self, a: Self::F32, b: Self::F32) -> Self::F32 {
        each(|i| a[i] - b[i])
    }

    #[inline(always)]
    fn mul(self, a: Self::F32, b: Self::F32) -> Self::F32 {
        each(|i| a[i] * b[i])
    }

    #[inline(always)]
    fn div(self, a: Self::F32, b: Self::F32) -> Self::F32 {
        each(|i| a[i] / b[i])
    }

    #[inline(always)]
    fn max(self, a: Self::F32, b: Self::F32) -> Self::F32 {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn min(self, a: Self::F32, b: Self::F32) -> Self::F32 {
        each(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn max_magnitude(self, a: Self::F32, b: Self::F32) -> Self::F32 {
        each(|i| f32::from_bits(a[i].to_bits().max(b[i].to_bits())))
    }

    #[inline(always)]
    fn abs(self, a: Self::F32) -> Self::F32 {
        a.map(f32::abs)
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn mul_add(self, a: Self::F32, b: Self::F32, mut c: Self::F32) -> Self::F32 {
        with_fused_multiply_add(
            #[inline(always)]
            || {
                for i in 0..LANES {
                    c[i] = a[i].mul_add(b[i], c[i]);
                }
                c
            },
        )
    }

    #[inline(always)]
    fn mul_sub(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 {
        self.mul_add(a, b, c.map(|c| -c))
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn mul_add_partial(self, a: &[f32], b: &[f32], mut c: Self::F32) -> Self::F32 {
        with_fused_multiply_add(
            #[inline(always)]
            || {
                for (c, (a, b)) in c.iter_mut().zip(a.iter().zip(b)) {
                    *c = a.mul_add(*b, *c);
                }
                c
            },
        )
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn round(self, a: Self::F32) -> Self::F32 {
        a.map(f32::round_ties_even)
    }

    #[inline(always)]
    fn power_of_two(self, n: Self::F32) -> Self::F32 {
        n.map(|n| f32::from_bits(((n as i32 + 127) as u32) << 23))
    }

    #[inline(always)]
    fn fold(self, a: Self::F32) -> f32 {
        fold(a)
    }

    #[inline(always)]
    fn fold_each(self, a: &[Self::F32; LANES]) -> Self::F32 {
        a.map(fold)
    }

    #[inline(always)]
    fn largest(self, a: Self::F32) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }

    #[inline(always)]
    fn largest_magnitude(self, a: Self::F32) -> f32 {
        f32::from_bits(a.into_iter().fold(0, |largest, x| largest.max(x.to_bits())))
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn load_half(self, x: &[u16; LANES]) -> Self::F32 {
        x.map(|x| f16::from_bits(x).to_f32())
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn store_half(self, x: Self::F32, out: &mut [u16; LANES]) {
        *out = x.map(|x| f16::from_f32(x).to_bits());
    }

    #[inline(always)]
    fn load_exponents(self, e: &[u8; LANES]) -> Self::F32 {
        e.map(|e| f32::from_bits(((i32::from(e) - 1) << 23).max((i32::from(e) + 1) << 21) as u32))
    }

    #[inline(always)]
    fn half(self, x: u16) -> f32 {
        f16::from_bits(x).to_f32()
    }

    #[inline(always)]
    fn load_i8(self, x: &[i8; LANES]) -> Self::F32 {
        x.map(f32::from)
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn store_i8(self, x: Self::F32, out: &mut [i8; LANES]) {
        *out = x.map(|x| x.round_ties_even() as i8);
    }

    #[inline(always)]
    fn to_i32(self, x: i32) -> Self::I32 {
        [x; LANES]
    }

    #[inline(always)]
    fn load_i32(self, x: &[i32; LANES]) -> Self::I32 {
        *x
    }

    #[inline(always)]
    fn load_bytes(self, x: &[i8; LANES]) -> Self::I32 {
        x.map(i32::from)
    }

    #[inline(always)]
    fn load_byte_pairs(self, x: &[i8; 2 * LANES]) -> Self::I32 {
        std::array::from_fn(|i| join(i16::from(x[2 * i]), i16::from(x[2 * i + 1])))
    }

    #[inline(always)]
    fn store_i32(self, x: Self::I32, out: &mut [i32; LANES]) {
        *out = x;
    }

    #[inline(always)]
    fn sub_bytes(self, x: Self::I32, number: u8) -> Self::I32 {
        x.map(|x| i32::from_ne_bytes(x.to_ne_bytes().map(|byte| byte.wrapping_sub(number))))
    }

    #[inline(always)]
    fn shift_right<const N: u32>(self, x: Self::I32) -> Self::I32 {
        x.map(|x| (x as u32 >> N) as i32)
    }

    #[inline(always)]
    fn shift_left<const N: u32>(self, x: Self::I32) -> Self::I32 {
        x.map(|x| x << N)
    }

    #[inline(always)]
    fn and_bytes(self, x: Self::I32, mask: u8) -> Self::I32 {
        x.map(|x| x & i32::from_ne_bytes([mask; 4]))
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; LANES], places: Self::I32) -> Self::I32 {
        let byte = |place: u8| table[usize::from(place & 15)] as u8;
        places.map(|places| i32::from_ne_bytes(places.to_ne_bytes().map(byte)))
    }

    #[inline(always)]
    fn or(self, mut a: Self::I32, b: Self::I32) -> Self::I32 {
        a.iter_mut().zip(b).for_each(|(a, b)| *a |= b);
        a
    }

    #[inline(always)]
    fn mul_add_i32(self, a: Self::I32, b: Self::I32, c: Self::I32) -> Self::I32 {
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }

    #[inline(always)]
    fn dot2(self, mut acc: Self::I32, pairs: Self::I32, x: i32) -> Self::I32 {
        let ([low, high], product) = (split(x), |a: i16, b: i16| i32::from(a) * i32::from(b));
        for (acc, pair) in acc.iter_mut().zip(pairs) {
            let [a, b] = split(pair);
            *acc += product(a, low) + product(b, high);
        }
        acc
    }

    #[inline(always)]
    fn dot4_unsigned(self, acc: Self::I32, weights: Self::I32, activations: i32) -> Self::I32 {
        self.dot4(acc, self.weights(weights), activations)
    }

    #[inline(always)]
    fn to_f32(self, x: Self::I32) -> Self::F32 {
        x.map(|x| x as f32)
    }

    #[inline(always)]
    fn weights(self, x: Self::I32) -> Self::Weights {
        x.map(|x| x.to_ne_bytes().map(|b| b as i8))
    }

    #[inline(always)]
    fn plain(self, weights: Self::Weights) -> Self::I32 {
        weights.map(|w| i32::from_ne_bytes(w.map(|b| b as u8)))
    }

    #[inline(always)]
    fn dot_start(self, _activation_sum: i32) -> Self::I32 {
        [0; LANES]
    }

    #[inline(always)]
    fn dot4(self, mut acc: Self::I32, weights: Self::Weights, activations: i32) -> Self::I32 {
        let x = activations.to_ne_bytes().map(|b| i32::from(b as i8));
        for (acc, w) in acc.iter_mut().zip(weights) {
            for i in 0..4 {
                *acc += i32::from(w[i]) * x[i];
            }
        }
        acc
    }

    #[inline(always)]
    fn transpose(self, rows: [&[i32; LANES]; LANES], out: &mut [[i32; LANES]; LANES]) {
        for (c, column) in out.iter_mut().enumerate() {
            *column = std::array::from_fn(|r| rows[r][c]);
        }
    }
}

/// The halves of a lane, the low one first.
#[inline(always)]
fn split(lane: i32) -> [i16; 2] {
    [lane as i16, (lane >> 16) as i16]
}

/// A lane of two halves.
#[inline(always)]
fn join(low: i16, high: i16) -> i32 {
    i32::from(low) & 0xffff | i32::from(high) << 16
}
