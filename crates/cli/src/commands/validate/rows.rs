//! `--against-rows`: the bits of every row's logits, computed in every company that we can think of, on one device.

use std::ops::Range;

use anyhow::Result;
use gleed_model::arithmetic::PAGE;
use gleed_model::slots::InTurn;
use gleed_model::{Batch, Executor, Row};
use serde_json::json;

use super::{Arguments, pages, print_kernels, verdict};
use crate::device::{Device, Placed};
use crate::load::{Loaded, Options};
use crate::output::{self, Align, Table};
use crate::progress::Progress;

/// Rows at either end of the text whose logits are compared, enough to cross a page. What is in between is computed
/// too, and read by the rows at the end.
const EDGE: usize = PAGE + 8;

/// Rows of a step. Those below [`WHOLE`] are for the edges only, the others for the whole text, so that small steps
/// do not take minutes.
const CHUNKS: [usize; 10] = [1, 2, 3, 7, 16, 32, 64, 103, 183, 300];
const WHOLE: usize = 64;

/// Rows of each sequence in a step in company.
const COMPANY: usize = 5;

/// Rows that were compared with the whole prompt's.
struct Check {
    computed_in: String,
    rows: usize,
    differ: usize,
}

/// Runs the check.
pub fn run(arguments: &Arguments, loaded: &Loaded, tokens: &[u32]) -> Result<()> {
    let options = &arguments.options;
    let n = tokens.len();
    // One executor for everything but threads: three sequences, as in company.
    let mut executor = loaded.executor(options, 3 * n.div_ceil(PAGE) * PAGE, n.max(3 * COMPANY))?;
    let other_threads = other_threads(options, &executor);
    let text = Text { tokens, edges: edges(n) };
    let truth = text.compute(&mut executor, std::iter::once(0..n))?;
    let chunks = CHUNKS.into_iter().filter(|chunk| *chunk < n);
    let progress = Progress::new("rows", chunks.clone().count() as u64 + 2);
    let mut checks = Vec::new();
    let mut check = |computed_in: String, logits: Vec<Vec<u32>>| {
        let differ = logits.iter().zip(&truth).filter(|(a, b)| a != b).count();
        checks.push(Check { computed_in, rows: logits.len(), differ });
        progress.advance(1);
    };
    for chunk in chunks {
        let stretches = if chunk < WHOLE { text.edges.clone() } else { std::iter::once(0..n).collect() };
        let steps = stretches.into_iter().flat_map(|stretch| {
            let end = stretch.end;
            stretch.step_by(chunk).map(move |from| from..end.min(from + chunk))
        });
        check(format!("chunks of {chunk}"), text.compute(&mut executor, steps)?);
    }
    check("in company of two other sequences".to_string(), text.in_company(&mut executor)?);
    let kernels = executor.kernels();
    drop(executor);
    if let Some((threads, options)) = other_threads {
        let mut executor = loaded.executor(&options, n, n)?;
        let name = if threads == 1 { "one thread".to_string() } else { format!("{threads} threads") };
        check(name, text.compute(&mut executor, std::iter::once(0..n))?);
    }
    progress.finish();
    let wrong: usize = checks.iter().map(|check| check.differ).sum();
    if arguments.json {
        let check =
            |c: &Check| json!({ "computed_in": c.computed_in, "rows": c.rows, "rows_that_differ": c.differ });
        output::print_json(&json!({
            "model": loaded.name,
            "rows": n,
            "checks": checks.iter().map(check).collect::<Vec<_>>(),
            "kernels": kernels,
            "passed": wrong == 0,
        }))?;
    } else {
        let mut table = Table::new(&[
            ("computed in", Align::Left),
            ("rows", Align::Right),
            ("rows that differ", Align::Right),
        ]);
        for check in &checks {
            let cells = [check.computed_in.clone(), check.rows.to_string(), check.differ.to_string()];
            table.row(cells.map(|c| (c, None)));
        }
        output::print(table.render(output::colour(&std::io::stdout())))?;
        print_kernels(&kernels)?;
    }
    verdict(wrong == 0, arguments.json, || "a row's result depended on its company".to_string())
}

