//! A vocabulary without a tokenizer, with pieces that end inside a character.

use gleed_engine::Text;

/// A small vocabulary of letters, longer pieces and parts of characters; token 0 ends an answer.
#[derive(Debug, Clone, Default)]
pub struct MockText {
    /// Bytes of a character that is not complete yet.
    open: Vec<u8>,
}

/// The pieces of [`MockText`] by token. The last two are halves of "é".
const PIECES: [&[u8]; 16] = [
    b"",
    b"a",
    b"b",
    b"c",
    b"ab",
    b"bca",
    b" ",
    b"\n",
    "é".as_bytes(),
    "字".as_bytes(),
    b"the ",
    b"END",
    b"EN",
    b"D.",
    b"\xc3",
    b"\xa9",
];

impl MockText {
    /// Tokens of this vocabulary.
    pub const VOCABULARY: usize = PIECES.len();

    /// The token that ends an answer.
    pub const END: u32 = 0;

    /// The whole text of some tokens.
    pub fn decode(tokens: &[u32]) -> String {
        let mut text = MockText::default();
        let pieces: String = tokens.iter().map(|&token| text.push(token)).collect();
        pieces + &text.finish()
    }
}

impl Text for MockText {
    fn push(&mut self, token: u32) -> String {
        let Some(piece) = PIECES.get(token as usize) else { return String::new() };
        self.open.extend_from_slice(piece);
        let mut text = String::new();
        // Bytes that no character starts with become the replacement character; an open one waits.
        while !self.open.is_empty() {
            let (valid, skipped) = match std::str::from_utf8(&self.open) {
                Ok(all) => (all.len(), 0),
                Err(error) => match error.error_len() {
                    Some(length) => (error.valid_up_to(), length),
                    None if error.valid_up_to() == 0 => break,
                    None => (error.valid_up_to(), 0),
                },
            };
            text.push_str(&String::from_utf8_lossy(&self.open[..valid]));
            if skipped > 0 {
                text.push(char::REPLACEMENT_CHARACTER);
            }
            self.open.drain(..valid + skipped);
        }
        text
    }

    fn finish(&mut self) -> String {
        let rest = String::from_utf8_lossy(&self.open).into_owned();
        self.open.clear();
        rest
    }

    fn is_end(&self, token: u32) -> bool {
        token == Self::END
    }
}
