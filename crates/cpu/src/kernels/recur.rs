//! One row of recurrent layers, sixteen channels at a time or a part of them: short convolution, selective scan, gated
//! delta rule, as `gleed_model::recurrence` defines them.

use gleed_model::arithmetic::LANES;

use super::dot::dot;
use super::math::{exp, silu, softplus};
use super::simd::{Kernel, Simd};

/// `out = Σ taps · inputs`, where the last input is `x` and the state holds those before it.
#[derive(Debug)]
pub struct Convolve<'a> {
    /// The inputs before this one, the oldest first.
    pub state: &'a mut [[f32; LANES]],
    /// `[tap][channel]` of all channels.
    pub taps: &'a [f32],
    /// Where sums begin, of all channels.
    pub bias: Option<&'a [f32]>,
    /// Whether the result goes through SiLU.
    pub silu: bool,
    /// The first of the channels.
    pub first: usize,
    /// The input, at most sixteen channels.
    pub x: &'a [f32],
    /// As long as `x`.
    pub out: &'a mut [f32],
}

impl Kernel for Convolve<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Convolve { state, taps, bias, silu: activate, first, x, out } = self;
        let count = x.len();
        assert!(count <= LANES && out.len() == count);
        let channels = taps.len() / (state.len() + 1);
        let mut sum = bias.map_or(s.splat(0.0), |bias| load(s, &bias[first..first + count]));
        for (tap, earlier) in state.iter().enumerate() {
            sum = s.mul_add(load(s, &taps[tap * channels + first..][..count]), s.load(earlier), sum);
        }
        let newest = load(s, x);
        sum = s.mul_add(load(s, &taps[state.len() * channels + first..][..count]), newest, sum);
        store(s, if activate { silu(s, sum) } else { sum }, out);
        state.copy_within(1.., 0);
        if let Some(last) = state.last_mut() {
            s.store(newest, last);
        }
    }
}

/// How the channels of a scan decay.
#[derive(Debug, Clone, Copy)]
pub enum Decay<'a> {
    /// The same in all rows of the state: the logarithm of the decay over a time of one.
    Heads(PerHead<'a>),
    /// Each by itself and in each row of the state: `[row][channel]` of all channels.
    Channels(&'a [f32]),
}

/// What differs between heads of a scan: one value for all channels that are computed, or one for each.
#[derive(Debug, Clone, Copy)]
pub enum PerHead<'a> {
    /// One for all.
    One(f32),
    /// One for each of the channels.
    Each(&'a [f32]),
}

impl PerHead<'_> {
    #[inline(always)]
    fn load<S: Simd>(self, s: S) -> S::F32 {
        match self {
            PerHead::One(x) => s.splat(x),
            PerHead::Each(x) => load(s, x),
        }
    }
}

/// One row of a scan, of channels of one group that are in one block of the state, and of one head where heads have
/// several channels.
#[derive(Debug)]
pub struct Scan<'a> {
    /// The block.
    pub state: &'a mut [[f32; LANES]],
    /// The first of the channels in the block.
    pub at: usize,
    /// The first of the channels of all.
    pub first: usize,
    /// Time steps.
    pub dt: PerHead<'a>,
    /// Added to them.
    pub dt_bias: Option<PerHead<'a>>,
    /// Factors of what goes past the state.
    pub skip: PerHead<'a>,
    /// Decays.
    pub decay: Decay<'a>,
    /// One value for each row of the state.
    pub b: &'a [f32],
    /// The same.
    pub c: &'a [f32],
    /// The input of the channels.
    pub x: &'a [f32],
    /// As long as `x`.
    pub out: &'a mut [f32],
}

impl Kernel for Scan<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if self.x.len() == LANES { self.lanes::<S, true>(s) } else { self.lanes::<S, false>(s) }
    }
}

