//! A few rows of recurrent layers, sixteen channels at a time or a part of them: short convolution, selective scan,
//! gated delta rule, as `gleed_model::recurrence` defines them.
//!
//! Rows go through a state in order, but each row of the *state* goes through several of them at once: it is read and
//! written once for all, and the sums of these rows, each of which is one chain, do not wait for each other.

use gleed_model::arithmetic::LANES;

use super::dot::dot;
use super::math::{exp, silu, softplus};
use super::simd::{Kernel, Simd};

/// Rows that are taken through a state together; kernels take any number, this many at a time.
pub const TOGETHER: usize = 4;

/// `out = Σ taps · inputs`, where the last input is `x` and the state holds those before it.
#[derive(Debug)]
pub struct Convolve<'a> {
    /// The inputs before these, the oldest first.
    pub state: &'a mut [[f32; LANES]],
    /// `[tap][channel]` of all channels.
    pub taps: &'a [f32],
    /// Where sums begin, of all channels.
    pub bias: Option<&'a [f32]>,
    /// Whether the result goes through SiLU.
    pub silu: bool,
    /// The first of the channels.
    pub first: usize,
    /// The inputs, each of the same channels, at most sixteen.
    pub x: &'a [&'a [f32]],
    /// One for each input, whose first lanes are written.
    pub out: &'a mut [[f32; LANES]],
}

impl Kernel for Convolve<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let (fours, rest) = self.x.as_chunks();
        assert_eq!(self.out.len(), self.x.len());
        for (i, x) in fours.iter().enumerate() {
            self.rows::<S, TOGETHER>(s, x, TOGETHER * i);
        }
        for (i, x) in rest.iter().enumerate() {
            self.rows::<S, 1>(s, &[*x], TOGETHER * fours.len() + i);
        }
    }
}

impl Convolve<'_> {
    /// Some inputs, whose results begin at one.
    #[inline(always)]
    fn rows<S: Simd, const R: usize>(&mut self, s: S, x: &[&[f32]; R], at: usize) {
        let Convolve { ref mut state, taps, bias, silu: activate, first, ref mut out, .. } = *self;
        let (count, before) = (x[0].len(), state.len());
        let channels = taps.len() / (before + 1);
        let mut newest = [s.splat(0.0); R];
        for r in 0..R {
            assert!(x[r].len() == count && count <= LANES);
            newest[r] = load(s, x[r]);
        }
        let start = match bias {
            Some(bias) => load(s, &bias[first..first + count]),
            None => s.splat(0.0),
        };
        let mut sums = [start; R];
        for tap in 0..=before {
            let weights = load(s, &taps[tap * channels + first..][..count]);
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = s.mul_add(weights, input(s, state, &newest, tap + r), *sum);
            }
        }
        for r in 0..R {
            s.store(if activate { silu(s, sums[r]) } else { sums[r] }, &mut out[at + r]);
        }
        for i in 0..before {
            let x = input(s, state, &newest, i + R);
            s.store(x, &mut state[i]);
        }
    }
}

/// One of the inputs in order: those of the state, then the newest.
#[inline(always)]
fn input<S: Simd, const R: usize>(s: S, state: &[[f32; LANES]], newest: &[S::F32; R], i: usize) -> S::F32 {
    match state.get(i) {
        Some(earlier) => s.load(earlier),
        None => newest[i - state.len()],
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

/// Rows of a scan, of channels of one group that are in one block of the state, and of one head where heads have
/// several channels.
#[derive(Debug)]
pub struct Scan<'a> {
    /// The block.
    pub state: &'a mut [[f32; LANES]],
    /// The first of the channels in the block.
    pub at: usize,
    /// The first of the channels of all.
    pub first: usize,
    /// Added to time steps.
    pub dt_bias: Option<PerHead<'a>>,
    /// Factors of what goes past the state.
    pub skip: PerHead<'a>,
    /// Decays.
    pub decay: Decay<'a>,
    /// The rows, all of the same channels.
    pub rows: &'a [ScanRow<'a>],
    /// One for each row, in which the channels have the places that they have in the block.
    pub out: &'a mut [[f32; LANES]],
}

/// What a row of a scan reads.
#[derive(Debug, Clone, Copy)]
pub struct ScanRow<'a> {
    /// Time steps.
    pub dt: PerHead<'a>,
    /// One value for each row of the state.
    pub b: &'a [f32],
    /// The same.
    pub c: &'a [f32],
    /// The input of the channels.
    pub x: &'a [f32],
}

impl ScanRow<'_> {
    /// One that reads nothing.
    pub const EMPTY: ScanRow<'static> = ScanRow { dt: PerHead::One(0.0), b: &[], c: &[], x: &[] };
}

impl Kernel for Scan<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let all = self.rows.first().is_none_or(|row| row.x.len() == LANES);
        if all { self.lanes::<S, true>(s) } else { self.lanes::<S, false>(s) }
    }
}

