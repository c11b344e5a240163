//! `gleed pull`: brings models into the cache, checked, and says where they are.

use anyhow::Result;
use clap::Args;
use gleed_hub::{Outcome, Source};
use serde_json::json;

use crate::{models, output};

/// Fetch models into the cache and print their paths
#[derive(Args)]
pub struct Arguments {
    /// Names from `gleed list`, hf:owner/repository (its Q4_K_M file, or the nearest to it),
    /// hf:owner/repository:FORMAT, or hf:owner/repository/file.gguf; all parts of a split file come along, and
    /// @revision may follow a repository (HF_ENDPOINT and HF_TOKEN are honoured)
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    /// Print one JSON object instead of paths
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    // A slip in the last name should not show only after the first gigabyte.
    let models: Vec<_> = arguments.names.iter().map(|name| models::find(name)).collect::<Result<_>>()?;
    let mut results = Vec::new();
    for (name, model) in arguments.names.iter().zip(&models) {
        let pulled = models::pull(name, model)?;
        let path = match &pulled.source {
            Source::Path(path) => path.to_str().map(str::to_owned),
            Source::Embedded => None,
        };
        let size = pulled.bytes.map(|bytes| format!(" ({})", output::human_bytes(bytes))).unwrap_or_default();
        output::note(match (pulled.outcome, &pulled.source) {
            (Outcome::Downloaded, _) => format!("pulled {name}{size}"),
            (Outcome::Kept, _) => format!("have {name}{size}"),
            (Outcome::Local, Source::Path(_)) => format!("{name} is a file: nothing to pull"),
            (Outcome::Local, Source::Embedded) => format!("{name} is built in: nothing to pull"),
        });
        if arguments.json {
            let status = match pulled.outcome {
                Outcome::Downloaded => "downloaded",
                Outcome::Kept => "kept",
                Outcome::Local => "local",
            };
            results.push(json!({
                "name": name,
                "path": path,
                "bytes": pulled.bytes,
                "sha256": pulled.sha256,
                "status": status,
            }));
        } else if let Source::Path(path) = &pulled.source {
            output::print_line(path.display())?;
        }
    }
    if arguments.json { output::print_json(&json!({ "models": results })) } else { Ok(()) }
}
