//! Tokens to text. A token may hold part of a character, so bytes are collected until they are text.

use crate::{AnswerFormat, Tokenizer};
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

/// How tokens are shown as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Whether control tokens (`<|im_end|>`) are written out; else they are left out.
    pub show_control: bool,
    /// Whether the tokens continue a text. At the start of a text, vocabularies that put a space in front
    /// of every text have that space taken off again.
    pub continues: bool,
}

impl DecodeOptions {
    /// For tokens that follow a prompt: every space is kept, control tokens are left out.
    pub const CONTINUATION: DecodeOptions = DecodeOptions { show_control: false, continues: true };
}

/// Turns tokens into text one by one and never splits a character.
///
/// Joined, the strings from [`Stream::push`] and [`Stream::finish`] are what [`Tokenizer::decode`] gives
/// for the same tokens. The tokenizer and the format are borrowed, or shared (`Arc`) by streams that outlive a call.
pub struct Stream<T = Arc<Tokenizer>, F = Arc<AnswerFormat>> {
    tokenizer: T,
    options: DecodeOptions,
    /// The start of a character whose end has not come yet: at most three bytes.
    pending: Vec<u8>,
    /// Whether the next text is the first one.
    first: bool,
    /// The marks that control tokens are, for [`Tokenizer::answer_stream`].
    format: Option<F>,
}

impl<T: Deref<Target = Tokenizer>, F: Deref<Target = AnswerFormat>> Stream<T, F> {
    /// The text of tokens.
    pub fn new(tokenizer: T, options: DecodeOptions) -> Self {
        let first = !options.continues && tokenizer.adds_space();
        Stream { tokenizer, options, pending: Vec::new(), first, format: None }
    }

    /// The text of an answer that an [`AnswerParser`](crate::AnswerParser) reads: control tokens that are marks of the
    /// format are private characters, which no other token can bring; other control tokens are left out.
    pub fn of_answer(tokenizer: T, format: F) -> Self {
        Stream { format: Some(format), ..Stream::new(tokenizer, DecodeOptions::CONTINUATION) }
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The text that this token completes: whole characters only, possibly none. Bytes that can no longer
    /// become a character are U+FFFD; an unknown id has no text.
    pub fn push(&mut self, id: u32) -> String {
        let mut bytes = std::mem::take(&mut self.pending);
        if let Some(code) = self.format.as_ref().and_then(|format| format.code(id)) {
            let mut text = String::from_utf8_lossy(&bytes).into_owned();
            text.push(code);
            return text;
        }
        bytes.extend_from_slice(shown(&self.tokenizer, self.options, id, &mut self.first));
        let (text, pending) = complete(&bytes);
        self.pending = pending.to_vec();
        if self.format.is_some() { AnswerFormat::without_codes(text) } else { text }
    }

    /// The text of what is left: U+FFFD when the last character never came to its end, else nothing. More tokens may
    /// follow, as a new text that continues this one.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

/// What a token adds to a text, in bytes.
fn shown<'t>(tokenizer: &'t Tokenizer, options: DecodeOptions, id: u32, first: &mut bool) -> &'t [u8] {
    if !options.show_control && tokenizer.is_control(id) {
        return &[];
    }
    let bytes = tokenizer.piece(id).unwrap_or_default();
    if std::mem::take(first) { bytes.strip_prefix(b" ").unwrap_or(bytes) } else { bytes }
}

/// The whole characters of `bytes`, and the start of a character at its end.
fn complete(bytes: &[u8]) -> (String, &[u8]) {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let unfinished = matches!(std::str::from_utf8(last), Err(error) if error.error_len().is_none());
    let (whole, pending) = bytes.split_at(bytes.len() - if unfinished { last.len() } else { 0 });
    (String::from_utf8_lossy(whole).into_owned(), pending)
}

impl Tokenizer {
    /// The text of tokens. Bytes that are not UTF-8 become U+FFFD; unknown ids have no text.
    pub fn decode(&self, ids: &[u32], options: DecodeOptions) -> String {
        let mut first = !options.continues && self.adds_space();
        let mut bytes = Vec::new();
        for &id in ids {
            bytes.extend_from_slice(shown(self, options, id, &mut first));
        }
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// A decoder that takes tokens one by one.
    pub fn stream(&self, options: DecodeOptions) -> Stream<&Tokenizer, &AnswerFormat> {
        Stream::new(self, options)
    }

    /// A decoder for an answer, see [`Stream::of_answer`].
    pub fn answer_stream<'t>(&'t self, format: &'t AnswerFormat) -> Stream<&'t Tokenizer, &'t AnswerFormat> {
        Stream::of_answer(self, format)
    }

    /// A token's text for display, alone: part of a character is shown as U+FFFD.
    pub fn token_text(&self, id: u32) -> Option<Cow<'_, str>> {
        self.piece(id).map(String::from_utf8_lossy)
    }
}
