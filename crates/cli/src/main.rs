//! `gleed`, the command line. This file only says which commands there are; each lives in its own file
//! under `commands/` and is added with one variant and one match arm here.

mod commands;
mod models;
mod output;
mod progress;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs language models from GGUF files on the machine in front of you.
#[derive(Parser)]
#[command(name = "gleed", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Pull(commands::pull::Arguments),
    List(commands::list::Arguments),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Pull(arguments) => commands::pull::run(arguments),
        Command::List(arguments) => commands::list::run(arguments),
    };
    output::exit_code(result)
}
