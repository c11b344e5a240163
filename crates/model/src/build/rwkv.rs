//! RWKV's layers in the builder's vocabulary: time mixing and channel mixing.

use super::{Bias, Builder};
use crate::program::{Activation, Map, Op, Projection, View};
use crate::recurrence::Wkv;
use crate::{Error, Result};

/// The sizes of time mixing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receptance {
    /// Values of a head.
    head: usize,
    /// Values between the two matrices of decays, learning rates, the share of the first layer's values and the gate.
    ranks: [usize; 4],
}

/// The largest rate at which a state forgets, e^-0.5; no file says another.
const RATE: f32 = 0.606_531;

/// What is added to the square of a key's length: that of the length below which it is not made longer.
const KEY_EPSILON: f32 = 1e-24;

/// The epsilon of the norm of what heads give; no file says another.
const HEAD_EPSILON: f32 = 64e-5;

impl Receptance {
    /// As the file says.
    pub fn read(b: &Builder) -> Result<Receptance> {
        let (k, width) = (b.keys, b.config.width);
        let head = k.required("wkv.head_size")?;
        if head == 0 || !width.is_multiple_of(head) {
            return Err(Error::Invalid(format!("{width} channels in heads of {head}: not a model")));
        }
        let shifts = k.size("token_shift_count")?.unwrap_or(2);
        if shifts != 2 {
            return Err(Error::Invalid(format!("a layer with {shifts} shifts of tokens; known: 2")));
        }
        let rank = |name: &str| k.required(&format!("attention.{name}_lora_rank"));
        let ranks = [rank("decay")?, rank("iclr")?, rank("value_residual_mix")?, rank("gate")?];
        Ok(Receptance { head, ranks })
    }
}

