//! Unigram vocabularies of SentencePiece, as T5 and XLM-RoBERTa have them: of all ways to cut a text into tokens the
//! one with the highest sum of scores, found in one pass over its characters.

use crate::charsmap::CharsMap;
use crate::spm::ESCAPED_SPACE;
use crate::vocabulary::{Kind, Vocabulary};

/// What Unigram encoding needs beside the vocabulary.
pub(crate) struct Unigram {
    scores: Vec<f32>,
    unknown: Option<u32>,
    /// The score of a character that has no token.
    unknown_score: f64,
    /// What is replaced before the text is cut.
    pub charsmap: CharsMap,
    /// Whether a text that starts (or follows a special token) gets a space in front.
    pub adds_space: bool,
    /// Whether runs of spaces count as one and spaces at the ends as none.
    pub removes_extra_spaces: bool,
}

/// An unknown character costs this much more than the worst token.
const PENALTY: f64 = 10.0;

/// The best way to cut the text up to a place.
#[derive(Clone, Copy)]
struct Best {
    score: f64,
    /// Where its last token begins.
    start: usize,
    /// The token; none where it is unknown.
    id: Option<u32>,
}

impl Unigram {
    pub(crate) fn new(vocabulary: &Vocabulary, scores: &[f32], unknown: Option<u32>) -> Unigram {
        let score = |id: u32| scores.get(id as usize).copied().unwrap_or(0.0);
        let normal = vocabulary.iter().filter(|(_, _, kind)| *kind == Kind::Normal);
        let worst = normal.map(|(id, ..)| f64::from(score(id))).fold(f64::INFINITY, f64::min);
        let all =
            vocabulary.iter().map(|(id, _, kind)| if kind == Kind::UserDefined { 0.0 } else { score(id) });
        Unigram {
            scores: all.collect(),
            unknown,
            unknown_score: if worst.is_finite() { worst } else { 0.0 } - PENALTY,
            charsmap: CharsMap::default(),
            adds_space: true,
            removes_extra_spaces: true,
        }
    }

    /// Appends the tokens of a text without special tokens; `at_start` when nothing or a special token
    /// stands before it.
    pub(crate) fn encode(&self, vocabulary: &Vocabulary, text: &str, at_start: bool, ids: &mut Vec<u32>) {
        let text = self.normalize(text, at_start);
        let none = Best { score: f64::NEG_INFINITY, start: 0, id: None };
        let mut best = vec![none; text.len() + 1];
        best[0].score = 0.0;
        let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        for (index, &start) in starts[..starts.len() - 1].iter().enumerate() {
            let before = best[start].score;
            let mut offer = |end: usize, score: f64, id| {
                if before + score > best[end].score {
                    best[end] = Best { score: before + score, start, id };
                }
            };
            let mut has_one = false;
            for (&end, length) in starts[index + 1..].iter().zip(1..) {
                if end - start > vocabulary.longest() {
                    break;
                }
                if let Some(id) = vocabulary.find(&text.as_bytes()[start..end]) {
                    offer(end, f64::from(self.scores[id as usize]), Some(id));
                    has_one |= length == 1;
                }
            }
            if !has_one {
                offer(starts[index + 1], self.unknown_score, None);
            }
        }
        self.walk_back(&best, ids);
    }

    /// Appends the tokens of the best way, found from its end; neighbours that are unknown become one.
    fn walk_back(&self, best: &[Best], ids: &mut Vec<u32>) {
        let first = ids.len();
        let (mut end, mut after_unknown) = (best.len() - 1, false);
        while end > 0 {
            let Best { start, id, .. } = best[end];
            match id {
                Some(id) => ids.push(id),
                None if after_unknown => {}
                None => ids.extend(self.unknown),
            }
            (end, after_unknown) = (start, id.is_none());
        }
        ids[first..].reverse();
    }

    /// The text as the table replaces it, with the spaces that the vocabulary expects.
    fn normalize(&self, text: &str, at_start: bool) -> String {
        let mut normal = String::with_capacity(text.len() + 1);
        let mut replaced = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let own = &rest[..first.len_utf8()];
            let (replacement, length) = self.charsmap.replace(rest).unwrap_or((own, own.len()));
            replaced.push_str(replacement);
            rest = &rest[length..];
        }
        let mut words = if self.removes_extra_spaces { replaced.trim_matches(' ') } else { &replaced };
        if self.adds_space && at_start && !words.is_empty() {
            normal.push(' ');
        }
        while let Some(c) = words.chars().next() {
            words = &words[c.len_utf8()..];
            match c {
                ' ' if self.removes_extra_spaces => {
                    normal.push(' ');
                    words = words.trim_start_matches(' ');
                }
                ESCAPED_SPACE => normal.push(' '),
                c => normal.push(c),
            }
        }
        normal
    }
}
