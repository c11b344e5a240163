//! The vocabulary of encoders: token types, layers whose norms come after, and the pooling of rows.

use super::Builder;
use crate::Result;
use crate::program::{Op, Output, Pooling, View};

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
            self.emit("token_types", Op::AddTokenType { table, x });
        }
        Ok(())
    }

    /// Layer norm of a row in its own place.
    pub(crate) fn layer_norm_in_place(&mut self, name: &str, x: View) -> Result<()> {
        let norm = self.norm_weights(name, x.width, true)?;
        self.emit(name, Op::Norm { norm, heads: 1, input: x, out: x });
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
