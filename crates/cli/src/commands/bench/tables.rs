//! What was measured, as tables for people.

use anyhow::Result;
use gleed_bench::{GuessGain, KernelTime, Limits, Measured, Profile, Rates, Spread, Start};

use crate::output::{self, Align, Table};

/// A column that is shown when a result has it: its name and what it says.
type Column = (&'static str, fn(&Measured) -> Option<String>);

/// The results, with the columns that have something to say.
pub fn results(results: &[Measured]) -> Result<()> {
    let columns: [Column; 11] = [
        ("test", |r| Some(r.test.clone())),
        ("tokens/s", |r| Some(format!("{:.1}", r.ours.median))),
        ("min – max", |r| Some(range(&r.ours))),
        ("first token", |r| r.first_token_seconds.map(|s| format!("{:.0} ms", s * 1e3))),
        ("of memory", |r| r.memory_share.map(percent)),
        ("of one", |r| r.of_one_sequence.map(times)),
        ("per token", |r| r.per_token.map(|rate| format!("{rate:.1}"))),
        ("gain", |r| r.batch_gain.map(times)),
        ("peer", |r| match (&r.peer, &r.peer_error) {
            (Some(peer), _) => Some(format!("{:.1}", peer.median)),
            (None, Some(_)) => Some("failed".to_string()),
            (None, None) => None,
        }),
        ("min – max", |r| r.peer.as_ref().map(range)),
        ("ratio", |r| r.ratio.map(times)),
    ];
    let shown = columns.into_iter().filter(|(_, cell)| results.iter().any(|r| cell(r).is_some()));
    let shown: Vec<Column> = shown.collect();
    let align = |name| if name == "test" { Align::Left } else { Align::Right };
    let mut table = Table::new(&shown.iter().map(|(name, _)| (*name, align(*name))).collect::<Vec<_>>());
    for result in results {
        table.row(shown.iter().map(|(_, cell)| (cell(result).unwrap_or_default(), None)));
    }
    show(&table)
}

/// What guesses gained.
pub fn guesses(gains: &[GuessGain]) -> Result<()> {
    let columns = ["text", "without", "min – max", "with guesses", "min – max", "ratio", "right", "answers"];
    let align = |name| if name == "text" { Align::Left } else { Align::Right };
    let mut table = Table::new(&columns.map(|name| (name, align(name))));
    for gain in gains {
        let right = format!("{} of {}", gain.accepted_tokens, gain.guessed_tokens);
        let answers = if gain.same { "the same" } else { "DIFFER" };
        let cells = [
            gain.text.to_string(),
            format!("{:.1}", gain.plain.median),
            range(&gain.plain),
            format!("{:.1}", gain.guessed.median),
            range(&gain.guessed),
            times(gain.ratio),
            right,
            answers.to_string(),
        ];
        table.row(cells.map(|cell| (cell, None)));
    }
    show(&table)
}

fn range(rates: &Rates) -> String {
    format!("{:.1} – {:.1}", rates.low, rates.high)
}

/// A share for people.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A ratio for people.
pub fn times(ratio: f64) -> String {
    format!("{ratio:.2} ×")
}

/// Where the time goes, a table for each test.
pub fn ops(profiles: &[Profile], limits: Option<&Limits>, of_gpu: bool) -> Result<()> {
    // A real GPU does so many operations that thousands of millions are hard to read.
    let many = of_gpu && limits.is_some_and(|limits| limits.f32 >= 1e12);
    let (unit, operations, digits) = if many { ("TFLOP/s", 1e12, 3) } else { ("GOP/s", 1e9, 1) };
    for profile in profiles {
        let total: f64 = profile.ops.iter().map(|op| op.seconds).sum();
        output::print_line("")?;
        output::print_line(format!("{}: {:.1} ms by op", profile.test, total * 1e3))?;
        let mut table = Table::new(&[
            ("op", Align::Left),
            ("ms", Align::Right),
            ("share", Align::Right),
            ("GB/s", Align::Right),
            (unit, Align::Right),
            ("of limit", Align::Right),
            ("limit", Align::Left),
            ("what", Align::Left),
        ]);
        for op in &profile.ops {
            let rate = |amount: f64, unit: f64, digits: usize| match amount > 0.0 && op.seconds > 0.0 {
                true => format!("{:.digits$}", amount / op.seconds / unit),
                false => String::new(),
            };
            let cells = [
                op.kind.to_string(),
                format!("{:.2}", op.seconds * 1e3),
                format!("{:.1} %", op.seconds / total * 100.0),
                rate(op.work.bytes() + op.work.activations, 1e9, 1),
                rate(op.work.operations(), operations, digits),
                op.share_of_limit.map(percent).unwrap_or_default(),
                op.limit.unwrap_or_default().to_string(),
                op.name.clone(),
            ];
            table.row(cells.map(|c| (c, None)));
        }
        show(&table)?;
    }
    Ok(())
}

/// Each linear kernel by itself.
pub fn kernels(times: &[KernelTime]) -> Result<()> {
    let mut table = Table::new(&[
        ("tensor", Align::Left),
        ("format", Align::Left),
        ("shape", Align::Right),
        ("rows", Align::Right),
        ("µs", Align::Right),
        ("GB/s", Align::Right),
        ("GOP/s", Align::Right),
        ("kernel", Align::Left),
    ]);
    for time in times {
        let cells = [
            time.tensor.clone(),
            time.format.to_string(),
            format!("{}×{}", time.outputs, time.inputs),
            time.rows.to_string(),
            format!("{:.1}", time.seconds * 1e6),
            format!("{:.1}", time.gigabytes_per_second),
            format!("{:.1}", time.gigaoperations_per_second),
            time.kernel.clone(),
        ];
        table.row(cells.map(|c| (c, None)));
    }
    show(&table)
}

/// Both sides' starts, and the ratios.
pub fn start(start: &Start) -> Result<()> {
    let mut table = Table::new(&[
        ("", Align::Left),
        ("first token", Align::Right),
        ("min – max", Align::Right),
        ("peak memory", Align::Right),
    ]);
    for (name, side) in [("gleed", Some(&start.ours)), ("peer", start.peer.as_ref())] {
        let Some(side) = side else { continue };
        let Spread { low, high, .. } = Spread::of(&side.runs);
        let cells = [
            name.to_string(),
            format!("{:.0} ms", side.first_token_seconds * 1e3),
            format!("{:.0} – {:.0}", low * 1e3, high * 1e3),
            side.peak_memory_bytes.map(output::human_bytes).unwrap_or_default(),
        ];
        table.row(cells.map(|c| (c, None)));
    }
    if let Some(ratio) = start.first_token_ratio() {
        let memory = start.peak_memory_ratio().map(times).unwrap_or_default();
        let cells = ["ratio".to_string(), times(ratio), String::new(), memory];
        table.row(cells.map(|c| (c, None)));
    }
    show(&table)
}

/// Prints a table.
pub fn show(table: &Table) -> Result<()> {
    output::print(table.render(output::colour(&std::io::stdout())))
}
