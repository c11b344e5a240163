//! A progress bar on stderr for anything that takes a while: downloading, loading, quantising,
//! evaluating. Where stderr is not a capable terminal nothing is drawn.

use std::fmt::{self, Display};
use std::io;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::escape::visible;
use crate::output;

/// A bar that counts from 0 to a total. It is wiped from the screen when finished or dropped, so that
/// only results stay behind.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar of `total` steps.
    pub fn new(label: &str, total: u64) -> Self {
        let visible = output::capable_terminal(&io::stderr());
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target).with_prefix(label.to_owned());
        bar.set_style(style("{pos}/{len} {msg}"));
        if visible {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Self { bar }
    }

    /// The same bar with its counts shown as bytes, with speed and time left.
    pub fn bytes(self) -> Self {
        self.bar.set_style(style("{bytes_of}{pace} {msg}"));
        self
    }

    /// `steps` more are done.
    pub fn advance(&self, steps: u64) {
        self.bar.inc(steps);
    }

    /// `steps` are done in all.
    pub fn set(&self, steps: u64) {
        self.bar.set_position(steps);
    }

    /// Measures the speed from here on: what came before was another kind of work.
    pub fn restart_clock(&self) {
        self.bar.reset_eta();
    }

    /// The total has become known or has changed.
    pub fn set_total(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// A few words at the end of the bar: what is being done right now.
    pub fn message(&self, text: impl Into<String>) {
        self.bar.set_message(visible(&text.into()).into_owned());
    }

    /// Prints a warning without tearing the bar.
    pub fn warning(&self, text: impl Display) {
        self.bar.suspend(|| output::warning(text));
    }

    /// Wipes the bar.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The shared look, `label [====>   ] counts`, with `counts` in indicatif's template language.
fn style(counts: &str) -> ProgressStyle {
    let bar = if output::colour(&io::stderr()) { "{bar:24.cyan/dim}" } else { "{bar:24}" };
    ProgressStyle::with_template(&format!("{{prefix}} {bar} {counts}"))
        .expect("the template is a constant")
        .progress_chars("━╸─")
        .with_key("bytes_of", bytes_of)
        .with_key("pace", pace)
}

/// `39 MB of 323 MB`.
fn bytes_of(state: &ProgressState, line: &mut dyn fmt::Write) {
    let _ = write!(line, "{}", output::human_bytes(state.pos()));
    if let Some(total) = state.len().filter(|&total| total > 0) {
        let _ = write!(line, " of {}", output::human_bytes(total));
    }
}

/// ` 12 MB/s, 23 s left`, once there is something to tell it from.
fn pace(state: &ProgressState, line: &mut dyn fmt::Write) {
    let (per_second, left) = (state.per_sec(), state.eta().as_secs());
    if per_second < 1e3 {
        return;
    }
    let _ = write!(line, " {}/s", output::human_bytes(per_second as u64));
    let _ = match left {
        0 => Ok(()),
        1..120 => write!(line, ", {left} s left"),
        120..7200 => write!(line, ", {} min left", left / 60),
        _ => write!(line, ", {} h left", left / 3600),
    };
}
