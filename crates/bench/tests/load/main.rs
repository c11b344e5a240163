//! The load generator against a server whose times, answers and faults are known.

mod measured;
mod same;

use std::time::Duration;

use gleed_bench::load::{Known, Lengths, Manner, Plan, Server, Side, Workload};
use gleed_testing::{Behaviour, MockServer};

const GREEDY: Manner = Manner { chat: false, temperature: 0.0 };

fn client(server: &MockServer) -> Server {
    Server::new(server.address(), None, Duration::from_secs(20)).unwrap()
}

fn side(server: &MockServer, manner: Manner) -> Side {
    let client = client(server);
    let known = Known::of(&client, None, manner).unwrap();
    Side { server: client, known }
}

fn start(behaviour: Behaviour) -> MockServer {
    MockServer::start(behaviour)
}

/// Prompts of 12 tokens, answers of 4.
fn plan() -> Plan {
    let (input, output) = (Lengths::fixed(12), Lengths::fixed(4));
    Plan {
        levels: Vec::new(),
        rounds: 1,
        workload: Workload { input, output, shared_prefix: 0, share: 1.0, seed: 1 },
        trace: None,
        manner: GREEDY,
        requests: None,
        seconds: None,
        warm_up: 0,
    }
}
