//! What `run` is asked: which model, and a text from the command line, a file and standard input.
//!
//! Standard input that is not a terminal brings the prompt when there is no other. Beside a prompt it is read only
//! where it is likely to be meant: from a pipe, or from the beginning of a file. A pipe may also be one that
//! nothing will ever come through, inherited from whatever started this program, so that beside a prompt its
//! first bytes are waited for only for a while.

use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use gleed_hub::{EMBEDDED_NAME, catalogue};

use crate::models;
use crate::output;

/// Which model, and what it is asked.
#[derive(Args)]
pub struct Words {
    /// A path, a name from `gleed list`, or `hf:owner/repository[:FORMAT]` [default: the built-in stories15M]
    #[arg(value_name = "MODEL")]
    first: Option<String>,

    /// The prompt; `-` reads standard input. What is piped in follows it
    #[arg(value_name = "PROMPT")]
    second: Option<String>,

    /// The prompt, where it could be taken for a model, or begins with a dash
    #[arg(short, long, value_name = "TEXT", conflicts_with = "second", allow_hyphen_values = true)]
    prompt: Option<String>,

    /// Read the prompt, or what follows it, from a file; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// How long the first bytes of a pipe are waited for when there is a prompt without them.
const PATIENCE: Duration = Duration::from_secs(3);

impl Words {
    /// The name of the model, and the prompt.
    pub fn read(&self) -> Result<(&str, String)> {
        let (model, prompt) = self.split()?;
        let mut texts = Vec::new();
        let from_input = |text: &str| text == "-";
        if let Some(prompt) = prompt {
            texts.push(if from_input(prompt) { all_of_stdin()? } else { prompt.to_string() });
        }
        let file = self.file.as_deref();
        if let Some(file) = file {
            texts.push(if file == Path::new("-") { all_of_stdin()? } else { text_of(file)? });
        }
        if texts.is_empty() && !std::io::stdin().is_terminal() {
            texts.extend(Some(all_of_stdin()?).filter(|text| !text.is_empty()));
        } else if !prompt.is_some_and(from_input) && file != Some(Path::new("-")) && may_bring_text() {
            match what_comes(std::io::stdin(), PATIENCE)? {
                Some(text) => texts.extend(Some(text).filter(|text| !text.is_empty())),
                None => output::warning(format!(
                    "nothing came through the pipe of standard input in {} seconds: the prompt is answered without \
                     it (--file - waits for it)",
                    PATIENCE.as_secs()
                )),
            }
        }
        match texts.is_empty() {
            false => Ok((model, texts.join("\n\n"))),
            true if self.first.is_none() => {
                bail!(
                    "no prompt: `gleed run PROMPT` continues a story, `gleed run MODEL PROMPT` asks a model"
                )
            }
            true => {
                bail!(
                    "no prompt: `gleed run {model} PROMPT` answers one, `gleed chat {model}` holds a conversation"
                )
            }
        }
    }

    /// Which of the words is the model, and which the prompt.
    fn split(&self) -> Result<(&str, Option<&str>)> {
        let prompt = self.second.as_deref().or(self.prompt.as_deref());
        match (self.first.as_deref(), prompt) {
            (None, prompt) => Ok((EMBEDDED_NAME, prompt)),
            (Some(model), Some(prompt)) => Ok((model, Some(prompt))),
            (Some(word), None) => match models::find(word) {
                Ok(_) => Ok((word, None)),
                // A model that is not there is a slip, not a prompt for the built-in model.
                Err(error) if is_like_a_model(word) => {
                    bail!("{} (a prompt? `gleed run --prompt {word}`)", output::chain(&error))
                }
                Err(_) => Ok((EMBEDDED_NAME, Some(word))),
            },
        }
    }
}

/// Whether a word that is no model was meant to be one.
fn is_like_a_model(word: &str) -> bool {
    let lower = word.to_lowercase();
    let is_path = || word.contains(['/', '\\']) || lower.ends_with(".gguf") || Path::new(word).is_dir();
    !word.contains(char::is_whitespace)
        && (lower.starts_with("hf:") || is_path() || !catalogue::near(word).is_empty() || is_named(&lower))
}

/// Whether a word is built as names of models are: `qwen3-8b`, `mistral:7b`, `llama3`.
fn is_named(lower: &str) -> bool {
    let is_number =
        |text: &str| text.starts_with(|c: char| c.is_ascii_digit()) && text.parse::<f32>().is_ok();
    // 8b, 0.6b, 135m, 8x7b: how many parameters it has.
    let is_size = |part: &str| part.strip_suffix(['b', 'm']).is_some_and(|n| n.split('x').all(is_number));
    if lower.split(['-', '_', ':']).skip(1).any(is_size) {
        return true;
    }
    let letters = |name: &str| name.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(name.len());
    let (family, rest) = lower.split_at(letters(lower));
    let known = catalogue::ENTRIES.iter().flat_map(|entry| [entry.name, entry.architecture]);
    rest.contains(|c: char| c.is_ascii_digit())
        && known.map(str::to_lowercase).any(|name| name[..letters(&name)] == *family)
}

/// The text of a file.
fn text_of(file: &Path) -> Result<String> {
    let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
    text(bytes).with_context(|| format!("{} is not UTF-8 text", file.display()))
}

fn all_of_stdin() -> Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
    text(bytes).context("standard input is not UTF-8 text")
}

