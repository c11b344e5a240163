//! What was measured of a server, as tables for people.

use anyhow::Result;
use gleed_bench::load::{Compared, Level, Loaded, Percentiles, Same};

use super::tables::{percent, show, times};
use crate::output::{self, Align, Table};

/// Throughput of every load, then its times.
pub fn levels(levels: &[Level]) -> Result<()> {
    let has_peer = levels.iter().any(|level| level.peer.is_some());
    let mut columns = vec![("load", Align::Left)];
    if has_peer {
        columns.push(("", Align::Left));
    }
    let figures = ["requests/s", "in/s", "out/s", "min – max", "cached", "done", "failed"];
    columns.extend(figures.map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    for (level, side, loaded) in sides(levels) {
        let mut cells = vec![level.name.clone()];
        cells.extend(has_peer.then(|| side.to_string()));
        let out = &loaded.output_tokens_per_second;
        let cached = loaded.cached_tokens.filter(|_| loaded.prompt_tokens > 0);
        cells.extend([
            format!("{:.2}", loaded.requests_per_second.median),
            format!("{:.1}", loaded.input_tokens_per_second.median),
            format!("{:.1}", out.median),
            format!("{:.1} – {:.1}", out.low, out.high),
            cached.map(|cached| percent(cached as f64 / loaded.prompt_tokens as f64)).unwrap_or_default(),
            loaded.completed.to_string(),
            failed(loaded),
        ]);
        table.row(cells.into_iter().map(|cell| (cell, None)));
        if side == "peer"
            && let Some(ratio) = level.ratios.as_ref().and_then(|ratios| ratios.output_tokens_per_second)
        {
            let cells = [String::new(), "ratio".to_string(), String::new(), String::new(), times(ratio)];
            table.row(cells.map(|cell| (cell, None)));
        }
    }
    show(&table)?;
    output::print_line("")?;
    latencies(levels, has_peer)
}

/// Percentiles of every time, in milliseconds.
fn latencies(levels: &[Level], has_peer: bool) -> Result<()> {
    let mut columns = vec![("milliseconds", Align::Left), ("", Align::Left)];
    if has_peer {
        columns.push(("", Align::Left));
    }
    columns.extend(["p50", "p90", "p95", "p99", "max"].map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    for (level, side, loaded) in sides(levels) {
        let rows: [(&str, Option<Percentiles>); 4] = [
            ("first token", loaded.first_token),
            ("between tokens", loaded.between_tokens),
            ("each token after it", loaded.per_token),
            ("whole answer", loaded.whole),
        ];
        for (name, values) in rows {
            let Some(values) = values else { continue };
            let mut cells = vec![level.name.clone(), name.to_string()];
            cells.extend(has_peer.then(|| side.to_string()));
            let shown = [values.p50, values.p90, values.p95, values.p99, values.max];
            cells.extend(shown.map(|seconds| format!("{:.1}", seconds * 1e3)));
            table.row(cells.into_iter().map(|cell| (cell, None)));
        }
        let Some(ratios) = level.ratios.as_ref().filter(|_| side == "peer") else { continue };
        for (name, half, far) in [
            ("first token", ratios.first_token_p50, ratios.first_token_p99),
            ("each token after it", ratios.per_token_p50, None),
            ("whole answer", ratios.whole_p50, None),
        ] {
            let cell = |ratio: Option<f64>| ratio.map(times).unwrap_or_default();
            let nothing = String::new;
            let cells = [
                level.name.clone(),
                name.to_string(),
                "ratio".to_string(),
                cell(half),
                nothing(),
                nothing(),
                cell(far),
            ];
            table.row(cells.map(|cell| (cell, None)));
        }
    }
    show(&table)
}

/// Both sides of every load.
fn sides(levels: &[Level]) -> impl Iterator<Item = (&Level, &'static str, &Loaded)> {
    levels.iter().flat_map(|level| {
        let peer = level.peer.as_ref().map(|peer| (level, "peer", peer));
        std::iter::once((level, "ours", &level.ours)).chain(peer)
    })
}

/// How many failed, and of what.
fn failed(loaded: &Loaded) -> String {
    let kinds: Vec<String> = loaded.errors.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    if kinds.is_empty() { "0".to_string() } else { kinds.join(", ") }
}

/// The shares of answers that are the same, and the first that are not.
pub fn same(same: &Same) -> Result<()> {
    let mut table = Table::new(&[
        ("compared with alone, cold cache", Align::Left),
        ("requests", Align::Right),
        ("same text", Align::Right),
        ("", Align::Right),
        ("same log-probabilities", Align::Right),
        ("", Align::Right),
        ("cached tokens", Align::Right),
        ("failed", Align::Right),
        ("strangers left", Align::Right),
    ]);
    for way in &same.ways {
        let Compared { compared, same, failed, strangers_left, .. } = way;
        let share = |same: usize, of: usize| match of {
            0 => String::new(),
            // Rounded down: one of a thousand that differs is not 100 %.
            of => format!("{:.1} %", (same as f64 / of as f64 * 1000.0).floor() / 10.0),
        };
        let (equal, of) = (way.log_probabilities_same, way.log_probabilities_compared);
        let cells = [
            way.way.to_string(),
            compared.to_string(),
            same.to_string(),
            share(*same, *compared),
            if of > 0 { format!("{equal} of {of}") } else { "none given".to_string() },
            share(equal, of),
            way.cached_tokens.map(|cached| cached.to_string()).unwrap_or_default(),
            failed.to_string(),
            strangers_left.to_string(),
        ];
        table.row(cells.map(|cell| (cell, None)));
    }
    show(&table)?;
    for way in &same.ways {
        if let Some(error) = &way.first_error {
            output::warning(format!("{}: the first failure: {error}", way.way));
        }
        if let Some(difference) = way.differences.first() {
            let (alone, then) = apart(&difference.alone, &difference.then);
            let (number, kind) = (difference.number, difference.kind);
            output::note(format!("{}: request {number} ({kind}): {alone:?} became {then:?}", way.way));
        }
    }
    Ok(())
}

/// Where two texts part, with a little of what they have in common before it.
fn apart(a: &str, b: &str) -> (String, String) {
    let common = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let from = common.saturating_sub(20);
    let part = |text: &str| text.chars().skip(from).take(60).collect();
    (part(a), part(b))
}
