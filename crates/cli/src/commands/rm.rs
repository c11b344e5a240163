//! `gleed rm`: removes models from the cache and says what that frees.

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::{models, output};

/// Remove models from the cache
#[derive(Args)]
pub struct Arguments {
    /// Names as `gleed list` shows them: of the catalogue, hf:owner/repository/file.gguf (all parts of a split
    /// file), or `hf:owner/repository[:FORMAT]` where that is one model
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    // A slip in the last name should not show only after the first model is gone.
    let mut found = Vec::new();
    for name in &arguments.names {
        let (model, files) = models::find_removable(name)?;
        // One model may go under several names.
        if !found.iter().any(|(_, _, others)| *others == files) {
            found.push((name, model, files));
        }
    }
    let mut results = Vec::new();
    for (name, model, _) in found {
        let bytes = models::remove(&model)?;
        output::note(format!("removed {name} ({})", output::human_bytes(bytes)));
        results.push(json!({ "name": name, "bytes": bytes }));
    }
    if arguments.json { output::print_json(&json!({ "models": results })) } else { Ok(()) }
}