/// The text without the line break that ends its last line, which is the editor's and not the prompt's.
fn text(bytes: Vec<u8>) -> Result<String> {
    let mut text = String::from_utf8(bytes)?;
    if text.ends_with('\n') {
        text.pop();
        text.truncate(text.trim_end_matches('\r').len());
    }
    Ok(text)
}

/// Whether standard input is a pipe, or a file of which nothing has been read: one that a loop of a shell is
/// reading (`while read … < file`) is not ours.
#[cfg(unix)]
fn may_bring_text() -> bool {
    use std::io::Seek;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileTypeExt;
    let Ok(input) = std::io::stdin().as_fd().try_clone_to_owned().map(File::from) else { return false };
    let Ok(kind) = input.metadata().map(|metadata| metadata.file_type()) else { return false };
    kind.is_fifo() || kind.is_file() && (&input).stream_position().is_ok_and(|position| position == 0)
}

/// Whether standard input is anything but a terminal.
#[cfg(not(unix))]
fn may_bring_text() -> bool {
    !std::io::stdin().is_terminal()
}

/// The text of an input up to its end; none when nothing comes in time.
fn what_comes(mut input: impl Read + Send + 'static, patience: Duration) -> Result<Option<String>> {
    let (sender, receiver) = mpsc::channel();
    // A thread that is never joined: nothing can end a read through which nothing comes.
    std::thread::spawn(move || {
        let mut chunk = vec![0; 1 << 16];
        loop {
            let read = match input.read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.map(|count| chunk[..count].to_vec()),
            };
            let is_end = read.as_ref().map_or(true, Vec::is_empty);
            if sender.send(read).is_err() || is_end {
                return;
            }
        }
    });
    let mut bytes = match receiver.recv_timeout(patience) {
        Ok(first) => first.context("cannot read standard input")?,
        Err(RecvTimeoutError::Timeout) => return Ok(None),
        Err(RecvTimeoutError::Disconnected) => Vec::new(),
    };
    for chunk in receiver {
        bytes.extend(chunk.context("cannot read standard input")?);
    }
    text(bytes).context("standard input is not UTF-8 text").map(Some)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_like_a_model_is_told_from_a_text() {
        for word in [
            "qwen3-8b",
            "Qwen3-8B",
            "llama3",
            "llama-3.2-1b-instruct",
            "mixtral-8x7b",
            "mistral:7b",
            "smolm2-135m",
            "stories42M",
            "./modle.gguf",
            "models/stories",
            "C:\\models\\a",
            "nothing.GGUF",
            "hf:owner/repo",
            "hf:",
        ] {
            assert!(is_like_a_model(word), "{word}");
        }
        for text in [
            "Once",
            "Hello!",
            "once-upon-a-time",
            "B",
            "8b",
            "3.14",
            "Why?",
            "Once upon a time",
            "and/or not",
            "",
        ] {
            assert!(!is_like_a_model(text), "{text}");
        }
    }

    #[test]
    fn the_last_line_break_is_not_part_of_a_text() {
        let of = |bytes: &str| text(bytes.into()).unwrap();
        assert_eq!(of("one\ntwo\n"), "one\ntwo");
        assert_eq!(of("one\r\n"), "one");
        assert_eq!(of("one\n\n"), "one\n");
        assert_eq!(of("\r"), "\r");
        assert!(text(vec![0xff]).is_err());
    }

    #[test]
    fn a_pipe_is_read_to_its_end_or_given_up() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"one ").unwrap();
        let rest = std::thread::spawn(move || writer.write_all(b"two\n").unwrap());
        // Patience is for the first bytes only, and those are there.
        assert_eq!(what_comes(reader, Duration::from_secs(600)).unwrap().as_deref(), Some("one two"));
        rest.join().unwrap();

        let (reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        assert_eq!(what_comes(reader, Duration::from_secs(600)).unwrap().as_deref(), Some(""));

        let (reader, _silent) = std::io::pipe().unwrap();
        assert_eq!(what_comes(reader, Duration::ZERO).unwrap(), None);
    }
}
