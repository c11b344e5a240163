//! The text side of an answer: which characters its tokens make, and which tokens end it.

use std::sync::Arc;

use gleed_tokenizer::{AnswerFormat, DecodeOptions, Stream, Tokenizer};

/// Turns one answer's tokens into text as they come.
pub trait Text {
    /// Takes in a token and returns the characters that are complete with it.
    fn push(&mut self, token: u32) -> String;

    /// Returns what is left of an incomplete character, in some readable form, when no token follows.
    fn finish(&mut self) -> String;

    /// Whether the model ends its answer with this token.
    fn is_end(&self, token: u32) -> bool;
}

/// The text of a model's vocabulary, as it continues a prompt: control tokens are left out.
pub struct TokenizerText(Stream);

impl TokenizerText {
    /// The text of one answer.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        TokenizerText(Stream::new(tokenizer, DecodeOptions::CONTINUATION))
    }

    /// The text of one answer that an `AnswerParser` of this format reads.
    pub fn for_parser(tokenizer: Arc<Tokenizer>, format: Arc<AnswerFormat>) -> Self {
        TokenizerText(Stream::of_answer(tokenizer, format))
    }
}

impl Text for TokenizerText {
    fn push(&mut self, token: u32) -> String {
        self.0.push(token)
    }

    fn finish(&mut self) -> String {
        self.0.finish()
    }

    fn is_end(&self, token: u32) -> bool {
        self.0.tokenizer().is_end_of_generation(token)
    }
}

impl<T: Text + ?Sized> Text for Box<T> {
    fn push(&mut self, token: u32) -> String {
        (**self).push(token)
    }

    fn finish(&mut self) -> String {
        (**self).finish()
    }

    fn is_end(&self, token: u32) -> bool {
        (**self).is_end(token)
    }
}
