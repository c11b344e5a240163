//! The rounds of a comparison: in each, every test runs once on our side and once on the peer's, one
//! right after the other, and the machine's limits are measured; so all of it shares the same minutes.

use anyhow::Result;
use gleed_model::KvType;

use super::limits::{self, Meter};
use super::measure::{Runner, Test};
use super::peer::Peer;
use super::report::{Measured, Rates};
use super::work::Counter;
use crate::progress::Progress;

/// What the rounds have brought.
pub struct Rounds {
    pub results: Vec<Measured>,
    /// What the device can do.
    pub meter: Option<Meter>,
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

/// Measures all tests so many times.
pub fn run(
    runner: &mut Runner,
    kv: KvType,
    tests: &[Test],
    repetitions: usize,
    mut peer: Option<&mut Peer>,
    per_token: bool,
) -> Result<Rounds> {
    let steps = repetitions * tests.len() * if peer.is_some() { 2 } else { 1 };
    let progress = Progress::new("bench", steps as u64);
    let mut ours: Vec<Vec<f64>> = vec![Vec::new(); tests.len()];
    let mut theirs: Vec<Theirs> = tests.iter().map(|_| Theirs::default()).collect();
    let mut measuring = None;
    for _ in 0..repetitions {
        for ((test, ours), theirs) in tests.iter().zip(&mut ours).zip(&mut theirs) {
            progress.message(test.name());
            ours.push(test.all_tokens() as f64 / runner.run(test)?);
            progress.advance(1);
            let Some(peer) = &mut peer else { continue };
            if theirs.error.is_none() {
                match peer.run(test) {
                    Ok(rate) => theirs.runs.push(rate),
                    Err(error) => theirs.error = Some(format!("{error:#}")),
                }
            }
            progress.advance(1);
        }
        if measuring.is_none() {
            let peak = limits::peak_memory();
            measuring = Some((peak, Meter::new(&runner.executor)?));
        }
        if let Some((_, Some(meter))) = &mut measuring {
            meter.measure()?;
        }
    }
    progress.finish();
    let (peak_memory, meter) = measuring.expect("there is at least one round");
    let limits = meter.as_ref().map(Meter::limits);
    let medians: Vec<f64> = ours.iter().map(|runs| Rates::new(runs.clone()).median).collect();
    let mut results = Vec::new();
    for ((test, ours), theirs) in tests.iter().zip(ours).zip(theirs) {
        let work = Counter::new(&runner.executor, kv).test(test);
        let alone = test.alone();
        let one = tests.iter().position(|t| test.sequences > 1 && *t == alone).map(|index| medians[index]);
        let single = match per_token && test.is_prompt() {
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
    Ok(Rounds { results, meter, peak_memory })
}
