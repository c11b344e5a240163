//! Text from outside (a model file, a peer, the system) made harmless for a terminal: whatever could move the
//! cursor, begin a line, change colours or turn the order of characters around is shown as its number.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with everything visible that a terminal would obey: `\n`, `\u{1b}`, `\u{202e}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, |character, out| match character {
        '\n' | '\r' | '\t' => out.extend(character.escape_default()),
        _ => out.extend(character.escape_unicode()),
    })
}

/// The same of each line of a text that has several.
pub fn visible_lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// The same in JSON, where such characters can only be in strings, which may have them as `\u001b`.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    // Line breaks are between the values: those in strings are escaped already.
    escaped(json, |character, out| match character {
        '\n' => out.push('\n'),
        _ => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    })
}

fn escaped(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_obeyed(character) {
            true => escape(character, &mut out),
            false => out.push(character),
        }
    }
    Cow::Owned(out)
}

/// Whether a terminal does something other than to show this character, or shows nothing of it.
fn is_obeyed(character: char) -> bool {
    match character {
        // Breaks of lines and paragraphs.
        '\u{2028}' | '\u{2029}' => true,
        // The order of characters, and its marks.
        '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => true,
        // No width: two names that look alike need not be alike. (Joiners are part of words.)
        '\u{00AD}' | '\u{200B}' | '\u{2060}'..='\u{2064}' | '\u{206A}'..='\u{206F}' | '\u{FEFF}' => true,
        // Notes between lines, and tags, which are never seen.
        '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}' => true,
        // C0, DEL and C1.
        character => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_as_its_number() {
        let cases = [
            ("plain, é, 日本語, 👩\u{200D}👩, می\u{200C}خواهم", None),
            ("a\x1b[31mred", Some("a\\u{1b}[31mred")),
            ("\x1b]0;title\x07", Some("\\u{1b}]0;title\\u{7}")),
            ("one\nerror: two\r\tthree", Some("one\\nerror: two\\r\\tthree")),
            ("a\u{9b}2Jb\u{7f}", Some("a\\u{9b}2Jb\\u{7f}")),
            ("gpj.\u{202e}exe\u{2066}", Some("gpj.\\u{202e}exe\\u{2066}")),
            ("zero\u{200b}width\u{feff}\u{e0041}", Some("zero\\u{200b}width\\u{feff}\\u{e0041}")),
            ("line\u{2028}two\u{85}three", Some("line\\u{2028}two\\u{85}three")),
        ];
        for (text, expected) in cases {
            assert_eq!(visible(text), expected.unwrap_or(text));
        }
        assert_eq!(visible_lines("a\x08\nb\x08"), "a\\u{8}\nb\\u{8}");
    }

    #[test]
    fn json_means_the_same() {
        let text = "\u{9b}2J\u{202e}\u{e0041}\x1b\n\u{7f}é";
        let value = serde_json::json!({ "a": text, "b": [1, 2] });
        for json in [serde_json::to_string(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap()] {
            let safe = visible_json(&json);
            assert!(!safe.replace('\n', "").contains(is_obeyed), "{safe}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
        }
    }
}
