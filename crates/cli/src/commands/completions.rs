//! `gleed completions`: the script with which a shell completes commands and flags.

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

use crate::output;

/// Print what makes a shell complete commands and flags
#[derive(Args)]
#[command(after_help = "\
bash: gleed completions bash > ~/.local/share/bash-completion/completions/gleed
zsh:  gleed completions zsh > a file _gleed in a folder of $fpath
fish: gleed completions fish > ~/.config/fish/completions/gleed.fish")]
pub struct Arguments {
    /// The shell
    shell: Shell,
}

/// Runs the command for the program that `command` describes.
pub fn run(arguments: Arguments, command: &mut clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, command, "gleed", &mut script);
    output::print(String::from_utf8(script)?)
}
