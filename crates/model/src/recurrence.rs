//! Recurrent layers: what they are made of, and what one row does to their state, written once and plainly.
//!
//! A state is a matrix of f32 whose columns are channels. Rows of a sequence go through it strictly in order of their
//! positions; within a row every channel is computed by itself, so that any number of them can be computed side by
//! side without changing a bit. Sums over the values of a channel are chains of fused multiply-adds in ascending order.

use crate::arithmetic::{exp, sigmoid, silu, softplus};
use crate::program::WeightId;

/// A causal convolution of each channel with a few taps of its own. The state holds the last inputs, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Convolution {
    /// Whose inputs: one row less than there are taps.
    pub state: usize,
    /// The taps of each channel, the oldest first.
    pub taps: WeightId,
    /// Where sums begin; at zero without it.
    pub bias: Option<WeightId>,
    /// Whether the result goes through SiLU.
    pub silu: bool,
}

/// The selective scan of Mamba 1, whose channels are heads by themselves and decay differently in each row of the state,
/// and of Mamba 2, whose heads decay as one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scan {
    /// The state, with a row for each value of B and C.
    pub state: usize,
    /// Heads, each of which has equally many channels.
    pub heads: usize,
    /// How many different B and C there are; heads share them in equal groups.
    pub groups: usize,
    /// The logarithm of the decay over a time of one: one for each head, or one for each head and row of the state.
    pub decay: WeightId,
    /// Added to each head's time step before softplus.
    pub dt_bias: Option<WeightId>,
    /// Each head's factor of the input that goes past the state.
    pub skip: WeightId,
}

/// The gated delta rule: each head's state forgets a share of everything, and then what it would answer for the key
/// moves towards the value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeltaRule {
    /// The state, with a row for each value of a key and a channel for each value of all heads.
    pub state: usize,
    /// Value heads.
    pub heads: usize,
    /// Heads of query and key.
    pub key_heads: usize,
    /// Whether value heads take key heads in turn; else equally many neighbours share one.
    pub in_turn: bool,
    /// How a head's alpha, its time step, becomes the share that it keeps. Where there is none, alpha is shares already,
    /// one for each row of each head's state.
    pub decay: Option<Decay>,
    /// The factor of queries.
    pub scale: f32,
}

/// RWKV's generalised delta rule: each row of a head's state keeps a share of its own, what the state answers for one
/// key is taken away at another, and a value is written at a third.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wkv {
    /// The state, with a row for each value of a key and a channel for each value of all heads.
    pub state: usize,
    /// Heads of keys and values.
    pub heads: usize,
}

/// How time steps become shares that are kept: e^(softplus(step + bias) · decay).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decay {
    /// The logarithm of each head's decay over a time of one.
    pub decay: WeightId,
    /// Added to time steps before softplus.
    pub dt_bias: WeightId,
}

impl DeltaRule {
    /// The head of query and key that a value head has.
    pub fn key_head(&self, head: usize) -> usize {
        if self.in_turn { head % self.key_heads } else { head / (self.heads / self.key_heads) }
    }
}

/// One row of a convolution. `state` is `[taps - 1][channels]`, `taps` is `[channels][taps]`.
#[inline(always)]
pub fn convolve(
    state: &mut [f32],
    taps: &[f32],
    bias: Option<&[f32]>,
    activate: bool,
    x: &[f32],
    out: &mut [f32],
) {
    let channels = x.len();
    let taps_each = taps.len() / channels;
    for channel in 0..channels {
        let taps = &taps[channel * taps_each..][..taps_each];
        let mut sum = bias.map_or(0.0, |bias| bias[channel]);
        for (tap, earlier) in state.chunks(channels).enumerate() {
            sum = taps[tap].mul_add(earlier[channel], sum);
        }
        sum = taps[taps_each - 1].mul_add(x[channel], sum);
        out[channel] = if activate { silu(sum) } else { sum };
    }
    if !state.is_empty() {
        state.copy_within(channels.., 0);
        let last = state.len() - channels;
        state[last..].copy_from_slice(x);
    }
}

/// What the rows of a scan have in common.
#[derive(Debug, Clone, Copy)]
pub struct ScanWeights<'a> {
    /// Heads and groups.
    pub scan: Scan,
    /// `[heads]` or `[heads][state rows]`.
    pub decay: &'a [f32],
    /// `[heads]`.
    pub dt_bias: Option<&'a [f32]>,
    /// `[heads]`.
    pub skip: &'a [f32],
}

/// One row of a scan: its inputs.
#[derive(Debug, Clone, Copy)]
pub struct ScanRow<'a> {
    /// `[channels]`.
    pub x: &'a [f32],
    /// `[heads]`.
    pub dt: &'a [f32],
    /// `[groups][state rows]`.
    pub b: &'a [f32],
    /// `[groups][state rows]`.
    pub c: &'a [f32],
}

