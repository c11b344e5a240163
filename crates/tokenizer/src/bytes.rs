//! The byte alphabet of byte-level BPE: every byte is written as one printable character, so that a
//! vocabulary of arbitrary bytes can be stored as text. Printable Latin-1 stands for itself, the other 68
//! bytes are U+0100 and up.

/// How many characters the alphabet spans: the 68 stand-ins start at U+0100.
const SPAN: usize = 0x100 + 68;

/// Byte of each character of the alphabet, or `NONE`.
const BYTE_OF: [u16; SPAN] = {
    let mut table = [NONE; SPAN];
    let mut byte = 0;
    let mut stand_ins = 0;
    while byte < 256 {
        if stands_for_itself(byte as u8) {
            table[byte] = byte as u16;
        } else {
            table[0x100 + stand_ins] = byte as u16;
            stand_ins += 1;
        }
        byte += 1;
    }
    table
};

const NONE: u16 = u16::MAX;

const fn stands_for_itself(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

/// Appends the bytes that a token's text stands for. A character outside the alphabet (an added token
/// that was written as plain text) stands for its own UTF-8 bytes.
pub(crate) fn decode_into(text: &[u8], bytes: &mut Vec<u8>) {
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        // Most of a vocabulary is printable ASCII.
        if first.is_ascii_graphic() {
            bytes.push(*first);
            rest = tail;
            continue;
        }
        // The alphabet's other characters are all two bytes long in UTF-8.
        if let ([lead @ 0xc2..=0xc5, low @ 0x80..=0xbf], tail) = rest.split_at(rest.len().min(2)) {
            let code = (usize::from(*lead) & 0x1f) << 6 | (usize::from(*low) & 0x3f);
            if let Some(&byte) = BYTE_OF.get(code).filter(|&&byte| byte != NONE) {
                bytes.push(byte as u8);
            } else {
                bytes.extend([lead, low]);
            }
            rest = tail;
            continue;
        }
        bytes.push(*first);
        rest = tail;
    }
}

/// The character that stands for each byte, in the order of the bytes.
pub fn byte_alphabet() -> [char; 256] {
    let mut alphabet = ['\0'; 256];
    for (character, &byte) in ('\0'..).zip(&BYTE_OF) {
        if byte != NONE {
            alphabet[usize::from(byte)] = character;
        }
    }
    alphabet
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        decode_into(text.as_bytes(), &mut bytes);
        bytes
    }

    #[test]
    fn the_alphabet_covers_every_byte_once() {
        let mut seen = [0; 256];
        for byte in BYTE_OF.into_iter().filter(|&b| b != NONE) {
            seen[usize::from(byte)] += 1;
        }
        assert_eq!(seen, [1; 256]);
        let alphabet: String = byte_alphabet().into_iter().collect();
        assert_eq!(decode(&alphabet), (0..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn known_stand_ins() {
        assert_eq!(decode("Ġthe"), b" the");
        assert_eq!(decode("Ċ"), b"\n");
        assert_eq!(decode("Ã¤"), "ä".as_bytes());
        assert_eq!(decode("Ń"), [0xad]);
        assert_eq!(decode("<｜end▁of"), "<｜end▁of".as_bytes());
        assert_eq!(decode(""), b"");
    }
}
