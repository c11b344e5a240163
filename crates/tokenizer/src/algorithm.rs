//! How a text becomes tokens: the algorithms that `tokenizer.ggml.model` names.

use crate::vocabulary::Kind;
use crate::{Error, Result};

/// The algorithms that `tokenizer.ggml.model` names.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Algorithm {
    Bpe,
    Spm,
    /// The merges of BPE over characters, spaces among them, and bytes for those without a token.
    SpacedBpe,
    WordPiece,
    Unigram,
    /// The longest tokens from the left.
    Greedy,
}

/// Each name in files with its algorithm and what it is.
const NAMES: [(&str, Algorithm, &str); 6] = [
    ("gpt2", Algorithm::Bpe, "byte-level BPE"),
    ("llama", Algorithm::Spm, "SentencePiece"),
    ("bert", Algorithm::WordPiece, "WordPiece"),
    ("t5", Algorithm::Unigram, "Unigram"),
    ("gemma4", Algorithm::SpacedBpe, "BPE over characters"),
    ("rwkv", Algorithm::Greedy, "RWKV World"),
];

impl Algorithm {
    /// The one of a name.
    pub(crate) fn named(name: &str) -> Result<Algorithm> {
        match NAMES.iter().find(|(known, ..)| *known == name) {
            Some(&(_, algorithm, _)) => Ok(algorithm),
            None => {
                let known: Vec<String> =
                    NAMES.iter().map(|(name, _, what)| format!("{name} ({what})")).collect();
                Err(Error::UnknownModel { found: name.to_string(), known: known.join(", ") })
            }
        }
    }

    /// Which kinds of token ordinary text can become.
    pub(crate) fn in_text(self) -> fn(Kind) -> bool {
        match self {
            Algorithm::Bpe => |kind| matches!(kind, Kind::Normal | Kind::Unused),
            // What fills a vocabulary up is not text.
            Algorithm::Greedy => |kind| matches!(kind, Kind::Normal | Kind::UserDefined),
            // SentencePiece merges towards tokens that are kept whole too.
            Algorithm::Spm | Algorithm::SpacedBpe | Algorithm::WordPiece | Algorithm::Unigram => {
                |kind| matches!(kind, Kind::Normal | Kind::Unused | Kind::UserDefined)
            }
        }
    }
}
