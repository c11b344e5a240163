//! `gleed perplexity`: how surprised is the model by a text?

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gleed_engine::{PerplexitySettings, perplexity};
use serde_json::json;

use crate::load::Options;
use crate::output;
use crate::progress::Progress;
use crate::text::Text;

/// Measure how well a model predicts a text
#[derive(Args)]
pub struct Arguments {
    /// A path, a name from `gleed list`, or `hf:owner/repository[:FORMAT]`
    model: String,

    /// The file with the text
    #[arg(value_name = "TEXT")]
    text: PathBuf,

    /// Tokens per window, of which the second half is scored [default: 512, or the model's if that is less]
    #[arg(short, long, visible_alias = "ctx-size", value_name = "N")]
    context: Option<usize>,

    /// The most windows to measure [default: the whole text]
    #[arg(long, value_name = "N")]
    chunks: Option<usize>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    let Text { tokens, bos, context, mut engine, report } =
        Text::open(&arguments.model, &arguments.text, arguments.context, &arguments.options)?;
    let settings = PerplexitySettings { context, chunks: arguments.chunks, bos };
    let progress = Progress::new("perplexity", 0);
    let result = perplexity(&mut engine, &tokens, settings, |so_far| {
        progress.set_total(so_far.chunks as u64);
        progress.set(so_far.chunk as u64);
        progress.message(format!("{:.4}", so_far.value));
    })?;
    progress.finish();
    if arguments.json {
        return output::print_report(
            report,
            json!({
                "perplexity": result.value,
                "standard_error": result.error,
                "nll": result.nll,
                "tokens": result.count,
                "chunks": result.chunks,
                "context": context,
            }),
        );
    }
    output::print_line(format!(
        "perplexity {:.4} ± {:.4} ({} tokens in {} windows of {context})",
        result.value, result.error, result.count, result.chunks
    ))
}
