//! Bytes written as base64, as tokenizers' files have them.

/// The bytes of a text of base64.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digit = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let letters = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(letters.len() / 4 * 3 + 2);
    for group in letters.chunks(4) {
        let mut bits = 0u32;
        for letter in group {
            bits = bits << 6 | u32::from(digit(*letter)?);
        }
        // Two letters are a byte, three are two, four are three; what is left over fills up.
        let count = group.len() * 6 / 8;
        if count == 0 {
            return None;
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..1 + count]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::from_base64;

    #[test]
    fn base64_of_the_standard() {
        // RFC 4648, section 10.
        let known = [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ];
        for (text, bytes) in known {
            assert_eq!(from_base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(from_base64("/+8=").unwrap(), [0xff, 0xef]);
        assert_eq!([from_base64("Z"), from_base64("Zg!="), from_base64("ä")], [None, None, None]);
    }
}
