//! Recurrent layers in the builder's vocabulary: short convolutions, Mamba 1 and 2, the gated delta rule.

use super::{Bias, Builder};
use crate::program::{Activation, Map, Norm, Op, StateLayer, View};
use crate::recurrence::{Convolution, Decay, DeltaRule, Scan};
use crate::{Error, Result};

/// The sizes of state-space layers: the `ssm.*` keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateSpace {
    /// Inputs that a convolution sees, the newest among them.
    pub taps: usize,
    /// Channels.
    pub inner: usize,
    /// Values of B and C, or of a key.
    pub state: usize,
    /// Heads, or the rank of the time step in Mamba 1.
    pub rank: usize,
    /// Different B and C, or heads of keys.
    pub groups: usize,
}

/// How what steers Mamba 1's scan is normed: time step, B and C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepNorms {
    /// Not at all.
    None,
    /// Without factors.
    Plain,
    /// With factors.
    Weighted,
}

/// What is added to the square of the length of the delta rule's queries and keys; no file says another.
const UNIT_EPSILON: f32 = 1e-6;

impl Builder<'_> {
    /// The `ssm.*` keys.
    pub(crate) fn state_space(&self) -> Result<StateSpace> {
        let k = self.keys;
        let sizes = StateSpace {
            taps: k.required("ssm.conv_kernel")?,
            inner: k.required("ssm.inner_size")?,
            state: k.required("ssm.state_size")?,
            rank: k.required("ssm.time_step_rank")?,
            groups: k.size("ssm.group_count")?.filter(|groups| *groups > 0).unwrap_or(1),
        };
        let StateSpace { taps, inner, state, rank, groups } = sizes;
        if taps < 2 || [taps, inner, state, rank, groups].iter().any(|size| *size > 1 << 24) {
            return Err(Error::Invalid(format!("{}.ssm.*: {sizes:?} is not a model", k.architecture())));
        }
        Ok(sizes)
    }

    pub(super) fn add_state(&mut self, rows: usize, columns: usize) -> usize {
        self.program.states.push(StateLayer { rows, columns });
        self.program.states.len() - 1
    }

    /// out = a short convolution of each channel, with a bias where the file has one.
    pub(crate) fn convolve(
        &mut self,
        name: &str,
        taps: usize,
        silu: bool,
        input: View,
        out: View,
    ) -> Result<()> {
        let weight = self.required(&format!("{name}.weight"), &[taps, input.width])?;
        let bias = self.optional(&format!("{name}.bias"), &[input.width])?;
        let state = self.add_state(taps - 1, input.width);
        let convolution = Convolution { state, taps: weight, bias, silu };
        self.emit(name, Op::Convolve { convolution, input, out });
        Ok(())
    }

    /// out = activation(gate) · up.
    pub(crate) fn gate(&mut self, label: &str, activation: Activation, gate: View, up: View, out: View) {
        self.emit(label, Op::Activate { activation, gate, up: Some(up), out });
    }

    /// RMS norm of each of `heads` equal parts of a view in its place, without factors.
    pub(super) fn plain_norm(&mut self, label: &str, heads: usize, x: View) {
        let count = (x.width / heads) as f32;
        let epsilon = self.config.norm_epsilon * count;
        self.emit(label, Op::UnitNorm { heads, epsilon, like: None, x });
        self.map(&format!("{label}_scale"), Map::Scale(count.sqrt()), x);
    }

    /// LFM2's block: a convolution between two gates, from the normed input to the output projection's result.
    pub(crate) fn short_convolution(&mut self, taps: usize, input: View) -> Result<View> {
        let width = self.config.width;
        let three = self.buffer("bcx", 3 * width);
        self.linear("shortconv.in_proj", input, three, Bias::Optional)?;
        let [b, c, x] = [0, 1, 2].map(|part| three.part(part * width, width));
        let gated = self.buffer("bx", width);
        self.gate("shortconv.gate_in", Activation::Identity, b, x, gated);
        let mixed = self.buffer("convolved", width);
        self.convolve("shortconv.conv", taps, false, gated, mixed)?;
        let out = self.buffer("mixed", width);
        self.gate("shortconv.gate_out", Activation::Identity, c, mixed, out);
        let y = self.buffer("y", width);
        self.linear("shortconv.out_proj", out, y, Bias::Optional)?;
        Ok(y)
    }

    /// Mamba 1, from the normed input to the output projection's result.
    pub(crate) fn mamba(&mut self, sizes: StateSpace, norms: StepNorms, input: View) -> Result<View> {
        let StateSpace { taps, inner, state: values, rank, .. } = sizes;
        let both = self.buffer("xz", 2 * inner);
        self.linear("ssm_in", input, both, Bias::Optional)?;
        let (x, z) = (both.part(0, inner), both.part(inner, inner));
        let convolved = self.buffer("convolved", inner);
        self.convolve("ssm_conv1d", taps, true, x, convolved)?;
        let three = self.buffer("dt_b_c", rank + 2 * values);
        self.linear("ssm_x", convolved, three, Bias::Optional)?;
        let (low, b, c) = (three.part(0, rank), three.part(rank, values), three.part(rank + values, values));
        for (name, part) in [("ssm_dt_norm", low), ("ssm_b_norm", b), ("ssm_c_norm", c)] {
            match norms {
                StepNorms::None => {}
                StepNorms::Plain => self.plain_norm(name, 1, part),
                StepNorms::Weighted => self.rms_norm_in_place(name, part)?,
            }
        }
        let dt = self.buffer("dt", inner);
        self.linear("ssm_dt", low, dt, Bias::Required)?;
        let decay = self.required("ssm_a", &[values, inner])?;
        let skip = self.required("ssm_d", &[inner])?;
        let state = self.add_state(values, inner);
        let scan = Scan { state, heads: inner, groups: 1, decay, dt_bias: None, skip };
        let scanned = self.buffer("scanned", inner);
        self.emit("ssm_scan", Op::Scan { scan, x: convolved, dt, b, c, out: scanned });
        let gated = self.buffer("mixed", inner);
        self.gate("ssm_gate", Activation::Silu, z, scanned, gated);
        let y = self.buffer("y", self.config.width);
        self.linear("ssm_out", gated, y, Bias::Optional)?;
        Ok(y)
    }

    /// Mamba 2, from the normed input to the output projection's result, which has a buffer of its own.
    pub(crate) fn mamba2(&mut self, sizes: StateSpace, input: View) -> Result<View> {
        let StateSpace { taps, inner, state: values, rank: heads, groups } = sizes;
        if !inner.is_multiple_of(heads) || !heads.is_multiple_of(groups) {
            return Err(Error::Invalid(format!(
                "{inner} channels, {heads} heads, {groups} groups: not a model"
            )));
        }
        let mixed = inner + 2 * groups * values;
        let all = self.buffer("z_x_b_c_dt", inner + mixed + heads);
        self.linear("ssm_in", input, all, Bias::Optional)?;
        let (z, dt) = (all.part(0, inner), all.part(inner + mixed, heads));
        let convolved = self.buffer("convolved", mixed);
        self.convolve("ssm_conv1d", taps, true, all.part(inner, mixed), convolved)?;
        let x = convolved.part(0, inner);
        let b = convolved.part(inner, groups * values);
        let c = convolved.part(inner + groups * values, groups * values);
        let dt_bias = Some(self.required("ssm_dt.bias", &[heads])?);
        let (decay, skip) = (self.required("ssm_a", &[1, heads])?, self.required("ssm_d", &[1, heads])?);
        let state = self.add_state(values, inner);
        let scan = Scan { state, heads, groups, decay, dt_bias, skip };
        let scanned = self.buffer("scanned", inner);
        self.emit("ssm_scan", Op::Scan { scan, x, dt, b, c, out: scanned });
        let gated = self.buffer("mixed", inner);
        self.gate("ssm_gate", Activation::Silu, z, scanned, gated);
        if let Some(weight) = self.optional("ssm_norm.weight", &[inner / groups, groups])? {
            let norm = Norm { weight, bias: None, epsilon: self.config.norm_epsilon };
            self.emit("ssm_norm", Op::Norm { norm, heads: groups, input: gated, out: gated });
        }
        let y = self.buffer("y", self.config.width);
        self.linear("ssm_out", gated, y, Bias::Optional)?;
        Ok(y)
    }

    /// The gated delta rule, from the normed input to the output projection's result. Where beta and alpha are one
    /// tensor they lie together for each key head, whose value heads are neighbours; else value heads take key heads in
    /// turn.
    pub(crate) fn delta_net(&mut self, sizes: StateSpace, together: bool, input: View) -> Result<View> {
        let StateSpace { taps, inner, state: key_dim, rank: heads, groups: key_heads } = sizes;
        if !inner.is_multiple_of(heads) || !heads.is_multiple_of(key_heads) {
            return Err(Error::Invalid(format!(
                "{inner} channels, {heads} heads of {key_heads} keys: not a model"
            )));
        }
        let keys = key_heads * key_dim;
        let mixed = self.buffer("delta_qkv", 2 * keys + inner);
        self.linear("attn_qkv", input, mixed, Bias::Optional)?;
        let z = self.buffer("z", inner);
        self.linear("attn_gate", input, z, Bias::Optional)?;
        let gates = self.buffer("beta_alpha", 2 * heads);
        let (beta, alpha) = (gates.part(0, heads), gates.part(heads, heads));
        if together {
            let zipped = self.buffer("zipped", 2 * heads);
            self.linear("ssm_ba", input, zipped, Bias::Optional)?;
            self.emit("ssm_ba_apart", Op::Unzip { heads: key_heads, input: zipped, outs: vec![beta, alpha] });
        } else {
            self.linear("ssm_beta", input, beta, Bias::Optional)?;
            self.linear("ssm_alpha", input, alpha, Bias::Optional)?;
        }
        let convolved = self.buffer("convolved", 2 * keys + inner);
        self.convolve("ssm_conv1d", taps, true, mixed, convolved)?;
        let (query, key, value) =
            (convolved.part(0, keys), convolved.part(keys, keys), convolved.part(2 * keys, inner));
        for (label, x) in [("ssm_q_norm", query), ("ssm_k_norm", key)] {
            self.emit(label, Op::UnitNorm { heads: key_heads, epsilon: UNIT_EPSILON, like: None, x });
        }
        let decay = Decay {
            decay: self.required("ssm_a", &[heads])?,
            dt_bias: self.required("ssm_dt.bias", &[heads])?,
        };
        let rule = DeltaRule {
            state: self.add_state(key_dim, inner),
            heads,
            key_heads,
            in_turn: !together,
            decay: Some(decay),
            scale: 1.0 / (key_dim as f32).sqrt(),
        };
        let out = self.buffer("scanned", inner);
        self.emit("delta_rule", Op::DeltaRule { rule, query, key, value, alpha, beta, out });
        let weight = self.required("ssm_norm.weight", &[inner / heads])?;
        let norm = Norm { weight, bias: None, epsilon: self.config.norm_epsilon };
        self.emit("ssm_norm", Op::Norm { norm, heads, input: out, out });
        let gated = self.buffer("mixed", inner);
        self.gate("ssm_gate", Activation::Silu, z, out, gated);
        let y = self.buffer("y", self.config.width);
        self.linear("ssm_out", gated, y, Bias::Optional)?;
        Ok(y)
    }
    /// Kimi's delta rule, from the normed input to the output projection's result: queries, keys and values are each
    /// convolved, each row of a head's state decays by itself, and the result has a gate. The low-rank matrices of decays
    /// and gate are as narrow as a head.
    pub(crate) fn kimi_delta(&mut self, taps: usize, width: usize, input: View) -> Result<View> {
        let heads = self.config.heads;
        let inner = heads * width;
        let mut parts = [input; 3];
        for (part, (linear, convolution, [from, to])) in parts.iter_mut().zip([
            ("attn_q", "ssm_conv1d_q", ["query", "query_convolved"]),
            ("attn_k", "ssm_conv1d_k", ["key", "key_convolved"]),
            ("attn_v", "ssm_conv1d_v", ["value", "value_convolved"]),
        ]) {
            let (from, to) = (self.buffer(from, inner), self.buffer(to, inner));
            self.linear(linear, input, from, Bias::Optional)?;
            self.convolve(convolution, taps, true, from, to)?;
            *part = to;
        }
        let [query, key, value] = parts;
        let [alpha, gate] = [("ssm_f", "f"), ("ssm_g", "g")]
            .map(|(name, short)| self.two_linears(name, short, width, input, inner));
        let (alpha, gate) = (alpha?, gate?);
        let decay = Decay {
            decay: self.required("ssm_a", &[1, heads])?,
            dt_bias: self.required("ssm_dt.bias", &[inner])?,
        };
        self.emit("ssm_keep", Op::Keep { decay, x: alpha });
        let beta = self.buffer("beta", heads);
        self.linear("ssm_beta", input, beta, Bias::Optional)?;
        for (label, x) in [("ssm_q_norm", query), ("ssm_k_norm", key)] {
            self.emit(label, Op::UnitNorm { heads, epsilon: UNIT_EPSILON, like: None, x });
        }
        let rule = DeltaRule {
            state: self.add_state(width, inner),
            heads,
            key_heads: heads,
            in_turn: false,
            decay: None,
            scale: 1.0 / (width as f32).sqrt(),
        };
        let out = self.buffer("scanned", inner);
        self.emit("delta_rule", Op::DeltaRule { rule, query, key, value, alpha, beta, out });
        let norm = self.norm_weights("ssm_norm", width, false)?;
        self.emit("ssm_norm", Op::Norm { norm, heads, input: out, out });
        let gated = self.buffer("mixed", inner);
        self.gate("ssm_gate", Activation::Sigmoid, gate, out, gated);
        let y = self.buffer("y", self.config.width);
        self.linear("attn_output", gated, y, Bias::Optional)?;
        Ok(y)
    }

    /// Two linear layers, `_a` and `_b`, with few values between them.
    fn two_linears(
        &mut self,
        name: &str,
        buffer: &'static str,
        between: usize,
        input: View,
        width: usize,
    ) -> Result<View> {
        let (low, out) = (self.buffer("low_rank", between), self.buffer(buffer, width));
        self.linear(&format!("{name}_a"), input, low, Bias::Optional)?;
        self.linear(&format!("{name}_b"), low, out, Bias::Optional)?;
        Ok(out)
    }
}
