//! How a family marks its reasoning and its calls of tools: the vocabulary in which [`table`](super::table) says it.
//!
//! A mark is text. Where the model's vocabulary has a control token for it, only that token is the mark: each such
//! token is one private character in the text that the parser reads, and the same words written out are words.

use super::table;
use crate::Tokenizer;
use std::borrow::Cow;

/// Text that has a meaning.
pub(super) type Mark = Cow<'static, str>;

/// The marks of a model's answers, found by what its chat template shows.
#[derive(Clone, Debug, Default)]
pub struct AnswerFormat {
    pub(super) reasoning: Option<Reasoning>,
    pub(super) calls: Option<Calls>,
    /// Marks that stand around an answer and mean nothing by themselves.
    pub(super) around: Vec<Mark>,
    /// Control tokens that are marks or parts of marks, each with its private character.
    controls: Vec<(u32, char)>,
    /// The same characters with the tokens' texts.
    written: Vec<(char, String)>,
}

/// What stands around reasoning.
#[derive(Clone, Debug)]
pub(super) struct Reasoning {
    pub begin: Mark,
    pub end: Mark,
}

/// How calls are marked and written.
#[derive(Clone, Debug)]
pub(super) enum Calls {
    /// JSON objects with a name and arguments, alone, one after another or in a list.
    Json(JsonCalls),
    /// A name, a mark, the arguments as JSON.
    Named(NamedCalls),
    /// A name and the arguments one by one, each between tags.
    Tagged(TaggedCalls),
    /// `[name(key=value), …]` with Python's or JSON's values.
    Python(Region),
    /// `call:name{key:value}` with strings between marks.
    Gemma { region: Region, quote: Mark },
    /// Messages with a header that names a channel and a recipient, for reasoning and answers too.
    Harmony(Harmony),
}

/// What stands around calls.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub open: Mark,
    /// Empty where nothing follows the calls.
    pub close: Mark,
}

#[derive(Clone, Debug)]
pub(super) struct JsonCalls {
    pub region: Region,
    /// Whether an answer that begins as an object may be a call without any mark.
    pub bare: bool,
    /// Whether the name is the key: `{"name": {arguments}}`.
    pub keyed: bool,
}

#[derive(Clone, Debug)]
pub(super) struct NamedCalls {
    /// Around all calls; none where each stands alone.
    pub region: Option<Region>,
    pub begin: Mark,
    /// Between the name and the call's id; empty where there is none.
    pub id: Mark,
    pub arguments: Mark,
    pub end: Mark,
}

#[derive(Clone, Debug)]
pub(super) struct TaggedCalls {
    pub region: Region,
    /// Before and behind the name. With no `begin` it follows the opening mark and ends with a line or a tag.
    pub begin: Mark,
    pub name_end: Mark,
    pub key: Mark,
    pub key_end: Mark,
    /// Before the value; attributes may stand before it. Empty where the value follows the key at once.
    pub value: Mark,
    pub value_end: Mark,
    pub end: Mark,
}

#[derive(Clone, Debug)]
pub(super) struct Harmony {
    pub start: Mark,
    pub channel: Mark,
    pub message: Mark,
    pub end: Mark,
    /// Ends a message that is a call.
    pub call: Mark,
    /// Ends the last message.
    pub last: Mark,
    pub constrain: Mark,
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
            if !format.marks().iter().any(|mark| mark.contains(&text)) {
                continue;
            }
            let Some(code) = codes.next() else { break };
            for mark in format.marks() {
                *mark = mark.replace(&text, code.encode_utf8(&mut [0; 4])).into();
            }
            format.controls.push((id, code));
            format.written.push((code, text));
        }
        format
    }

    /// The format by its marks as text, for a text in which control tokens are written out.
    pub fn of_template(template: &str) -> AnswerFormat {
        AnswerFormat {
            reasoning: table::reasoning(template),
            calls: table::calls(template),
            around: table::around(template),
            controls: Vec::new(),
            written: Vec::new(),
        }
    }

    /// Whether reasoning is marked.
    pub fn marks_reasoning(&self) -> bool {
        self.reasoning.is_some() || matches!(self.calls, Some(Calls::Harmony(_)))
    }

    /// Whether calls of tools are marked.
    pub fn marks_calls(&self) -> bool {
        self.calls.is_some()
    }

    /// Whether a prompt ends with the beginning of reasoning: some templates write it themselves.
    pub(super) fn is_reasoning_begun(&self, prompt: &str) -> bool {
        let Some(reasoning) = &self.reasoning else { return false };
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

    fn marks(&mut self) -> Vec<&mut Mark> {
        let reasoning = self.reasoning.iter_mut().flat_map(|r| [&mut r.begin, &mut r.end]);
        let mut marks: Vec<&mut Mark> = reasoning.chain(&mut self.around).collect();
        fn region(region: &mut Region) -> [&mut Mark; 2] {
            [&mut region.open, &mut region.close]
        }
        match &mut self.calls {
            None => {}
            Some(Calls::Json(json)) => marks.extend(region(&mut json.region)),
            Some(Calls::Named(named)) => {
                marks.extend(named.region.iter_mut().flat_map(region));
                marks.extend([&mut named.begin, &mut named.id, &mut named.arguments, &mut named.end]);
            }
            Some(Calls::Tagged(tagged)) => {
                marks.extend(region(&mut tagged.region));
                marks.extend([&mut tagged.begin, &mut tagged.name_end, &mut tagged.end]);
                marks.extend([&mut tagged.key, &mut tagged.key_end]);
                marks.extend([&mut tagged.value, &mut tagged.value_end]);
            }
            Some(Calls::Python(python)) => marks.extend(region(python)),
            Some(Calls::Gemma { region: around, quote }) => {
                marks.extend(region(around));
                marks.push(quote);
            }
            Some(Calls::Harmony(harmony)) => {
                marks.extend([&mut harmony.start, &mut harmony.channel, &mut harmony.message]);
                marks.extend([&mut harmony.end, &mut harmony.call, &mut harmony.last]);
                marks.push(&mut harmony.constrain);
            }
        }
        marks
    }
}
