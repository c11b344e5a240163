//! From a tokenizer's files to the keys under `tokenizer.`: byte-level BPE, WordPiece and Unigram of
//! `tokenizer.json`, SentencePiece of `tokenizer.model`, or SentencePiece's merges where only `tokenizer.json` has them,
//! and tiktoken's ranks where there is nothing else.

mod base64;
mod bpe;
mod hugging_face;
mod pieces;
mod pre;
mod protobuf;
mod sentencepiece;
mod special;
mod tiktoken;
mod unigram;
mod wordpiece;

use std::path::Path;

use gleed_gguf::{Array, Metadata, Strings, Value};

use crate::config::Config;
use crate::error::{Result, malformed};
use crate::families::Vocabulary;
use hugging_face::{Model, TokenizerConfig, TokenizerJson};
use pieces::Pieces;
pub use pieces::{CONTROL, USER_DEFINED};
use tiktoken::Tiktoken;

/// Sets all keys of a vocabulary of at most `rows` tokens, as many as the embedding has.
pub fn set(
    metadata: &mut Metadata,
    folder: &Path,
    config: &Config,
    family: &Vocabulary,
    rows: usize,
) -> Result<()> {
    let json = TokenizerJson::open(folder)?;
    let settings = TokenizerConfig::open(folder)?;
    let size = match config.size(&["vocab_size"])? {
        Some(size) => size as usize,
        None => rows,
    };
    if size > rows {
        return Err(config.wrong(format!("key vocab_size says {size} tokens, but the embedding has {rows}")));
    }
    let model = folder.join("tokenizer.model");
    let mut special = special::Special::read(json.as_ref(), &settings, config, family)?;
    let mut pieces = match &json {
        Some(json) if family.of_characters => {
            let Model::Bpe(bpe) = &json.model else { return Err(not_bpe(json)) };
            metadata.set("tokenizer.ggml.model", text("gemma4"));
            metadata.set("tokenizer.ggml.merges", Value::Array(Array::Str(bpe::merges(bpe))));
            set_space_prefix(metadata, family, &settings, None);
            bpe::character_pieces(json, bpe, &settings, size)?
        }
        Some(json) if matches!(json.model, Model::Bpe(ref bpe) if !bpe.byte_fallback) => {
            let Model::Bpe(bpe) = &json.model else { return Ok(()) };
            let pre = pre::name(json, bpe.ignore_merges, special.adds_bos())?;
            metadata.set("tokenizer.ggml.model", text("gpt2"));
            metadata.set("tokenizer.ggml.pre", text(pre));
            let merges = bpe::merges(bpe);
            if merges.is_empty() {
                return Err(malformed(&json.file, "has no merges"));
            }
            metadata.set("tokenizer.ggml.merges", Value::Array(Array::Str(merges)));
            bpe::pieces(json, bpe, &settings, size)?
        }
        Some(json @ TokenizerJson { model: Model::WordPiece(vocabulary), .. }) => {
            metadata.set("tokenizer.ggml.model", text("bert"));
            metadata.set("tokenizer.ggml.pre", text("bert-bge"));
            wordpiece::set_normalizer(metadata, json);
            wordpiece::pieces(json, vocabulary, &settings, size)?
        }
        Some(json @ TokenizerJson { model: Model::Unigram(unigram), .. }) => {
            metadata.set("tokenizer.ggml.model", text("t5"));
            metadata.set("tokenizer.ggml.pre", text("default"));
            unigram::set_normalizer(metadata, json, &settings)?;
            unigram::pieces(json, unigram, &settings, size)?
        }
        _ if model.is_file() => {
            let mut pieces = sentencepiece::pieces(&model, size)?;
            pieces.add_file(folder)?;
            let beside =
                json.iter().flat_map(|json| json.added.iter().cloned()).filter(|_| family.as_written);
            for added in settings.added().chain(beside) {
                if family.as_written { pieces.add_as_written(added) } else { pieces.add(&added) }
            }
            set_sentencepiece(metadata, family, &settings, None);
            pieces
        }
        Some(json) => {
            let Model::Bpe(bpe) = &json.model else { return Err(not_bpe(json)) };
            set_sentencepiece(metadata, family, &settings, Some(json.adds_space()));
            bpe::scored_pieces(json, bpe, &settings, size)?
        }
        None => {
            let Some(tiktoken) = Tiktoken::open(folder, &settings, size)? else {
                let what = "has no tokenizer.json, tokenizer.model, tiktoken.model or hy.tiktoken: the vocabulary is \
                            missing";
                return Err(malformed(&folder.display().to_string(), what));
            };
            metadata.set("tokenizer.ggml.model", text("gpt2"));
            metadata.set("tokenizer.ggml.pre", text(tiktoken.pre()));
            metadata.set("tokenizer.ggml.merges", Value::Array(Array::Str(tiktoken.merges())));
            special.read_ranked(&tiktoken, &settings, family);
            tiktoken.pieces(size)
        }
    };
    for (text, kind) in pieces.texts.iter().zip(&mut pieces.kinds) {
        if let Some((_, other)) = family.kinds.iter().find(|(of, _)| of == text) {
            *kind = *other;
        }
    }
    set_pieces(metadata, pieces);
    special.set(metadata, rows);
    set_templates(metadata, folder, &settings)
}

fn text(text: &str) -> Value {
    Value::Str(text.to_string())
}

fn not_bpe(json: &TokenizerJson) -> crate::Error {
    malformed(&json.file, "its model is neither BPE, WordPiece nor Unigram: only these are read")
}

fn set_sentencepiece(
    metadata: &mut Metadata,
    family: &Vocabulary,
    settings: &TokenizerConfig,
    told: Option<bool>,
) {
    metadata.set("tokenizer.ggml.model", text("llama"));
    metadata.set("tokenizer.ggml.pre", text("default"));
    set_space_prefix(metadata, family, settings, told);
}

/// Whether a space is put in front of a text: the family knows, or the tokenizer's files say it.
fn set_space_prefix(
    metadata: &mut Metadata,
    family: &Vocabulary,
    settings: &TokenizerConfig,
    told: Option<bool>,
) {
    let asked = settings.add_prefix_space.filter(|_| family.asks_prefix);
    if let Some(adds) = family.space_prefix.or(asked).or(told) {
        metadata.set("tokenizer.ggml.add_space_prefix", Value::Bool(adds));
    }
}

fn set_pieces(metadata: &mut Metadata, pieces: Pieces) {
    let Pieces { texts, scores, kinds } = pieces;
    let texts: Strings = texts.into_iter().collect();
    metadata.set("tokenizer.ggml.tokens", Value::Array(Array::Str(texts)));
    if let Some(scores) = scores {
        metadata.set("tokenizer.ggml.scores", Value::Array(Array::F32(scores)));
    }
    metadata.set("tokenizer.ggml.token_type", Value::Array(Array::I32(kinds)));
}

/// The chat template: in the tokenizer's configuration, or in a file of its own.
fn set_templates(metadata: &mut Metadata, folder: &Path, settings: &TokenizerConfig) -> Result<()> {
    let mut templates = settings.templates(folder)?;
    templates.sort_by_key(|(name, _)| name != "default");
    let mut names = Vec::new();
    for (name, template) in templates {
        if name == "default" {
            metadata.set("tokenizer.chat_template", Value::Str(template));
        } else {
            metadata.set(format!("tokenizer.chat_template.{name}"), Value::Str(template));
            names.push(name);
        }
    }
    if !names.is_empty() {
        let names: Strings = names.into_iter().collect();
        metadata.set("tokenizer.chat_templates", Value::Array(Array::Str(names)));
    }
    Ok(())
}
