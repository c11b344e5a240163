//! Words in the manner of o200k: like cl100k's, but a word ends where lower case turns to upper, marks
//! belong to their letters, and a contraction stays on its word.

use super::ranges::is_han;
use super::words::{Tail, numbers, others};
use super::{contraction, lines, spaces};
use crate::unicode::{Class, class, run_while};

/// Letters that may start a word.
const START: Class = Class::UPPER.or(Class::UNCASED).or(Class::MARK);
/// Letters that may end a word.
const END: Class = Class::LOWER.or(Class::UNCASED).or(Class::MARK);

/// `[^\r\n\p{L}\p{N}]?START*END+(?i:'s|…)?|[^\r\n\p{L}\p{N}]?START+END*(?i:'s|…)?|\p{N}{1,digits}|`
/// ` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
pub(crate) struct Cased {
    /// Whether a contraction stays on its word; without, it is a word of its own.
    pub contractions: bool,
    /// The most numbers in one piece.
    pub digits: usize,
    /// What follows a run of punctuation.
    pub tail: Tail,
    /// Whether Chinese characters are words of their own: `[\p{Han}]+` before all, and none among the letters.
    pub han_apart: bool,
}

impl Cased {
    pub(super) fn match_at_start(&self, text: &str) -> usize {
        if self.han_apart && text.starts_with(is_han) {
            return run_while(text, is_han);
        }
        if let Some(end) = self.word(text) {
            let suffix = if self.contractions { contraction(&text[end..], true) } else { None };
            return end + suffix.unwrap_or(0);
        }
        let number = numbers(text, self.digits);
        if number > 0 {
            return number;
        }
        others(text, Class::SPACE.or(Class::LETTER).or(Class::NUMBER), self.tail)
            .or_else(|| lines(text))
            .unwrap_or_else(|| spaces(text))
    }

    /// The first two alternatives; each is tried with one character before the letters, then without.
    fn word(&self, text: &str) -> Option<usize> {
        let first = text.chars().next()?;
        let may_precede = !class(first).is(Class::NEWLINE.or(Class::LETTER).or(Class::NUMBER));
        let after = first.len_utf8();
        for form in [Cased::ends_lower, Cased::starts_upper] {
            let with_prefix =
                if may_precede { form(self, &text[after..]).map(|length| after + length) } else { None };
            if let Some(length) = with_prefix.or_else(|| form(self, text)) {
                return Some(length);
            }
        }
        None
    }

    /// `START*END+`: the classes overlap, so a run of START that nothing follows gives back what can be END.
    fn ends_lower(&self, text: &str) -> Option<usize> {
        let start = self.run(text, START);
        let end = self.run(&text[start..], END);
        if end > 0 {
            return Some(start + end);
        }
        let last = text[..start].char_indices().rev().find(|&(_, c)| class(c).is(END));
        last.map(|(at, c)| at + c.len_utf8())
    }

    /// `START+END*`
    fn starts_upper(&self, text: &str) -> Option<usize> {
        let start = self.run(text, START);
        (start > 0).then(|| start + self.run(&text[start..], END))
    }

    fn run(&self, text: &str, letters: Class) -> usize {
        run_while(text, |c| class(c).is(letters) && !(self.han_apart && is_han(c)))
    }
}
