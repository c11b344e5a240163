//! A compiled grammar that follows one answer.

use gleed_engine::{Constraint, Error, Result, TokenMask};
use llguidance::Matcher;
use llguidance::toktrie::SimpleVob;

use crate::vocabulary::first_line;

/// Follows one answer through its grammar.
pub(crate) struct Follower {
    matcher: Matcher,
    /// What may come first, computed when the grammar was compiled.
    first: Option<SimpleVob>,
}

impl Follower {
    /// A matcher that has seen nothing. Computes the first mask, in which most of what is too costly shows.
    pub fn new(mut matcher: Matcher) -> std::result::Result<Follower, String> {
        let first = matcher.compute_mask_or_eos().map_err(|error| first_line(&error.to_string()))?;
        Ok(Follower { matcher, first: Some(first) })
    }
}

impl Constraint for Follower {
    fn allow(&mut self, mask: &mut TokenMask) -> Result<()> {
        let allowed = match &self.first {
            Some(first) => first,
            None => &self.matcher.compute_mask_or_eos().map_err(engine_error)?,
        };
        mask.allow_words(allowed.as_slice());
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<()> {
        self.first = None;
        if self.matcher.is_stopped() && !self.matcher.is_error() {
            // The text is complete: what comes is the token that ends the answer.
            return Ok(());
        }
        self.matcher.consume_token(token).map_err(engine_error)
    }
}

/// Lets everything pass.
pub(crate) struct Free;

impl Constraint for Free {
    fn allow(&mut self, mask: &mut TokenMask) -> Result<()> {
        (0..mask.vocabulary() as u32).for_each(|token| mask.allow(token));
        Ok(())
    }

    fn accept(&mut self, _: u32) -> Result<()> {
        Ok(())
    }
}

fn engine_error(error: impl std::fmt::Display) -> Error {
    Error::Constraint(first_line(&error.to_string()))
}
