//! How every command speaks: results on stdout, everything else on stderr, colour only for people,
//! one line per warning or error. A reader that closes stdout early (`gleed list | head -1`) ends the
//! command quietly. What people read may quote a model file, so all of it is escaped here; only [`print()`] and
//! [`print_aside`], for text that a model was asked for, are not.

use std::fmt::{self, Display};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::escape::{visible, visible_json, visible_lines};

/// Whether escape sequences may be written to this stream: a terminal, not a dumb one, and no `NO_COLOR`.
pub fn colour(stream: &impl IsTerminal) -> bool {
    let asked_not_to = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    capable_terminal(stream) && !asked_not_to
}

/// Whether the stream is a terminal that can move its cursor, which a progress bar needs.
pub fn capable_terminal(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// An SGR style; `paint` applies it only where colour is wanted.
#[derive(Clone, Copy)]
pub enum Style {
    Bold,
    Dim,
    Green,
    Red,
    Yellow,
}

/// `text` in `style` when `colour` is on, plain otherwise.
pub fn paint(text: &str, style: Style, colour: bool) -> String {
    let code = match style {
        Style::Bold => "1",
        Style::Dim => "2",
        Style::Green => "32",
        Style::Red => "1;31",
        Style::Yellow => "1;33",
    };
    if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// The reader of stdout has gone away. Not a failure of the command: `exit_code` ends quietly on it.
#[derive(Debug)]
pub struct StdoutClosed;

impl Display for StdoutClosed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("stdout was closed by its reader")
    }
}

impl std::error::Error for StdoutClosed {}

/// Writes text to stdout as it is and flushes it, so that a pipe sees it at once.
pub fn print(text: impl Display) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match write!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(StdoutClosed.into()),
        Err(error) => Err(anyhow::Error::new(error).context("cannot write to stdout")),
    }
}

/// Writes one line for people to stdout.
pub fn print_line(text: impl Display) -> Result<()> {
    print(format_args!("{}\n", visible(&text.to_string())))
}

/// Writes lines for people to stdout.
pub fn print_lines(text: impl Display) -> Result<()> {
    print(visible_lines(&text.to_string()))
}

/// Whether the one object of `--json` is written.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// Writes one JSON object to stdout: indented for a terminal, on one line for a pipe.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    REPORTED.store(true, Ordering::Relaxed);
    let text = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)?
    } else {
        serde_json::to_string(value)?
    };
    print(format_args!("{}\n", visible_json(&text)))
}

/// Writes one JSON object to stdout: what is known of the run, and what came of it.
pub fn print_report(mut run: Map<String, Value>, found: Value) -> Result<()> {
    if let Value::Object(found) = found {
        run.extend(found);
    }
    print_json(&run)
}

/// A line or some to stderr for the person watching. A closed stderr is no error.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{}", visible_lines(&text.to_string()));
}

/// A model's own words beside its answer to stderr, as they are. A closed stderr is no error.
pub fn print_aside(text: &str) {
    let mut stderr = io::stderr();
    let _ = write!(stderr, "{text}").and_then(|()| stderr.flush());
}

/// The same as a note, only on a terminal.
#[cfg(feature = "gpu")]
pub fn remark(text: impl Display) {
    if io::stderr().is_terminal() {
        note(text);
    }
}

/// `warning: …` on stderr.
pub fn warning(text: impl Display) {
    line("warning:", Style::Yellow, text);
}

/// `error: …` on stderr.
pub fn error(text: impl Display) {
    line("error:", Style::Red, text);
}

/// One line to stderr, whatever is in the text.
fn line(kind: &str, style: Style, text: impl Display) {
    let kind = paint(kind, style, colour(&io::stderr()));
    let _ = writeln!(io::stderr(), "{kind} {}", visible(&text.to_string()));
}

/// What `main` returns: 0, or 1 after one line that tells the whole chain of causes; with `--json`, after an
/// object that tells it too.
pub fn exit_code(result: Result<()>, json: bool) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is::<StdoutClosed>() => ExitCode::SUCCESS,
        Err(failure) => {
            // A cause may bring line breaks of its own (a child's output, a parser's excerpt).
            let message = one_line(&chain(&failure));
            if json {
                print_failure(&message);
            }
            error(message);
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes, but for those that it tells itself.
pub fn chain(failure: &anyhow::Error) -> String {
    failure.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text {
        text if text.is_empty() => cause,
        text if text.contains(&cause) => text,
        text => format!("{text}: {cause}"),
    })
}

