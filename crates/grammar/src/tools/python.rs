//! Calls as Python writes them: `[name(key=value), …]`, with JSON's values, which are read like Python's.

use gleed_tokenizer::marks::Region;

use super::writer::{Writer, sequence};
use super::{Callable, Form, Mark, arguments, one_of, plain_name};
use crate::Result;

pub fn write(writer: &mut Writer, region: &Region<Mark>, tools: &[Callable], parallel: bool) -> Result<Form> {
    let mut named = Vec::new();
    for tool in tools {
        let name = plain_name(&tool.name)?;
        let mut items = Vec::new();
        for argument in arguments::of(tool)? {
            let key = plain_name(&argument.key)?;
            items.push((format!("{key} \"=\" {}", argument.json(writer, tool)), argument.is_required));
        }
        let list = list(writer, &tool.prefix, &items);
        named.push(format!("{name} \"(\" {list} \")\""));
    }
    writer.rule("call", &one_of(&named));
    let (more, lines) = if parallel { ("(COMMA call)*", "(\"\\n\" call)*") } else { ("", "") };
    writer.needs_comma = true;
    let close = sequence(&region.close);
    let called = format!("SPACE? ( \"[\" call {more} \"]\" | call {lines} ) SPACE? {close}");
    Ok(Form::new(&region.open, called))
}

/// Items with commas between them, in this order, of which some may be left out.
pub fn list(writer: &mut Writer, prefix: &str, items: &[(String, bool)]) -> String {
    writer.needs_comma = true;
    // From the last item on: what may follow when something has come before, and when nothing has.
    let (mut behind, mut first) = (String::new(), String::new());
    for (number, (item, is_required)) in items.iter().enumerate().rev() {
        let name = format!("{prefix}list{number}");
        writer.rule(&name, item);
        let (next_behind, next_first) = match is_required {
            true => (format!("COMMA {name} {behind}"), format!("{name} {behind}")),
            false if first.is_empty() => (format!("(COMMA {name})?"), format!("{name}?")),
            false => (format!("(COMMA {name})? {behind}"), format!("({name} {behind} | {first})")),
        };
        let (rule_behind, rule_first) = (format!("{name}behind"), format!("{name}first"));
        writer.rule(&rule_behind, &next_behind);
        writer.rule(&rule_first, &next_first);
        (behind, first) = (rule_behind, rule_first);
    }
    first
}
