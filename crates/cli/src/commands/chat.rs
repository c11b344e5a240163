//! `gleed chat`: a conversation in the terminal.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::conversation::Conversation;
use crate::load::{self, Options};
use crate::output::{self, Style};
use crate::reasoning::{self, Display, Reasoning};
use crate::sampling::Sampling;
use crate::speculation::Guessing;
use crate::talk::{Part, Question, Talk, summary};

/// Hold a conversation
#[derive(Args)]
pub struct Arguments {
    /// A path, a name from `gleed list`, or `hf:owner/repository[:FORMAT]`
    model: String,

    /// What the model is told before the conversation
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    /// Positions to make room for: the whole conversation [default: the model's, or what memory allows]
    #[arg(short, long, visible_alias = "ctx-size", value_name = "N")]
    context: Option<usize>,

    /// Show the speed of each answer (also /stats)
    #[arg(long)]
    stats: bool,

    #[command(flatten)]
    reasoning: Reasoning,

    #[command(flatten)]
    sampling: Sampling,

    #[command(flatten)]
    guessing: Guessing,

    #[command(flatten)]
    options: Options,
}

const HELP: &str = "\
/help          this list
/clear         forget the conversation
/reasoning X   on, off, or an effort such as low or high; show or hide what the model thinks
/system TEXT   tell the model something before the conversation, and start it anew
/retry         another answer to the last question
/undo          forget the last question and its answer
/stats         show the speed of each answer, or stop showing it
/save FILE     write the conversation to a file
/exit          leave (also Ctrl-D)
A line that ends in \\ goes on in the next one. Ctrl-C stops an answer.";

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        bail!("chat needs a terminal; for a script use `gleed run {} PROMPT`", arguments.model);
    }
    let loaded =
        load::open(&arguments.model, &arguments.options.lora)?.for_sequences(1, arguments.context)?;
    let mut talk = Talk::new(&loaded, &arguments.options, &arguments.guessing, arguments.context)?;
    if !talk.has_template() {
        output::warning(format!(
            "{} has no chat template: it may continue your text rather than answer it",
            arguments.model
        ));
    }
    if let Some(wish) = &arguments.reasoning.reasoning {
        talk.reason(wish)?;
    }
    let cancel = Arc::new(AtomicBool::new(false));
    let handler = cancel.clone();
    ctrlc::set_handler(move || handler.store(true, Ordering::Relaxed)).context("cannot handle Ctrl-C")?;
    output::note(format!("{}, {}. /help lists the commands.", arguments.model, talk.room()));
    let conversation = Conversation::new(arguments.system.as_deref());
    let mut chat = Chat {
        talk,
        cancel,
        sampling: arguments.sampling,
        conversation,
        hides_reasoning: arguments.reasoning.hide_reasoning,
        stats: arguments.stats,
    };
    chat.converse()
}

struct Chat {
    talk: Talk,
    cancel: Arc<AtomicBool>,
    sampling: Sampling,
    conversation: Conversation,
    hides_reasoning: bool,
    stats: bool,
}

impl Chat {
    fn converse(&mut self) -> Result<()> {
        let mut editor = DefaultEditor::new()?;
        let history = history_path();
        if let Some(path) = &history {
            // No history yet is the ordinary case.
            let _ = editor.load_history(path);
        }
        while let Some(line) = read(&mut editor)? {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let _ = editor.add_history_entry(line);
            match line.strip_prefix('/') {
                None => self.ask(line)?,
                Some(command) => {
                    if !self.command(command)? {
                        break;
                    }
                }
            }
        }
        if let Some(path) = &history {
            let saved = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            if saved.is_err() || editor.save_history(path).is_err() {
                output::warning(format!("{}: the history cannot be written", path.display()));
            }
        }
        Ok(())
    }

