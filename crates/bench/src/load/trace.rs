//! Recorded traffic: one JSON object a line with the moment of a request, its prompt and the length of its answer.
//! What others have published is read under their names of the same fields.

use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::error::{Error, Result};
use super::lengths::MOST_TOKENS;
use super::probe::Known;
use super::prompts::{append_words, part};
use super::workload::Ask;

/// The most requests of a trace.
const MOST_LINES: usize = 1 << 20;

/// Tokens of a block of a trace that names blocks (Mooncake's `hash_ids`).
const BLOCK: usize = 512;

/// Names of the moment in seconds, of the tokens of a prompt and of those of an answer: ours, and those of traces
/// by Azure and of BurstGPT.
const SECONDS: [&str; 4] = ["at", "arrival_time", "TIMESTAMP", "Timestamp"];
const PROMPT_TOKENS: [&str; 4] = ["prompt_tokens", "input_length", "ContextTokens", "Request tokens"];
const OUTPUT_TOKENS: [&str; 4] = ["output_tokens", "output_length", "GeneratedTokens", "Response tokens"];
/// Mooncake's moment, in milliseconds.
const MILLISECONDS: &str = "timestamp";

/// What a request of a trace asks.
#[derive(Clone, Debug, PartialEq)]
enum Prompt {
    /// This text.
    Text(String),
    /// Any text of the length of the prompt.
    Any,
    /// Blocks by their number: what has the same numbers has the same text.
    Blocks(Vec<u64>),
}

/// One request of a trace.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    /// Seconds from the first one.
    at: f64,
    prompt: Prompt,
    /// Tokens of the prompt; of a text none are needed.
    prompt_tokens: Option<usize>,
    output_tokens: usize,
    seed: Option<u64>,
}

/// The requests of a trace, in the order of their moments.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    lines: Vec<Line>,
    /// What prompts that are not in the trace are drawn from.
    seed: u64,
}

impl Trace {
    /// Reads a file. A line that says nothing that can be sent is an error, not left out: a trace with holes is
    /// another trace.
    pub fn open(path: &Path, seed: u64) -> Result<Trace> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::File { path: path.to_path_buf(), source })?;
        let wrong = |line, what| Error::Trace { path: path.to_path_buf(), line, what };
        Trace::parse(&text, seed).map_err(|(line, what)| wrong(line, what))
    }

    /// Reads the text of a file; an error has its line.
    fn parse(text: &str, seed: u64) -> std::result::Result<Trace, (usize, String)> {
        let mut lines = Vec::new();
        for (index, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            if lines.len() == MOST_LINES {
                return Err((index + 1, format!("the most requests of a trace are {MOST_LINES}")));
            }
            lines.push(line(text).map_err(|what| (index + 1, what))?);
        }
        lines.sort_by(|a: &Line, b: &Line| a.at.total_cmp(&b.at));
        let Some(first) = lines.first().map(|line| line.at) else {
            return Err((0, "there is no request in this trace".to_string()));
        };
        lines.iter_mut().for_each(|line| line.at -= first);
        Ok(Trace { lines, seed })
    }

    /// How many requests there are.
    pub fn requests(&self) -> usize {
        self.lines.len()
    }

    /// The moment of a request in seconds from the first, and the request, until there are no more.
    pub fn ask(&self, number: usize, known: &Known) -> Option<(f64, Ask)> {
        let line = self.lines.get(number)?;
        let measure = known.measure;
        let mut random = part(self.seed, number as u64);
        let seed = line.seed.unwrap_or_else(|| random.next_u64() >> 33);
        let tokens = line.prompt_tokens.unwrap_or(0);
        let mut prompt = String::new();
        match &line.prompt {
            Prompt::Text(text) => prompt.push_str(text),
            Prompt::Any => append_words(&mut prompt, measure.words(tokens), &mut random),
            Prompt::Blocks(blocks) => {
                let mut left = tokens;
                for block in blocks {
                    let words = measure.more_words(left.min(BLOCK) as f64);
                    append_words(&mut prompt, words, &mut part(self.seed, u64::MAX ^ block));
                    left = left.saturating_sub(BLOCK);
                }
                append_words(&mut prompt, measure.more_words(left as f64), &mut random);
            }
        }
        Some((line.at, Ask { prompt, prompt_tokens: tokens, output_tokens: line.output_tokens, seed }))
    }
}