impl Scan<'_> {
    #[inline(always)]
    fn lanes<S: Simd, const ALL: bool>(mut self, s: S) {
        assert_eq!(self.out.len(), self.rows.len());
        let (fours, rest) = self.rows.as_chunks();
        for (i, rows) in fours.iter().enumerate() {
            self.some::<S, ALL, TOGETHER>(s, rows, TOGETHER * i);
        }
        for (i, row) in rest.iter().enumerate() {
            self.some::<S, ALL, 1>(s, &[*row], TOGETHER * fours.len() + i);
        }
    }

    /// Some rows, whose results begin at one.
    #[inline(always)]
    fn some<S: Simd, const ALL: bool, const R: usize>(&mut self, s: S, rows: &[ScanRow; R], out_at: usize) {
        let Scan { ref mut state, at, first, dt_bias, skip, decay, ref mut out, .. } = *self;
        let (depth, count) = (state.len(), rows[0].x.len());
        let (mut b, mut c) = ([&[][..]; R], [&[][..]; R]);
        let (mut dt, mut input, mut sums) = ([s.splat(0.0); R], [s.splat(0.0); R], [s.splat(0.0); R]);
        for (r, row) in rows.iter().enumerate() {
            assert!(row.b.len() == depth && row.c.len() == depth);
            assert!(row.x.len() == count && at + count <= LANES);
            (b[r], c[r]) = (&row.b[..depth], &row.c[..depth]);
            dt[r] = row.dt.load(s);
            if let Some(bias) = dt_bias {
                dt[r] = s.add(dt[r], bias.load(s));
            }
            dt[r] = softplus(s, dt[r]);
            let x = load(s, row.x);
            input[r] = s.mul(x, dt[r]);
            sums[r] = s.mul(skip.load(s), x);
        }
        // One row of the state, through all rows. No closure: that would be compiled without the vector unit.
        macro_rules! step {
            ($i:expr, $decays:expr) => {
                let mut value = get::<S, ALL>(s, &state[$i], at, count);
                for r in 0..R {
                    value = s.mul_add(value, $decays[r], s.mul(s.splat(b[r][$i]), input[r]));
                    sums[r] = s.mul_add(value, s.splat(c[r][$i]), sums[r]);
                }
                put::<S, ALL>(s, value, &mut state[$i], at, count);
            };
        }
        let mut decays = [s.splat(0.0); R];
        match decay {
            Decay::Heads(logarithm) => {
                for r in 0..R {
                    decays[r] = exp(s, s.mul(dt[r], logarithm.load(s)));
                }
                for i in 0..depth {
                    step!(i, decays);
                }
            }
            Decay::Channels(logarithms) => {
                let channels = logarithms.len() / depth.max(1);
                for i in 0..depth {
                    let logarithm = load(s, &logarithms[i * channels + first..][..count]);
                    for r in 0..R {
                        decays[r] = exp(s, s.mul(dt[r], logarithm));
                    }
                    step!(i, decays);
                }
            }
        }
        for r in 0..R {
            put::<S, ALL>(s, sums[r], &mut out[out_at + r], at, count);
        }
    }
}

/// Rows of the gated delta rule, of channels of one head that are in one block of the state.
#[derive(Debug)]
pub struct Delta<'a> {
    /// The block.
    pub state: &'a mut [[f32; LANES]],
    /// The first of the channels in the block.
    pub at: usize,
    /// The factor of queries.
    pub scale: f32,
    /// The rows, all of the same channels.
    pub rows: &'a [DeltaRow<'a>],
    /// One for each row, in which the channels have the places that they have in the block.
    pub out: &'a mut [[f32; LANES]],
}

/// What a row of a delta rule reads.
#[derive(Debug, Clone, Copy)]
pub struct DeltaRow<'a> {
    /// The share of the state that is kept.
    pub kept: Kept<'a>,
    /// How far the answer moves.
    pub beta: f32,
    /// One value for each row of the state.
    pub query: &'a [f32],
    /// The same.
    pub key: &'a [f32],
    /// One value for each channel.
    pub value: &'a [f32],
}

/// The share of a state that is kept: of all of it, or of each row.
#[derive(Debug, Clone, Copy)]
pub enum Kept<'a> {
    /// One share.
    All(f32),
    /// One for each row of the state.
    Rows(&'a [f32]),
}

impl<'a> Kept<'a> {
    /// The share of all rows, or those of each.
    #[inline(always)]
    fn shares(self) -> (f32, &'a [f32]) {
        match self {
            Kept::All(share) => (share, &[]),
            Kept::Rows(shares) => (0.0, shares),
        }
    }
}

impl DeltaRow<'_> {
    /// One that reads nothing.
    pub const EMPTY: DeltaRow<'static> =
        DeltaRow { kept: Kept::All(0.0), beta: 0.0, query: &[], key: &[], value: &[] };
}

