//! The vocabulary of encoders: token types, layers whose norms come after, and the pooling of rows.

use super::{Bias, Builder};
use crate::program::{Op, Output, Pooling, View};
use crate::{Error, Result};

impl Builder<'_> {
    /// Whether the file has a tensor.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.find(name, &[], false).is_some()
    }

    /// Adds the embedding of the first token type, which all tokens of a text by itself have, if there are any.
    pub(crate) fn add_token_type(&mut self, x: View) -> Result<()> {
        const NAME: &str = "token_types.weight";
        // There are as many as the table has.
        let types = match self.tensors.find(NAME, &[x.width, 2], false) {
            Some((shape, _)) if shape.len() == 2 => shape[1],
            _ => 1,
        };
        if let Some(table) = self.optional(NAME, &[x.width, types])? {
            self.emit("token_types", Op::AddVector { table, x });
        }
        Ok(())
    }

    /// Layer norm without a bias, which is the RMS norm of a row less its mean.
    pub(crate) fn bare_layer_norm(&mut self, name: &str, input: View, out: View) -> Result<()> {
        let norm = self.norm_weights(name, input.width, false)?;
        let centered = self.buffer("centered", input.width);
        self.emit(&format!("{name}_center"), Op::Center { heads: 1, input, out: centered });
        self.emit(name, Op::Norm { norm, heads: 1, input: centered, out });
        Ok(())
    }

    /// Linear layers of what is pooled, one after the other, of which each is there if its tensor is.
    pub(crate) fn dense(&mut self, mut x: View) -> Result<()> {
        for (name, buffer) in [("dense_2", "dense"), ("dense_3", "embedding")] {
            let (from, to) = (format!("{name}_feat_in"), format!("{name}_feat_out"));
            let sizes = (self.keys.size(&from)?, self.keys.size(&to)?);
            let (Some(from), Some(to)) = sizes else { continue };
            if !self.has(&format!("{name}.weight")) {
                continue;
            }
            if from != x.width || to == 0 {
                let what = format!("{name} takes {from} values and gives {to}, but there are {}", x.width);
                return Err(Error::Invalid(what));
            }
            let out = self.buffer(buffer, to);
            self.linear(name, x, out, Bias::Optional)?;
            x = out;
        }
        self.program.logits = x;
        Ok(())
    }

    /// The layer norm of x + y, in another buffer than x, which is the residual stream from then on.
    pub(crate) fn post_norm(&mut self, name: &str, x: View, y: View, out: View) -> Result<()> {
        let norm = self.norm_weights(name, x.width, true)?;
        self.add(&format!("{name}_residual"), x, y);
        self.emit(name, Op::Norm { norm, heads: 1, input: x, out });
        Ok(())
    }

    /// The rows of a text become one vector, which is what the program gives.
    pub(crate) fn pool(&mut self, pooling: Pooling, x: View) {
        match pooling {
            Pooling::Mean => self.emit("pool", Op::Pool { x }),
            Pooling::First | Pooling::Last => self.emit("gather", Op::Gather { views: vec![x] }),
        }
        self.program.output = Output::Embedding(pooling);
        self.program.logits = x;
    }
}
