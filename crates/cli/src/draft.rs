//! A smaller model that guesses what another will say.

use anyhow::{Result, bail};
use gleed_engine::{Draft, Engine};
use gleed_tokenizer::Tokenizer;

use crate::load::{self, Options};
use crate::talk::MAX_ROWS;

/// A draft for so many sequences, of `context` positions each where the user says how many, whose vocabulary must be that
/// of the model.
pub fn load(
    name: &str,
    tokenizer: &Tokenizer,
    options: &Options,
    sequences: usize,
    context: Option<usize>,
) -> Result<Draft> {
    let loaded = load::open(name)?;
    loaded.must_generate()?;
    let own = load::tokenizer(&loaded.file)?;
    let differs = |id: u32| own.token_bytes(id) != tokenizer.token_bytes(id);
    if own.vocab_size() != tokenizer.vocab_size() || (0..own.vocab_size() as u32).any(differs) {
        bail!(
            "--draft {name}: its tokens are others than the model's; use a smaller model of the same family"
        );
    }
    let most = loaded.model.config.context;
    let context = context.map(|context| context.min(most));
    let loaded = loaded.for_sequences(sequences, context)?;
    let executor = loaded.executor(options, None, MAX_ROWS.min(context.unwrap_or(most)))?;
    Ok(Draft::new(Engine::new(Box::new(executor))))
}
