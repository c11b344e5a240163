//! Feed-forward layers of experts: what families change about them, and the ops of one.

use super::{Bias, Builder};
use crate::config::MOST;
use crate::keys::Keys;
use crate::program::{Activation, Map, Op, Projection, View};
use crate::routing::{Gate, Groups, Routing};
use crate::{Error, Result};

/// What the experts of a model look like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Experts {
    /// How many there are in a layer.
    pub count: usize,
    /// How many of them a row uses.
    pub used: usize,
    /// Values inside one of them.
    pub width: usize,
    /// How scores become weights.
    pub gate: Gate,
    /// Groups that experts are chosen from.
    pub groups: Option<Groups>,
    /// Whether weights are divided by their sum.
    pub normalised: bool,
    /// What weights are multiplied with.
    pub scale: f32,
    /// Whether an expert's weight is the factor of what it reads, not of what it gives.
    pub weighs_input: bool,
    /// Whether they have a gate beside up.
    pub gated: bool,
    /// Values that experts read and give, where they have less than the residual stream.
    pub latent: Option<usize>,
    /// Values inside the expert that every row uses; none where there is no such expert.
    pub shared: usize,
    /// What bounds gate and up of experts, and of the one that every row uses.
    pub limits: [Option<f32>; 2],
    /// The first layer that has experts.
    pub first_layer: usize,
    /// Every how many layers have them.
    pub step: usize,
    /// Whether of those layers only some have them, which the file's tensors tell.
    pub where_given: bool,
}

impl Experts {
    /// As the file says, and as Mixtral has them where it says nothing; none where there are none.
    pub fn read(keys: &Keys, feed_forward: usize) -> Result<Option<Experts>> {
        let Some(count) = keys.size("expert_count")?.filter(|count| *count > 0) else { return Ok(None) };
        let used = keys.required("expert_used_count")?;
        let width = keys.size("expert_feed_forward_length")?.filter(|width| *width > 0);
        let width = width.unwrap_or(feed_forward);
        let gate = match keys.size("expert_gating_func")? {
            None | Some(0 | 1) => Gate::Softmax,
            Some(2) => Gate::Sigmoid,
            Some(3) => Gate::SoftmaxOfChosen,
            Some(other) => {
                let known = "known: 1 (softmax), 2 (sigmoid), 3 (softmax of the chosen)";
                return Err(Error::Invalid(format!("expert_gating_func {other} is not known; {known}")));
            }
        };
        let groups = keys.size("expert_group_count")?.filter(|groups| *groups > 1);
        let groups_used = keys.size("expert_group_used_count")?;
        let shared = keys.size("expert_shared_feed_forward_length")?.filter(|width| *width > 0);
        let shared_count = keys.size("expert_shared_count")?.unwrap_or(0);
        let shared = shared.unwrap_or(shared_count.saturating_mul(width));
        if used > count || count.max(width).max(shared) > MOST {
            let what = format!("{used} of {count} experts of {width}, {shared} beside them: not a model");
            return Err(Error::Invalid(what));
        }
        Ok(Some(Experts {
            count,
            used,
            width,
            gate,
            groups: groups.map(|count| Groups { count, used: groups_used.unwrap_or(count) }),
            normalised: keys.bool("expert_weights_norm")?.unwrap_or(gate == Gate::Softmax),
            scale: keys.f32("expert_weights_scale")?.filter(|scale| *scale != 0.0).unwrap_or(1.0),
            weighs_input: false,
            gated: true,
            latent: None,
            shared,
            limits: [None; 2],
            first_layer: keys.size("leading_dense_block_count")?.unwrap_or(0),
            step: 1,
            where_given: false,
        }))
    }

    /// The same where the family has no layers without.
    pub fn required(keys: &Keys, feed_forward: usize) -> Result<Experts> {
        keys.required("expert_count")?;
        Ok(Experts::read(keys, feed_forward)?.expect("there are some"))
    }

