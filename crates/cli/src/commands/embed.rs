//! `gleed embed`: the vectors that stand for texts.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use gleed_engine::{Engine, normalize};
use gleed_model::arithmetic::PAGE;
use gleed_model::program::Output;
use serde_json::json;

use crate::load::{self, Options};
use crate::output;

/// Turn texts into vectors, with an embedding model
#[derive(Args)]
pub struct Arguments {
    /// A path, a name from `gleed list`, or `hf:owner/repository[:FORMAT]`
    model: String,

    /// The texts, each of which gets a vector [default: the lines of standard input]
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,

    /// Read texts from a file, one a line, after those of the command line; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Scale each vector to length 1, so that the dot product of two is the cosine of their angle
    #[arg(long)]
    normalize: bool,

    /// Print a JSON object for each text, one a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    options: Options,
}

/// Rows per step, where no text is longer: what bounds memory.
const ROWS: usize = 512;

/// KV pages, where no text needs more. A text takes whole pages.
const PAGES: usize = 64;

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    let Arguments { model, file, options, .. } = &arguments;
    let texts = texts(arguments.texts.clone(), file.as_deref())?;
    let loaded = load::open(model, &options.lora)?;
    if loaded.model.program.output == Output::Logits {
        bail!(
            "{model} was made to generate text: its file says nothing of how a text becomes one vector \
             ({}.pooling_type). Use an embedding model, such as those of docs/embeddings.md",
            loaded.model.config.architecture
        );
    }
    let tokenizer = load::tokenizer(&loaded.file)?;
    let tokens: Vec<Vec<u32>> = texts.iter().map(|text| tokenizer.encode_prompt(text, true, false)).collect();
    let longest = tokens.iter().map(Vec::len).max().unwrap_or(0).min(loaded.model.config.context);
    let total: usize = tokens.iter().map(Vec::len).sum();
    let pages: usize = tokens.iter().map(|text| text.len().div_ceil(PAGE)).sum();
    let rows = longest.max(ROWS.min(total)).max(1);
    let pages = longest.div_ceil(PAGE).max(PAGES.min(pages)).max(1);
    let executor = loaded.executor(options, pages * PAGE, rows)?;
    let report = executor.report(&loaded);
    let mut engine = Engine::new(Box::new(executor));
    let tokens: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
    let vectors = engine.embed(&tokens)?;
    for (index, (mut vector, tokens)) in vectors.into_iter().zip(tokens).enumerate() {
        if arguments.normalize {
            normalize(&mut vector);
        }
        if arguments.json {
            let found = json!({ "index": index, "tokens": tokens.len(), "embedding": vector });
            output::print_report(report.clone(), found)?;
        } else {
            let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
            output::print_line(numbers.join(" "))?;
        }
    }
    Ok(())
}

/// All texts that were asked for.
fn texts(mut texts: Vec<String>, file: Option<&Path>) -> Result<Vec<String>> {
    let lines = match file {
        Some(file) if file != Path::new("-") => {
            std::fs::read_to_string(file).with_context(|| file.display().to_string())?
        }
        None if !texts.is_empty() => return Ok(texts),
        _ => {
            let mut lines = String::new();
            std::io::stdin().read_to_string(&mut lines).context("standard input")?;
            lines
        }
    };
    texts.extend(lines.lines().map(str::to_string));
    if texts.is_empty() {
        bail!("no text: `gleed embed MODEL TEXT` gives its vector, and standard input brings one a line");
    }
    Ok(texts)
}