/// What `main` returns for arguments that ask for help or make no sense; with `--json`, after an object that says
/// what is wrong with them.
pub fn usage(problem: &clap::Error, json: bool) -> ExitCode {
    if json && problem.use_stderr() {
        let text = problem.render().to_string();
        // Advice and usage follow after an empty line.
        let what = text.split("\n\n").next().unwrap_or_default();
        print_failure(&one_line(what.strip_prefix("error: ").unwrap_or(what)));
    }
    let _ = problem.print();
    ExitCode::from(if problem.use_stderr() { 2 } else { 0 })
}

/// Writes the object of a command that failed, unless its report is out already (`validate` reports a check that
/// fails).
fn print_failure(message: &str) {
    if !REPORTED.load(Ordering::Relaxed) {
        // A reader that has left has the exit code.
        let _ = print_json(&json!({ "error": { "message": message } }));
    }
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// A byte count for people, in decimal units as download pages and disks give them: `98 MB`, `1.1 GB`.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1e3;
    let mut unit = 0;
    // 999.5 would be printed as 1000: give it to the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    if value < 9.95 { format!("{value:.1} {}", UNITS[unit]) } else { format!("{value:.0} {}", UNITS[unit]) }
}

/// How a column lines up.
#[derive(Clone, Copy)]
pub enum Align {
    Left,
    Right,
}

/// A table with a header, two spaces between columns and no frame, so that `awk` and people both read it.
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<(String, Option<Style>)>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; cells that are missing at its end stay empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = (String, Option<Style>)>) {
        let visible = |(text, style): (String, _)| (visible(&text).into_owned(), style);
        self.rows.push(cells.into_iter().map(visible).collect());
    }

    /// The table as text, with escape sequences only when `colour` is on.
    pub fn render(&self, colour: bool) -> String {
        let width = |column: usize| {
            let cells =
                self.rows.iter().filter_map(|row| row.get(column)).map(|(text, _)| text.chars().count());
            cells.chain([self.columns[column].0.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let header = self.columns.iter().map(|(name, _)| (name.to_string(), Some(Style::Bold))).collect();

        let mut text = String::new();
        for row in std::iter::once(&header).chain(&self.rows) {
            let mut line = String::new();
            let mut owed = 0; // spaces that only appear if something follows them
            for ((cell, style), ((_, align), width)) in row.iter().zip(self.columns.iter().zip(&widths)) {
                let padding = width - cell.chars().count();
                let (before, after) = match align {
                    Align::Left => (0, padding),
                    Align::Right => (padding, 0),
                };
                if !cell.is_empty() {
                    line.push_str(&" ".repeat(owed + before));
                    line.push_str(&style.map_or_else(|| cell.clone(), |style| paint(cell, style, colour)));
                    owed = after + 2;
                } else {
                    owed += width + 2;
                }
            }
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_two_or_three_digits() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (9_949, "9.9 kB"),
            (9_950, "10 kB"),
            (98_362_432, "98 MB"),
            (999_400_000, "999 MB"),
            (999_600_000, "1.0 GB"),
            (1_117_320_768, "1.1 GB"),
            (u64::MAX, "18 EB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(human_bytes(bytes), expected);
        }
    }

    #[test]
    fn a_cause_is_told_once() {
        let missing = std::io::Error::new(io::ErrorKind::NotFound, "there is no such file");
        let file = gleed_gguf::Error::Io { path: "a.gguf".into(), source: missing };
        let failure = anyhow::Error::from(file).context("--lora");
        assert_eq!(chain(&failure), "--lora: a.gguf: there is no such file");
        let failure = anyhow::Error::msg("a wall").context("stopped");
        assert_eq!(chain(&failure), "stopped: a wall");
    }

    #[test]
    fn tables_line_up_and_have_no_trailing_spaces() {
        let mut table = Table::new(&[("name", Align::Left), ("size", Align::Right), ("note", Align::Left)]);
        table.row([("é".to_owned(), None), ("7 B".to_owned(), None), ("x".to_owned(), None)]);
        table.row([("longer".to_owned(), None), (String::new(), None), ("y".to_owned(), None)]);
        table.row([("z".to_owned(), None)]);
        let expected = "name    size  note\né        7 B  x\nlonger        y\nz\n";
        assert_eq!(table.render(false), expected);
    }

    #[test]
    fn colour_does_not_change_widths() {
        let mut table = Table::new(&[("a", Align::Left), ("b", Align::Right)]);
        table.row([("yes".to_owned(), Some(Style::Green)), ("1".to_owned(), None)]);
        let plain = table.render(true).replace("\x1b[1m", "").replace("\x1b[32m", "").replace("\x1b[0m", "");
        assert_eq!(plain, table.render(false));
    }
}
