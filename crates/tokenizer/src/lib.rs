//! Text to tokens and back, built from GGUF metadata; chat templates.
//!
//! [`Tokenizer`] encodes and decodes with the vocabulary of a file: byte-level BPE with the pre-tokeniser
//! of its family, SentencePiece (by merges or Unigram), WordPiece or RWKV's longest tokens. [`Stream`] decodes tokens as they are generated.
//! [`ChatTemplate`] turns a conversation into a prompt, [`AnswerParser`] an answer into reasoning, words and calls.

mod algorithm;
mod bpe;
mod bytes;
mod cache;
mod charsmap;
mod chat;
mod error;
mod greedy;
mod merger;
mod merges;
mod pretokenizer;
mod queue;
mod roles;
mod special;
mod spm;
mod stream;
mod tokenizer;
mod unicode;
mod unigram;
mod vocabulary;
mod wordpiece;

pub use bytes::byte_alphabet;
pub use chat::{
    AnswerEvent, AnswerFormat, AnswerParser, ChatTemplate, Message, Prompt, ReasoningWish, TemplateInput,
    TemplateValue, Tools, marks, strftime, template_value,
};
pub use error::{Error, Result};
pub use special::Special;
pub use stream::{DecodeOptions, Stream};
pub use tokenizer::Tokenizer;
