//! A model's tokens as a tree of bytes, in which grammars look for what may come next.

use std::sync::Arc;

use gleed_tokenizer::Tokenizer;
use llguidance::ParserFactory;
use llguidance::earley::SlicedBiasComputer;
use llguidance::panic_utils::catch_unwind;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

use crate::{Error, Result, limits};

/// The vocabulary of one model. Clones share it; building it takes some tenths of a second for a large one.
#[derive(Clone)]
pub struct Vocabulary {
    pub(crate) factory: Arc<ParserFactory>,
}

/// Longer tokens do not fit the tree.
const LONGEST_TOKEN: usize = 1_000;

impl Vocabulary {
    /// The vocabulary of a tokenizer. Control tokens and those that end an answer are never text.
    pub fn new(tokenizer: &Tokenizer) -> Result<Vocabulary> {
        let ends = tokenizer.ends_of_generation();
        let Some(&end) = ends.first() else {
            return Err(Error::Vocabulary("no token ends an answer".to_string()));
        };
        let size = u32::try_from(tokenizer.vocab_size()).unwrap_or(u32::MAX);
        let words: Vec<Vec<u8>> = (0..size).map(|id| word(tokenizer, id)).collect();
        let info = TokRxInfo {
            vocab_size: size,
            tok_eos: end,
            tok_bos: None,
            tok_pad: None,
            tok_unk: None,
            tok_end_of_turn: None,
        };
        // The tree checks its own limits by panicking.
        let factory = catch_unwind(std::panic::AssertUnwindSafe(|| {
            let trie = TokTrie::from(&info, &words).with_eos_tokens(ends);
            let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
            let slices = SlicedBiasComputer::general_slices();
            let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)?;
            factory.quiet();
            *factory.limits_mut() = limits::of_parser();
            Ok(factory)
        }));
        let factory = factory.map_err(|error| Error::Vocabulary(first_line(&error.to_string())))?;
        Ok(Vocabulary { factory: Arc::new(factory) })
    }
}

/// What a token is in the tree: its bytes, or behind a byte that no text has its name. Tokens without bytes are never
/// allowed.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    if tokenizer.is_control(id) || tokenizer.is_end_of_generation(id) {
        let mut named = vec![TokTrie::SPECIAL_TOKEN_MARKER];
        // A name of its own for each: files have several with the same text.
        match std::str::from_utf8(&bytes).ok().filter(|text| tokenizer.token_id(text) == Some(id)) {
            Some(name) if name.len() <= LONGEST_TOKEN => named.extend_from_slice(name.as_bytes()),
            _ => named.extend_from_slice(format!("<control {id}>").as_bytes()),
        }
        return named;
    }
    // The marker's byte is never part of UTF-8: a byte token for it must not be taken for the marker.
    if bytes.len() > LONGEST_TOKEN || bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER) {
        return Vec::new();
    }
    bytes.into_owned()
}

/// The first line of a message, or its beginning: what follows may quote the grammar or a stack.
pub(crate) fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default().trim();
    match line.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_string(),
    }
}
