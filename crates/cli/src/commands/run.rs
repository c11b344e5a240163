//! `gleed run`: one prompt, one answer.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use clap::Args;
use gleed_engine::{LogProb, Token};
use gleed_tokenizer::{Message, Tokenizer};
use serde_json::{Value, json};

use crate::load::{self, Options};
use crate::output::{self, Style};
use crate::prompt::Words;
use crate::reasoning::{Display, Reasoning};
use crate::sampling::Sampling;
use crate::speculation::Guessing;
use crate::talk::{Part, Talk, summary};

/// Answer or continue a prompt
#[derive(Args)]
#[command(override_usage = "gleed run [OPTIONS] [MODEL] <PROMPT>")]
pub struct Arguments {
    #[command(flatten)]
    words: Words,

    /// Continue the prompt as it is, without the model's chat template
    #[arg(long)]
    raw: bool,

    /// What the model is told before the prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,

    /// Report the N most likely tokens at each step (with --json)
    #[arg(long, default_value_t = 0, value_name = "N", requires = "json")]
    logprobs: usize,

    /// Positions to make room for: prompt and answer together [default: the model's, or what memory allows]
    #[arg(short, long, visible_alias = "ctx-size", value_name = "N")]
    context: Option<usize>,

    /// Print one JSON object at the end instead of the text as it comes
    #[arg(long)]
    json: bool,

    /// Say on stderr how fast it was, also where that is no terminal
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

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    let (model, prompt) = arguments.words.read()?;
    let loaded = load::open(model, &arguments.options.lora)?.for_sequences(1, arguments.context)?;
    let mut talk = Talk::new(&loaded, &arguments.options, &arguments.guessing, arguments.context)?;
    let raw = arguments.raw || !talk.has_template();
    if raw && arguments.system.is_some() {
        bail!("{model} has no chat template, so --system has no place to go");
    }
    match &arguments.reasoning.reasoning {
        Some(_) if raw => bail!("--reasoning needs the model's chat template, and none is used"),
        Some(wish) => talk.reason(wish)?,
        None => {}
    }
    let question = if raw {
        talk.text(&prompt)
    } else {
        let system = arguments.system.iter().map(|text| Message::new("system", text));
        let messages: Vec<Message> = system.chain([Message::new("user", &prompt)]).collect();
        talk.conversation(&messages)?
    };
    let settings = arguments.sampling.settings(arguments.json.then_some(arguments.logprobs));
    let cancel: Arc<AtomicBool> = Arc::default();
    if arguments.json {
        let mut generated: Vec<Token> = Vec::new();
        let (mut text, mut reasoning) = (String::new(), String::new());
        let finish = talk.answer(&question, settings, &cancel, |part| match part {
            Part::Token(token) => generated.push(token),
            Part::Reasoning(more) => reasoning.push_str(&more),
            Part::Text(more) => text.push_str(&more),
        })?;
        return output::print_report(
            talk.report(),
            json!({
                "prompt_tokens": question.tokens,
                "tokens": generated.iter().map(|t| t.id).collect::<Vec<_>>(),
                "logprobs": generated.iter().map(|t| t.logprob).collect::<Vec<_>>(),
                "top_logprobs": (arguments.logprobs > 0).then(|| top_logprobs(&generated, &talk.tokenizer)),
                "text": text,
                "reasoning": (!reasoning.is_empty()).then_some(reasoning),
                "finish_reason": finish.reason.name(),
                "seed": finish.seed,
                "speculation": {
                    "when": arguments.guessing.speculation.to_string(),
                    "draft": arguments.guessing.draft,
                    "guessed_tokens": finish.guesses.guessed,
                    "accepted_tokens": finish.guesses.accepted,
                    "speedup": finish.guesses.speedup,
                },
                "timings": {
                    "prompt_seconds": finish.timings.prompt_seconds,
                    "generation_seconds": finish.timings.generation_seconds,
                    "time_to_first_token_seconds": finish.timings.time_to_first_token,
                    "prompt_tokens_per_second": question.tokens.len() as f64 / finish.timings.prompt_seconds,
                    "tokens_per_second": generated.len() as f64 / finish.timings.generation_seconds,
                },
            }),
        );
    }
    let stdout = std::io::stdout();
    if raw && stdout.is_terminal() {
        // What is continued is shown before its continuation; a pipe gets the answer alone.
        output::print(output::paint(&prompt, Style::Dim, output::colour(&stdout)))?;
    }
    let mut closed = Ok(());
    let mut display = Display::new(arguments.reasoning.hide_reasoning);
    let finish = talk.answer(&question, settings, &cancel, |part| match part {
        Part::Token(_) => {}
        Part::Reasoning(text) => display.reasoning(&text),
        Part::Text(text) => {
            let shown = display.text(&text);
            if shown.is_err() {
                // The reader has gone.
                cancel.store(true, Ordering::Relaxed);
                closed = shown;
            }
        }
    })?;
    closed?;
    display.finish(&finish.reason)?;
    if arguments.stats || std::io::stderr().is_terminal() {
        output::note(format!("{}, {}", summary(&finish), talk.room()));
    }
    Ok(())
}

fn top_logprobs(tokens: &[Token], tokenizer: &Tokenizer) -> Vec<Value> {
    let entry = |l: &LogProb| json!({ "token": l.token, "text": tokenizer.token_text(l.token), "logprob": l.logprob });
    tokens.iter().map(|t| t.top.iter().map(entry).collect()).collect()
}
