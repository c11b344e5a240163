//! The text side of an answer: which characters its tokens make, and which tokens end it.

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
pub struct TokenizerText<'t> {
    tokenizer: &'t Tokenizer,
    stream: Stream<'t>,
    format: Option<&'t AnswerFormat>,
}

impl<'t> TokenizerText<'t> {
    /// The text of one answer.
    pub fn new(tokenizer: &'t Tokenizer) -> Self {
        TokenizerText { tokenizer, stream: tokenizer.stream(DecodeOptions::CONTINUATION), format: None }
    }

    /// The text of one answer that an `AnswerParser` of this format reads.
    pub fn for_parser(tokenizer: &'t Tokenizer, format: &'t AnswerFormat) -> Self {
        TokenizerText { tokenizer, stream: tokenizer.answer_stream(format), format: Some(format) }
    }
}

impl Text for TokenizerText<'_> {
    fn push(&mut self, token: u32) -> String {
        self.stream.push(token)
    }

    fn finish(&mut self) -> String {
        let fresh = match self.format {
            Some(format) => self.tokenizer.answer_stream(format),
            None => self.tokenizer.stream(DecodeOptions::CONTINUATION),
        };
        std::mem::replace(&mut self.stream, fresh).finish()
    }

    fn is_end(&self, token: u32) -> bool {
        self.tokenizer.is_end_of_generation(token)
    }
}