impl Builder<'_> {
    /// RWKV 7's time mixing, from the normed input to the output projection's result. Values of the first layer go to a
    /// buffer of their own, which the others read.
    pub(crate) fn time_mix(&mut self, sizes: Receptance, first: bool, input: View) -> Result<View> {
        let width = input.width;
        let Receptance { head, ranks: [decay, rate, share, gate] } = sizes;
        let heads = width / head;
        let blends = self.blended("time_mix", "time_mix_lerp_fused", 6, input)?;
        let [for_query, for_decay, for_key, for_value, for_rate, for_gate] =
            [0, 1, 2, 3, 4, 5].map(|part| blends.part(part * width, width));

        // In one buffer, since a kernel may have few of them.
        let both = self.buffer("query_kept", 2 * width);
        let (query, kept) = (both.part(0, width), both.part(width, width));
        self.linear("time_mix_receptance", for_query, query, Bias::Optional)?;
        self.low_rank("w", decay, Some(Map::SoftCap(1.0)), for_decay, kept)?;
        self.emit("time_mix_kept", Op::Map { map: Map::Kept(RATE), x: kept });
        let rates = self.buffer("rates", width);
        self.low_rank("a", rate, None, for_rate, rates)?;
        let key = self.buffer("key", width);
        self.linear("time_mix_key", for_key, key, Bias::Optional)?;
        let value = self.time_values(share, first, for_value)?;

        // Where the state is asked, and where the answer is taken away: a unit vector, and how far it moves.
        let asked = self.buffer("asked", width);
        let weight = self.required("time_mix_k_k.weight", &[width])?;
        self.emit("time_mix_asked", Op::ScaleColumns { weight, input: key, out: asked });
        self.emit("time_mix_unit", Op::UnitNorm { heads, epsilon: KEY_EPSILON, like: None, x: asked });
        let removed = self.buffer("removed", width);
        self.gate("time_mix_removed", Activation::Sigmoid, rates, asked, removed);
        // Keys are written as far as they take away.
        let moved = self.buffer("key_moved", width);
        self.gate("time_mix_moved", Activation::Sigmoid, rates, key, moved);
        let written = self.buffer("key_written", width);
        let shares = self.required("time_mix_k_a.weight", &[width])?;
        self.emit("time_mix_written", Op::Blend { shares, x: key, y: moved, out: written });

        let wkv = Wkv { state: self.add_state(head, width), heads };
        let out = self.buffer("scanned", width);
        self.emit("wkv", Op::Wkv { wkv, query, kept, key: written, value, asked, removed, out });
        let normed = self.normed_heads("time_mix_ln", heads, out)?;
        self.add_bonus(heads, [query, written, value], normed)?;

        let low = self.buffer("gate_low", gate);
        self.linear("time_mix_g1", for_gate, low, Bias::Optional)?;
        let opened = self.buffer("gate_opened", gate);
        self.emit(
            "time_mix_g_act",
            Op::Activate { activation: Activation::Sigmoid, gate: low, up: None, out: opened },
        );
        let gate = self.buffer("gate", width);
        self.linear("time_mix_g2", opened, gate, Bias::Optional)?;
        let gated = self.buffer("mixed", width);
        self.gate("time_mix_gate", Activation::Identity, gate, normed, gated);
        let y = self.buffer("y", width);
        self.linear("time_mix_output", gated, y, Bias::Optional)?;
        Ok(y)
    }

    /// RWKV 7's channel mixing, from the normed input to the last matrix's result.
    pub(crate) fn channel_mix(&mut self, input: View) -> Result<View> {
        let blend = self.blended("channel_mix", "channel_mix_lerp_k", 1, input)?;
        let width = self.feed_forward_width()?;
        let (up, hidden) = (self.buffer("up", width), self.buffer("hidden", width));
        self.linear("channel_mix_key", blend, up, Bias::Optional)?;
        let activation = Activation::SquaredRelu;
        self.emit("channel_mix_act", Op::Activate { activation, gate: up, up: None, out: hidden });
        let y = self.buffer("y", input.width);
        self.linear("channel_mix_value", hidden, y, Bias::Optional)?;
        Ok(y)
    }

    /// The input, moved towards that of the row before it by `rows` rows of shares.
    fn blended(&mut self, label: &str, name: &str, rows: usize, input: View) -> Result<View> {
        let width = input.width;
        let state = self.add_state(1, width);
        let before = self.buffer("before", width);
        self.emit(&format!("{label}_shift"), Op::Shift { state, input, out: before });
        let shares = self.required(&format!("{name}.weight"), &[width, rows])?;
        let out = self.buffer("blended", rows * width);
        self.emit(name, Op::Blend { shares, x: input, y: before, out });
        Ok(out)
    }

    /// Two matrices with few values between them, of which a map makes something where there is one, and a vector that
    /// is added: `time_mix_?1`, `time_mix_?2` and `time_mix_?0`.
    fn low_rank(
        &mut self,
        letter: &str,
        rank: usize,
        between: Option<Map>,
        input: View,
        out: View,
    ) -> Result<()> {
        let width = input.width;
        let low = self.buffer("low_rank", rank);
        self.linear(&format!("time_mix_{letter}1"), input, low, Bias::Optional)?;
        if let Some(map) = between {
            self.emit(&format!("time_mix_{letter}_act"), Op::Map { map, x: low });
        }
        let weight = self.required(&format!("time_mix_{letter}2.weight"), &[rank, width])?;
        let bias = Some(self.required(&format!("time_mix_{letter}0.weight"), &[width])?);
        let parts = vec![Projection { weight, bias }];
        self.emit(&format!("time_mix_{letter}2"), Op::Linear { parts, input: low, out });
        Ok(())
    }

    /// Values: in the first layer as they are, in the others moved towards those of the first by a share of each.
    fn time_values(&mut self, rank: usize, first: bool, input: View) -> Result<View> {
        let firsts = self.buffer("first_value", input.width);
        if first {
            // Files have them all the same.
            let idle = ["v0", "v1", "v2"].map(|part| self.name(&format!("time_mix_{part}.weight")));
            self.read.extend(idle);
            self.linear("time_mix_value", input, firsts, Bias::Optional)?;
            return Ok(firsts);
        }
        let value = self.buffer("value", input.width);
        self.linear("time_mix_value", input, value, Bias::Optional)?;
        let share = self.buffer("share", input.width);
        self.low_rank("v", rank, None, input, share)?;
        let difference = self.buffer("value_difference", input.width);
        self.copy("time_mix_v_own", value, difference);
        self.map("time_mix_v_less", Map::Scale(-1.0), difference);
        self.add("time_mix_v_difference", difference, firsts);
        let moved = self.buffer("value_moved", input.width);
        self.gate("time_mix_v_moved", Activation::Sigmoid, share, difference, moved);
        self.add("time_mix_v", value, moved);
        Ok(value)
    }

    /// A layer norm of each head by itself, with factors and a bias for each column of the row.
    fn normed_heads(&mut self, name: &str, heads: usize, input: View) -> Result<View> {
        let width = input.width;
        let count = (width / heads) as f32;
        let (centered, out) = (self.buffer("centered", width), self.buffer("normed", width));
        self.emit(&format!("{name}_center"), Op::Center { heads, input, out: centered });
        let epsilon = HEAD_EPSILON * count;
        self.emit(&format!("{name}_unit"), Op::UnitNorm { heads, epsilon, like: None, x: centered });
        self.map(&format!("{name}_scale"), Map::Scale(count.sqrt()), centered);
        let weight = self.required(&format!("{name}.weight"), &[width])?;
        self.emit(name, Op::ScaleColumns { weight, input: centered, out });
        let table = self.required(&format!("{name}.bias"), &[width])?;
        self.emit(&format!("{name}_bias"), Op::AddVector { table, x: out });
        Ok(out)
    }

    /// x += each head's value times what its query and key have in common, with a factor for each column.
    fn add_bonus(&mut self, heads: usize, [query, key, value]: [View; 3], x: View) -> Result<()> {
        let weight = self.required("time_mix_r_k.weight", &[x.width])?;
        let (weighed, bonus) = (self.buffer("query_weighed", x.width), self.buffer("bonus", heads));
        self.emit("time_mix_r_k", Op::ScaleColumns { weight, input: query, out: weighed });
        self.emit("time_mix_bonus", Op::Dot { heads, x: key, y: weighed, out: bonus });
        let own = self.buffer("value_bonus", x.width);
        self.copy("time_mix_bonus_value", value, own);
        self.emit("time_mix_bonus_weigh", Op::Gate { activation: Activation::Identity, gate: bonus, x: own });
        self.add("time_mix_bonus_add", x, own);
        Ok(())
    }
}