/// Writes requests that were sent, with their moments in seconds, as a trace.
pub fn record(path: &Path, sent: &[(f64, Ask)]) -> Result<()> {
    let failed = |source| Error::File { path: path.to_path_buf(), source };
    let file = std::fs::File::create(path).map_err(failed)?;
    let mut file = std::io::BufWriter::new(file);
    for (at, ask) in sent {
        // Microseconds are as exact as they were sent.
        let line = json!({
            "at": (at * 1e6).round() / 1e6,
            "prompt": ask.prompt,
            "prompt_tokens": ask.prompt_tokens,
            "output_tokens": ask.output_tokens,
            "seed": ask.seed,
        });
        writeln!(file, "{line}").map_err(failed)?;
    }
    file.flush().map_err(failed)
}

/// One line, or what is wrong with it.
fn line(text: &str) -> std::result::Result<Line, String> {
    let parsed: Value = serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))?;
    let Value::Object(fields) = parsed else { return Err("this is not a JSON object".to_string()) };
    let at = match fields.get(MILLISECONDS) {
        Some(value) => number(value, MILLISECONDS)? / 1e3,
        None => {
            let (name, value) =
                find(&fields, &SECONDS).ok_or("there is no moment: give \"at\" in seconds")?;
            number(value, name)?
        }
    };
    let tokens = |names: &[&'static str]| match find(&fields, names) {
        Some((name, value)) => match value.as_u64().map(usize::try_from) {
            Some(Ok(tokens)) if (1..=MOST_TOKENS).contains(&tokens) => Ok(Some(tokens)),
            _ => Err(format!("\"{name}\" is {value}, not a number of tokens from 1 to {MOST_TOKENS}")),
        },
        None => Ok(None),
    };
    let (prompt_tokens, output_tokens) = (tokens(&PROMPT_TOKENS)?, tokens(&OUTPUT_TOKENS)?);
    let prompt = match (fields.get("prompt"), fields.get("hash_ids")) {
        (Some(Value::String(text)), _) if !text.is_empty() => Prompt::Text(text.clone()),
        (Some(_), _) => return Err("\"prompt\" is not a text".to_string()),
        (None, Some(blocks)) => Prompt::Blocks(
            blocks
                .as_array()
                .and_then(|blocks| blocks.iter().map(Value::as_u64).collect())
                .ok_or("\"hash_ids\" is not a list of numbers")?,
        ),
        (None, None) => Prompt::Any,
    };
    if prompt_tokens.is_none() && !matches!(prompt, Prompt::Text(_)) {
        return Err("there is neither \"prompt\" nor \"prompt_tokens\"".to_string());
    }
    let output_tokens = output_tokens.ok_or("there is no length of the answer: give \"output_tokens\"")?;
    let seed = match fields.get("seed") {
        Some(seed) => Some(seed.as_u64().ok_or_else(|| format!("\"seed\" is {seed}, not a number"))?),
        None => None,
    };
    Ok(Line { at, prompt, prompt_tokens, output_tokens, seed })
}

/// The first of these fields that is there.
fn find<'a>(fields: &'a Map<String, Value>, names: &[&'static str]) -> Option<(&'static str, &'a Value)> {
    names.iter().find_map(|name| Some((*name, fields.get(*name)?)))
}

