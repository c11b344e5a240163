//! The rounds of a measurement: in each, every load goes to our server and then to the peer's, so that both share the
//! same minutes. No two rounds and no two loads ask the same, or the second would find the first in the cache.

use super::arrivals::Arrivals;
use super::client::Server;
use super::probe::Known;
use super::report::{Level, Loaded};
use super::sender::{Outcome, Run, Source, Until};
use super::trace::Trace;
use super::workload::{Ask, Manner, Workload};
use crate::Progress;

/// A server, and what is known of it.
pub struct Side {
    /// The server.
    pub server: Server,
    /// What it said.
    pub known: Known,
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The loads, one after another.
    pub levels: Vec<Arrivals>,
    /// How often each is measured.
    pub rounds: usize,
    /// What requests are like.
    pub workload: Workload,
    /// Recorded requests to send instead.
    pub trace: Option<Trace>,
    /// How they are put.
    pub manner: Manner,
    /// How many requests a load has; else those of the trace, as many as go into the seconds, or 100 and at least
    /// four of each client.
    pub requests: Option<usize>,
    /// How long requests are sent.
    pub seconds: Option<f64>,
    /// Requests that are sent before a load is measured, and not counted.
    pub warm_up: usize,
}

impl Plan {
    /// When a load ends.
    fn until(&self, arrivals: Arrivals) -> Until {
        let usual = match (arrivals, self.seconds) {
            (Arrivals::Trace, _) | (_, Some(_)) => usize::MAX,
            (Arrivals::Clients(clients), None) => (4 * clients).max(100),
            _ => 100,
        };
        let recorded = self.trace.as_ref().map_or(usize::MAX, Trace::requests);
        let requests = self.requests.unwrap_or(usual).min(recorded);
        Until { requests, seconds: self.seconds.unwrap_or(f64::INFINITY) }
    }
}

/// What was measured.
pub struct Measured {
    /// One for each load.
    pub levels: Vec<Level>,
    /// What our server was sent in the first round, with the moments in seconds.
    pub sent: Vec<(f64, Ask)>,
}

/// Measures all loads in rounds.
pub fn measure(ours: &Side, peer: Option<&Side>, plan: &Plan, progress: Progress<'_>) -> Measured {
    let rounds = plan.rounds.max(1);
    let sides: Vec<&Side> = std::iter::once(ours).chain(peer).collect();
    let requests = plan.levels.iter().map(|level| plan.until(*level).requests);
    let total = requests.fold(0, usize::saturating_add).saturating_mul(rounds * sides.len());
    let mut done = 0;
    let mut outcomes: Vec<Vec<Vec<Vec<Outcome>>>> = vec![vec![Vec::new(); sides.len()]; plan.levels.len()];
    let mut sent = Vec::new();
    for round in 0..rounds {
        for (index, &arrivals) in plan.levels.iter().enumerate() {
            let number = (round * plan.levels.len() + index) as u64;
            let source = match &plan.trace {
                Some(trace) => Source::Trace(trace.clone()),
                None => Source::Made(plan.workload.another(2 * number)),
            };
            let warming = Source::Made(plan.workload.another(2 * number + 1));
            // Who is first changes from round to round.
            let order = (0..sides.len()).map(|turn| (turn + round) % sides.len());
            for side in order {
                let Side { server, known } = sides[side];
                let run = |source, arrivals, until| Run {
                    server,
                    known,
                    manner: plan.manner,
                    source,
                    arrivals,
                    until,
                };
                if plan.warm_up > 0 {
                    let clients = Arrivals::Clients(plan.warm_up.min(8));
                    let until = Until { requests: plan.warm_up, seconds: f64::INFINITY };
                    run(&warming, clients, until).outcomes(&mut |_| {});
                }
                let what = format!("{} {}", server.address(), arrivals.name());
                let found = run(&source, arrivals, plan.until(arrivals)).outcomes(&mut |_| {
                    done += 1;
                    // How many requests come in a number of seconds is not known.
                    progress(done, if total == usize::MAX { done } else { total }, &what);
                });
                if round == 0 && side == 0 {
                    let ask = |o: &Outcome| Some((o.sent, source.ask(o.number, known)?.1));
                    sent.extend(found.iter().filter_map(ask));
                }
                outcomes[index][side].push(found);
            }
        }
    }
    sent.sort_by(|a, b| a.0.total_cmp(&b.0));
    let level = |(arrivals, sides): (&Arrivals, &Vec<Vec<Vec<Outcome>>>)| {
        let mut sides = sides.iter().map(|rounds| Loaded::of(rounds));
        let ours = sides.next().unwrap_or_else(|| Loaded::of(&[]));
        Level::new(*arrivals, ours, sides.next())
    };
    Measured { levels: plan.levels.iter().zip(&outcomes).map(level).collect(), sent }
}
