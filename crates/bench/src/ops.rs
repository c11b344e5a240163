//! Where the time goes, by op: each node of the program timed, nodes that differ only in their layer
//! added up, and each held against the limit that its work runs into.

use std::collections::HashMap;

use gleed_model::KvType;
use gleed_model::program::Program;
use serde::Serialize;

use crate::Result;
use crate::limits::Limits;
use crate::measurable::Measurable;
use crate::runner::Runner;
use crate::test::Test;
use crate::work::{Counter, Work};

/// Where the time of one test goes.
#[derive(Debug, Serialize)]
pub struct Profile {
    /// The name of the test.
    pub test: String,
    /// The ops, the slowest first.
    pub ops: Vec<OpTime>,
}

/// The time of the nodes that differ only in their layer.
#[derive(Debug, Serialize)]
pub struct OpTime {
    /// The plain ops that each node stands for, without their layer.
    #[serde(rename = "ops")]
    pub name: String,
    /// The kind of the op.
    pub kind: &'static str,
    /// The time of all these nodes.
    pub seconds: f64,
    /// The work of all these nodes.
    #[serde(flatten)]
    pub work: Work,
    /// The limit that the work runs into, where there is work to count and a limit is known.
    pub limit: Option<&'static str>,
    /// How much of that limit was reached.
    pub share_of_limit: Option<f64>,
}

/// Measures each test once more, with a clock between the nodes.
pub fn profile<E: Measurable>(
    runner: &mut Runner<E>,
    tests: &[Test],
    kv: KvType,
    limits: Option<&Limits>,
) -> Result<Vec<Profile>> {
    let mut profiles = Vec::new();
    for test in tests {
        let seconds = runner.time_nodes(test)?;
        let counter = Counter::new(&runner.executor, kv);
        let ops = op_times(counter.program, &seconds, &counter.nodes(test), limits);
        profiles.push(Profile { test: test.name(), ops });
    }
    Ok(profiles)
}

/// Nodes by the names of their ops without the layer, the slowest first.
fn op_times(program: &Program, seconds: &[f64], works: &[Work], limits: Option<&Limits>) -> Vec<OpTime> {
    let mut times: Vec<OpTime> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for ((node, seconds), work) in program.nodes.iter().zip(seconds).zip(works) {
        let short = |label: &String| label.splitn(3, '.').last().unwrap_or(label).to_string();
        let name = node.labels.iter().map(short).collect::<Vec<_>>().join("+");
        let index = *known.entry(name.clone()).or_insert_with(|| {
            let (kind, work) = (node.op.kind(), Work::default());
            times.push(OpTime { name, kind, seconds: 0.0, work, limit: None, share_of_limit: None });
            times.len() - 1
        });
        times[index].seconds += seconds;
        times[index].work += *work;
    }
    for time in times.iter_mut().filter(|time| time.seconds > 0.0) {
        let least = limits.and_then(|limits| time.work.least_seconds(limits));
        (time.share_of_limit, time.limit) = least.map(|(least, limit)| (least / time.seconds, limit)).unzip();
    }
    times.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    times
}