    /// The same of families that score by sigmoid where the file does not say how, and divide weights by their sum
    /// only where it says so.
    pub fn by_sigmoid(keys: &Keys, feed_forward: usize) -> Result<Experts> {
        let read = Experts::required(keys, feed_forward)?;
        let says = keys.size("expert_gating_func")?.is_some_and(|gate| gate != 0);
        let normalised = keys.bool("expert_weights_norm")?.unwrap_or(false);
        Ok(Experts { gate: if says { read.gate } else { Gate::Sigmoid }, normalised, ..read })
    }

    /// With one that every row uses, as wide as the others where the file does not say how wide.
    pub fn with_shared(self) -> Experts {
        Experts { shared: if self.shared > 0 { self.shared } else { self.width }, ..self }
    }
}

impl Builder<'_> {
    /// Whether a layer has experts.
    pub(crate) fn has_experts(&self, experts: &Experts, layer: usize) -> bool {
        let may = layer >= experts.first_layer && (layer + 1).is_multiple_of(experts.step);
        may && (!experts.where_given || self.has(&format!("blk.{layer}.ffn_gate_inp.weight")))
    }

    /// A feed-forward layer of experts.
    pub(crate) fn experts(&mut self, experts: &Experts, activation: Activation, input: View) -> Result<View> {
        let scores = self.buffer("scores", experts.count);
        self.linear("ffn_gate_inp", input, scores, Bias::Optional)?;
        let choice = self.route(experts, scores)?;
        let out = match experts.latent {
            Some(width) => self.latent_experts(experts, activation, choice, input, width)?,
            None => self.routed(experts, activation, choice, input)?,
        };
        if experts.shared > 0 {
            let shared = self.shared_expert(experts, activation, input)?;
            self.add("ffn_shexp_add", out, shared);
        }
        Ok(out)
    }

    /// Which experts each row uses, by its scores.
    pub(crate) fn route(&mut self, experts: &Experts, scores: View) -> Result<View> {
        let &Experts { count, used, gate, groups, normalised, scale, .. } = experts;
        let mut bias = self.optional("exp_probs_b.bias", &[count])?;
        if bias.is_none() {
            bias = self.optional("exp_probs_b", &[count])?;
        }
        let factors = self.optional("ffn_down_exps.scale", &[count])?;
        let out = self.buffer("choice", 2 * used);
        let routing = Routing { gate, used, groups, bias, normalised, scale, factors };
        self.emit("ffn_route", Op::Route { routing, scores, out });
        Ok(out)
    }

    /// What chosen experts give that are narrower than the residual stream, widened to it.
    fn latent_experts(
        &mut self,
        experts: &Experts,
        activation: Activation,
        choice: View,
        input: View,
        width: usize,
    ) -> Result<View> {
        let latent = self.buffer("latent", width);
        self.linear("ffn_latent_down", input, latent, Bias::Optional)?;
        let given = self.routed(experts, activation, choice, latent)?;
        let out = self.buffer("y", input.width);
        self.linear("ffn_latent_up", given, out, Bias::Optional)?;
        Ok(out)
    }

    /// What the chosen experts give, together.
    pub(crate) fn routed(
        &mut self,
        experts: &Experts,
        activation: Activation,
        choice: View,
        input: View,
    ) -> Result<View> {
        let &Experts { count, used, width, weighs_input, gated, .. } = experts;
        let (outer, all) = (input.width, used * width);
        let mut x = input;
        if weighs_input {
            x = self.buffer("expert_input", used * outer);
            self.emit("ffn_weigh", Op::Weigh { choice, input, out: x });
        }
        let hidden = self.buffer("expert_hidden", all);
        if gated {
            let both = self.buffer("expert_gate_up", 2 * all);
            let (gate, up) = (both.part(0, all), both.part(all, all));
            if self.has(&self.name("ffn_gate_up_exps.weight")) {
                let joined = self.buffer("expert_gate_up_joined", 2 * all);
                self.expert_linear("ffn_gate_up_exps", count, [outer, 2 * width], choice, x, joined)?;
                let outs = vec![gate, up];
                self.emit("ffn_gate_up_apart", Op::Unzip { heads: used, input: joined, outs });
            } else {
                self.expert_linear("ffn_gate_exps", count, [outer, width], choice, x, gate)?;
                self.expert_linear("ffn_up_exps", count, [outer, width], choice, x, up)?;
            }
            self.bounded("ffn_act", activation, experts.limits[0], [gate, up], hidden);
        } else {
            let up = self.buffer("expert_up", all);
            self.expert_linear("ffn_up_exps", count, [outer, width], choice, x, up)?;
            self.emit("ffn_act", Op::Activate { activation, gate: up, up: None, out: hidden });
        }
        let given = self.buffer("expert_output", used * outer);
        self.expert_linear("ffn_down_exps", count, [width, outer], choice, hidden, given)?;
        let out = self.buffer(if experts.latent.is_some() { "latent_y" } else { "y" }, outer);
        self.emit("ffn_combine", Op::Combine { choice, weighted: !weighs_input, input: given, out });
        Ok(out)
    }

    /// out = activation(gate) · up, of which the one is no more than a limit and the other no further from zero, where
    /// there is one.
    fn bounded(
        &mut self,
        label: &str,
        activation: Activation,
        limit: Option<f32>,
        [gate, up]: [View; 2],
        out: View,
    ) {
        let Some(limit) = limit else {
            self.emit(label, Op::Activate { activation, gate, up: Some(up), out });
            return;
        };
        self.emit(label, Op::Activate { activation, gate, up: None, out });
        self.emit(&format!("{label}_limit"), Op::Map { map: Map::AtMost(limit), x: out });
        self.emit(&format!("{label}_up_limit"), Op::Map { map: Map::Within(limit), x: up });
        self.emit(&format!("{label}_up"), Op::Gate { activation: Activation::Identity, gate: up, x: out });
    }

    fn expert_linear(
        &mut self,
        name: &str,
        count: usize,
        [columns, rows]: [usize; 2],
        choice: View,
        input: View,
        out: View,
    ) -> Result<()> {
        let weight = self.required(&format!("{name}.weight"), &[columns, rows, count])?;
        let bias = self.optional(&format!("{name}.bias"), &[rows, count])?;
        let parts = vec![Projection { weight, bias }];
        self.emit(name, Op::ExpertLinear { parts, choice: Some(choice), input, out });
        Ok(())
    }

    /// The expert that every row uses, with a gate of its own where the file has one.
    fn shared_expert(&mut self, experts: &Experts, activation: Activation, input: View) -> Result<View> {
        let width = experts.shared;
        let hidden = self.buffer("shared_hidden", width);
        let out = self.buffer("shared", input.width);
        if experts.gated {
            let both = self.buffer("shared_gate_up", 2 * width);
            let (gate, up) = (both.part(0, width), both.part(width, width));
            self.linear("ffn_gate_shexp", input, gate, Bias::Optional)?;
            self.linear("ffn_up_shexp", input, up, Bias::Optional)?;
            self.bounded("ffn_act_shexp", activation, experts.limits[1], [gate, up], hidden);
        } else {
            let up = self.buffer("shared_up", width);
            self.linear("ffn_up_shexp", input, up, Bias::Optional)?;
            self.emit("ffn_act_shexp", Op::Activate { activation, gate: up, up: None, out: hidden });
        }
        self.linear("ffn_down_shexp", hidden, out, Bias::Optional)?;
        if let Some(weight) = self.optional("ffn_gate_inp_shexp.weight", &[input.width])? {
            let gate = self.buffer("shared_gate", 1);
            let parts = vec![Projection { weight, bias: None }];
            self.emit("ffn_gate_inp_shexp", Op::Linear { parts, input, out: gate });
            self.emit("ffn_gate_shexp_open", Op::Gate { activation: Activation::Sigmoid, gate, x: out });
        }
        Ok(out)
    }
}