/// Another number of threads, and the options that put the same layers on the same device with it; none where no
/// CPU computes.
fn other_threads(options: &Options, executor: &Placed) -> Option<(usize, Options)> {
    let threads = executor.threads()?;
    let device = if executor.cpu().is_some() { Device::Cpu } else { options.device.clone() };
    let threads = if threads == 1 { 2 } else { 1 };
    Some((threads, Options { device, threads: Some(threads), ..options.clone() }))
}

/// The rows whose logits are compared: both ends of the text.
fn edges(rows: usize) -> Vec<Range<usize>> {
    match rows <= 2 * EDGE {
        true => std::iter::once(0..rows).collect(),
        false => vec![0..EDGE, rows - EDGE..rows],
    }
}

/// What is computed again and again.
struct Text<'a> {
    tokens: &'a [u32],
    /// The rows that want logits.
    edges: Vec<Range<usize>>,
}

impl Text<'_> {
    fn wants_logits(&self, position: usize) -> bool {
        self.edges.iter().any(|edge| edge.contains(&position))
    }

    /// The bits of the logits of all rows that want them, computed in these steps. Rows before a step that are not
    /// in an earlier one must have been computed before.
    fn compute(
        &self,
        executor: &mut Placed,
        steps: impl Iterator<Item = Range<usize>>,
    ) -> Result<Vec<Vec<u32>>> {
        let pages = pages(self.tokens.len());
        let mut logits = Vec::new();
        let (mut done, mut second) = (0, false);
        for step in steps {
            let mut batch = Batch::default();
            let table = batch.add_table(&pages);
            let mut wanted = 0;
            // States of recurrent layers: two slots in turn, and one that the whole text in one step leaves for those
            // that begin with its last edge.
            if step.start > 0 {
                batch.read_state(table, if step.start == done { 1 + u32::from(second) } else { 0 });
            }
            second = !second;
            batch.save_state(table, step.end as u32 - 1, 1 + u32::from(second));
            let last_edge = self.edges.last().map_or(0, |edge| edge.start);
            if step == (0..self.tokens.len()) && last_edge > 0 {
                batch.save_state(table, last_edge as u32 - 1, 0);
            }
            done = step.end;
            for position in step {
                let (token, wants_logits) = (self.tokens[position], self.wants_logits(position));
                batch.push(Row { table, position: position as u32, token, wants_logits });
                wanted += usize::from(wants_logits);
            }
            executor.step(&batch, &mut ())?;
            logits.extend((0..wanted).map(|row| bits(executor.logits(row))));
        }
        Ok(logits)
    }

    /// The same, with rows of two other sequences between the rows, some of which want logits, and with the pages
    /// of the three sequences interleaved.
    fn in_company(&self, executor: &mut Placed) -> Result<Vec<Vec<u32>>> {
        let n = self.tokens.len();
        let pages = n.div_ceil(PAGE) as u32;
        let (mut logits, mut slots) = (Vec::new(), InTurn::default());
        for from in (0..n).step_by(COMPANY) {
            let mut batch = Batch::default();
            let mut table =
                |sequence| batch.add_table(&(0..pages).map(|p| 3 * p + sequence).collect::<Vec<_>>());
            let tables = [table(0), table(1), table(2)];
            let (mut ours, mut wanted) = (Vec::new(), 0);
            for position in from..n.min(from + COMPANY) {
                for (sequence, table) in tables.into_iter().enumerate() {
                    // The middle sequence is the one we watch; of the others every second row wants logits.
                    let is_ours = sequence == 1;
                    let token = self.tokens[if is_ours { position } else { n - 1 - position }];
                    let wants_logits = if is_ours { self.wants_logits(position) } else { position % 2 == 0 };
                    if is_ours && wants_logits {
                        ours.push(wanted);
                    }
                    wanted += usize::from(wants_logits);
                    batch.push(Row { table, position: position as u32, token, wants_logits });
                }
            }
            slots.go_on(&mut batch);
            executor.step(&batch, &mut ())?;
            logits.extend(ours.iter().map(|&index| bits(executor.logits(index))));
        }
        Ok(logits)
    }
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|l| l.to_bits()).collect()
}
