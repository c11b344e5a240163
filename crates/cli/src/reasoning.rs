//! Reasoning before an answer: how much of it is asked for, and how it is shown.
//!
//! An answer goes to stdout. Reasoning goes to stderr, and only for a person who watches: dim, or between two lines
//! that say what it is where there is no colour.

use std::io;

use anyhow::Result;
use clap::Args;
use gleed_engine::FinishReason;
use gleed_tokenizer::ReasoningWish;

use crate::output::{self, Style};

/// How much a model reasons, and whether that is shown.
#[derive(Args, Clone, Debug)]
pub struct Reasoning {
    /// Have the model reason before it answers, or not: on, off, or an effort (low, medium, high) [default: as the
    /// model's chat template has it]
    #[arg(long, value_name = "on|off|EFFORT", value_parser = wish)]
    pub reasoning: Option<ReasoningWish>,

    /// Do not show the reasoning
    #[arg(long)]
    pub hide_reasoning: bool,
}

/// What a word asks for.
pub fn wish(word: &str) -> Result<ReasoningWish, String> {
    match word {
        "on" => Ok(ReasoningWish::On),
        "off" => Ok(ReasoningWish::Off),
        _ if !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
            Ok(ReasoningWish::Effort(word.to_string()))
        }
        _ => Err("must be on, off or an effort such as low, medium or high".to_string()),
    }
}

/// Shows an answer as it comes.
pub struct Display {
    shows_reasoning: bool,
    colour: bool,
    /// Whether the last that was shown is reasoning.
    in_reasoning: bool,
    /// Whether the last that came is reasoning, shown or not.
    thinks: bool,
}

impl Display {
    /// A display for one answer.
    pub fn new(hides_reasoning: bool) -> Display {
        let stderr = io::stderr();
        Display {
            shows_reasoning: !hides_reasoning && io::IsTerminal::is_terminal(&stderr),
            colour: output::colour(&stderr),
            in_reasoning: false,
            thinks: false,
        }
    }

    /// Shows more of the reasoning.
    pub fn reasoning(&mut self, text: &str) {
        self.thinks = true;
        if !self.shows_reasoning {
            return;
        }
        if !std::mem::replace(&mut self.in_reasoning, true) && !self.colour {
            output::print_aside("(thinking)\n");
        }
        output::print_aside(&output::paint(text, Style::Dim, self.colour));
    }

    /// Shows more of the answer.
    pub fn text(&mut self, text: &str) -> Result<()> {
        if !text.is_empty() {
            self.thinks = false;
            if std::mem::take(&mut self.in_reasoning) {
                output::print_aside(if self.colour { "\n\n" } else { "\n(answer)\n" });
            }
        }
        output::print(text)
    }

    /// The answer is over. One whose tokens all went into reasoning is none, and that is said.
    pub fn finish(&mut self, reason: &FinishReason) -> Result<()> {
        if std::mem::take(&mut self.in_reasoning) {
            output::print_aside("\n");
        }
        output::print_line("")?;
        if self.thinks && *reason == FinishReason::Length {
            output::warning(
                "the model was still thinking at the last token: allow more, or turn reasoning off",
            );
        }
        Ok(())
    }
}
