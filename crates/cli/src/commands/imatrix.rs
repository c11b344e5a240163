//! `gleed imatrix`: which weights of a model matter most, measured over a text.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gleed_engine::{ImportanceSettings, importance};
use gleed_gguf::InputSquares;
use serde_json::json;

use crate::load::Options;
use crate::output;
use crate::progress::Progress;
use crate::text::Text;

/// Measure which weights matter most, for `quantize --imatrix`
#[derive(Args)]
pub struct Arguments {
    /// A path, a name from `gleed list`, or `hf:owner/repository[:FORMAT]`
    model: String,

    /// The file with the text
    #[arg(value_name = "TEXT")]
    text: PathBuf,

    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// Tokens per window [default: 512, or the model's if that is less]
    #[arg(short, long, visible_alias = "ctx-size", value_name = "N")]
    context: Option<usize>,

    /// The most windows to measure [default: the whole text]
    #[arg(long, value_name = "N")]
    chunks: Option<usize>,

    /// Measure the output's matrix too, which is not quantised by importance otherwise
    #[arg(long)]
    process_output: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    let path = &arguments.text;
    let Text { tokens, bos, context, mut engine, report } =
        Text::open(&arguments.model, path, arguments.context, &arguments.options)?;
    let settings =
        ImportanceSettings { context, chunks: arguments.chunks, bos, output: arguments.process_output };
    let progress = Progress::new("imatrix", 0);
    let mut measured = importance(&mut engine, &tokens, settings, |chunk, chunks| {
        progress.set_total(chunks as u64);
        progress.set(chunk as u64);
    })?;
    progress.finish();
    measured.datasets.push(path.display().to_string());
    measured.write(&arguments.output)?;
    let never = |(name, inputs): (&String, &InputSquares)| {
        let idle = inputs.counts.iter().filter(|count| **count == 0.0).count();
        (idle > 0).then(|| (name.clone(), idle, inputs.counts.len()))
    };
    let idle: Vec<(String, usize, usize)> = measured.inputs.iter().filter_map(never).collect();
    for (name, idle, experts) in &idle {
        output::warning(format!("tensor {name}: the text reached {} of {experts} experts", experts - idle));
    }
    if arguments.json {
        return output::print_report(
            report,
            json!({
                "path": arguments.output,
                "tensors": measured.inputs.len(),
                "chunks": measured.chunks,
                "context": context,
                "tokens": u64::from(measured.chunks) * context as u64,
                "tensors_with_idle_experts": idle.len(),
            }),
        );
    }
    output::note(format!(
        "{} tensors over {} windows of {context} tokens",
        measured.inputs.len(),
        measured.chunks
    ));
    output::print_line(arguments.output.display())
}