    /// Asks and shows the answer. A question that cannot be answered is taken back.
    fn ask(&mut self, question: &str) -> Result<()> {
        self.conversation.ask(question);
        self.cancel.store(false, Ordering::Relaxed);
        let settings = self.sampling.settings(None);
        let most = settings.max_tokens;
        let (mut answer, mut thoughts) = (String::new(), String::new());
        let mut closed = Ok(());
        let mut display = Display::new(self.hides_reasoning);
        let finish = self.prompt(most).and_then(|question| {
            self.talk.answer(&question, settings, &self.cancel, |part| match part {
                Part::Token(_) => {}
                Part::Reasoning(text) => {
                    thoughts.push_str(&text);
                    display.reasoning(&text);
                }
                Part::Text(text) => {
                    answer.push_str(&text);
                    closed = display.text(&text);
                }
            })
        });
        closed?;
        match finish {
            Ok(finish) => {
                display.finish(&finish.reason)?;
                self.conversation.answer(&answer, &thoughts);
                match finish.reason.name() {
                    "length" if most == Some(finish.generated_tokens) => {
                        output::note("(stopped: --max-tokens was reached)");
                    }
                    "length" => output::note("(stopped: the context is full)"),
                    "cancelled" => output::note("(stopped)"),
                    _ => {}
                }
                if self.stats {
                    output::note(summary(&finish));
                }
            }
            Err(error) => {
                self.conversation.take_back();
                output::error(format!("{}; /clear starts anew", output::chain(&error)));
            }
        }
        Ok(())
    }

    /// The tokens of the conversation; where they leave too little of the context for an answer of `most` tokens, the
    /// oldest turns are forgotten.
    fn prompt(&mut self, most: Option<usize>) -> Result<Question> {
        let context = self.talk.context();
        let talk = &mut self.talk;
        let forgotten = self.conversation.shorten(context, most, |messages| {
            talk.conversation(messages).map(|question| question.tokens.len())
        })?;
        match forgotten {
            0 => {}
            1 => output::note(format!(
                "(the context of {context} positions is full: the oldest turn is forgotten)"
            )),
            n => output::note(format!(
                "(the context of {context} positions is full: the {n} oldest turns are forgotten)"
            )),
        }
        self.talk.conversation(&self.conversation.seen())
    }

    /// Runs a command; false to leave.
    fn command(&mut self, command: &str) -> Result<bool> {
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        match name {
            "help" | "?" => output::note(HELP),
            "exit" | "quit" | "bye" => return Ok(false),
            "clear" => {
                self.conversation.clear();
                output::note("(a new conversation)");
            }
            "system" => {
                self.conversation = Conversation::new(Some(rest).filter(|text| !text.is_empty()));
                output::note("(a new conversation)");
            }
            "retry" => match self.conversation.take_back() {
                Some(question) => self.ask(&question)?,
                None => output::note("(nothing was asked yet)"),
            },
            "undo" => match self.conversation.take_back() {
                Some(question) => output::note(format!("(forgotten: {question})")),
                None => output::note("(nothing was asked yet)"),
            },
            "reasoning" => match rest {
                "show" | "hide" => {
                    self.hides_reasoning = rest == "hide";
                    let state = if self.hides_reasoning { "hidden" } else { "shown" };
                    output::note(format!("(reasoning is {state})"));
                }
                _ => match reasoning::wish(rest)
                    .map_err(anyhow::Error::msg)
                    .and_then(|wish| self.talk.reason(&wish))
                {
                    Ok(()) => output::note(format!("(reasoning: {rest})")),
                    Err(error) => output::error(format!("/reasoning {rest}: {}", output::chain(&error))),
                },
            },
            "stats" => {
                self.stats = !self.stats;
                output::note(if self.stats { "(showing speeds)" } else { "(not showing speeds)" });
            }
            "save" if rest.is_empty() => output::error("/save needs the name of a file"),
            "save" => match std::fs::write(rest, self.conversation.transcript()) {
                Ok(()) => output::note(format!("(saved to {rest})")),
                Err(error) => output::error(format!("{rest}: {error}")),
            },
            _ => output::error(format!("no command /{name}; /help lists them")),
        }
        Ok(true)
    }
}

/// One question, of several lines where they end in a backslash. None at the end of the input.
fn read(editor: &mut DefaultEditor) -> Result<Option<String>> {
    let prompt = output::paint("> ", Style::Bold, output::colour(&std::io::stdout()));
    let mut text = String::new();
    loop {
        match editor.readline(if text.is_empty() { prompt.as_str() } else { "… " }) {
            Ok(line) => match line.strip_suffix('\\') {
                Some(start) => {
                    text.push_str(start);
                    text.push('\n');
                }
                None => {
                    text.push_str(&line);
                    return Ok(Some(text));
                }
            },
            // Ctrl-C at the prompt drops what was typed.
            Err(ReadlineError::Interrupted) => {
                text.clear();
                output::note("(Ctrl-D or /exit leaves)");
            }
            Err(ReadlineError::Eof) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

fn history_path() -> Option<PathBuf> {
    gleed_hub::Cache::locate().ok().map(|cache| cache.file("history"))
}