impl Scan<'_> {
    #[inline(always)]
    fn lanes<S: Simd, const ALL: bool>(self, s: S) {
        let Scan { state, at, first, dt, dt_bias, skip, decay, b, c, x, out } = self;
        let (rows, count) = (state.len(), x.len());
        assert!(b.len() == rows && c.len() == rows && at + count <= LANES && out.len() == count);
        let mut dt = dt.load(s);
        if let Some(bias) = dt_bias {
            dt = s.add(dt, bias.load(s));
        }
        let dt = softplus(s, dt);
        let x = load(s, x);
        let input = s.mul(x, dt);
        let mut sum = s.mul(skip.load(s), x);
        match decay {
            Decay::Heads(logarithm) => {
                let decay = exp(s, s.mul(dt, logarithm.load(s)));
                for i in 0..rows {
                    let old = get::<S, ALL>(s, &state[i], at, count);
                    let new = s.mul_add(old, decay, s.mul(s.splat(b[i]), input));
                    sum = s.mul_add(new, s.splat(c[i]), sum);
                    put::<S, ALL>(s, new, &mut state[i], at, count);
                }
            }
            Decay::Channels(logarithms) => {
                let channels = logarithms.len() / rows.max(1);
                for i in 0..rows {
                    let logarithm = load(s, &logarithms[i * channels + first..][..count]);
                    let decay = exp(s, s.mul(dt, logarithm));
                    let old = get::<S, ALL>(s, &state[i], at, count);
                    let new = s.mul_add(old, decay, s.mul(s.splat(b[i]), input));
                    sum = s.mul_add(new, s.splat(c[i]), sum);
                    put::<S, ALL>(s, new, &mut state[i], at, count);
                }
            }
        }
        store(s, sum, out);
    }
}

/// One row of the gated delta rule, of channels of one head that are in one block of the state.
#[derive(Debug)]
pub struct Delta<'a> {
    /// The block.
    pub state: &'a mut [[f32; LANES]],
    /// The first of the channels in the block.
    pub at: usize,
    /// The share of the state that is kept.
    pub decay: f32,
    /// How far the answer moves.
    pub beta: f32,
    /// The factor of queries.
    pub scale: f32,
    /// One value for each row of the state.
    pub query: &'a [f32],
    /// The same.
    pub key: &'a [f32],
    /// One value for each channel.
    pub value: &'a [f32],
    /// As long as `value`.
    pub out: &'a mut [f32],
}

impl Kernel for Delta<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if self.value.len() == LANES { self.lanes::<S, true>(s) } else { self.lanes::<S, false>(s) }
    }
}

impl Delta<'_> {
    #[inline(always)]
    fn lanes<S: Simd, const ALL: bool>(self, s: S) {
        let Delta { state, at, decay, beta, scale, query, key, value, out } = self;
        let (rows, count) = (state.len(), value.len());
        assert!(query.len() == rows && key.len() == rows && at + count <= LANES && out.len() == count);
        let decay = s.splat(decay);
        let mut answer = s.splat(0.0);
        for i in 0..rows {
            let kept = s.mul(get::<S, ALL>(s, &state[i], at, count), decay);
            answer = s.mul_add(kept, s.splat(key[i]), answer);
        }
        let change = s.mul(s.sub(load(s, value), answer), s.splat(beta));
        let mut sum = s.splat(0.0);
        for i in 0..rows {
            let kept = s.mul(get::<S, ALL>(s, &state[i], at, count), decay);
            let new = s.mul_add(s.splat(key[i]), change, kept);
            sum = s.mul_add(new, s.splat(query[i]), sum);
            put::<S, ALL>(s, new, &mut state[i], at, count);
        }
        store(s, s.mul(sum, s.splat(scale)), out);
    }
}

/// `x · length / √(Σx² + ε)`, in place.
#[derive(Debug)]
pub struct UnitNorm<'a> {
    /// The head.
    pub x: &'a mut [f32],
    /// Added to the sum.
    pub epsilon: f32,
    /// How long it is to be.
    pub length: f32,
}

impl Kernel for UnitNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let UnitNorm { x, epsilon, length } = self;
        let scale = length / (dot(s, x, x) + epsilon).sqrt();
        let (xs, rest) = x.as_chunks_mut::<LANES>();
        for x in xs {
            s.store(s.mul(s.load(x), s.splat(scale)), x);
        }
        for x in rest {
            *x *= scale;
        }
    }
}

/// At most sixteen values.
#[inline(always)]
fn load<S: Simd>(s: S, x: &[f32]) -> S::F32 {
    match x.as_array() {
        Some(x) => s.load(x),
        None => s.load_partial(x),
    }
}

/// At most sixteen values.
#[inline(always)]
fn store<S: Simd>(s: S, x: S::F32, out: &mut [f32]) {
    match out.as_mut_array() {
        Some(out) => s.store(x, out),
        None => s.store_partial(x, out),
    }
}

/// Some lanes of a row of the state, or all of them.
#[inline(always)]
fn get<S: Simd, const ALL: bool>(s: S, row: &[f32; LANES], at: usize, count: usize) -> S::F32 {
    if ALL { s.load(row) } else { s.load_partial(&row[at..at + count]) }
}

#[inline(always)]
fn put<S: Simd, const ALL: bool>(s: S, x: S::F32, row: &mut [f32; LANES], at: usize, count: usize) {
    if ALL { s.store(x, row) } else { s.store_partial(x, &mut row[at..at + count]) }
}
