//! Vocabularies of tiktoken: a line for each token, its bytes in base64 and its rank. Lower ranks are merged first, and
//! the rank is the token's number. Which pairs are merged is not told: it is what merging by rank makes of a token's bytes
//! before the token itself.

use std::collections::HashMap;
use std::path::Path;

use gleed_gguf::Strings;

use super::base64::from_base64;
use super::hugging_face::TokenizerConfig;
use super::pieces::{CONTROL, NORMAL, Pieces};
use crate::error::{Result, malformed};
use crate::json;

/// The longest token, in bytes. Runs of spaces or signs are the longest in use, some hundred.
const LONGEST: usize = 1024;

/// A file of ranks, and what only the code of its tokenizer says.
struct Kind {
    file: &'static str,
    /// The rule that cuts a text into words.
    pre: &'static str,
    /// The texts of the tokens after the last rank, by their place there and their number.
    text: fn(usize, usize) -> Option<String>,
    /// Whether the end of a text is the token that `tokenizer_config.json` names, whatever the model's configuration says.
    names_end: bool,
}

const KINDS: [Kind; 2] = [
    Kind { file: "tiktoken.model", pre: "kimi-k2", text: reserved, names_end: true },
    Kind { file: "hy.tiktoken", pre: "hunyuan", text: extras, names_end: false },
];

/// Kimi's: all that `tokenizer_config.json` does not name.
fn reserved(place: usize, number: usize) -> Option<String> {
    (place < 258).then(|| format!("<|reserved_token_{number}|>"))
}

/// Hunyuan's.
fn extras(place: usize, _number: usize) -> Option<String> {
    const NAMED: [&str; 5] = ["<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"];
    match NAMED.get(place) {
        Some(name) => Some((*name).to_string()),
        None => (place < NAMED.len() + 205).then(|| format!("<|extra_{}|>", place - NAMED.len())),
    }
}

/// A vocabulary of ranks.
pub struct Tiktoken {
    kind: &'static Kind,
    /// The bytes of tokens, by rank.
    ranked: Vec<(usize, Vec<u8>)>,
    /// Tokens that stand for no bytes, by number.
    special: Vec<(usize, String)>,
}

impl Tiktoken {
    /// Reads the file of a folder, if there is one, for a model of `size` tokens.
    pub fn open(folder: &Path, settings: &TokenizerConfig, size: usize) -> Result<Option<Tiktoken>> {
        let there = KINDS.iter().find(|kind| folder.join(kind.file).is_file());
        let Some(kind) = there else { return Ok(None) };
        let path = folder.join(kind.file);
        let ranked =
            ranks(&json::text(&path)?, size).map_err(|what| malformed(&path.display().to_string(), what))?;
        let named: HashMap<u64, String> = settings.added().map(|added| (added.id, added.content)).collect();
        let text = |number: usize| {
            let other = (kind.text)(number - ranked.len(), number)?;
            Some((number, named.get(&(number as u64)).cloned().unwrap_or(other)))
        };
        let special = (ranked.len()..size).map_while(text).collect();
        Ok(Some(Tiktoken { kind, ranked, special }))
    }

    /// The rule that cuts a text into words.
    pub fn pre(&self) -> &'static str {
        self.kind.pre
    }

    /// The token that ends a text, where the tokenizer's configuration names it.
    pub fn end<'a>(&self, settings: &'a TokenizerConfig) -> Option<&'a str> {
        settings.token("eos").filter(|_| self.kind.names_end)
    }

    /// The number of a token that stands for no bytes.
    pub fn number(&self, text: &str) -> Option<u64> {
        self.special.iter().find(|(_, special)| special == text).map(|(number, _)| *number as u64)
    }

    /// The tokens.
    pub fn pieces(&self, size: usize) -> Pieces {
        let mut pieces = Pieces::unused(size, false);
        for (rank, bytes) in &self.ranked {
            pieces.put(*rank as u64, spelled(bytes), 0.0, NORMAL);
        }
        for (number, text) in &self.special {
            pieces.put(*number as u64, text.clone(), 0.0, CONTROL);
        }
        pieces
    }

    /// The merges, two tokens with a space between them each. A token that merging never makes has none.
    pub fn merges(&self) -> Strings {
        let ranks: HashMap<&[u8], usize> =
            self.ranked.iter().map(|(rank, bytes)| (bytes.as_slice(), *rank)).collect();
        let merge = |(rank, bytes): &(usize, Vec<u8>)| {
            let (left, right) = bytes.split_at(last_border(&ranks, bytes, *rank)?);
            Some(format!("{} {}", spelled(left), spelled(right)))
        };
        self.ranked.iter().filter_map(merge).collect()
    }
}

/// The tokens of a file, by rank.
fn ranks(text: &str, size: usize) -> std::result::Result<Vec<(usize, Vec<u8>)>, String> {
    let mut ranked: Vec<(usize, Vec<u8>)> = Vec::new();
    for (line, content) in (1..).zip(text.lines()).filter(|(_, content)| !content.trim().is_empty()) {
        let (token, rank) = content
            .split_once(' ')
            .and_then(|(token, rank)| Some((from_base64(token)?, rank.trim().parse().ok()?)))
            .ok_or_else(|| format!("line {line} is not a token in base64 and its rank"))?;
        if rank >= size {
            return Err(format!("line {line}: rank {rank}, but the model has {size} tokens"));
        }
        if token.is_empty() || token.len() > LONGEST {
            return Err(format!("line {line}: a token of {} bytes; they have 1 to {LONGEST}", token.len()));
        }
        ranked.push((rank, token));
    }
    ranked.sort_unstable();
    // The tokens after the last rank are numbered by how many there are.
    match ranked.iter().zip(0..).find(|((rank, _), place)| rank != place) {
        Some(((rank, _), place)) if *rank < place => Err(format!("rank {rank} is there twice")),
        Some((_, place)) => Err(format!("rank {place} is missing")),
        None if ranked.is_empty() => Err("has no tokens".into()),
        None => Ok(ranked),
    }
}

/// Where the two parts meet that a token of this rank is merged of, if two are left.
fn last_border(ranks: &HashMap<&[u8], usize>, token: &[u8], rank: usize) -> Option<usize> {
    let mut borders: Vec<usize> = (0..=token.len()).collect();
    while borders.len() > 3 {
        let merged = |place: usize| ranks.get(&token[borders[place - 1]..borders[place + 1]]).copied();
        // The first of the lowest rank; a pair that comes after the token itself is not merged yet.
        let lowest = (1..borders.len() - 1).filter_map(|place| Some((merged(place)?, place))).min()?;
        if lowest.0 >= rank {
            return None;
        }
        borders.remove(lowest.1);
    }
    (borders.len() == 3).then(|| borders[1])
}

/// Bytes in the alphabet of byte-level BPE: printable Latin-1 stands for itself, the others are U+0100 and up.
fn spelled(bytes: &[u8]) -> String {
    let plain = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let letter = |&byte: &u8| match plain(byte) {
        true => char::from(byte),
        false => char::from_u32(0x100 + (0..byte).filter(|&other| !plain(other)).count() as u32)
            .unwrap_or(char::REPLACEMENT_CHARACTER),
    };
    bytes.iter().map(letter).collect()
}
