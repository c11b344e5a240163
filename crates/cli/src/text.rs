//! A model and a text that is measured with it, window by window.

use std::path::Path;

use anyhow::{Context, Result};
use gleed_engine::Engine;
use serde_json::{Map, Value};

use crate::load::{self, Options};

/// Tokens per window unless the user says otherwise: what published figures and others use.
const WINDOW: usize = 512;

/// A text as tokens, and what measures it.
pub struct Text {
    /// All tokens.
    pub tokens: Vec<u32>,
    /// What a window begins with, where the model wants that.
    pub bos: Option<u32>,
    /// Tokens per window.
    pub context: usize,
    /// The model.
    pub engine: Engine,
    /// What the report says of it.
    pub report: Map<String, Value>,
}

impl Text {
    /// Opens the model and reads the text.
    pub fn open(model: &str, path: &Path, context: Option<usize>, options: &Options) -> Result<Text> {
        let loaded = load::open(model, &options.lora)?;
        loaded.must_generate()?;
        let context = loaded.context(context)?.unwrap_or(WINDOW.min(loaded.model.config.context));
        let loaded = loaded.for_sequences(1, Some(context))?;
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let tokenizer = load::tokenizer(&loaded.file)?;
        let tokens = tokenizer.encode_prompt(&text, true, false);
        let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
        let executor = loaded.executor(options, context, context.min(WINDOW))?;
        let report = executor.report(&loaded);
        Ok(Text { tokens, bos, context, engine: Engine::new(Box::new(executor)), report })
    }
}
