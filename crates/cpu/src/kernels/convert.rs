//! Between f32 and what is stored: half precision and int8 blocks, for the KV cache and float weights.

use gleed_model::arithmetic::{BLOCK, LANES, quantize};
use half::f16;

use super::quantize::block;
use super::simd::{Kernel, Simd};

/// Half precision (bits) to f32.
#[derive(Debug)]
pub struct FromHalf<'a> {
    /// The halves.
    pub x: &'a [u16],
    /// A value for each.
    pub out: &'a mut [f32],
}

impl Kernel for FromHalf<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        assert_eq!(self.x.len(), self.out.len());
        let ((xs, x_rest), (outs, out_rest)) = (self.x.as_chunks(), self.out.as_chunks_mut());
        for (x, out) in xs.iter().zip(outs) {
            s.store(s.load_half(x), out);
        }
        for (x, out) in x_rest.iter().zip(out_rest) {
            *out = s.half(*x);
        }
    }
}

/// F32 to half precision (bits), rounded to nearest even.
#[derive(Debug)]
pub struct ToHalf<'a> {
    /// The values.
    pub x: &'a [f32],
    /// A half for each.
    pub out: &'a mut [u16],
}

impl Kernel for ToHalf<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        assert_eq!(self.x.len(), self.out.len());
        let ((xs, x_rest), (outs, out_rest)) = (self.x.as_chunks(), self.out.as_chunks_mut());
        for (x, out) in xs.iter().zip(outs) {
            s.store_half(s.load(x), out);
        }
        let mut lanes = [0; LANES];
        s.store_half(s.load_partial(x_rest), &mut lanes);
        out_rest.copy_from_slice(&lanes[..x_rest.len()]);
    }
}

/// Upper halves of f32 (bits) to f32.
#[derive(Debug)]
pub struct FromBf16<'a> {
    /// The upper halves.
    pub x: &'a [u16],
    /// A value for each.
    pub out: &'a mut [f32],
}

impl Kernel for FromBf16<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        assert_eq!(self.x.len(), self.out.len());
        for (x, out) in self.x.iter().zip(self.out) {
            *out = f32::from_bits(u32::from(*x) << 16);
        }
    }
}

/// F32 to blocks of int8 with one half-precision scale each (the last block may be shorter).
#[derive(Debug)]
pub struct ToBlocks<'a> {
    /// The values.
    pub x: &'a [f32],
    /// An integer for each.
    pub q: &'a mut [i8],
    /// One scale per 32 values.
    pub scales: &'a mut [u16],
}

impl Kernel for ToBlocks<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ToBlocks { x, q, scales } = self;
        assert!(q.len() == x.len() && scales.len() == x.len().div_ceil(BLOCK));
        let ((xs, x_rest), (qs, q_rest)) = (x.as_chunks::<BLOCK>(), q.as_chunks_mut());
        for ((x, q), scale) in xs.iter().zip(qs).zip(scales.iter_mut()) {
            *scale = f16::from_f32(block(s, x, q)).to_bits();
        }
        if let (false, Some(scale)) = (x_rest.is_empty(), scales.last_mut()) {
            *scale = f16::from_f32(quantize(x_rest, q_rest)).to_bits();
        }
    }
}
