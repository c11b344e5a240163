//! Chains of fused multiply-adds, several side by side in registers: some queries, each with a number for
//! every step, times some vectors at every step. Each chain is one order of operations, whatever runs
//! beside it.

use gleed_model::arithmetic::LANES;

use super::simd::Simd;

/// A number that keys, values or weights are stored as.
pub trait Stored: Copy {
    /// Sixteen of them.
    fn load<S: Simd>(s: S, x: &[Self; LANES]) -> S::F32;
    /// One of them.
    fn one<S: Simd>(s: S, x: Self) -> f32;
}

impl Stored for f32 {
    #[inline(always)]
    fn load<S: Simd>(s: S, x: &[f32; LANES]) -> S::F32 {
        s.load(x)
    }

    #[inline(always)]
    fn one<S: Simd>(_: S, x: f32) -> f32 {
        x
    }
}

/// Half precision.
impl Stored for u16 {
    #[inline(always)]
    fn load<S: Simd>(s: S, x: &[u16; LANES]) -> S::F32 {
        s.load_half(x)
    }

    #[inline(always)]
    fn one<S: Simd>(s: S, x: u16) -> f32 {
        s.half(x)
    }
}

/// The upper half of an f32.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Bf16(pub u16);

// SAFETY: an integer; all bit patterns, zeros among them, are valid.
unsafe impl bytemuck::Zeroable for Bf16 {}
// SAFETY: as above, without padding, and the type is `Copy` and `repr(transparent)`.
unsafe impl bytemuck::Pod for Bf16 {}

impl Stored for Bf16 {
    #[inline(always)]
    fn load<S: Simd>(s: S, x: &[Bf16; LANES]) -> S::F32 {
        s.load(&x.map(|x| Bf16::one(s, x)))
    }

    #[inline(always)]
    fn one<S: Simd>(_: S, x: Bf16) -> f32 {
        f32::from_bits(u32::from(x.0) << 16)
    }
}

/// Not yet scaled.
impl Stored for i8 {
    #[inline(always)]
    fn load<S: Simd>(s: S, x: &[i8; LANES]) -> S::F32 {
        s.load_i8(x)
    }

    #[inline(always)]
    fn one<S: Simd>(_: S, x: i8) -> f32 {
        f32::from(x)
    }
}

/// What chains run over: `N` vectors at each step.
pub trait Steps<S: Simd, const N: usize>: Copy {
    /// The vectors of one step.
    fn step(self, s: S, k: usize) -> [S::F32; N];
}

/// What chains multiply with: one number for each of `Q` queries at each step.
pub trait Factors<const Q: usize>: Copy {
    /// A query's number at a step.
    fn at(self, q: usize, k: usize) -> f32;
}

/// Queries side by side.
impl<const Q: usize> Factors<Q> for &[[f32; Q]] {
    #[inline(always)]
    fn at(self, q: usize, k: usize) -> f32 {
        self[k][q]
    }
}

/// Memory that will be needed soon, asked for while chains run: in several places in turn, since memory gives more to
/// several streams than to one.
#[derive(Debug, Clone, Copy)]
pub struct Ahead<'a> {
    bytes: &'a [u8],
    /// Cache lines for each step of a chain.
    lines: usize,
    /// Bytes from stream to stream.
    stream: usize,
    /// Steps that are done already.
    done: usize,
}

impl<'a> Ahead<'a> {
    /// All of it within `steps` steps.
    #[inline(always)]
    pub fn new(bytes: &'a [u8], steps: usize) -> Ahead<'a> {
        let stream = bytes.len().div_ceil(STREAMS).next_multiple_of(LINE);
        Ahead { bytes, lines: (STREAMS * stream / LINE).div_ceil(steps.max(1)), stream, done: 0 }
    }

    /// What is left after `steps` more steps.
    #[inline(always)]
    pub fn after(self, steps: usize) -> Ahead<'a> {
        Ahead { done: self.done + steps, ..self }
    }

    /// Asks for what is due at a step.
    #[inline(always)]
    pub fn step<S: Simd>(self, s: S, k: usize) {
        let first = (self.done + k) * self.lines;
        for line in first..first + self.lines {
            if let Some(byte) = self.bytes.get(line % STREAMS * self.stream + line / STREAMS * LINE) {
                s.prefetch(byte);
            }
        }
    }
}

/// Places in which memory is read in turn: the pages of 4 KiB that a page of 64 keys of 128 dimensions has in f16.
const STREAMS: usize = 4;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Runs `Q` times `N` chains of `count` steps:
/// `acc = fma(factor of the query at step k, vector of step k, acc)`.
#[inline(always)]
pub fn chain<S: Simd, const Q: usize, const N: usize>(
    s: S,
    factors: impl Factors<Q>,
    steps: impl Steps<S, N>,
    count: usize,
    ahead: Ahead,
    mut acc: [[S::F32; N]; Q],
) -> [[S::F32; N]; Q] {
    for k in 0..count {
        ahead.step(s, k);
        let vectors = steps.step(s, k);
        for (q, acc) in acc.iter_mut().enumerate() {
            let factor = s.splat(factors.at(q, k));
            for (acc, vector) in acc.iter_mut().zip(&vectors) {
                *acc = s.mul_add(factor, *vector, *acc);
            }
        }
    }
    acc
}

/// Vectors that lie beside each other where many chains run over them.
pub const BESIDE: usize = 4;

/// The same over the first `N` of vectors that lie beside each other, times the first `Q` of `W` factors, so that there
/// is nothing to check or to reckon in the loop: four instructions a cycle are few for two multiply-adds.
#[inline(always)]
pub fn chain_beside<S: Simd, const Q: usize, const N: usize, const W: usize>(
    s: S,
    steps: &[[[f32; LANES]; BESIDE]],
    factors: &[[f32; W]],
    mut acc: [[S::F32; N]; Q],
) -> [[S::F32; N]; Q] {
    for (step, factors) in steps.iter().zip(factors) {
        let mut vectors = [s.splat(0.0); N];
        for n in 0..N {
            vectors[n] = s.load(&step[n]);
        }
        for q in 0..Q {
            let factor = s.splat(factors[q]);
            for n in 0..N {
                acc[q][n] = s.mul_add(factor, vectors[n], acc[q][n]);
            }
        }
    }
    acc
}

/// How many vectors the chains of `queries` queries take at once, so that all fit the registers.
#[inline(always)]
pub const fn widest<S: Simd>(queries: usize) -> usize {
    match (S::WIDE, queries) {
        _ if !S::SEVERAL => 1,
        (true, ..=3) => 8,
        (true, _) => 4,
        (false, 1) => 4,
        (false, ..=3) => 2,
        (false, _) => 1,
    }
}
