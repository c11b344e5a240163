//! The vocabulary of RWKV World: text is covered from the left by the longest tokens, byte by byte. Tokens are written
//! as Python writes bytes, with escapes.

use crate::vocabulary::Vocabulary;

/// Appends the tokens of a text without special tokens; a byte without a token becomes the unknown one, if there is one.
pub(crate) fn encode(vocabulary: &Vocabulary, unknown: Option<u32>, text: &str, ids: &mut Vec<u32>) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let (length, id) = longest(vocabulary, rest).map_or((1, unknown), |(length, id)| (length, Some(id)));
        ids.extend(id);
        rest = &rest[length..];
    }
}

/// The longest token that a text begins with, and its length.
pub(crate) fn longest(vocabulary: &Vocabulary, text: &[u8]) -> Option<(usize, u32)> {
    let mut lengths = (1..=text.len().min(vocabulary.longest())).rev();
    lengths.find_map(|length| Some((length, vocabulary.find(&text[..length])?)))
}

/// Appends the bytes that a token's text means: `\n`, `\r`, `\t` and `\xff` are one byte each, and what else follows a
/// backslash stands for itself.
pub(crate) fn unescape(text: &[u8], piece: &mut Vec<u8>) {
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let (byte, length) = match (first, tail) {
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'x', high, low, ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (16 * high + low, 4),
                _ => (b'x', 2),
            },
            (b'\\', [other, ..]) => (*other, 2),
            _ => (*first, 1),
        };
        piece.push(byte);
        rest = &rest[length..];
    }
}

fn digit(character: u8) -> Option<u8> {
    char::from(character).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
