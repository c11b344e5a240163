//! Words in the manner of GPT-2, cl100k and DeepSeek V3: letters with at most one character before them,
//! numbers, runs of anything else, and white space.

use super::{contraction, lines, spaces};
use crate::unicode::{Class, class, run, run_while};

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
pub(super) fn gpt2(text: &str) -> usize {
    if let Some(length) = contraction(text, false) {
        return length;
    }
    let space = usize::from(text.starts_with(' '));
    let word = &text[space..];
    let Some(first) = word.chars().next().map(class) else { return space };
    if first.is(Class::LETTER) {
        space + run(word, Class::LETTER)
    } else if first.is(Class::NUMBER) {
        space + run(word, Class::NUMBER)
    } else if first.is(Class::SPACE) {
        spaces(text)
    } else {
        space + run_while(word, |c| !class(c).is(Class::SPACE.or(Class::LETTER).or(Class::NUMBER)))
    }
}

/// What a run of punctuation takes along behind it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Tail {
    /// Nothing.
    None,
    /// `[\r\n]*`
    Lines,
    /// `[\r\n/]*`
    LinesAndSlashes,
    /// `[\r\n/]?`
    OneLineOrSlash,
}

impl Tail {
    fn length(self, text: &str) -> usize {
        match self {
            Tail::None => 0,
            Tail::Lines => run(text, Class::NEWLINE),
            Tail::OneLineOrSlash => usize::from(text.starts_with(['\r', '\n', '/'])),
            Tail::LinesAndSlashes => run_while(text, |c| c == '/' || class(c).is(Class::NEWLINE)),
        }
    }
}

/// ` ?[^\s\p{L}\p{N}]+` and a tail, where `excluded` are the classes inside the brackets.
pub(super) fn others(text: &str, excluded: Class, tail: Tail) -> Option<usize> {
    let space = usize::from(text.starts_with(' '));
    let length = run_while(&text[space..], |c| !class(c).is(excluded));
    let end = space + length;
    (length > 0).then(|| end + tail.length(&text[end..]))
}

/// Up to `most` numbers at the start of `text`.
pub(super) fn numbers(text: &str, most: usize) -> usize {
    let mut characters = text.char_indices();
    characters
        .by_ref()
        .enumerate()
        .find(|&(count, (_, c))| count == most || !class(c).is(Class::NUMBER))
        .map_or(text.len(), |(_, (at, _))| at)
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|`
/// `\s*[\r\n]+|\s+(?!\S)|\s+` and its variants.
pub(crate) struct Words {
    /// Whether contractions are words of their own.
    pub contractions: bool,
    /// The most numbers in one piece.
    pub digits: usize,
    /// Whether marks count as letters (`[\p{L}\p{M}]` for `\p{L}`).
    pub marks: bool,
    /// Whether words with single spaces between them are one (`(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+` for `\p{L}+`).
    pub phrases: bool,
    /// What follows a run of punctuation.
    pub tail: Tail,
}

impl Words {
    pub(super) fn match_at_start(&self, text: &str) -> usize {
        if self.contractions
            && let Some(length) = contraction(text, true)
        {
            return length;
        }
        let letters = if self.marks { Class::LETTER.or(Class::MARK) } else { Class::LETTER };
        let excluded = Class::NEWLINE.or(Class::LETTER).or(Class::NUMBER);
        let word = match self.phrases {
            true => after_one(text, excluded, phrase),
            false => prefixed(text, letters, excluded),
        };
        if let Some(length) = word {
            return length;
        }
        let number = numbers(text, self.digits);
        if number > 0 {
            return number;
        }
        others(text, letters.or(Class::SPACE).or(Class::NUMBER), self.tail)
            .or_else(|| lines(text))
            .unwrap_or_else(|| spaces(text))
    }
}

/// `[^…]?[letters]+` where `excluded` are the classes that the character before the letters may not have.
fn prefixed(text: &str, letters: Class, excluded: Class) -> Option<usize> {
    after_one(text, excluded, |text| run(text, letters))
}

/// What is matched at the start of `text`, or after one character that has none of the `excluded` classes.
fn after_one(text: &str, excluded: Class, matched: impl Fn(&str) -> usize) -> Option<usize> {
    let first = text.chars().next()?;
    let length = matched(text);
    if length > 0 || class(first).is(excluded) {
        return Some(length).filter(|&length| length > 0);
    }
    let length = matched(&text[first.len_utf8()..]);
    (length > 0).then(|| first.len_utf8() + length)
}

/// `(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)*`
fn phrase(text: &str) -> usize {
    let is_letter = |text: &str| text.chars().next().is_some_and(|c| class(c).is(Class::LETTER));
    let mut end = 0;
    loop {
        let rest = &text[end..];
        let space = usize::from(end > 0 && rest.starts_with(' '));
        if !is_letter(&rest[space..]) {
            return end;
        }
        let word = &rest[space..];
        let letters = run(word, Class::LETTER);
        end += space + letters + run(&word[letters..], Class::MARK);
    }
}

/// `[ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|`
/// `\s+(?!\S)|\s+`
pub(super) fn marked(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    if first.is_ascii_punctuation() {
        let letters = run_while(&text[1..], |c| c.is_ascii_alphabetic());
        if letters > 0 {
            return Some(1 + letters);
        }
    }
    let signs = Class::PUNCTUATION.or(Class::SYMBOL);
    let excluded = signs.or(Class::NEWLINE).or(Class::LETTER);
    if let Some(length) = prefixed(text, Class::LETTER.or(Class::MARK), excluded) {
        return Some(length);
    }
    let space = usize::from(first == ' ');
    let length = run(&text[space..], signs);
    if length > 0 {
        let end = space + length;
        return Some(end + run(&text[end..], Class::NEWLINE));
    }
    class(first).is(Class::SPACE).then(|| lines(text).unwrap_or_else(|| spaces(text)))
}
