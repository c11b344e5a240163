//! Character classes as the pre-tokenisers' regular expressions name them (`\p{L}`, `\p{N}`, `\s`…).
//!
//! A class is a set of bits, so that one look-up per character answers every question a rule asks. ASCII
//! is a table; the rest comes from the Unicode general category.

use unicode_general_category::{GeneralCategory, get_general_category};

/// A set of character classes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class(u16);

impl Class {
    /// `\p{Lu}` and `\p{Lt}`: letters that only start a word of mixed case.
    pub const UPPER: Class = Class(1);
    /// `\p{Ll}`.
    pub const LOWER: Class = Class(2);
    /// `\p{Lm}` and `\p{Lo}`: letters without case.
    pub const UNCASED: Class = Class(4);
    /// `\p{M}`.
    pub const MARK: Class = Class(8);
    /// `\p{N}`.
    pub const NUMBER: Class = Class(16);
    /// `\p{P}`.
    pub const PUNCTUATION: Class = Class(32);
    /// `\p{S}`.
    pub const SYMBOL: Class = Class(64);
    /// `\s`.
    pub const SPACE: Class = Class(128);
    /// Carriage return and line feed.
    pub const NEWLINE: Class = Class(256);
    /// `\p{Cc}`, `\p{Cf}`, `\p{Co}` and `\p{Cs}`.
    pub const CONTROL: Class = Class(512);
    /// `\p{L}`.
    pub const LETTER: Class = Class(1 | 2 | 4);

    /// The union of two sets.
    pub const fn or(self, other: Class) -> Class {
        Class(self.0 | other.0)
    }

    /// Whether the two sets share a class.
    pub const fn is(self, any_of: Class) -> bool {
        self.0 & any_of.0 != 0
    }
}

const ASCII: [Class; 128] = {
    let mut table = [Class(0); 128];
    let mut code = 0;
    while code < 128 {
        table[code] = match code as u8 {
            b'A'..=b'Z' => Class::UPPER,
            b'a'..=b'z' => Class::LOWER,
            b'0'..=b'9' => Class::NUMBER,
            b'\n' | b'\r' => Class::SPACE.or(Class::NEWLINE).or(Class::CONTROL),
            b'\t' | 0x0b | 0x0c => Class::SPACE.or(Class::CONTROL),
            b' ' => Class::SPACE,
            b'$' | b'+' | b'<'..=b'>' | b'^' | b'`' | b'|' | b'~' => Class::SYMBOL,
            0x21..=0x7e => Class::PUNCTUATION,
            _ => Class::CONTROL,
        };
        code += 1;
    }
    table
};

/// The classes of a character.
#[inline]
pub(crate) fn class(character: char) -> Class {
    match ASCII.get(character as usize) {
        Some(class) => *class,
        None => beyond_ascii(character),
    }
}

fn beyond_ascii(character: char) -> Class {
    use GeneralCategory as G;
    let class = match get_general_category(character) {
        G::UppercaseLetter | G::TitlecaseLetter => Class::UPPER,
        G::LowercaseLetter => Class::LOWER,
        G::ModifierLetter | G::OtherLetter => Class::UNCASED,
        G::NonspacingMark | G::SpacingMark | G::EnclosingMark => Class::MARK,
        G::DecimalNumber | G::LetterNumber | G::OtherNumber => Class::NUMBER,
        G::ConnectorPunctuation
        | G::DashPunctuation
        | G::OpenPunctuation
        | G::ClosePunctuation
        | G::InitialPunctuation
        | G::FinalPunctuation
        | G::OtherPunctuation => Class::PUNCTUATION,
        G::MathSymbol | G::CurrencySymbol | G::ModifierSymbol | G::OtherSymbol => Class::SYMBOL,
        G::Control | G::Format | G::PrivateUse | G::Surrogate => Class::CONTROL,
        _ => Class(0),
    };
    if character.is_whitespace() { class.or(Class::SPACE) } else { class }
}

/// How many bytes at the start of `text` are characters of any of these classes.
#[inline]
pub(crate) fn run(text: &str, any_of: Class) -> usize {
    run_while(text, |c| class(c).is(any_of))
}

/// How many bytes at the start of `text` are characters for which `wanted` holds.
#[inline]
pub(crate) fn run_while(text: &str, wanted: impl Fn(char) -> bool) -> usize {
    text.char_indices().find(|&(_, c)| !wanted(c)).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ASCII table is written by hand: hold it against the general category.
    #[test]
    fn the_ascii_table_agrees_with_unicode() {
        for c in '\0'..='\x7f' {
            let newline = if matches!(c, '\r' | '\n') { Class::NEWLINE } else { Class(0) };
            assert_eq!(class(c).0, beyond_ascii(c).or(newline).0, "{c:?}");
        }
    }

    #[test]
    fn runs_stop_at_character_borders() {
        assert_eq!(run("äöü1", Class::LETTER), 6);
        assert_eq!(run("", Class::LETTER), 0);
        assert_eq!(run("１２", Class::NUMBER), 6);
    }
}
