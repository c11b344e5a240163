//! Calls whose arguments stand one by one: between tags, or as `call:name{key:value}` with strings between marks.

use gleed_tokenizer::marks::{MarkPart, Region, TaggedCalls};

use super::arguments::{self, Argument};
use super::writer::{Writer, quoted, sequence};
use super::{Callable, Form, Mark, one_of, plain_name, python, repeated};
use crate::{Error, Result};

pub fn write(
    writer: &mut Writer,
    calls: &TaggedCalls<Mark>,
    tools: &[Callable],
    parallel: bool,
) -> Result<Form> {
    let mut named = Vec::new();
    for tool in tools {
        let mut body = format!("{} {}", tag_text(&tool.name)?, sequence(&calls.name_end));
        for argument in arguments::of(tool)? {
            let tagged = argument_in_tags(writer, calls, tool, &argument)?;
            body.push_str(&if argument.is_required { tagged } else { format!(" ({tagged})?") });
        }
        named.push(body);
    }
    let named = one_of(&named);
    let (begin, close) = (sequence(&calls.begin), sequence(&calls.region.close));
    if calls.end.is_empty() {
        // A call is its own region.
        let call = format!("SPACE? {begin} {named} SPACE? {close}");
        writer.rule("call", &call);
        return Ok(Form::new(&calls.region.open, repeated(&calls.region.open, "call", parallel)));
    }
    writer.rule("call", &format!("SPACE? {begin} {named} SPACE? {}", sequence(&calls.end)));
    let inner = if parallel { "call+" } else { "call" };
    writer.rule("region", &format!("{inner} SPACE? {close}"));
    Ok(Form::new(&calls.region.open, repeated(&calls.region.open, "region", parallel)))
}

fn argument_in_tags(
    writer: &mut Writer,
    calls: &TaggedCalls<Mark>,
    tool: &Callable,
    argument: &Argument,
) -> Result<String> {
    let key = tag_text(&argument.key)?;
    let (before, behind) = (sequence(&calls.key), sequence(&calls.key_end));
    // DeepSeek says in an attribute which values are texts.
    let is_told = |part: &MarkPart| matches!(part, MarkPart::Text(text) if text.contains("DSML"));
    let attribute = match calls.key.iter().any(is_told) {
        true => quoted(&format!(" string=\"{}\"", argument.is_text)),
        false => String::new(),
    };
    // Between a key's tag and a value's there may be a new line; right behind one tag there may not.
    let space = if calls.value.len() == 1 && behind_is_tag(calls) { "SPACE?" } else { "" };
    let value = sequence(&calls.value);
    let body = match argument.is_text {
        true => argument.text(writer, &calls.value_end, true)?,
        false => format!("SPACE? {} SPACE? {}", argument.json(writer, tool), sequence(&calls.value_end)),
    };
    Ok(format!(" SPACE? {before} {key} {behind} {attribute} {space} {value} {body}"))
}

/// Whether the key's end is a tag of its own, behind which a new line may come.
fn behind_is_tag(calls: &TaggedCalls<Mark>) -> bool {
    match calls.key_end.last() {
        Some(MarkPart::Text(text)) => text.ends_with('>'),
        last => last.is_some(),
    }
}

/// A name between tags: none that could be taken for one.
fn tag_text(name: &str) -> Result<String> {
    let is_odd = |c: char| matches!(c, '<' | '>' | '"' | '\n') || c.is_control();
    match name.trim().is_empty() || name.trim() != name || name.contains(is_odd) {
        true => Err(Error::Calls(format!("{name:?} cannot be written between tags"))),
        false => Ok(quoted(name)),
    }
}

/// `call:name{key:value}`
pub fn gemma(
    writer: &mut Writer,
    region: &Region<Mark>,
    quote: &Mark,
    tools: &[Callable],
    parallel: bool,
) -> Result<Form> {
    let mut named = Vec::new();
    for tool in tools {
        let name = plain_name(&tool.name)?;
        let mut items = Vec::new();
        for argument in arguments::of(tool)? {
            let key = plain_name(&argument.key)?;
            let value = match argument.is_text {
                true => format!("{} {}", sequence(quote), argument.text(writer, quote, false)?),
                false => argument.json(writer, tool),
            };
            items.push((format!("{key} \":\" {value}"), argument.is_required));
        }
        let list = python::list(writer, &tool.prefix, &items);
        named.push(format!("{name} \"{{\" {list} \"}}\""));
    }
    writer.rule("call", &format!("\"call:\" {} {}", one_of(&named), sequence(&region.close)));
    Ok(Form::new(&region.open, repeated(&region.open, "call", parallel)))
}
