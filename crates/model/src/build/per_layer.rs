//! What the small Gemma models have in layers: embeddings of tokens for each layer, keys and values shared by the last
//! of them, and a factor of what they give.

use super::{Bias, Builder};
use crate::program::{Activation, Map, Norm, Op, View};
use crate::{Error, Result};

impl Builder<'_> {
    /// What each layer adds of its own, `width` columns for each one after the other: the mean (times √2) of what a
    /// table has for the token and of the normed projection of the embedding `x`.
    pub(crate) fn per_layer_inputs(&mut self, width: usize, x: View) -> Result<View> {
        let layers = self.config.layers;
        let inputs = self.buffer("per_layer", layers * width);
        let table = self.required("per_layer_token_embd.weight", &[inputs.width, self.program.vocabulary])?;
        self.emit("per_layer_embed", Op::Embed { table, out: inputs });
        self.map("per_layer_embed_scale", Map::Scale((width as f32).sqrt()), inputs);
        let projected = self.buffer("per_layer_projection", inputs.width);
        self.linear("per_layer_model_proj", x, projected, Bias::Optional)?;
        self.map("per_layer_proj_scale", Map::Scale(1.0 / (x.width as f32).sqrt()), projected);
        let weight = self.required("per_layer_proj_norm.weight", &[width])?;
        let norm = Norm { weight, bias: None, epsilon: self.config.norm_epsilon };
        self.emit("per_layer_proj_norm", Op::Norm { norm, heads: layers, input: projected, out: projected });
        self.add("per_layer_add", inputs, projected);
        self.map("per_layer_scale", Map::Scale(0.5f32.sqrt()), inputs);
        Ok(inputs)
    }

    /// What a layer adds of its input: norm(projection(gelu(gate(x)) · input)).
    pub(crate) fn per_layer(&mut self, x: View, input: View) -> Result<View> {
        let gate = self.buffer("per_layer_gate", input.width);
        self.linear("inp_gate", x, gate, Bias::Optional)?;
        let gated = self.buffer("per_layer_gated", input.width);
        self.gate("inp_act", Activation::Gelu, gate, input, gated);
        let out = self.buffer("y", self.config.width);
        self.linear("proj", gated, out, Bias::Optional)?;
        self.rms_norm_in_place("post_norm", out)?;
        Ok(out)
    }
    /// x times the layer's factor, where the file has one.
    pub(crate) fn output_scale(&mut self, x: View) -> Result<()> {
        let name = self.name("layer_output_scale.weight");
        match self.values(&name).as_deref() {
            None => {}
            Some(&[factor]) => self.map("layer_output_scale", Map::Scale(factor), x),
            Some(values) => {
                let found = format!("{} values", values.len());
                return Err(Error::Shape { name, expected: "[1]".to_string(), found });
            }
        }
        Ok(())
    }

    /// For each layer the one whose keys and values it reads, if it has none of its own: the last
    /// `attention.shared_kv_layers` read those of the last layer before them that sees as much as they do. `usual` are
    /// as many as there are where the file says nothing.
    pub(crate) fn shared_keys(&self, windowed: &[bool], usual: usize) -> Result<Vec<Option<usize>>> {
        let shared = self.keys.size("attention.shared_kv_layers")?.unwrap_or(usual);
        let first = windowed.len().saturating_sub(shared);
        let of_layer = |layer: usize| {
            let owner = windowed[..first].iter().rposition(|kind| *kind == windowed[layer]);
            let none = || {
                Error::Invalid(format!("layer {layer} has no keys, and no layer before it has them for it"))
            };
            if layer < first { Ok(None) } else { owner.map(Some).ok_or_else(none) }
        };
        (0..windowed.len()).map(of_layer).collect()
    }
}
