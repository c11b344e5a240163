//! `gleed list`: the models gleed knows by name and those it has fetched from the hub.

use std::path::PathBuf;
use std::{fs, io};

use anyhow::Result;
use clap::Args;
use gleed_hub::catalogue::{self, Origin};
use gleed_hub::{Cache, EMBEDDED, Held, held};
use serde::Serialize;

use crate::models;
use crate::output::{self, Align, Style, Table};

/// Show the models that can be pulled and those that are here
#[derive(Args)]
pub struct Arguments {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Listing {
    cache: PathBuf,
    models: Vec<Model>,
}

/// One model. What is only known once a file is opened is absent for the hub's.
#[derive(Serialize)]
struct Model {
    name: String,
    architecture: Option<&'static str>,
    format: Option<&'static str>,
    bytes: Option<u64>,
    licence: Option<&'static str>,
    notes: Option<String>,
    state: State,
    path: Option<PathBuf>,
}

/// Whether a model can be used now.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    BuiltIn,
    Downloaded,
    Incomplete,
    Absent,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    let cache = Cache::locate()?;
    let mut rows: Vec<Model> = catalogue::ENTRIES.iter().map(|entry| known(entry, &cache)).collect();
    rows.extend(held(&cache).into_iter().map(fetched));
    if arguments.json {
        return output::print_json(&Listing { cache: cache.root().to_path_buf(), models: rows });
    }

    let columns = ["name", "architecture", "format", "size", "licence", "notes", "here", "path"];
    let align = |name| if name == "size" { Align::Right } else { Align::Left };
    let mut table = Table::new(&columns.map(|name| (name, align(name))));
    for model in &rows {
        let word = |word: Option<&str>| (word.unwrap_or("-").to_owned(), None);
        let here = match model.state {
            State::BuiltIn => ("built in".to_owned(), Some(Style::Green)),
            State::Downloaded => ("yes".to_owned(), Some(Style::Green)),
            State::Incomplete => ("incomplete".to_owned(), Some(Style::Yellow)),
            State::Absent => ("no".to_owned(), Some(Style::Dim)),
        };
        let size = model.bytes.map_or_else(|| "-".to_owned(), output::human_bytes);
        let path = model.path.as_deref().map(|path| path.display().to_string());
        table.row([
            (model.name.clone(), None),
            word(model.architecture),
            word(model.format),
            (size, None),
            word(model.licence),
            word(model.notes.as_deref()),
            here,
            (path.unwrap_or_default(), Some(Style::Dim)),
        ]);
    }
    output::print(table.render(output::colour(&io::stdout())))
}

/// The row of a model of the catalogue.
fn known(entry: &catalogue::Entry, cache: &Cache) -> Model {
    let (bytes, state, path) = match &entry.origin {
        Origin::Embedded => (Some(EMBEDDED.len() as u64), State::BuiltIn, None),
        Origin::Packages(file) => {
            let path = cache.file(file.file);
            match fs::metadata(&path) {
                Ok(found) if found.len() == file.bytes => (Some(file.bytes), State::Downloaded, Some(path)),
                Ok(_) => (Some(file.bytes), State::Incomplete, Some(path)),
                Err(_) => (Some(file.bytes), State::Absent, None),
            }
        }
    };
    Model {
        name: entry.name.to_owned(),
        architecture: Some(entry.architecture),
        format: Some(entry.format),
        bytes,
        licence: Some(entry.licence),
        notes: Some(notes(entry)),
        state,
        path,
    }
}

/// What there is to say of a model, and whether this build can run it.
fn notes(entry: &catalogue::Entry) -> String {
    match models::is_runnable(entry.architecture) {
        true => entry.notes.to_owned(),
        false => format!("{}; cannot be run yet", entry.notes),
    }
}

/// The row of a model from the hub.
fn fetched(model: Held) -> Model {
    Model {
        name: model.reference.to_string(),
        architecture: None,
        format: None,
        bytes: Some(model.bytes),
        licence: None,
        notes: None,
        state: if model.complete { State::Downloaded } else { State::Incomplete },
        path: Some(model.path),
    }
}
