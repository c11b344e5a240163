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
        prompt.trim_end().ends_with(self.written(&reasoning.begin).trim_end())
    }

    /// The beginning of an answer to a prompt, as the model would have written it: what it thought, then what it said.
    /// The text is as the parser reads it. Formats without marks for reasoning have only the words.
    pub fn beginning(&self, prompt: &str, reasoning: &str, words: &str) -> String {
        let reasoning = AnswerFormat::without_codes(reasoning.to_string());
        let words = AnswerFormat::without_codes(words.to_string());
        if let Some(Calls::Harmony(marks)) = &self.marks.calls {
            let message =
                |channel: &str, text: &str| format!("{}{channel}{}{text}", marks.channel, marks.message);
            return match (reasoning.is_empty(), words.is_empty()) {
                (true, true) => String::new(),
                (false, true) => message("analysis", &reasoning),
                (true, false) => message("final", &words),
                (false, false) => {
                    let thought = message("analysis", &reasoning);
                    format!("{thought}{}{}assistant{}", marks.end, marks.start, message("final", &words))
                }
            };
        }
        let Some(marks) = &self.marks.reasoning else { return words };
        let is_begun = self.is_reasoning_begun(prompt);
        let mut text = String::new();
        if !reasoning.is_empty() && !is_begun {
            text.push_str(&marks.begin);
            text.push_str(if marks.begin.ends_with('\n') { "" } else { "\n" });
        }
        text.push_str(&reasoning);
        if !words.is_empty() && (is_begun || !reasoning.is_empty()) {
            text.extend(["\n", &marks.end, "\n\n"]);
        }
        text + &words
    }

    /// A text that the parser reads, with control tokens written out.
    pub fn written(&self, text: &str) -> String {
        let mut written = String::with_capacity(text.len());
        for character in text.chars() {
            match self.written.iter().find(|(code, _)| *code == character) {
                Some((_, text)) => written.push_str(text),
                None => written.push(character),
            }
        }
        written
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
        self.marks.map(|mark| self.parts(mark))
    }

    /// A text that the parser reads, taken apart into control tokens and text.
    pub fn parts(&self, text: &str) -> Vec<MarkPart> {
        let mut parts = Vec::new();
        for character in text.chars() {
            match self.controls.iter().find(|(_, code)| *code == character) {
                Some(&(id, _)) => parts.push(MarkPart::Token(id)),
                None => match parts.last_mut() {
                    Some(MarkPart::Text(text)) => text.push(character),
                    _ => parts.push(MarkPart::Text(character.to_string())),
                },
            }
        }
        parts
    }
}
