//! What is sent, when, and what is made of what comes back.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gleed_bench::load::{Arrivals, Failure, Known, Level, Manner, Plan, Trace, Workload, measure, record};
use gleed_testing::{Behaviour, Fault, MockServer, Received};
use serde_json::{Value, json};

use super::{GREEDY, client, plan, side, start};

const CHAT: Manner = Manner { chat: true, temperature: 0.7 };

/// One load on one server.
fn one(server: &MockServer, plan: &Plan, arrivals: Arrivals) -> Level {
    let plan = Plan { levels: vec![arrivals], ..plan.clone() };
    measure(&side(server, plan.manner), None, &plan, &mut |_, _, _| ()).levels.remove(0)
}

/// The streamed requests, without those that asked what the server can do.
fn sent(server: &MockServer, plan: &Plan) -> Vec<Received> {
    let tokens = json!(plan.workload.output.longest());
    server
        .received()
        .into_iter()
        .filter(|r| r.body["max_tokens"] == tokens && r.body["stream"] == json!(true))
        .collect()
}

#[test]
fn a_server_is_asked_what_it_can_do() {
    let server = start(Behaviour::default());
    let known = Known::of(&client(&server), None, GREEDY).unwrap();
    assert_eq!((known.model.as_str(), known.ignore_eos, known.stream_usage), ("mock-model", true, true));
    // A word is a token there, and three more come before them.
    assert_eq!((known.measure.tokens_per_word, known.measure.overhead), (1.0, 3.0));
    let strict = start(Behaviour { refuses: &["ignore_eos", "stream_options"], ..Behaviour::default() });
    let known = Known::of(&client(&strict), Some("another"), GREEDY).unwrap();
    assert_eq!((known.model.as_str(), known.ignore_eos, known.stream_usage), ("another", false, false));
    let broken = start(Behaviour { fault: |_| Some(Fault::Status(500)), ..Behaviour::default() });
    let error = Known::of(&client(&broken), None, GREEDY).unwrap_err().to_string();
    assert!(error.contains(broken.address()) && error.contains("status 500: as asked"), "{error}");
}

#[test]
fn nobody_at_the_address_is_said() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let nobody = gleed_bench::load::Server::new(&address, None, Duration::from_secs(5)).unwrap();
    assert!(
        matches!(nobody.get("/v1/models"), Err(Failure::Connection(_))),
        "{:?}",
        nobody.get("/v1/models")
    );
}

#[test]
fn a_piece_is_seen_when_it_comes_and_not_when_the_next_does() {
    // The server sends its second piece only when the first has been seen.
    let (seen, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let in_time = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&in_time);
    let after_first = move || {
        let seen = wait.lock().unwrap().recv_timeout(Duration::from_secs(10));
        *noted.lock().unwrap() = Some(seen.is_ok());
    };
    let server = start(Behaviour { after_first: Some(Box::new(after_first)), ..Behaviour::default() });
    let body = json!({"prompt": "x", "max_tokens": 2, "stream": true}).to_string();
    let flow = client(&server).stream("/v1/completions", &body, &mut |_, _| {
        let _ = seen.send(());
        Ok(ControlFlow::Continue(()))
    });
    assert_eq!(flow, Ok(ControlFlow::Continue(())));
    assert_eq!(*in_time.lock().unwrap(), Some(true));
}

#[test]
fn a_reader_that_leaves_is_gone_for_the_server() {
    let server = start(Behaviour { between: Duration::from_millis(5), ..Behaviour::default() });
    let body = json!({"prompt": "x", "max_tokens": 2000, "stream": true}).to_string();
    let flow = client(&server).stream("/v1/completions", &body, &mut |_, _| Ok(ControlFlow::Break(())));
    assert_eq!(flow, Ok(ControlFlow::Break(())));
    let gone = (0..400).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        server.left() == 1
    });
    assert!(gone, "the connection is still open");
}

#[test]
fn times_are_not_shorter_than_the_server_took() {
    let (first, between) = (Duration::from_millis(60), Duration::from_millis(30));
    let server = start(Behaviour { first, between, bytes_at_a_time: 1, ..Behaviour::default() });
    let plan = Plan { requests: Some(6), ..plan() };
    let level = one(&server, &plan, Arrivals::Clients(2));
    let loaded = &level.ours;
    assert_eq!((loaded.completed, loaded.output_tokens, loaded.prompt_tokens), (6, 24, 6 * 12));
    assert_eq!((loaded.short_answers, loaded.errors.len()), (0, 0));
    let first_token = loaded.first_token.unwrap();
    assert!(first_token.p50 >= 0.06);
    // Four tokens in steps of 30 ms.
    assert!(loaded.whole.unwrap().p50 >= 0.06 + 3.0 * 0.03);
    assert!(loaded.whole.unwrap().max > first_token.max);
    // Three gaps an answer; what a late reader takes from one it gives to another, so only their sum is sure.
    let gaps = loaded.between_tokens.unwrap();
    assert_eq!(gaps.count, 18);
    assert_eq!(loaded.per_token.unwrap().count, 6);
    // Two clients, three answers each of at least 150 ms.
    assert!(loaded.requests_per_second.median <= 2.0 / 0.15);
    assert!(loaded.lateness.is_none());
}

