//! The tokens and merges of `tokenizer.json`.

use std::collections::HashMap;

use gleed_gguf::{Strings, shown};

use super::hugging_face::{Bpe, Merge, TokenizerConfig, TokenizerJson};
use super::pieces::{ADDED, BYTE, CONTROL, NORMAL, Pieces, UNKNOWN};
use crate::error::{Result, malformed};

/// The tokens of byte-level BPE.
pub fn pieces(json: &TokenizerJson, bpe: &Bpe, settings: &TokenizerConfig, size: usize) -> Result<Pieces> {
    let mut pieces = Pieces::unused(size, false);
    for (text, &number) in &bpe.vocab {
        check(json, text, number, size)?;
        pieces.put(number, text.clone(), 0.0, NORMAL);
    }
    add(json, settings, &mut pieces, size)?;
    Ok(pieces)
}

/// The tokens of SentencePiece's BPE where there are merges instead of scores: the earlier a token is merged, the
/// better. Files that SentencePiece wrote score in the same order.
pub fn scored_pieces(
    json: &TokenizerJson,
    bpe: &Bpe,
    settings: &TokenizerConfig,
    size: usize,
) -> Result<Pieces> {
    let mut ranks: HashMap<String, usize> = HashMap::with_capacity(bpe.merges.len());
    for (rank, merge) in bpe.merges.iter().enumerate() {
        let merged = match merge {
            Merge::Joined(pair) => pair.replacen(' ', "", 1),
            Merge::Pair(left, right) => format!("{left}{right}"),
        };
        ranks.entry(merged).or_insert(rank);
    }
    let mut pieces = Pieces::unused(size, true);
    for (text, &number) in &bpe.vocab {
        check(json, text, number, size)?;
        // What no merge makes comes last: it is what merges begin with.
        let score = -(ranks.get(text).copied().unwrap_or(bpe.merges.len()) as f32);
        let kind = match text.as_str() {
            "<unk>" => UNKNOWN,
            _ if is_byte(text) => BYTE,
            _ => NORMAL,
        };
        pieces.put(number, text.clone(), score, kind);
    }
    let unknown = bpe.vocab.get("<unk>").copied();
    add(json, settings, &mut pieces, size)?;
    if let Some(place) = unknown.and_then(|number| usize::try_from(number).ok())
        && pieces.kinds.get(place) == Some(&CONTROL)
    {
        pieces.kinds[place] = UNKNOWN;
    }
    Ok(pieces)
}

/// The tokens of BPE over characters, whose merges say all that scores would.
pub fn character_pieces(
    json: &TokenizerJson,
    bpe: &Bpe,
    settings: &TokenizerConfig,
    size: usize,
) -> Result<Pieces> {
    let mut pieces = Pieces::unused(size, true);
    for (text, &number) in &bpe.vocab {
        check(json, text, number, size)?;
        pieces.put(number, text.clone(), ADDED, if is_byte(text) { BYTE } else { NORMAL });
    }
    add(json, settings, &mut pieces, size)?;
    Ok(pieces)
}

/// The merges, two tokens with a space between them each.
pub fn merges(bpe: &Bpe) -> Strings {
    // A space inside a token is written as byte-level BPE writes it, so that the one between the two tells them apart.
    let part = |part: &str| part.replace(' ', "\u{120}");
    let joined = |merge: &Merge| match merge {
        Merge::Joined(pair) => pair.clone(),
        Merge::Pair(left, right) => format!("{} {}", part(left), part(right)),
    };
    bpe.merges.iter().map(joined).collect()
}

pub(super) fn add(
    json: &TokenizerJson,
    settings: &TokenizerConfig,
    pieces: &mut Pieces,
    size: usize,
) -> Result<()> {
    let beside = settings.added().filter(|added| !json.added.iter().any(|known| known.id == added.id));
    for added in json.added.iter().cloned().chain(beside) {
        check(json, &added.content, added.id, size)?;
        pieces.add(&added);
    }
    Ok(())
}

pub(super) fn check(json: &TokenizerJson, text: &str, number: u64, size: usize) -> Result<()> {
    if number < size as u64 {
        return Ok(());
    }
    let what = format!("token {} has number {number}, but the model has {size} tokens", shown(text));
    Err(malformed(&json.file, what))
}

/// Whether a token stands for a byte: `<0x0A>`.
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}
