//! Calls as a name, a mark and the arguments in JSON: `name[ARGS]{…}`.

use gleed_tokenizer::marks::{MarkPart, NamedCalls};

use super::writer::{Writer, quoted, sequence};
use super::{Callable, Form, Mark, one_of, repeated};

pub fn write(writer: &mut Writer, calls: &NamedCalls<Mark>, tools: &[Callable], parallel: bool) -> Form {
    let is_fence = |part: &MarkPart| matches!(part, MarkPart::Text(text) if text.contains("```"));
    let fence = if calls.arguments.iter().any(is_fence) { "\"\\n```\"" } else { "" };
    let id = match &calls.id[..] {
        [] => String::new(),
        id => format!("({} /[a-zA-Z0-9_\\-]{{1,64}}/)?", sequence(id)),
    };
    let named: Vec<String> = tools
        .iter()
        .map(|tool| {
            let mut name = quoted(&tool.name);
            if calls.id.is_empty() && calls.region.is_some() && fence.is_empty() {
                // Kimi numbers its calls.
                let numbered = quoted(&format!("functions.{}:", tool.name));
                name = format!("({name} | {numbered} /[0-9]{{1,3}}/)");
            }
            let arguments = tool.arguments(writer);
            format!("{name} {id} {} SPACE? {arguments} {fence}", sequence(&calls.arguments))
        })
        .collect();
    writer.rule("call", &format!("{} SPACE? {}", one_of(&named), sequence(&calls.end)));
    match &calls.region {
        None => Form::new(&calls.begin, repeated(&calls.begin, "call", parallel)),
        Some(region) => {
            let begin = sequence(&calls.begin);
            let more = if parallel { format!("(SPACE? {begin} call)*") } else { String::new() };
            let close = sequence(&region.close);
            Form::new(&region.open, format!("SPACE? {begin} call {more} SPACE? {close}"))
        }
    }
}