#[test]
fn clients_wait_for_their_answers() {
    let server = start(Behaviour { first: Duration::from_millis(20), ..Behaviour::default() });
    let plan = Plan { requests: Some(20), ..plan() };
    let level = one(&server, &plan, Arrivals::Clients(3));
    assert_eq!((level.ours.requests, level.ours.completed), (20, 20));
    assert!((2..=3).contains(&server.most_active()), "{}", server.most_active());
    let prompts: std::collections::BTreeSet<String> =
        sent(&server, &plan).iter().map(|r| r.body["prompt"].to_string()).collect();
    assert_eq!(prompts.len(), 20, "every request is another one");
}

#[test]
fn arrivals_do_not_wait_for_answers() {
    // Fifteen requests in 0.28 s, answers that take 0.6 s each: nearly all are open at once.
    let server = start(Behaviour { first: Duration::from_millis(600), ..Behaviour::default() });
    let plan = Plan { requests: Some(15), ..plan() };
    for (arrivals, most) in [(Arrivals::Constant(50.0), 10), (Arrivals::Poisson(50.0), 8)] {
        let level = one(&server, &plan, arrivals);
        assert_eq!((level.ours.requests, level.ours.completed), (15, 15));
        assert!(server.most_active() >= most, "{arrivals:?}: {}", server.most_active());
        let lateness = level.ours.lateness.unwrap();
        assert!(lateness.count == 15 && lateness.max >= 0.0);
    }
    // The moments were those of the seed: none was sent before its own.
    let at: Vec<_> = sent(&server, &plan)[..15].iter().map(|r| r.at).collect();
    assert!((at[14] - at[0]).as_secs_f64() > 0.2, "the last one waited for its moment");
}

#[test]
fn seconds_end_a_load() {
    let server = start(Behaviour { first: Duration::from_millis(20), ..Behaviour::default() });
    let open = Plan { seconds: Some(0.5), ..plan() };
    let level = one(&server, &open, Arrivals::Constant(20.0));
    assert_eq!(level.ours.requests, 11, "at 0, 0.05, …, 0.5");
    let level = one(&server, &open, Arrivals::Clients(2));
    assert!(level.ours.requests >= 2 && level.ours.completed == level.ours.requests);
    // Two clients, at most 25 answers of 20 ms each and the one that was open.
    assert!(level.ours.requests <= 52, "{}", level.ours.requests);
}

#[test]
fn failures_are_counted_by_kind() {
    // The first four requests ask what the server can do.
    let fault = |number: usize| match number {
        4 => Some(Fault::Status(500)),
        5 => Some(Fault::Status(429)),
        6 => Some(Fault::Garbage),
        7 => Some(Fault::CutOff(2)),
        8 => Some(Fault::CutOff(0)),
        9 => Some(Fault::InStream),
        _ => None,
    };
    let server = start(Behaviour { fault, bytes_at_a_time: 3, ..Behaviour::default() });
    let plan = Plan { requests: Some(10), ..plan() };
    let level = one(&server, &plan, Arrivals::Clients(1));
    let expected = [
        ("cut off", 2),
        ("error in the stream", 1),
        ("not understood", 1),
        ("status 429", 1),
        ("status 500", 1),
    ];
    let expected: BTreeMap<String, usize> = expected.map(|(kind, count)| (kind.to_string(), count)).into();
    assert_eq!(level.ours.errors, expected);
    assert_eq!((level.ours.completed, level.ours.output_tokens), (4, 16), "what failed is not counted");
    assert_eq!(level.ours.first_error.as_deref(), Some("status 500: as asked"));
}

#[test]
fn a_server_that_is_silent_is_a_timeout() {
    let server = start(Behaviour { first: Duration::from_secs(3), ..Behaviour::default() });
    let hasty = gleed_bench::load::Server::new(server.address(), None, Duration::from_millis(200)).unwrap();
    let body = json!({"prompt": "x", "max_tokens": 2, "stream": true}).to_string();
    let flow = hasty.stream("/v1/completions", &body, &mut |_, _| Ok(ControlFlow::Continue(())));
    assert_eq!(flow, Err(Failure::Timeout));
}

