//! Answers that are the same, and answers that are not.

use std::time::Duration;

use gleed_bench::load::{Same, SameSettings, same_bytes};
use gleed_testing::{Behaviour, Fault, MockServer};
use serde_json::json;

use super::{client, start};

const SETTINGS: SameSettings = SameSettings { requests: 36, tokens: 5, strangers: 3, seed: 4 };

fn compared(server: &MockServer) -> Same {
    same_bytes(&client(server), "mock-model", &SETTINGS, &mut |_, _, _| ()).unwrap()
}

fn slow() -> Behaviour {
    Behaviour { first: Duration::from_millis(10), between: Duration::from_millis(1), ..Behaviour::default() }
}

#[test]
fn an_honest_server_says_the_same() {
    let server = start(slow());
    let same = compared(&server);
    assert!(same.is_all_same());
    assert_eq!(same.kinds.len(), 9, "left out: {:?}", same.left_out);
    assert_eq!(same.cold_fields, ["cache_prompt", "cache_salt"]);
    assert_eq!(same.cached_tokens_alone, Some(0), "the cache was cold");
    let ways: Vec<&str> = same.ways.iter().map(|way| way.way).collect();
    assert_eq!(ways, ["together, cold cache", "alone, warm cache", "together, warm cache"]);
    for way in &same.ways {
        assert_eq!((way.compared, way.same, way.failed), (36, 36, 0), "{}", way.way);
        assert_eq!((way.log_probabilities_compared, way.log_probabilities_same), (36, 36));
        let is_warm = way.way.contains("warm");
        assert_eq!(way.cached_tokens.unwrap() > 0, is_warm, "{}", way.way);
    }
    // They were asked at once, and strangers were there and left.
    assert!(server.most_active() > 15, "{}", server.most_active());
    assert!(same.ways[0].strangers_left + same.ways[2].strangers_left > 0);
}

#[test]
fn a_server_that_cheats_is_found_out() {
    let same = compared(&start(Behaviour { cheats: true, ..slow() }));
    assert!(!same.is_all_same());
    let [crowd, alone, warm_crowd] = &same.ways[..] else { panic!("{:?}", same.ways) };
    assert_eq!((alone.same, alone.log_probabilities_same), (36, 36), "it is honest to one client");
    for way in [crowd, warm_crowd] {
        assert!(way.compared == 36 && way.same < 36, "{} of 36", way.same);
        assert!(way.log_probabilities_same < 36);
        assert!(!way.differences.is_empty());
        let difference = &way.differences[0];
        assert_ne!(difference.alone, difference.then);
        assert!(difference.then.contains('!'), "{difference:?}");
    }
}

#[test]
fn what_a_server_does_not_take_is_left_out_and_said() {
    let refuses = &["tools", "logprobs", "cache_salt"];
    let same = compared(&start(Behaviour { refuses, ..slow() }));
    assert!(same.is_all_same());
    assert_eq!(same.left_out, [("chat with tools", "status 400: tools is not supported".to_string())]);
    assert_eq!((same.kinds.len(), same.cold_fields.as_slice()), (8, &["cache_prompt"][..]));
    assert_eq!(same.ways[0].log_probabilities_compared, 0);
    let nothing = start(Behaviour { refuses: &["max_tokens"], ..slow() });
    let error = same_bytes(&client(&nothing), "mock-model", &SETTINGS, &mut |_, _, _| ()).unwrap_err();
    assert!(error.to_string().contains("max_tokens is not supported"), "{error}");
}

#[test]
fn a_full_server_is_asked_again_and_a_failing_one_is_reported() {
    // Turned away, a request comes again; nothing is lost.
    let same = compared(&start(Behaviour { room: 8, ..slow() }));
    assert!(same.is_all_same(), "{same:?}");
    let fault = |number: usize| (number > 60 && number.is_multiple_of(7)).then_some(Fault::Status(500));
    let same = compared(&start(Behaviour { fault, ..slow() }));
    assert!(!same.is_all_same());
    let failed: usize = same.ways.iter().map(|way| way.failed).sum();
    assert!(failed > 0 && same.ways.iter().all(|way| way.same == way.compared), "{same:?}");
    assert!(serde_json::to_value(&same).unwrap()["ways"][0]["first_error"] != json!(null));
}
