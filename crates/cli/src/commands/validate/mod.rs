//! `gleed validate`: holds the fast path against the reference on the user's own model.

mod ops;
mod reference;
mod rows;
mod texts;

use anyhow::{Result, bail};
use clap::Args;
use gleed_model::arithmetic::PAGE;
use gleed_model::compare::Difference;
use gleed_model::program::Output;
use gleed_model::{Arithmetic, Batch, KvType, Row, reference as plain};
use serde_json::{Value, json};

use crate::load::{self, Loaded, Options};
use crate::output::{self, Style};

/// Check the fast path against the plain reference, on your own model
#[derive(Args)]
pub struct Arguments {
    /// A path, a name from `gleed list`, or `hf:owner/repository[:FORMAT]`
    model: String,

    /// The text to run through both [default: 512 tokens of a novel, or the context if that is less]
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,

    /// Check the promise instead: one row at a time, chunks, company and threads must not change a bit
    #[arg(long, conflicts_with = "ops")]
    against_rows: bool,

    /// Check each op alone, on the same inputs: not a bit may differ
    #[arg(long)]
    ops: bool,

    /// The largest mean KL divergence from the reference that passes, in nats
    /// [default: 0.02 in q8 arithmetic, 0.0001 in f16, 0.000001 in f32]
    #[arg(long, value_name = "NATS")]
    tolerance: Option<f64>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    options: Options,
}

/// The beginning of Herman Melville's Moby-Dick (1851): more than [`TOKENS`] tokens in every vocabulary.
const TEXT: &str = include_str!("text.txt");

/// Tokens of the default text: enough for every kernel that a prompt of 512 uses.
const TOKENS: usize = 512;

/// Rows that are compared with the reference, the first ones of the text: enough to cross a page of the KV cache,
/// few enough for the slow reference. The fast path computes them together with all the others.
const REFERENCE_ROWS: usize = PAGE + 8;

/// Runs the command; an error when the check fails.
pub fn run(arguments: Arguments) -> Result<()> {
    let loaded = load::open(&arguments.model, &arguments.options.lora)?;
    if loaded.model.program.output != Output::Logits && !arguments.ops {
        return texts::run(&arguments, &loaded);
    }
    let mut tokens = tokens(&loaded, arguments.prompt.as_deref())?;
    if loaded.model.program.needs_whole_sequences() {
        // The reference needs all rows that a row sees.
        tokens.truncate(REFERENCE_ROWS);
    }
    if arguments.against_rows {
        rows::run(&arguments, &loaded, &tokens)
    } else if arguments.ops {
        ops::run(&arguments, &loaded, &tokens)
    } else {
        reference::run(&arguments, &loaded, &tokens)
    }
}

fn tokens(loaded: &Loaded, prompt: Option<&str>) -> Result<Vec<u32>> {
    let tokenizer = load::tokenizer(&loaded.file)?;
    let mut tokens = tokenizer.encode_prompt(prompt.unwrap_or(TEXT), true, false);
    let context = loaded.model.config.context;
    if prompt.is_none() {
        tokens.truncate(TOKENS.min(context));
    }
    let count = tokens.len();
    if tokens.is_empty() {
        bail!("the prompt is empty: there is nothing to compare");
    }
    if count > context {
        bail!("the prompt has {count} tokens, more than the model's context of {context}");
    }
    Ok(tokens)
}

/// The pages of one sequence.
fn pages(tokens: usize) -> Vec<u32> {
    (0..tokens.div_ceil(PAGE) as u32).collect()
}

/// One sequence, of which the first rows want logits.
fn batch(tokens: &[u32], wanted: usize) -> Batch {
    let mut batch = Batch::default();
    let table = batch.add_table(&pages(tokens.len()));
    for (position, &token) in tokens.iter().enumerate() {
        batch.push(Row { table, position: position as u32, token, wants_logits: position < wanted });
    }
    batch
}

/// A reference for the first rows of one sequence.
fn reference_options(arithmetic: Arithmetic, kv: KvType, rows: usize) -> plain::Options {
    let pages = rows.div_ceil(PAGE);
    plain::Options { arithmetic, rounds_to_groups: None, kv, max_rows: rows, pages }
}

fn cells(name: &str, d: &Difference) -> [(String, Option<Style>); 4] {
    [name.to_string(), format!("{:.3e}", d.absolute), format!("{:.3e}", d.relative), d.bits.to_string()]
        .map(|c| (c, None))
}

fn difference(d: &Difference) -> Value {
    json!({ "absolute": d.absolute, "relative": d.relative, "other_bits": d.bits })
}

/// Which kernels computed what was compared.
fn print_kernels(kernels: &[String]) -> Result<()> {
    output::print_line(format!("kernels compared: {}", kernels.join(", ")))
}

fn verdict(passed: bool, quiet: bool, why: impl FnOnce() -> String) -> Result<()> {
    match passed {
        true if quiet => Ok(()),
        true => output::print_line("passed"),
        false => bail!("validation failed: {}", why()),
    }
}
