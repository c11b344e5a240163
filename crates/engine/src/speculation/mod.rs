//! Guesses of an answer's next tokens, which one step then computes together with the last known one.
//!
//! A guess costs a row and changes nothing: each token is chosen from its own logits, with its own random bits, as if
//! there had been no guesses, and those that were wrong are forgotten. They come from the request's own text
//! ([`Lookup`]) or from a smaller model ([`Draft`]); whether they are worth their rows is decided from measured times
//! ([`Worth`]) and from how often earlier guesses were right ([`Hope`]), most of which is known without computing any.

mod draft;
mod hope;
mod lookup;
mod worth;

pub use draft::Draft;
pub(crate) use hope::Hope;
pub(crate) use lookup::Lookup;
pub(crate) use worth::Worth;

/// When guesses are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Speculation {
    /// Never.
    Off,
    /// When it is faster, as far as can be told.
    #[default]
    Auto,
    /// Whenever there is a guess.
    Always,
}

impl std::str::FromStr for Speculation {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "off" => Ok(Speculation::Off),
            "auto" => Ok(Speculation::Auto),
            "always" => Ok(Speculation::Always),
            _ => Err("must be auto, always or off".to_string()),
        }
    }
}

impl std::fmt::Display for Speculation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Speculation::Off => "off",
            Speculation::Auto => "auto",
            Speculation::Always => "always",
        })
    }
}

/// The most tokens that are guessed at once.
pub(crate) const MOST_GUESSES: usize = 8;
