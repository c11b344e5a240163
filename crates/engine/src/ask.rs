//! Text in, text out.

use std::sync::atomic::AtomicBool;

use gleed_tokenizer::Tokenizer;

use crate::{Engine, GenerationSettings, Result, Sequence, TokenizerText};

impl Engine {
    /// Continues a text. What the tokenizer puts before every text is added; a model that was made for conversations
    /// wants its chat template around the text too.
    pub fn ask(&mut self, tokenizer: &Tokenizer, text: &str, settings: GenerationSettings) -> Result<String> {
        let prompt = tokenizer.encode_prompt(text, true, true);
        let (mut sequence, never, mut answer) = (Sequence::default(), AtomicBool::new(false), String::new());
        let words = TokenizerText::new(tokenizer);
        self.generate(&mut sequence, &prompt, settings, words, &never, |event| {
            answer.push_str(event.text())
        })?;
        Ok(answer)
    }
}