#[test]
fn answers_hold_their_length_where_the_server_can() {
    let plan = Plan { requests: Some(5), ..plan() };
    let server = start(Behaviour { ends_early: true, ..Behaviour::default() });
    let level = one(&server, &plan, Arrivals::Clients(1));
    assert_eq!((level.ours.short_answers, level.ours.output_tokens), (0, 20));
    let server = start(Behaviour { ends_early: true, refuses: &["ignore_eos"], ..Behaviour::default() });
    let level = one(&server, &plan, Arrivals::Clients(1));
    assert_eq!(
        (level.ours.short_answers, level.ours.output_tokens),
        (5, 15),
        "and are reported where it cannot"
    );
}

#[test]
fn conversations_are_sampled_with_seeds_and_share_a_beginning() {
    let server = start(Behaviour::default());
    let workload = Workload { shared_prefix: 40, share: 1.0, ..plan().workload };
    let plan = Plan { requests: Some(8), manner: CHAT, workload, ..plan() };
    let level = one(&server, &plan, Arrivals::Clients(1));
    // The words of the prefix are cached for all but the first, and the first words of the message's JSON beside it.
    let cached = level.ours.cached_tokens.unwrap();
    assert!((7 * 40..8 * 50).contains(&cached), "{cached}");
    let requests = sent(&server, &plan);
    assert_eq!(requests.len(), 8);
    for request in &requests {
        assert_eq!(request.path, "/v1/chat/completions");
        assert_eq!(request.body["temperature"], json!(0.7));
        assert!(request.body["seed"].is_u64());
    }
    let seeds: std::collections::BTreeSet<u64> =
        requests.iter().map(|r| r.body["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds.len(), 8);
}

#[test]
fn two_servers_are_asked_the_same_in_turn() {
    let (a, b) = (start(Behaviour::default()), start(Behaviour::default()));
    let plan = Plan {
        levels: vec![Arrivals::Clients(1), Arrivals::Clients(2)],
        rounds: 2,
        requests: Some(5),
        warm_up: 2,
        ..plan()
    };
    let (ours, peer) = (side(&a, GREEDY), side(&b, GREEDY));
    let mut steps = Vec::new();
    let found = measure(&ours, Some(&peer), &plan, &mut |done, total, _| steps.push((done, total)));
    assert_eq!(steps, (1..=40).map(|done| (done, 40)).collect::<Vec<_>>());
    assert_eq!(found.levels.len(), 2);
    for level in &found.levels {
        let peer = level.peer.as_ref().unwrap();
        assert_eq!((level.ours.completed, peer.completed), (10, 10));
        assert_eq!(level.ours.output_tokens_per_second.runs.len(), 2);
        assert!(level.ratios.as_ref().unwrap().output_tokens_per_second.unwrap() > 0.0);
    }
    let prompts = |server: &MockServer| {
        let mut prompts: Vec<String> =
            sent(server, &plan).iter().map(|r| r.body["prompt"].to_string()).collect();
        prompts.sort();
        prompts
    };
    // Two rounds of two loads of five, and two to warm up before each; nothing is asked twice.
    assert_eq!(prompts(&a).len(), 2 * 2 * (5 + 2));
    assert_eq!(prompts(&a), prompts(&b));
    let mut once = prompts(&a);
    once.dedup();
    assert_eq!(once.len(), 28);
}

#[test]
fn what_was_sent_can_be_recorded_and_sent_again() {
    let server = start(Behaviour::default());
    let ours = side(&server, GREEDY);
    let recorded = Plan { levels: vec![Arrivals::Poisson(40.0)], requests: Some(12), ..plan() };
    let found = measure(&ours, None, &recorded, &mut |_, _, _| ());
    assert_eq!(found.sent.len(), 12);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.jsonl");
    record(&file, &found.sent).unwrap();
    let again = start(Behaviour::default());
    let trace = Trace::open(&file, 1).unwrap();
    let replayed = Plan { levels: vec![Arrivals::Trace], trace: Some(trace), ..plan() };
    let level = measure(&side(&again, GREEDY), None, &replayed, &mut |_, _, _| ()).levels.remove(0);
    assert_eq!(level.ours.completed, 12);
    let key = |r: &Received| -> (Value, Value) { (r.body["prompt"].clone(), r.body["max_tokens"].clone()) };
    let bodies = |server: &MockServer| {
        let mut bodies: Vec<String> =
            sent(server, &recorded).iter().map(|r| format!("{:?}", key(r))).collect();
        bodies.sort();
        bodies
    };
    assert_eq!(bodies(&again), bodies(&server));
}