impl Kernel for Delta<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let all = self.rows.first().is_none_or(|row| row.value.len() == LANES);
        let each = self.rows.first().is_some_and(|row| matches!(row.kept, Kept::Rows(_)));
        match (all, each) {
            (true, false) => self.lanes::<S, true, false>(s),
            (false, false) => self.lanes::<S, false, false>(s),
            (true, true) => self.lanes::<S, true, true>(s),
            (false, true) => self.lanes::<S, false, true>(s),
        }
    }
}

impl Delta<'_> {
    /// What a row leaves of the state is at once asked for the answer of the next: one walk through the state for
    /// each row, and one more for the first.
    #[inline(always)]
    fn lanes<S: Simd, const ALL: bool, const EACH: bool>(self, s: S) {
        let Delta { state, at, scale, rows, out } = self;
        assert_eq!(out.len(), rows.len());
        let depth = state.len();
        for row in rows {
            assert!(
                row.query.len() == depth && row.key.len() == depth && row.value.len() == rows[0].value.len()
            );
            assert_eq!(row.kept.shares().1.len(), if EACH { depth } else { 0 });
        }
        let Some(first) = rows.first() else { return };
        let count = first.value.len();
        assert!(at + count <= LANES);
        // The state is kept times the decay of the row that comes to it.
        let ((share, shares), key) = (first.kept.shares(), &first.key[..depth]);
        let share = s.splat(share);
        let mut answer = s.splat(0.0);
        for i in 0..depth {
            let share = if EACH { s.splat(shares[i]) } else { share };
            let kept = s.mul(get::<S, ALL>(s, &state[i], at, count), share);
            answer = s.mul_add(kept, s.splat(key[i]), answer);
            put::<S, ALL>(s, kept, &mut state[i], at, count);
        }
        for (r, row) in rows.iter().enumerate() {
            let change = s.mul(s.sub(load(s, row.value), answer), s.splat(row.beta));
            let (query, key) = (&row.query[..depth], &row.key[..depth]);
            let mut sum = s.splat(0.0);
            if let Some(next) = rows.get(r + 1) {
                let ((share, shares), next_key) = (next.kept.shares(), &next.key[..depth]);
                let share = s.splat(share);
                answer = s.splat(0.0);
                for i in 0..depth {
                    let kept = get::<S, ALL>(s, &state[i], at, count);
                    let new = s.mul_add(s.splat(key[i]), change, kept);
                    sum = s.mul_add(new, s.splat(query[i]), sum);
                    let share = if EACH { s.splat(shares[i]) } else { share };
                    let kept = s.mul(new, share);
                    answer = s.mul_add(kept, s.splat(next_key[i]), answer);
                    put::<S, ALL>(s, kept, &mut state[i], at, count);
                }
            } else {
                for i in 0..depth {
                    let kept = get::<S, ALL>(s, &state[i], at, count);
                    let new = s.mul_add(s.splat(key[i]), change, kept);
                    sum = s.mul_add(new, s.splat(query[i]), sum);
                    put::<S, ALL>(s, new, &mut state[i], at, count);
                }
            }
            put::<S, ALL>(s, s.mul(sum, s.splat(scale)), &mut out[r], at, count);
        }
    }
}

/// `x = e^(softplus(x + bias) · decay)`, of the time steps of one head.
#[derive(Debug)]
pub struct Keep<'a> {
    /// The time steps, then the shares that are kept.
    pub x: &'a mut [f32],
    /// One for each of them.
    pub dt_bias: &'a [f32],
    /// The logarithm of the decay over a time of one.
    pub decay: f32,
}

impl Kernel for Keep<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Keep { x, dt_bias, decay } = self;
        assert_eq!(x.len(), dt_bias.len());
        let decay = s.splat(decay);
        let ((xs, rest), (biases, bias_rest)) = (x.as_chunks_mut::<LANES>(), dt_bias.as_chunks::<LANES>());
        for (x, bias) in xs.iter_mut().zip(biases) {
            let time = softplus(s, s.add(s.load(x), s.load(bias)));
            s.store(exp(s, s.mul(time, decay)), x);
        }
        let time = softplus(s, s.add(s.load_partial(rest), s.load_partial(bias_rest)));
        s.store_partial(exp(s, s.mul(time, decay)), rest);
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
pub(super) fn load<S: Simd>(s: S, x: &[f32]) -> S::F32 {
    match x.as_array() {
        Some(x) => s.load(x),
        None => s.load_partial(x),
    }
}

/// Some lanes of a row of the state, or all of them.
#[inline(always)]
pub(super) fn get<S: Simd, const ALL: bool>(s: S, row: &[f32; LANES], at: usize, count: usize) -> S::F32 {
    if ALL { s.load(row) } else { s.load_partial(&row[at..at + count]) }
}

#[inline(always)]
pub(super) fn put<S: Simd, const ALL: bool>(
    s: S,
    x: S::F32,
    row: &mut [f32; LANES],
    at: usize,
    count: usize,
) {
    if ALL { s.store(x, row) } else { s.store_partial(x, &mut row[at..at + count]) }
}
