//! Calls as messages with a header that names the tool. A call ends the answer, so that there is one at most.

use gleed_tokenizer::marks::{Harmony, MarkPart};

use super::writer::{Writer, quoted, sequence};
use super::{Callable, Mark};
use crate::{Error, Result};

pub fn write(writer: &mut Writer, marks: &Harmony<Mark>, tools: &[Callable], is_auto: bool) -> Result<()> {
    if !matches!(marks.end[..], [MarkPart::Token(_)]) {
        // A string in the arguments could end the message.
        return Err(Error::Calls(
            "the vocabulary has no control tokens for the marks of messages".to_string(),
        ));
    }
    let (channel, message) = (sequence(&marks.channel), sequence(&marks.message));
    let json = format!("( \" \"? {} \"json\" | \" json\" )?", sequence(&marks.constrain));
    let mut calls = Vec::new();
    for tool in tools {
        let arguments = tool.arguments(writer);
        let behind = quoted(&format!("commentary to=functions.{}", tool.name));
        let before = quoted(&format!(" to=functions.{}", tool.name));
        let header = format!("( {channel} {behind} | {before} {channel} \"commentary\" )");
        calls.push(format!("{header} {json} {message} {arguments} {}", sequence(&marks.call)));
    }
    writer.rule("call", &calls.join(" | "));
    let next = format!("{} \"assistant\"", sequence(&marks.start));
    let analysis = writer.until("analysis", &marks.end, "/(?s:.*)/", true);
    if !is_auto {
        writer.rule("start", &format!("( {channel} \"analysis\" {message} {analysis} {next} )? call"));
        return Ok(());
    }
    writer.rule("header", &format!("{channel} ( \"analysis\" | \"commentary\" | \"final\" ) {message}"));
    writer.rule("WORDS", "/(?s:.+)/");
    writer.rule("start", &format!("( header {analysis} {next} )* ( call | header WORDS? )"));
    Ok(())
}