/// One row of a scan. `state` is `[rows][channels]`.
#[inline(always)]
pub fn scan(state: &mut [f32], weights: ScanWeights, row: ScanRow, out: &mut [f32]) {
    let Scan { heads, groups, .. } = weights.scan;
    let channels = row.x.len();
    let rows = state.len() / channels;
    for channel in 0..channels {
        let head = channel / (channels / heads);
        let group = head / (heads / groups);
        let dt = softplus(weights.dt_bias.map_or(row.dt[head], |bias| row.dt[head] + bias[head]));
        let logarithms = &weights.decay[head * (weights.decay.len() / heads)..];
        let of_head = weights.decay.len() == heads;
        let x = row.x[channel];
        let input = x * dt;
        let mut sum = weights.skip[head] * x;
        for i in 0..rows {
            let decay = exp(dt * if of_head { logarithms[0] } else { logarithms[i] });
            let value = &mut state[i * channels + channel];
            *value = value.mul_add(decay, row.b[group * rows + i] * input);
            sum = value.mul_add(row.c[group * rows + i], sum);
        }
        out[channel] = sum;
    }
}

/// What the rows of a delta rule have in common.
#[derive(Debug, Clone, Copy)]
pub struct DeltaWeights<'a> {
    /// Heads and the factor of queries.
    pub rule: DeltaRule,
    /// `[heads]`, or nothing where alpha is shares.
    pub decay: &'a [f32],
    /// `[heads]`, or nothing.
    pub dt_bias: &'a [f32],
}

/// One row of a delta rule: its inputs.
#[derive(Debug, Clone, Copy)]
pub struct DeltaRow<'a> {
    /// `[key heads][state rows]`.
    pub query: &'a [f32],
    /// `[key heads][state rows]`.
    pub key: &'a [f32],
    /// `[channels]`.
    pub value: &'a [f32],
    /// The time step, `[heads]`, or the shares that are kept, `[heads][state rows]`.
    pub alpha: &'a [f32],
    /// How far the answer moves, before the sigmoid, `[heads]`.
    pub beta: &'a [f32],
}

/// One row of the gated delta rule. `state` is `[rows][channels]`.
#[inline(always)]
pub fn delta_rule(state: &mut [f32], weights: DeltaWeights, row: DeltaRow, out: &mut [f32]) {
    let rule = weights.rule;
    let channels = row.value.len();
    let rows = state.len() / channels;
    for channel in 0..channels {
        let head = channel / (channels / rule.heads);
        let key_head = rule.key_head(head);
        let (query, key) = (&row.query[key_head * rows..][..rows], &row.key[key_head * rows..][..rows]);
        let kept = rule.decay.map(|_| kept(row.alpha[head], weights.dt_bias[head], weights.decay[head]));
        let kept = |i: usize| kept.unwrap_or_else(|| row.alpha[head * rows + i]);
        let mut answer = 0.0f32;
        for i in 0..rows {
            answer = (state[i * channels + channel] * kept(i)).mul_add(key[i], answer);
        }
        let change = (row.value[channel] - answer) * sigmoid(row.beta[head]);
        let mut sum = 0.0f32;
        for i in 0..rows {
            let value = &mut state[i * channels + channel];
            *value = key[i].mul_add(change, *value * kept(i));
            sum = value.mul_add(query[i], sum);
        }
        out[channel] = sum * rule.scale;
    }
}

/// One row of RWKV's rule: its inputs, all `[heads][state rows]` but for the value.
#[derive(Debug, Clone, Copy)]
pub struct WkvRow<'a> {
    /// What is read with.
    pub query: &'a [f32],
    /// The shares that are kept.
    pub kept: &'a [f32],
    /// Where the value is written.
    pub key: &'a [f32],
    /// `[channels]`.
    pub value: &'a [f32],
    /// What the state is asked for before anything is forgotten.
    pub asked: &'a [f32],
    /// Where the answer is taken away.
    pub removed: &'a [f32],
}

impl WkvRow<'_> {
    /// One that reads nothing.
    pub const EMPTY: WkvRow<'static> =
        WkvRow { query: &[], kept: &[], key: &[], value: &[], asked: &[], removed: &[] };
}

/// One row of RWKV's rule. `state` is `[rows][channels]`.
#[inline(always)]
pub fn wkv(state: &mut [f32], heads: usize, row: WkvRow, out: &mut [f32]) {
    let channels = row.value.len();
    let rows = state.len() / channels;
    for channel in 0..channels {
        let first = channel / (channels / heads) * rows;
        let mut answer = 0.0f32;
        for i in 0..rows {
            answer = state[i * channels + channel].mul_add(row.asked[first + i], answer);
        }
        let mut sum = 0.0f32;
        for i in 0..rows {
            let value = &mut state[i * channels + channel];
            let kept = row.key[first + i].mul_add(row.value[channel], *value * row.kept[first + i]);
            *value = row.removed[first + i].mul_add(-answer, kept);
            sum = value.mul_add(row.query[first + i], sum);
        }
        out[channel] = sum;
    }
}

/// The share that is kept after a time step.
#[inline(always)]
pub fn kept(step: f32, dt_bias: f32, decay: f32) -> f32 {
    exp(softplus(step + dt_bias) * decay)
}

/// x · length / √(Σx² + ε), of one head.
pub fn unit_norm(x: &mut [f32], epsilon: f32, length: f32) {
    let scale = length / (crate::arithmetic::dot(x, x) + epsilon).sqrt();
    x.iter_mut().for_each(|x| *x *= scale);
}
