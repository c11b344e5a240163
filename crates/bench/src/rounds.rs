//! The rounds of a comparison: in each, every test runs once on our side and once on the peer's, one
//! right after the other, and the machine's limits are measured; so all of it shares the same minutes.

use gleed_model::KvType;

use crate::limits::{Limits, Meter};
use crate::measurable::Measurable;
use crate::peer::Peer;
use crate::report::{Measured, Rates};
use crate::runner::Runner;
use crate::test::Test;
use crate::work::Counter;
use crate::{Progress, Result};

/// How the rounds are run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How keys and values are kept, which says how many bytes a test reads.
    pub kv: KvType,
    /// How many rounds; at least one is run.
    pub repetitions: usize,
    /// Whether each prompt is also computed one token at a time.
    pub per_token: bool,
}

/// What the rounds have brought.
pub struct Rounds {
    /// One for each test.
    pub results: Vec<Measured>,
    /// What the machine can do, where it is one: the medians of `limit_samples`.
    pub limits: Option<Limits>,
    /// What it could do in each round.
    pub limit_samples: Option<Vec<Limits>>,
    /// The most memory that this process had resident with the model in it, before the limits were
    /// measured, which takes memory of its own.
    pub peak_memory: Option<u64>,
}

/// The peer's side of a test.
#[derive(Default)]
struct Theirs {
    runs: Vec<f64>,
    /// Why it could not be measured; it is not tried again.
    error: Option<String>,
}

/// Measures all tests in rounds.
pub fn rounds<E: Measurable>(
    runner: &mut Runner<E>,
    tests: &[Test],
    settings: Settings,
    mut peer: Option<&mut Peer>,
    progress: Progress<'_>,
) -> Result<Rounds> {
    let repetitions = settings.repetitions.max(1);
    let total = repetitions * tests.len() * if peer.is_some() { 2 } else { 1 };
    let mut done = 0;
    let mut ours: Vec<Vec<f64>> = vec![Vec::new(); tests.len()];
    let mut theirs: Vec<Theirs> = tests.iter().map(|_| Theirs::default()).collect();
    let (mut peak_memory, mut meter) = (None, None);
    for round in 0..repetitions {
        for ((test, ours), theirs) in tests.iter().zip(&mut ours).zip(&mut theirs) {
            let name = test.name();
            progress(done, total, &name);
            ours.push(test.all_tokens() as f64 / runner.run(test)?);
            done += 1;
            progress(done, total, &name);
            let Some(peer) = &mut peer else { continue };
            if theirs.error.is_none() {
                match peer.run(test) {
                    Ok(rate) => theirs.runs.push(rate),
                    Err(error) => theirs.error = Some(error.to_string()),
                }
            }
            done += 1;
            progress(done, total, &name);
        }
        if round == 0 {
            peak_memory = resident_peak();
            meter = runner.executor.machine().map(Meter::new).transpose()?;
        }
        if let Some(meter) = &mut meter {
            meter.measure()?;
        }
    }
    let limits = meter.as_ref().map(Meter::limits);
    let medians: Vec<f64> = ours.iter().map(|runs| Rates::new(runs.clone()).median).collect();
    let mut results = Vec::new();
    for ((test, ours), theirs) in tests.iter().zip(ours).zip(theirs) {
        let work = Counter::new(&runner.executor, settings.kv).test(test);
        let alone = test.alone();
        let one = tests.iter().position(|t| test.sequences > 1 && *t == alone).map(|index| medians[index]);
        let single = match settings.per_token && test.is_prompt() {
            true => {
                let single = Test::generate(test.tokens, 1, test.depth);
                Some(single.tokens as f64 / runner.run(&single)?)
            }
            false => None,
        };
        let failed = theirs.error.is_some();
        let peer = (!failed && !theirs.runs.is_empty()).then(|| Rates::new(theirs.runs));
        let measured = Measured::new(test, Rates::new(ours), &work, limits.as_ref());
        results.push(measured.with_one(one).with_per_token(single).with_peer(peer, theirs.error));
    }
    let limit_samples = meter.map(|meter| meter.samples().to_vec());
    Ok(Rounds { results, limits, limit_samples, peak_memory })
}

/// The most memory that this process has had resident, where the system tells.
fn resident_peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
