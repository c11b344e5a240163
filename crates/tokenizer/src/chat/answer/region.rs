//! What reads the calls between the marks of a format.

use super::call::CallWriter;
use super::format::Calls;
use super::held::Held;
use super::json::JsonReader;
use super::literal::LiteralReader;
use super::named::NamedReader;
use super::tagged::TaggedReader;
use super::tools::Tools;

/// How far a step came.
#[derive(Debug)]
pub(super) enum Progress {
    /// Something was taken.
    Again,
    /// More text is needed to decide.
    More,
    /// The calls are over.
    End,
    /// It is no call, for this reason.
    Broken(String),
    /// It was never marked as a call and is none.
    Words,
}

/// The longest name or key of a call, in bytes.
pub(super) const LONGEST_NAME: usize = 1024;

#[derive(Debug)]
pub(super) enum Reader {
    Json(JsonReader),
    Named(NamedReader),
    Tagged(TaggedReader),
    Literal(LiteralReader),
}

impl Reader {
    /// Reads calls behind their opening mark, or without one where the format allows it.
    pub fn new(calls: &Calls, bare: bool) -> Option<Reader> {
        Some(match calls {
            Calls::Json(json) => Reader::Json(JsonReader::new(json, bare)),
            Calls::Named(named) => Reader::Named(NamedReader::new(named)),
            Calls::Tagged(tagged) => Reader::Tagged(TaggedReader::new(tagged)),
            Calls::Python(region) => Reader::Literal(LiteralReader::python(&region.close)),
            Calls::Gemma { region, quote } => Reader::Literal(LiteralReader::gemma(&region.close, quote)),
            Calls::Harmony(_) => return None,
        })
    }

    /// The mark that opens calls.
    pub fn opening(calls: &Calls) -> Option<&str> {
        match calls {
            Calls::Json(json) => Some(&json.region.open),
            Calls::Named(named) => Some(named.region.as_ref().map_or(&named.begin, |region| &region.open)),
            Calls::Tagged(tagged) => Some(&tagged.region.open),
            Calls::Python(region) | Calls::Gemma { region, .. } => Some(&region.open),
            Calls::Harmony(_) => None,
        }
    }

    /// The mark that closes calls; empty where there is none.
    pub fn closing(calls: &Calls) -> &str {
        match calls {
            Calls::Json(json) => &json.region.close,
            Calls::Named(named) => named.region.as_ref().map_or(&named.end, |region| &region.close),
            Calls::Tagged(tagged) => &tagged.region.close,
            Calls::Python(region) | Calls::Gemma { region, .. } => &region.close,
            Calls::Harmony(_) => "",
        }
    }

    pub fn step(&mut self, held: &mut Held, out: &mut CallWriter, tools: &Tools, last: bool) -> Progress {
        match self {
            Reader::Json(reader) => reader.step(held, out, tools, last),
            Reader::Named(reader) => reader.step(held, out, last),
            Reader::Tagged(reader) => reader.step(held, out, tools, last),
            Reader::Literal(reader) => reader.step(held, out, last),
        }
    }
}

/// A call is complete: what was taken for it is not needed any more.
pub(super) fn finish(held: &mut Held, out: &mut CallWriter) -> Result<(), String> {
    out.finish()?;
    held.taken.clear();
    Ok(())
}