/// A moment.
fn number(value: &Value, name: &str) -> std::result::Result<f64, String> {
    let number = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("\"{name}\" is {value}, not a number from 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(text: &str) -> Vec<(f64, Ask)> {
        let trace = Trace::parse(text, 7).unwrap();
        (0..).map_while(|number| trace.ask(number, &Known::plain())).collect()
    }

    #[test]
    fn traces_of_many_makers_mean_the_same() {
        let ours = "{\"at\": 1.5, \"prompt_tokens\": 40, \"output_tokens\": 7}\n\n\
                    {\"at\": 1.0, \"prompt_tokens\": 30, \"output_tokens\": 6}\n";
        let expected = asks(ours);
        let lengths: Vec<_> =
            expected.iter().map(|(at, ask)| (*at, ask.prompt_tokens, ask.output_tokens)).collect();
        assert_eq!(lengths, [(0.0, 30, 6), (0.5, 40, 7)], "sorted, from the first moment on");
        assert_eq!(expected[1].1.prompt.split(' ').count(), 40);
        let others = [
            "{\"timestamp\": 1000, \"input_length\": 30, \"output_length\": 6}\n\
             {\"timestamp\": 1500, \"input_length\": 40, \"output_length\": 7}",
            "{\"TIMESTAMP\": 3, \"ContextTokens\": 30, \"GeneratedTokens\": 6}\n\
             {\"TIMESTAMP\": 3.5, \"ContextTokens\": 40, \"GeneratedTokens\": 7}",
            "{\"Timestamp\": 0, \"Request tokens\": 30, \"Response tokens\": 6}\n\
             {\"Timestamp\": 0.5, \"Request tokens\": 40, \"Response tokens\": 7}",
        ];
        for other in others {
            assert_eq!(asks(other), expected, "{other}");
        }
    }

    #[test]
    fn blocks_of_the_same_number_have_the_same_text() {
        let asks = asks(
            "{\"timestamp\": 0, \"input_length\": 1200, \"output_length\": 1, \"hash_ids\": [4, 5, 6]}\n\
             {\"timestamp\": 1, \"input_length\": 1100, \"output_length\": 1, \"hash_ids\": [4, 5, 9]}\n\
             {\"timestamp\": 2, \"input_length\": 700, \"output_length\": 1, \"hash_ids\": [8, 5]}",
        );
        let words: Vec<Vec<&str>> = asks.iter().map(|(_, ask)| ask.prompt.split(' ').collect()).collect();
        assert_eq!(words.iter().map(Vec::len).collect::<Vec<_>>(), [1200, 1100, 700]);
        assert_eq!(words[0][..1024], words[1][..1024]);
        assert_ne!(words[0][1024..1100], words[1][1024..1100]);
        assert_ne!(words[0][..512], words[2][..512]);
        assert_eq!(words[0][512..700], words[2][512..700]);
    }

    #[test]
    fn what_was_sent_can_be_sent_again() {
        let folder = std::env::temp_dir().join(format!("gleed-trace-{}", std::process::id()));
        let ask =
            |prompt: &str, seed| Ask { prompt: prompt.into(), prompt_tokens: 9, output_tokens: 3, seed };
        let sent = vec![(0.0, ask("one \"two\"\nthree", 5)), (0.25, ask("schön", u64::MAX >> 33))];
        record(&folder, &sent).unwrap();
        let read = Trace::open(&folder, 1);
        std::fs::remove_file(&folder).unwrap();
        let read = read.unwrap();
        let again: Vec<_> = (0..).map_while(|number| read.ask(number, &Known::plain())).collect();
        assert_eq!(again, sent);
    }

    #[test]
    fn lines_that_cannot_be_sent_are_named() {
        let good = "{\"at\": 0, \"prompt\": \"x\", \"output_tokens\": 1}\n";
        let cases = [
            ("nonsense", "not JSON"),
            ("[1]", "not a JSON object"),
            ("{\"prompt\": \"x\", \"output_tokens\": 1}", "\"at\""),
            ("{\"at\": -1, \"prompt\": \"x\", \"output_tokens\": 1}", "not a number from 0"),
            (
                "{\"at\": \"2023-11-16 18:17:03\", \"prompt\": \"x\", \"output_tokens\": 1}",
                "not a number from 0",
            ),
            ("{\"at\": 0, \"prompt\": 5, \"output_tokens\": 1}", "not a text"),
            ("{\"at\": 0, \"prompt\": \"\", \"output_tokens\": 1}", "not a text"),
            ("{\"at\": 0, \"output_tokens\": 1}", "neither"),
            ("{\"at\": 0, \"prompt\": \"x\"}", "output_tokens"),
            ("{\"at\": 0, \"prompt\": \"x\", \"output_tokens\": 0}", "from 1 to"),
            ("{\"at\": 0, \"prompt\": \"x\", \"output_tokens\": 1e9}", "from 1 to"),
            ("{\"at\": 0, \"prompt_tokens\": 2000000, \"output_tokens\": 1}", "from 1 to"),
            ("{\"at\": 0, \"prompt_tokens\": 5, \"hash_ids\": [\"a\"], \"output_tokens\": 1}", "hash_ids"),
            ("{\"at\": 0, \"prompt\": \"x\", \"output_tokens\": 1, \"seed\": -4}", "seed"),
        ];
        for (bad, expected) in cases {
            let (line, what) = Trace::parse(&format!("{good}\n{bad}\n{good}"), 1).unwrap_err();
            assert_eq!(line, 3);
            assert!(what.contains(expected), "{bad}: {what}");
        }
        assert_eq!(Trace::parse("\n \n", 1).unwrap_err().0, 0);
    }
}
