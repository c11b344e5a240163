//! Calls as JSON objects: `{"name": "…", "arguments": {…}}`, alone, one after another or in a list.

use super::call::CallWriter;
use super::format::JsonCalls;
use super::held::Held;
use super::region::{LONGEST_NAME, Progress, finish};
use super::scan::Scan;
use super::tools::Tools;

/// Reads calls in JSON.
#[derive(Debug)]
pub(super) struct JsonReader {
    close: String,
    /// Until a call is recognised, it may be words.
    bare: bool,
    keyed: bool,
    in_list: bool,
    /// Whether something complete was read, after which other text may follow.
    is_complete: bool,
    phase: Phase,
    object: Object,
}

/// What is known of the object that is being read.
#[derive(Debug, Default)]
struct Object {
    name: Option<String>,
    id: Option<String>,
    /// Arguments that came before the name, or as a text.
    arguments: Option<String>,
    /// Whether the arguments were given out as they came.
    streamed: bool,
}

#[derive(Debug)]
enum Phase {
    Between,
    /// Before a key, or the end of the object.
    Key,
    Value {
        key: String,
        /// Whether the colon was read.
        colon: bool,
        scan: Scan,
        value: String,
    },
    Arguments(Scan),
}

const NAMES: [&str; 2] = ["name", "tool_name"];
const IDS: [&str; 2] = ["id", "tool_call_id"];
const ARGUMENTS: [&str; 2] = ["arguments", "parameters"];

impl JsonReader {
    pub fn new(calls: &JsonCalls, bare: bool) -> JsonReader {
        JsonReader {
            close: if bare { String::new() } else { calls.region.close.to_string() },
            bare: calls.bare,
            keyed: calls.keyed,
            in_list: false,
            is_complete: false,
            phase: Phase::Between,
            object: Object::default(),
        }
    }

    pub fn step(&mut self, held: &mut Held, out: &mut CallWriter, tools: &Tools, last: bool) -> Progress {
        let progress = match &mut self.phase {
            Phase::Between => self.between(held, last),
            Phase::Key => self.key(held, out),
            Phase::Value { .. } => self.value(held, out, tools),
            Phase::Arguments(scan) => {
                let (length, ends) = scan.take(held.text());
                let json = held.take(length);
                out.arguments(&json);
                if ends {
                    self.object.streamed = true;
                    self.phase = Phase::Key;
                }
                if ends || length > 0 { Progress::Again } else { Progress::More }
            }
        };
        let is_open = self.is_complete || out.has_open();
        match progress {
            Progress::Broken(_) if self.bare && !is_open => Progress::Words,
            Progress::More if last && self.bare && !is_open => Progress::Words,
            progress => progress,
        }
    }

    fn between(&mut self, held: &mut Held, last: bool) -> Progress {
        held.skip(|c| c.is_whitespace() || matches!(c, ',' | ';'));
        if held.skip_mark(&self.close) {
            return Progress::End;
        }
        if held.text().is_empty() || (!last && !self.close.is_empty() && held.may_become(&self.close)) {
            return if last && self.is_complete { Progress::End } else { Progress::More };
        }
        match held.text().as_bytes()[0] {
            b'[' if !self.in_list => {
                self.in_list = true;
                held.take(1);
            }
            b']' if self.in_list => {
                (self.in_list, self.is_complete) = (false, true);
                held.take(1);
            }
            b'{' => {
                held.take(1);
                (self.phase, self.object) = (Phase::Key, Object::default());
            }
            // Nothing says where these calls end but what follows them.
            _ if self.close.is_empty() && self.is_complete && !self.in_list => return Progress::End,
            _ => return Progress::Broken("it is not a JSON object".to_string()),
        }
        Progress::Again
    }

    fn key(&mut self, held: &mut Held, out: &mut CallWriter) -> Progress {
        held.skip(|c| c.is_whitespace() || c == ',');
        match held.text().as_bytes().first() {
            None => Progress::More,
            Some(b'}') => {
                held.take(1);
                self.end(held, out)
            }
            Some(b'"') => {
                let (length, ends) = Scan::default().take(held.text());
                if length > LONGEST_NAME {
                    return Progress::Broken("a key is too long".to_string());
                }
                if !ends {
                    return Progress::More;
                }
                match serde_json::from_str(&held.take(length)) {
                    Ok(key) => {
                        let (scan, value) = (Scan::default(), String::new());
                        self.phase = Phase::Value { key, colon: false, scan, value };
                        Progress::Again
                    }
                    Err(error) => Progress::Broken(format!("a key is not JSON: {error}")),
                }
            }
            Some(_) => Progress::Broken("it is not a JSON object".to_string()),
        }
    }

    fn value(&mut self, held: &mut Held, out: &mut CallWriter, tools: &Tools) -> Progress {
        let Phase::Value { key, colon, scan, value } = &mut self.phase else { return Progress::More };
        if !*colon {
            held.skip(char::is_whitespace);
            match held.text().as_bytes().first() {
                None => return Progress::More,
                Some(b':') => *colon = true,
                Some(_) => return Progress::Broken("it is not a JSON object".to_string()),
            }
            held.take(1);
        }
        if value.is_empty() {
            held.skip(char::is_whitespace);
            let Some(&first) = held.text().as_bytes().first() else { return Progress::More };
            if self.keyed && first == b'{' {
                out.begin(None, key);
                self.object.name = Some(std::mem::take(key));
                self.phase = Phase::Arguments(Scan::default());
                return Progress::Again;
            }
            let is_arguments = ARGUMENTS.contains(&key.as_str());
            if is_arguments && first == b'{' && self.object.name.is_some() {
                out.begin(self.object.id.take(), self.object.name.as_deref().unwrap_or_default());
                self.phase = Phase::Arguments(Scan::default());
                return Progress::Again;
            }
        }
        let (length, ends) = scan.take(held.text());
        value.push_str(&held.take(length));
        if !ends {
            return Progress::More;
        }
        let (key, value) = (std::mem::take(key), std::mem::take(value));
        self.phase = Phase::Key;
        self.take_value(&key, value, tools)
    }

    fn take_value(&mut self, key: &str, value: String, tools: &Tools) -> Progress {
        let text = || serde_json::from_str::<String>(&value).ok();
        if NAMES.contains(&key) {
            let Some(name) = text().filter(|name| !name.is_empty() && name.len() <= LONGEST_NAME) else {
                return Progress::Broken("its name is not a text".to_string());
            };
            if self.bare && !tools.has(&name) {
                return Progress::Words;
            }
            self.object.name = Some(name);
        } else if IDS.contains(&key) {
            self.object.id = text().or(Some(value));
        } else if ARGUMENTS.contains(&key) {
            // Arguments may be JSON in a text.
            let inner = text().unwrap_or(value);
            self.object.arguments = Some(if inner.trim() == "null" { "{}".to_string() } else { inner });
        }
        Progress::Again
    }

    /// The object is complete.
    fn end(&mut self, held: &mut Held, out: &mut CallWriter) -> Progress {
        let object = std::mem::take(&mut self.object);
        if !object.streamed {
            let Some(name) = object.name else {
                return Progress::Broken("it has no name".to_string());
            };
            out.begin(object.id, &name);
            out.arguments(object.arguments.as_deref().unwrap_or("{}"));
        }
        self.phase = Phase::Between;
        self.is_complete = true;
        finish(held, out).map_or_else(Progress::Broken, |()| Progress::Again)
    }
}
