//! Where the time goes, by op: each node of the program timed, nodes that differ only in their layer
//! added up, and each held against the limit that its work runs into.

use std::collections::HashMap;

use anyhow::Result;
use gleed_model::KvType;
use gleed_model::program::Program;
use serde_json::{Value, json};

use super::limits::Limits;
use super::measure::{Runner, Test};
use super::work::{Counter, Work};
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
    work: Work,
}

impl Entry {
    /// How much of the limit was reached, and which limit it is.
    fn share(&self, limits: Option<&Limits>) -> Option<(f64, &'static str)> {
        let (least, limit) = self.work.least_seconds(limits?)?;
        (self.seconds > 0.0).then_some((least / self.seconds, limit))
    }
}

/// The profiles of all tests.
pub struct Profiles {
    all: Vec<Profile>,
    /// Whether they are a GPU's.
    of_gpu: bool,
}

/// Measures each test once more, with a clock between the nodes.
pub fn run(runner: &mut Runner, kv: KvType, tests: &[Test]) -> Result<Profiles> {
    let mut profiles = Vec::new();
    for test in tests {
        let seconds = runner.time_nodes(test)?;
        let counter = Counter::new(&runner.executor, kv);
        let entries = entries(counter.program, &seconds, &counter.nodes(test));
        profiles.push(Profile { test: test.name(), entries });
    }
    Ok(Profiles { all: profiles, of_gpu: runner.executor.cpu().is_none() })
}

/// Nodes by the names of their ops without the layer, the slowest first.
fn entries(program: &Program, seconds: &[f64], works: &[Work]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for ((node, seconds), work) in program.nodes.iter().zip(seconds).zip(works) {
        let short = |label: &String| label.splitn(3, '.').last().unwrap_or(label).to_string();
        let name = node.labels.iter().map(short).collect::<Vec<_>>().join("+");
        let index = *known.entry(name.clone()).or_insert_with(|| {
            entries.push(Entry { name, kind: node.op.kind(), seconds: 0.0, work: Work::default() });
            entries.len() - 1
        });
        entries[index].seconds += seconds;
        entries[index].work += *work;
    }
    entries.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    entries
}

impl Profiles {
    /// For programs.
    pub fn json(&self, limits: Option<&Limits>) -> Value {
        let entry = |e: &Entry| {
            let share = e.share(limits);
            json!({
                "ops": e.name, "kind": e.kind, "seconds": e.seconds,
                "weight_bytes": e.work.weights, "kv_bytes": e.work.kv, "activation_bytes": e.work.activations,
                "int8_operations": e.work.integer, "f32_operations": e.work.float,
                "limit": share.map(|s| s.1), "share_of_limit": share.map(|s| s.0),
            })
        };
        self.all
            .iter()
            .map(|p| json!({ "test": p.test, "ops": p.entries.iter().map(entry).collect::<Vec<_>>() }))
            .collect()
    }

    /// For people.
    pub fn print(&self, limits: Option<&Limits>) -> Result<()> {
        // A real GPU does so many operations that thousands of millions are hard to read.
        let many = self.of_gpu && limits.is_some_and(|limits| limits.f32 >= 1e12);
        let (unit, operations, digits) = if many { ("TFLOP/s", 1e12, 3) } else { ("GOP/s", 1e9, 1) };
        for profile in &self.all {
            let total: f64 = profile.entries.iter().map(|e| e.seconds).sum();
            output::print_line(format!("\n{}: {:.1} ms by op", profile.test, total * 1e3))?;
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
            for e in &profile.entries {
                let rate = |amount: f64, unit: f64, digits: usize| match amount > 0.0 && e.seconds > 0.0 {
                    true => format!("{:.digits$}", amount / e.seconds / unit),
                    false => String::new(),
                };
                let share = e.share(limits);
                let cells = [
                    e.kind.to_string(),
                    format!("{:.2}", e.seconds * 1e3),
                    format!("{:.1} %", e.seconds / total * 100.0),
                    rate(e.work.bytes() + e.work.activations, 1e9, 1),
                    rate(e.work.operations(), operations, digits),
                    share.map(|s| format!("{:.0} %", s.0 * 100.0)).unwrap_or_default(),
                    share.map(|s| s.1.to_string()).unwrap_or_default(),
                    e.name.clone(),
                ];
                table.row(cells.map(|c| (c, None)));
            }
            output::print(table.render(output::colour(&std::io::stdout())))?;
        }
        Ok(())
    }
}
