//! `gleed quantize`: the same model in other formats.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gleed_gguf::Mix;

use crate::importance::Weights;
use crate::load;
use crate::rewrite::rewrite;

/// Write a model in other formats, such as q4_k_m
#[derive(Args)]
pub struct Arguments {
    /// A path, a name from `gleed list`, or `hf:owner/repository[:FORMAT]`
    #[arg(value_name = "IN")]
    input: String,

    /// The file to write
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// The mix of formats: f16, q8_0, q4_0, q4_k_m, q5_k_m, q6_k, iq4_xs, iq3_m, iq2_xs, …
    #[arg(long = "type", value_name = "TYPE", value_parser = mix)]
    mix: Mix,

    /// An importance matrix (of `gleed imatrix` or `llama-imatrix`, an old .dat too): errors become small where they
    /// matter
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,

    /// Threads to compute with [default: one per core]
    #[arg(short, long, value_name = "N")]
    threads: Option<usize>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A mix by its name, for the argument parser.
pub fn mix(name: &str) -> Result<Mix, String> {
    Mix::from_name(name).map_err(|e| e.to_string())
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    let Arguments { input, output, mix, imatrix, threads, json } = arguments;
    let weights = imatrix.as_deref().map(Weights::read).transpose()?;
    rewrite("quantize", &*load::open_file(&input)?, &output, Some(mix), weights.as_ref(), threads, json)
}
