//! Asking alone and asking among others: all requests at once, beside strangers who come, listen for a while and
//! leave, some of them in the middle of a word.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::{Duration, Instant};

use serde_json::json;

use super::super::answer::{Said, said};
use super::super::client::Server;
use super::super::error::Failure;
use super::super::prompts::{part, some_words};

/// How long a request that a full server turns away is sent again.
const PATIENCE: Duration = Duration::from_secs(300);

/// A request as it is sent.
pub struct Sent {
    pub path: &'static str,
    pub body: String,
}

/// What became of each request.
pub type Answers = Vec<Result<Said, Failure>>;

/// Strangers of a crowd.
pub struct Strangers<'a> {
    pub count: usize,
    pub model: &'a str,
    pub seed: u64,
}

/// One after another.
pub fn alone(server: &Server, requests: &[Sent], each: &mut dyn FnMut()) -> Answers {
    let ask = |request| {
        let answer = patiently(server, request);
        each();
        answer
    };
    requests.iter().map(ask).collect()
}

/// All at once, among strangers, of whom those are counted that left before their answer was whole.
pub fn together(
    server: &Server,
    requests: &[Sent],
    strangers: &Strangers<'_>,
    each: &mut dyn FnMut(),
) -> (Answers, usize) {
    let (is_over, left) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut answers: Answers = requests.iter().map(|_| Err(Failure::NotSent)).collect();
    std::thread::scope(|scope| {
        let (is_over, left) = (&is_over, &left);
        for number in 0..strangers.count {
            let _ = Builder::new().spawn_scoped(scope, move || {
                left.fetch_add(come_and_go(server, strangers, number as u64, is_over), Ordering::Relaxed);
            });
        }
        let (sender, receiver) = channel();
        for (index, request) in requests.iter().enumerate() {
            let sender = sender.clone();
            let _ = Builder::new().spawn_scoped(scope, move || {
                let _ = sender.send((index, patiently(server, request)));
            });
        }
        drop(sender);
        for (index, answer) in receiver {
            answers[index] = answer;
            each();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    (answers, left.into_inner())
}

/// Asks until there is room.
fn patiently(server: &Server, request: &Sent) -> Result<Said, Failure> {
    let start = Instant::now();
    loop {
        let answer = server.post(request.path, &request.body).and_then(|answer| said(&answer));
        match answer {
            Err(failure) if failure.is_passing() && start.elapsed() < PATIENCE => {
                let pause = match failure {
                    Failure::Status { retry_after: Some(seconds), .. } => Duration::from_secs(seconds.min(2)),
                    _ => Duration::ZERO,
                };
                std::thread::sleep(pause.max(Duration::from_millis(100)));
            }
            answer => return answer,
        }
    }
}

/// A stranger: requests of random lengths, each left after a random number of pieces or heard to its end. Returns
/// how often it left.
fn come_and_go(server: &Server, strangers: &Strangers<'_>, number: u64, is_over: &AtomicBool) -> usize {
    let mut random = part(strangers.seed, number + (1 << 32));
    let mut left = 0;
    while !is_over.load(Ordering::Relaxed) {
        let body = json!({
            "model": strangers.model,
            "prompt": some_words(1 + random.below(80) as usize, &mut random),
            "max_tokens": 1 + random.below(40),
            "temperature": 1,
            "seed": random.next_u64() >> 33,
            "stream": true,
        });
        let patience = random.below(24);
        let mut heard = 0;
        let flow = server.stream("/v1/completions", &body.to_string(), &mut |_, _| {
            heard += 1;
            let goes = heard > patience || is_over.load(Ordering::Relaxed);
            Ok(if goes { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        left += usize::from(flow == Ok(ControlFlow::Break(())));
        // A server without room is not pestered.
        std::thread::sleep(Duration::from_millis(if flow.is_err() { 100 } else { random.below(20) }));
    }
    left
}
