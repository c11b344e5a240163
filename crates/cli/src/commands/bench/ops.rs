//! Where the time goes, by op: each node of the program timed, and nodes that differ only in their layer
//! added up.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::Result;
use gleed_model::Executor;
use gleed_model::executor::{Buffers, Observer};
use gleed_model::program::{Op, Program};
use serde_json::{Value, json};

use super::measure::{self, Test};
use crate::output::{self, Align, Table};

/// The time of each kind of node in one test.
struct Profile {
    test: String,
    entries: Vec<Entry>,
}

struct Entry {
    /// The plain ops it stands for, without their layer.
    name: String,
    kind: &'static str,
    seconds: f64,
    /// Weight bytes read, once per step.
    bytes: f64,
    /// Multiply-adds over all rows.
    operations: f64,
}

/// The profiles of all tests.
pub struct Profiles(Vec<Profile>);

/// Measures each test once more, with a clock between the nodes.
pub fn run(executor: &mut dyn Executor, tests: &[Test]) -> Result<Profiles> {
    let mut profiles = Vec::new();
    for test in tests {
        let program = executor.program().clone();
        let mut clock = Clock { last: Instant::now(), nodes: vec![0.0; program.nodes.len()], steps: 0 };
        measure::run_observed(executor, test, &mut clock)?;
        profiles.push(Profile { test: test.name(), entries: entries(&program, &clock, test) });
    }
    Ok(Profiles(profiles))
}

struct Clock {
    last: Instant,
    nodes: Vec<f64>,
    steps: usize,
}

impl Observer for Clock {
    fn start(&mut self) {
        self.steps += 1;
        self.last = Instant::now();
    }

    fn after(&mut self, node: usize, _buffers: &dyn Buffers) {
        let now = Instant::now();
        self.nodes[node] += (now - self.last).as_secs_f64();
        self.last = now;
    }
}

fn entries(program: &Program, clock: &Clock, test: &Test) -> Vec<Entry> {
    let mut gathered = false;
    let mut entries: Vec<Entry> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (node, seconds) in program.nodes.iter().zip(&clock.nodes) {
        let short = |label: &String| label.splitn(3, '.').last().unwrap_or(label).to_string();
        let name = node.labels.iter().map(short).collect::<Vec<_>>().join("+");
        let index = *known.entry(name.clone()).or_insert_with(|| {
            entries.push(Entry { name, kind: node.op.kind(), seconds: 0.0, bytes: 0.0, operations: 0.0 });
            entries.len() - 1
        });
        // After the gather only wanted rows are computed.
        gathered |= matches!(node.op, Op::Gather { .. });
        let rows = if gathered { test.wanted() } else { test.tokens() };
        let entry = &mut entries[index];
        entry.seconds += seconds;
        for weight in node.op.matrices().into_iter().map(|w| &program.weights[w]) {
            entry.bytes += (weight.bytes() * clock.steps) as f64;
            entry.operations += (weight.size() * rows) as f64;
        }
    }
    entries.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    entries
}

impl Profiles {
    /// For programs.
    pub fn json(&self) -> Value {
        let entry = |e: &Entry| {
            json!({ "ops": e.name, "kind": e.kind, "seconds": e.seconds, "weight_bytes": e.bytes,
                    "multiply_adds": e.operations })
        };
        self.0
            .iter()
            .map(|p| json!({ "test": p.test, "ops": p.entries.iter().map(entry).collect::<Vec<_>>() }))
            .collect()
    }

    /// For people.
    pub fn print(&self) -> Result<()> {
        for profile in &self.0 {
            let total: f64 = profile.entries.iter().map(|e| e.seconds).sum();
            output::print_line(format!("\n{}: {:.1} ms by op", profile.test, total * 1e3))?;
            let mut table = Table::new(&[
                ("op", Align::Left),
                ("ms", Align::Right),
                ("share", Align::Right),
                ("GB/s", Align::Right),
                ("GOP/s", Align::Right),
                ("of", Align::Left),
            ]);
            for e in &profile.entries {
                let rate = |amount: f64| match amount > 0.0 {
                    true => format!("{:.1}", amount / e.seconds / 1e9),
                    false => String::new(),
                };
                let cells = [
                    e.kind.to_string(),
                    format!("{:.2}", e.seconds * 1e3),
                    format!("{:.1} %", e.seconds / total * 100.0),
                    rate(e.bytes),
                    rate(2.0 * e.operations),
                    e.name.clone(),
                ];
                table.row(cells.map(|c| (c, None)));
            }
            output::print(table.render(output::colour(&std::io::stdout())))?;
        }
        Ok(())
    }
}
