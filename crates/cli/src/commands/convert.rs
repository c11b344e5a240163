//! `gleed convert`: a checkpoint folder as one file.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use gleed_gguf::Mix;

use super::quantize::mix;
use crate::load;
use crate::rewrite::rewrite;

/// Write a checkpoint folder (safetensors, config.json, tokenizer) as a GGUF file
#[derive(Args)]
pub struct Arguments {
    /// The folder
    #[arg(value_name = "FOLDER")]
    input: PathBuf,

    /// The file to write
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// The mix of formats: f16, q8_0, q4_0, q4_k_m, … [default: the folder's]
    #[arg(long = "type", value_name = "TYPE", value_parser = mix)]
    mix: Option<Mix>,

    /// Threads to compute with [default: one per core]
    #[arg(short, long, value_name = "N")]
    threads: Option<usize>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    let Arguments { input, output, mix, threads, json } = arguments;
    if !input.is_dir() {
        let name = input.display();
        if !input.exists() {
            bail!("{name}: there is no such folder; check the path");
        }
        bail!("{name} is not a folder: `gleed quantize` writes files in other formats");
    }
    rewrite("convert", &load::open_folder(&input)?, &output, mix, None, threads, json)
}
