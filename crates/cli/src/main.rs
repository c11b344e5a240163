//! `gleed`, the command line. This file only says which commands there are; each lives in its own file
//! under `commands/` and is added with one variant and one match arm here.

mod arguments;
mod commands;
mod context;
mod conversation;
mod device;
mod escape;
mod importance;
mod load;
mod lora;
mod models;
mod output;
mod progress;
mod prompt;
mod reasoning;
mod rewrite;
mod sampling;
mod speculation;
mod talk;
mod text;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Runs language models from GGUF files on the machine in front of you.
#[derive(Parser)]
#[command(name = "gleed", version, arg_required_else_help = true)]
struct Cli {
    /// Fetch nothing: a model that is not here is an error (also with GLEED_OFFLINE=1)
    #[arg(long, global = true)]
    offline: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(commands::run::Arguments),
    Chat(commands::chat::Arguments),
    Serve(commands::serve::Arguments),
    Embed(commands::embed::Arguments),
    Pull(commands::pull::Arguments),
    Rm(commands::rm::Arguments),
    #[cfg(feature = "gpu")]
    Devices(commands::devices::Arguments),
    List(commands::list::Arguments),
    Inspect(commands::inspect::Arguments),
    Tokenize(commands::tokenize::Tokenize),
    Detokenize(commands::tokenize::Detokenize),
    Bench(commands::bench::Arguments),
    Validate(commands::validate::Arguments),
    Perplexity(commands::perplexity::Arguments),
    Imatrix(commands::imatrix::Arguments),
    Quantize(commands::quantize::Arguments),
    Convert(commands::convert::Arguments),
    Synth(commands::synth::Arguments),
    Completions(commands::completions::Arguments),
}

fn main() -> ExitCode {
    #[cfg(all(feature = "gpu", target_os = "linux"))]
    name_runtime_folder();
    let arguments = arguments::spelled_out(std::env::args_os());
    let json = arguments::ask_for_json(&arguments);
    let Cli { offline, command } = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(problem) => return output::usage(&problem, json),
    };
    models::stay_offline(offline);
    let result = match command {
        Command::Run(arguments) => commands::run::run(arguments),
        Command::Chat(arguments) => commands::chat::run(arguments),
        Command::Serve(arguments) => commands::serve::run(arguments),
        Command::Embed(arguments) => commands::embed::run(arguments),
        Command::Pull(arguments) => commands::pull::run(arguments),
        Command::Rm(arguments) => commands::rm::run(arguments),
        #[cfg(feature = "gpu")]
        Command::Devices(arguments) => commands::devices::run(arguments),
        Command::List(arguments) => commands::list::run(arguments),
        Command::Inspect(arguments) => commands::inspect::run(arguments),
        Command::Tokenize(arguments) => commands::tokenize::tokenize(arguments),
        Command::Detokenize(arguments) => commands::tokenize::detokenize(arguments),
        Command::Bench(arguments) => commands::bench::run(arguments),
        Command::Validate(arguments) => commands::validate::run(arguments),
        Command::Perplexity(arguments) => commands::perplexity::run(arguments),
        Command::Imatrix(arguments) => commands::imatrix::run(arguments),
        Command::Quantize(arguments) => commands::quantize::run(arguments),
        Command::Convert(arguments) => commands::convert::run(arguments),
        Command::Synth(arguments) => commands::synth::run(arguments),
        Command::Completions(arguments) => commands::completions::run(arguments, &mut Cli::command()),
    };
    output::exit_code(result, json)
}

/// Vulkan drivers of Mesa look for a Wayland display, whose library writes a line to stderr when this variable is not
/// set, as on servers and in containers.
#[cfg(all(feature = "gpu", target_os = "linux"))]
fn name_runtime_folder() {
    const NAME: &str = "XDG_RUNTIME_DIR";
    if std::env::var_os(NAME).is_none() {
        // SAFETY: no other thread has been started that could read the environment meanwhile.
        unsafe { std::env::set_var(NAME, std::env::temp_dir()) };
    }
}
