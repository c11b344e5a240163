//! Pre-tokenisers: how a text is cut into words before byte-level BPE merges inside each word.
//!
//! A model family writes its cuts as regular expressions; here each expression is a small hand-written
//! matcher, because a backtracking engine is neither linear nor fast. A rule is a list of [`Stage`]s:
//! every stage cuts the pieces of the stage before it into matches and the gaps between them.

mod cased;
mod names;
mod ranges;
mod runs;
mod words;

pub(crate) use names::{Rule, known, rule};

use crate::unicode::{Class, class, run, run_while};
use cased::Cased;
use runs::Runs;
use words::Words;

/// One regular expression of a rule.
pub(crate) enum Stage {
    /// GPT-2's words: an optional space with letters, numbers or neither; English contractions.
    Gpt2,
    /// The words of cl100k and its relatives (Llama 3, Qwen 2).
    Words(Words),
    /// The words of o200k and its relatives (GPT-4o, Tekken): cut where lower case turns to upper.
    Cased(Cased),
    /// DeepSeek V3's words: letters with their marks, punctuation and symbols apart.
    Marked,
    /// Runs of one set of characters.
    Runs(Runs),
    /// White space at the end of the piece.
    TrailingSpace,
    /// Numbers three at a time, counted from their end.
    Threes,
}

impl Stage {
    /// The length in bytes of the match at the start of `text`, which is not empty.
    fn match_at_start(&self, text: &str) -> Option<usize> {
        match self {
            Stage::Gpt2 => Some(words::gpt2(text)),
            Stage::Words(words) => Some(words.match_at_start(text)),
            Stage::Cased(cased) => Some(cased.match_at_start(text)),
            Stage::Marked => words::marked(text),
            Stage::Runs(runs) => runs.match_at_start(text),
            // Counted from the end: `threes` cuts these.
            Stage::Threes => None,
            Stage::TrailingSpace => text.chars().all(char::is_whitespace).then_some(text.len()),
        }
    }

    /// The length in bytes of the first piece of `text`, a match or the gap before one.
    fn first_piece(&self, text: &str) -> usize {
        if let Stage::TrailingSpace = self {
            let kept = text.trim_end().len();
            return if kept == 0 { text.len() } else { kept };
        }
        if let Some(length) = self.match_at_start(text) {
            return length;
        }
        // A failed match looks at a few characters only, so the gap is linear.
        let mut characters = text.char_indices().skip(1);
        characters
            .find(|&(at, _)| self.match_at_start(&text[at..]).is_some())
            .map_or(text.len(), |(at, _)| at)
    }
}

/// Cuts `text` by all stages and hands over the pieces in order; joined, they are `text`.
pub(crate) fn split<'t>(stages: &[Stage], text: &'t str, emit: &mut impl FnMut(&'t str)) {
    let Some((stage, later)) = stages.split_first() else {
        emit(text);
        return;
    };
    let (mut rest, mut numbers) = (text, 0);
    while !rest.is_empty() {
        let length = match stage {
            Stage::Threes => threes(rest, &mut numbers),
            _ => stage.first_piece(rest),
        };
        let (piece, tail) = rest.split_at(length);
        split(later, piece, emit);
        rest = tail;
    }
}

/// `\p{N}{1,3}(?=(\p{N}{3})*(?!\p{N}))` at the start of `text`, or the gap before it. `left` is how many numbers of a run
/// are left, which is counted once for all its pieces, and 0 outside of one.
fn threes(text: &str, left: &mut usize) -> usize {
    if *left == 0 {
        *left = text[..run(text, Class::NUMBER)].chars().count();
    }
    let taken = match (*left, *left % 3) {
        (0, _) => return run_while(text, |c| !class(c).is(Class::NUMBER)),
        (_, 0) => 3,
        (_, rest) => rest,
    };
    *left -= taken;
    text.chars().take(taken).map(char::len_utf8).sum()
}

/// `\s+(?!\S)|\s+` at the start of `text`, which starts with white space: the run of white space, less its
/// last character when a word follows (which may want it as its own first character).
fn spaces(text: &str) -> usize {
    let length = run(text, Class::SPACE);
    if length == text.len() {
        return length;
    }
    match text[..length].char_indices().next_back() {
        Some((last, _)) if last > 0 => last,
        _ => length,
    }
}

/// `\s*[\r\n]+` at the start of `text`: white space up to the last line break of its run.
fn lines(text: &str) -> Option<usize> {
    let length = run(text, Class::SPACE);
    text[..length].rfind(['\r', '\n']).map(|at| at + 1)
}

/// The length of an English contraction (`'s 't 're 've 'm 'll 'd`) at the start of `text`.
fn contraction(text: &str, any_case: bool) -> Option<usize> {
    let mut characters = text.strip_prefix('\'')?.chars();
    let mut next = || {
        characters.next().map(|c| match c {
            // The long s folds to s in case-insensitive Unicode matching.
            'ſ' if any_case => ('s', c.len_utf8()),
            _ if any_case => (c.to_ascii_lowercase(), c.len_utf8()),
            _ => (c, c.len_utf8()),
        })
    };
    match next()? {
        ('s' | 't' | 'm' | 'd', length) => Some(1 + length),
        ('r' | 'v', _) if next()?.0 == 'e' => Some(3),
        ('l', _) if next()?.0 == 'l' => Some(3),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
