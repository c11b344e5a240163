//! `gleed list`: the models gleed knows by name and those it has fetched from the hub, which of them are
//! here, and which cannot be run.

use std::path::PathBuf;
use std::{fs, io};

use anyhow::Result;
use clap::Args;
use gleed_gguf::Gguf;
use gleed_hub::catalogue::{self, Origin};
use gleed_hub::{Cache, Held, embedded_bytes, held};
use serde::Serialize;

use crate::models;
use crate::output::{self, Align, Style, Table};

/// Show the models that gleed knows by name and those that are here
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

/// One model. What only its file says is absent for one of the hub that is not whole.
#[derive(Serialize)]
struct Model {
    name: String,
    architecture: Option<String>,
    format: Option<&'static str>,
    /// Of the whole model if it is of the catalogue, of what is here if it is of the hub.
    bytes: u64,
    licence: Option<&'static str>,
    notes: Option<String>,
    runnable: Option<bool>,
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
        let notes = model.notes.clone().unwrap_or_else(|| "-".to_owned());
        let path = model.path.as_deref().map(|path| path.display().to_string());
        table.row([
            (model.name.clone(), None),
            word(model.architecture.as_deref()),
            word(model.format),
            (output::human_bytes(model.bytes), None),
            word(model.licence),
            (notes, (model.runnable == Some(false)).then_some(Style::Yellow)),
            here,
            (path.unwrap_or_default(), Some(Style::Dim)),
        ]);
    }
    output::print(table.render(output::colour(&io::stdout())))
}

/// The row of a model of the catalogue.
fn known(entry: &catalogue::Entry, cache: &Cache) -> Model {
    let (bytes, state, path) = match &entry.origin {
        Origin::Embedded => (embedded_bytes() as u64, State::BuiltIn, None),
        Origin::Packages(file) => {
            let path = cache.file(file.file);
            let (state, path) = match fs::metadata(&path) {
                Ok(found) if found.len() == file.bytes => (State::Downloaded, Some(path)),
                Ok(_) => (State::Incomplete, Some(path)),
                Err(_) if gleed_hub::is_begun(&path) => (State::Incomplete, None),
                Err(_) => (State::Absent, None),
            };
            (file.bytes, state, path)
        }
    };
    let runnable = models::is_runnable(entry.architecture);
    Model {
        name: entry.name.to_owned(),
        architecture: Some(entry.architecture.to_owned()),
        format: Some(entry.format),
        bytes,
        licence: Some(entry.licence),
        notes: Some(format!("{}{}", entry.notes, if runnable { "" } else { "; cannot be run yet" })),
        runnable: Some(runnable),
        state,
        path,
    }
}

/// The row of a model from the hub, with what its file says of itself.
fn fetched(model: Held) -> Model {
    let file = model.complete.then(|| Gguf::open(&model.path));
    let architecture = file.map(|file| architecture(&file.ok()?));
    let runnable = architecture.as_ref().map(|name| name.as_deref().is_some_and(models::is_runnable));
    let notes = match (&architecture, runnable) {
        (Some(None), _) => Some("cannot be run: no model can be read from it"),
        (_, Some(false)) => Some("cannot be run yet"),
        _ => None,
    };
    Model {
        name: model.reference.to_string(),
        architecture: architecture.flatten(),
        format: model.reference.format(),
        bytes: model.bytes,
        licence: None,
        notes: notes.map(str::to_owned),
        runnable,
        state: if model.complete { State::Downloaded } else { State::Incomplete },
        path: Some(model.path),
    }
}

/// The architecture that a file names, if it is a word: what a terminal is shown should not steer it.
fn architecture(file: &Gguf) -> Option<String> {
    let name = file.metadata().str("general.architecture").ok().flatten()?;
    name.bytes().all(|byte| byte.is_ascii_graphic()).then(|| name.to_owned())
}
