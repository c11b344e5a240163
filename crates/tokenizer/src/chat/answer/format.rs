//! How a family marks its reasoning and its calls of tools: the vocabulary in which [`table`](super::table) says it.
//!
//! A mark is text. Where the model's vocabulary has a control token for it, only that token is the mark: each such
//! token is one private character in the text that the parser reads, and the same words written out are words.

use super::marks::{self, MarkPart, Marks};
use super::table;
use crate::Tokenizer;
use std::borrow::Cow;

/// Text that has a meaning.
pub(super) type Mark = Cow<'static, str>;

/// The marks as they stand in the text that the parser reads.
pub(super) type Calls = marks::Calls<Mark>;
pub(super) type Harmony = marks::Harmony<Mark>;
pub(super) type JsonCalls = marks::JsonCalls<Mark>;
pub(super) type NamedCalls = marks::NamedCalls<Mark>;
pub(super) type TaggedCalls = marks::TaggedCalls<Mark>;

/// The marks of a model's answers, found by what its chat template shows.
#[derive(Clone, Debug, Default)]
pub struct AnswerFormat {
    pub(super) marks: Marks<Mark>,
    /// Control tokens that are marks or parts of marks, each with its private character.
    controls: Vec<(u32, char)>,
    /// The same characters with the tokens' texts.
    written: Vec<(char, String)>,
}

/// The private characters of control tokens.
const CODES: std::ops::RangeInclusive<char> = '\u{F0000}'..='\u{F00FF}';

/// Whether a character stands for a control token.
pub(super) fn is_code(character: char) -> bool {
    CODES.contains(&character)
}

impl AnswerFormat {
    /// The format of a model with this chat template and this vocabulary.
    pub fn new(template: &str, tokenizer: &Tokenizer) -> AnswerFormat {
        let mut format = AnswerFormat::of_template(template);
        let mut codes = CODES;
        let mut controls: Vec<(u32, String)> = tokenizer.control_tokens();
        // Longer names first: one may be part of another.
        controls.sort_by_key(|(id, text)| (usize::MAX - text.len(), *id));
        for (id, text) in controls {
            let Some(code) = codes.clone().next() else { break };
            let mut is_part = false;
            let marks = format.marks.map(|mark| {
                is_part |= mark.contains(&text);
                mark.replace(&text, code.encode_utf8(&mut [0; 4])).into()
            });
            if is_part {
                codes.next();
                format.marks = marks;
                format.controls.push((id, code));
                format.written.push((code, text));
            }
        }
        format
    }

    /// The format by its marks as text, for a text in which control tokens are written out.
    pub fn of_template(template: &str) -> AnswerFormat {
        let marks = Marks {
            reasoning: table::reasoning(template),
            calls: table::calls(template),
            around: table::around(template),
        };
        AnswerFormat { marks, controls: Vec::new(), written: Vec::new() }
    }

    /// Whether reasoning is marked.
    pub fn marks_reasoning(&self) -> bool {
        self.marks.reasoning.is_some() || matches!(self.marks.calls, Some(Calls::Harmony(_)))
    }

    /// Whether calls of tools are marked.
    pub fn marks_calls(&self) -> bool {
        self.marks.calls.is_some()
    }

    /// Whether a prompt ends with the beginning of reasoning: some templates write it themselves.
    pub fn is_reasoning_begun(&self, prompt: &str) -> bool {
        let Some(reasoning) = &self.marks.reasoning else { return false };
        // Control tokens are written out in a prompt.
        let mut begin = String::new();
        for character in reasoning.begin.chars() {
            match self.written.iter().find(|(code, _)| *code == character) {
                Some((_, text)) => begin.push_str(text),
                None => begin.push(character),
            }
        }
        prompt.trim_end().ends_with(begin.trim_end())
    }

    /// The private character of a control token that is a mark.
    pub(crate) fn code(&self, id: u32) -> Option<char> {
        self.controls.iter().find(|(control, _)| *control == id).map(|&(_, code)| code)
    }

    /// A text that cannot be taken for a control token.
    pub(crate) fn without_codes(text: String) -> String {
        if text.contains(is_code) { text.replace(is_code, "\u{FFFD}") } else { text }
    }

    /// All marks, taken apart into control tokens and text.
    pub fn marks(&self) -> Marks<Vec<MarkPart>> {
        self.marks.map(|mark| {
            let mut parts = Vec::new();
            for character in mark.chars() {
                match self.controls.iter().find(|(_, code)| *code == character) {
                    Some(&(id, _)) => parts.push(MarkPart::Token(id)),
                    None => match parts.last_mut() {
                        Some(MarkPart::Text(text)) => text.push(character),
                        _ => parts.push(MarkPart::Text(character.to_string())),
                    },
                }
            }
            parts
        })
    }
}
