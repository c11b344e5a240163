//! Calls as a name, a mark and the arguments in JSON: `name[ARGS]{…}`.

use super::call::CallWriter;
use super::format::NamedCalls;
use super::held::Held;
use super::region::{LONGEST_NAME, Progress, finish};
use super::scan::Scan;

/// Reads named calls.
#[derive(Debug)]
pub(super) struct NamedReader {
    calls: NamedCalls,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Between,
    Name,
    Arguments(Scan),
    End,
}

impl NamedReader {
    pub fn new(calls: &NamedCalls) -> NamedReader {
        // Without a region the opening mark was the call's own.
        let phase = if calls.region.is_some() { Phase::Between } else { Phase::Name };
        NamedReader { calls: calls.clone(), phase }
    }

    pub fn step(&mut self, held: &mut Held, out: &mut CallWriter, last: bool) -> Progress {
        match &mut self.phase {
            Phase::Between => self.between(held, last),
            Phase::Name => self.name(held, out),
            Phase::Arguments(scan) => {
                let (length, ends) = scan.take(held.text());
                let json = held.take(length);
                out.arguments(&json);
                if ends {
                    self.phase = Phase::End;
                    return finish(held, out).map_or_else(Progress::Broken, |()| Progress::Again);
                }
                Progress::More
            }
            Phase::End => self.end(held, last),
        }
    }

    fn between(&mut self, held: &mut Held, last: bool) -> Progress {
        let Some(region) = &self.calls.region else { return Progress::End };
        held.skip(char::is_whitespace);
        if held.skip_mark(&region.close) {
            return Progress::End;
        }
        if held.skip_mark(&self.calls.begin) {
            self.phase = Phase::Name;
            return Progress::Again;
        }
        if !last && (held.may_become(&region.close) || held.may_become(&self.calls.begin)) {
            return Progress::More;
        }
        // What follows the last call is not one.
        Progress::End
    }

    fn name(&mut self, held: &mut Held, out: &mut CallWriter) -> Progress {
        let Some((at, _)) = held.find(&[&self.calls.arguments]) else {
            let is_long = held.text().len() > LONGEST_NAME + self.calls.arguments.len();
            return if is_long { Progress::Broken("it has no name".to_string()) } else { Progress::More };
        };
        if at > LONGEST_NAME {
            return Progress::Broken("it has no name".to_string());
        }
        // Up to its first character the value may be anything.
        let behind = at + self.calls.arguments.len();
        match held.text()[behind..].trim_start().as_bytes().first() {
            None => return Progress::More,
            Some(b'{') => {}
            Some(_) => return Progress::Broken("its arguments are not a JSON object".to_string()),
        }
        let written = held.take(behind);
        let written = &written[..at];
        let (name, id) = match &self.calls.id {
            mark if !mark.is_empty() => match written.split_once(mark.as_ref()) {
                Some((name, id)) => (name.trim(), Some(id.trim().to_string())),
                None => (written.trim(), None),
            },
            _ => numbered(written.trim()),
        };
        if name.is_empty() {
            return Progress::Broken("it has no name".to_string());
        }
        out.begin(id, name);
        held.skip(char::is_whitespace);
        self.phase = Phase::Arguments(Scan::default());
        Progress::Again
    }

    fn end(&mut self, held: &mut Held, last: bool) -> Progress {
        // DeepSeek's fence around the arguments.
        held.skip(|c| c.is_whitespace() || c == '`');
        let end = &self.calls.end;
        if !end.is_empty() && !last && (held.text().is_empty() || held.may_become(end)) {
            return Progress::More;
        }
        held.skip_mark(end);
        held.taken.clear();
        self.phase = Phase::Between;
        Progress::Again
    }
}

/// `functions.name:0` is a name and, as a whole, the call's id (Kimi).
fn numbered(written: &str) -> (&str, Option<String>) {
    let inner = written.strip_prefix("functions.").and_then(|rest| rest.rsplit_once(':'));
    match inner.filter(|(_, number)| number.parse::<u32>().is_ok()) {
        Some((name, _)) => (name, Some(written.to_string())),
        None => (written, None),
    }
}
