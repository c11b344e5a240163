//! Many requests at once on an executor without a model: every answer is the one that its request gets alone.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use gleed_engine::sampler::Random;
use gleed_engine::{
    BatchSettings, Batcher, Constraint, Draft, Engine, EngineHandle, Error, Event, FinishReason,
    GenerationSettings, Listener, Refusal, Request, Result, SamplerSettings, Speculation, TokenMask, Update,
};
use gleed_testing::{Ear, Heard, Mock, MockText};

const VOCABULARY: usize = MockText::VOCABULARY;

/// Allows tokens whose number has the same remainder as the answer's length, and the end after eleven of them.
struct Rhythm(usize);

impl Constraint for Rhythm {
    fn allow(&mut self, mask: &mut TokenMask) -> Result<()> {
        let tokens = (1..VOCABULARY as u32).filter(|token| *token as usize % 3 == self.0 % 3);
        tokens.for_each(|token| mask.allow(token));
        if self.0 >= 11 {
            mask.clear();
            mask.allow(MockText::END);
        }
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<()> {
        assert_eq!(token as usize % 3, self.0 % 3, "a token that the mask forbids");
        self.0 += 1;
        Ok(())
    }
}

/// A question that can be asked again.
#[derive(Clone, Debug)]
struct Question {
    prompt: Vec<u32>,
    settings: GenerationSettings,
    constrained: bool,
}

impl Question {
    fn request(&self, ear: &Ear) -> Request {
        Request {
            prompt: self.prompt.clone(),
            settings: self.settings.clone(),
            text: Box::new(MockText::default()),
            constraint: self.constrained.then(|| Box::new(Rhythm(0)) as Box<dyn Constraint>),
            adapters: Default::default(),
            uses_cache: true,
            deadline: None,
            listener: Box::new(ear.clone()),
        }
    }

    fn random(random: &mut Random, longest: u64) -> Question {
        let common = random.below(3) as u32;
        let length = 1 + random.below(longest);
        let change = random.below(longest + 1);
        let token = |at: u64, random: &mut Random| {
            if at < change { 1 + (common + at as u32) % 7 } else { 1 + random.below(15) as u32 }
        };
        let prompt = (0..length).map(|at| token(at, random)).collect();
        let sampler = match random.below(3) {
            0 => SamplerSettings::greedy(),
            1 => SamplerSettings { seed: Some(random.below(1000)), top_k: 8, ..SamplerSettings::plain() },
            _ => SamplerSettings {
                seed: Some(random.below(1000)),
                repeat_penalty: 1.3,
                ..SamplerSettings::default()
            },
        };
        let longest = if random.below(2) == 0 { 200 } else { 40 };
        let settings = GenerationSettings {
            max_tokens: Some(random.below(longest) as usize),
            stop: if random.below(8) == 0 { vec!["END".into()] } else { vec![] },
            logprobs: (random.below(5) == 0).then_some(3),
            ignore_eos: longest == 200 || random.below(2) == 0,
            sampler,
            ..GenerationSettings::default()
        };
        Question { prompt, settings, constrained: random.below(6) == 0 }
    }

    /// The answer that it gets by itself, one step after the other.
    fn alone(&self, context: usize) -> (Vec<Event>, FinishReason) {
        let mut batcher = Batcher::new(
            Engine::new(Box::new(Mock::new(VOCABULARY, context, 7, context.div_ceil(64)))),
            &BatchSettings { prefix_cache: false, speculation: Speculation::Off, ..BatchSettings::default() },
        );
        let ear = Ear::default();
        batcher.submit(self.request(&ear)).unwrap();
        while !batcher.is_idle() {
            batcher.step(&|| false).unwrap();
        }
        let heard = ear.heard();
        (heard.events, heard.finish.unwrap())
    }
}

/// Which mechanisms a mock has.
#[derive(Clone, Copy, Debug)]
struct Kind {
    chains: bool,
    window: bool,
    states: bool,
    pages: usize,
}

#[test]
fn answers_do_not_depend_on_company() {
    let mut random = Random::new(11);
    let context = 400;
    let mut totals = HashMap::new();
    for round in 0..12u64 {
        let few = 7 + random.below(5) as usize;
        let kind = Kind {
            chains: round % 2 == 0 && round % 4 != 2,
            window: round % 3 == 1,
            states: round % 4 == 2,
            pages: if round % 2 == 0 { few } else { 100 },
        };
        let mut mock = Mock::new(VOCABULARY, context, 20 + random.below(60) as usize, kind.pages);
        if kind.chains {
            mock = mock.with_chains();
        }
        if kind.window {
            mock = mock.with_window(90, kind.pages + 20);
        }
        if kind.states {
            mock = mock.with_states(16 + random.below(20) as usize);
        }
        let log = mock.log();
        let settings = BatchSettings {
            // Where pages are few, enough that they run out however fast guesses are found to be here.
            most_running: if kind.pages == few && !kind.states { 4 } else { 1 } + random.below(12) as usize,
            prefix_cache: random.below(4) > 0,
            speculation: [Speculation::Off, Speculation::Auto, Speculation::Always][round as usize / 2 % 3],
            ..BatchSettings::default()
        };
        let mut batcher = Batcher::new(Engine::new(Box::new(mock)), &settings);
        if round % 4 > 1 {
            // One that guesses what a greedy answer will be, and has less room.
            let draft = Mock::new(VOCABULARY, context, 30, 12);
            batcher = batcher.with_draft(Draft::new(Engine::new(Box::new(draft)))).unwrap();
        }
        let mut asked: Vec<(Question, Ear)> = vec![];
        let mut steps = 0;
        while steps < 100 || !batcher.is_idle() {
            if steps < 100 && random.below(3) == 0 {
                let (question, ear) = (Question::random(&mut random, 200), Ear::default());
                // Sometimes several at once that begin alike.
                for _ in 0..if random.below(5) == 0 { 4 } else { 1 } {
                    let ear = if asked.is_empty() { ear.clone() } else { Ear::default() };
                    batcher.submit(question.request(&ear)).unwrap();
                    asked.push((question.clone(), ear));
                }
            }
            if random.below(40) == 0 && !asked.is_empty() {
                asked[random.below(asked.len() as u64) as usize].1.leave();
            }
            if random.below(25) == 0 && !kind.chains {
                log.fail.store(true, Ordering::Relaxed);
            }
            let interrupt = random.below(3) == 0;
            // A step that fails once is done again, request by request; then nothing fails any more.
            batcher.step(&|| interrupt).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            steps += 1;
            assert!(steps < 20_000, "{kind:?}: it does not come to an end");
        }
        let status = batcher.status();
        assert_eq!((status.waiting, status.running), (0, 0));
        let mut count = |name, more: usize| *totals.entry(name).or_insert(0) += more;
        count("preempted", status.preemptions as usize);
        count("guessed", status.guessed_tokens as usize);
        count("accepted", status.accepted_tokens as usize);
        count("links", log.links.load(Ordering::Relaxed));
        if settings.prefix_cache {
            count(if kind.states { "cached states" } else { "cached" }, status.cached_tokens as usize);
        }
        for (question, ear) in &asked {
            let heard = ear.heard();
            assert_eq!(heard.failure, None);
            let (events, reason) = question.alone(context);
            if heard.finish == Some(FinishReason::Cancelled) {
                // What was told before is the answer's beginning.
                let tokens: Vec<_> =
                    heard.events.iter().filter(|event| matches!(event, Event::Token(_))).collect();
                assert!(tokens.iter().zip(&events).all(|(a, b)| **a == *b), "{kind:?}");
                count("cancelled", 1);
                continue;
            }
            assert_eq!((heard.events, heard.finish), (events, Some(reason)), "{kind:?} {question:?}");
            count("answers", 1);
        }
    }
    for (name, least) in [
        ("answers", 300),
        ("cancelled", 20),
        ("preempted", 5),
        ("guessed", 1000),
        ("accepted", 300),
        ("links", 50),
        ("cached", 5000),
        ("cached states", 500),
    ] {
        assert!(totals.get(name).is_some_and(|count| *count >= least), "{name}: {totals:?}");
    }
}

fn question(prompt: Vec<u32>, tokens: usize) -> Question {
    let settings = GenerationSettings {
        max_tokens: Some(tokens),
        sampler: SamplerSettings::greedy(),
        ignore_eos: true,
        ..GenerationSettings::default()
    };
    Question { prompt, settings, constrained: false }
}

fn ask(batcher: &mut Batcher, question: &Question) -> Heard {
    let ear = Ear::default();
    batcher.submit(question.request(&ear)).unwrap();
    while !ear.is_over() {
        batcher.step(&|| false).unwrap();
    }
    ear.heard()
}

#[test]
fn what_is_shared_is_computed_once() {
    for (window, states) in [(false, false), (true, false), (false, true)] {
        let mut mock = Mock::new(VOCABULARY, 2000, 512, 200);
        if window {
            mock = mock.with_window(100, 100);
        }
        if states {
            mock = mock.with_states(40);
        }
        let log = mock.log();
        let mut batcher = Batcher::new(Engine::new(Box::new(mock)), &BatchSettings::default());
        let common: Vec<u32> = (0..1000).map(|at| 1 + at % 13).collect();
        // Four that come together, with the same thousand tokens and ends of their own.
        let questions: Vec<Question> =
            (0..4).map(|own| question([&common[..], &[own + 1; 20]].concat(), 5)).collect();
        let ears: Vec<Ear> = questions.iter().map(|_| Ear::default()).collect();
        questions
            .iter()
            .zip(&ears)
            .for_each(|(question, ear)| batcher.submit(question.request(ear)).unwrap());
        while !batcher.is_idle() {
            batcher.step(&|| false).unwrap();
        }
        let rows = log.rows.load(Ordering::Relaxed);
        // The first one's last step was planned before the others came, so that of its states only the one at the last
        // page border is of use to them.
        let shared = if states { 960 } else { 1000 };
        assert_eq!(rows, 1000 + 4 * (20 + 4) + 3 * (1000 - shared), "window {window}, states {states}");
        let cached: Vec<_> = ears.iter().map(|ear| ear.heard().started.unwrap()).collect();
        assert_eq!(cached, [0, shared, shared, shared]);
        // A later one too, and one that goes on with an answer.
        let later = ask(&mut batcher, &question([&common[..], &[9; 30]].concat(), 3));
        assert_eq!(later.started, Some(shared));
        let heard = ears[0].heard();
        let answer = heard.events.iter().filter_map(|event| match event {
            Event::Token(token) => Some(token.id),
            Event::Rest(_) => None,
        });
        let turn: Vec<u32> = questions[0].prompt.iter().copied().chain(answer).chain([3; 10]).collect();
        let computed = questions[0].prompt.len() + 4;
        assert_eq!(ask(&mut batcher, &question(turn, 3)).started, Some(computed));
    }
}

#[test]
fn requests_that_part_leave_something_to_go_on_from() {
    // A state cannot be cut: the second of three alike finds nothing, and leaves it for the third.
    for window in [false, true] {
        let mock = Mock::new(VOCABULARY, 2000, 100, 200);
        let mock = if window { mock.with_window(100, 100) } else { mock.with_states(40) };
        let mut batcher = Batcher::new(Engine::new(Box::new(mock)), &BatchSettings::default());
        let common: Vec<u32> = (0..333).map(|at| 1 + at % 13).collect();
        let cached: Vec<_> = (0..3)
            .map(|own| {
                ask(&mut batcher, &question([&common[..], &[own + 1; 300]].concat(), 9)).started.unwrap()
            })
            .collect();
        assert_eq!(cached, [0, 0, 333], "window {window}");
    }
}

#[test]
fn a_prompt_may_take_all_pages() {
    // Two that begin alike, inside a page, and need every page that there is.
    for kind in 0..2 {
        let mock = Mock::new(VOCABULARY, 448, 100, 7);
        let mock = if kind == 1 { mock.with_states(4) } else { mock };
        let mut batcher = Batcher::new(Engine::new(Box::new(mock)), &BatchSettings::default());
        for own in 1..4 {
            let asked = question([&[5; 300][..], &[own; 147]].concat(), 2);
            let heard = ask(&mut batcher, &asked);
            assert_eq!((heard.failure, heard.events), (None, asked.alone(448).0));
            assert!(own == 1 || kind == 1 || heard.started == Some(300));
        }
    }
}

#[test]
fn a_chain_ends_when_something_interrupts() {
    let settings = BatchSettings { speculation: Speculation::Off, ..BatchSettings::default() };
    for interrupted in [true, false] {
        let mock = Mock::new(VOCABULARY, 400, 32, 20).with_chains();
        let mut batcher = Batcher::new(Engine::new(Box::new(mock)), &settings);
        let (ear, asked) = (Ear::default(), question(vec![1, 2, 3], 300));
        batcher.submit(asked.request(&ear)).unwrap();
        let mut most = 0;
        while !batcher.is_idle() {
            let before = batcher.status().generated_tokens;
            batcher.step(&|| interrupted).unwrap();
            most = most.max(batcher.status().generated_tokens - before);
        }
        // The prompt's step chooses the first token; a chain without interruption all others.
        assert!(if interrupted { most <= 2 } else { most == 299 }, "{most} tokens in a step");
        assert_eq!(ear.heard().events, asked.alone(400).0);
    }
}

/// Hears of an answer, and on which threads.
struct Whereabouts(Ear, Arc<Mutex<HashSet<ThreadId>>>);

impl Listener for Whereabouts {
    fn update(&mut self, update: Update) {
        self.1.lock().unwrap().insert(std::thread::current().id());
        self.0.update(update);
    }

    fn is_gone(&self) -> bool {
        self.0.is_gone()
    }
}

#[test]
fn many_logits_are_looked_at_on_several_threads() {
    const LARGE: usize = 1 << 17;
    let asked: Vec<Question> = (1..=12).map(|token| question(vec![token; 3], 6)).collect();
    let answers = |together: usize| -> (Vec<Vec<Event>>, usize) {
        let (mut events, threads) = (vec![], Arc::default());
        for some in asked.chunks(together) {
            let mock = Mock::new(LARGE, 64, 64, 20);
            let mut batcher = Batcher::new(Engine::new(Box::new(mock)), &BatchSettings::default());
            let ears: Vec<Ear> = some.iter().map(|_| Ear::default()).collect();
            for (asked, ear) in some.iter().zip(&ears) {
                let listener = Box::new(Whereabouts(ear.clone(), Arc::clone(&threads)));
                batcher.submit(Request { listener, ..asked.request(ear) }).unwrap();
            }
            while !batcher.is_idle() {
                batcher.step(&|| false).unwrap();
            }
            events.extend(ears.iter().map(|ear| ear.heard().events));
        }
        let threads = threads.lock().unwrap().len();
        (events, threads)
    };
    let (alone, one) = answers(1);
    let (together, several) = answers(asked.len());
    assert_eq!((alone, one), (together, 1));
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    assert!(several > 1 || cores == 1, "{several} threads of {cores} cores");
}

#[test]
fn who_wants_no_cache_gets_none() {
    for states in [false, true] {
        let mock = Mock::new(VOCABULARY, 448, 100, 40);
        let mock = if states { mock.with_states(8) } else { mock };
        let mut batcher = Batcher::new(Engine::new(Box::new(mock)), &BatchSettings::default());
        let asked = question(vec![5; 200], 4);
        // The first two run at once, and could share.
        let ears: Vec<Ear> = (0..4).map(|_| Ear::default()).collect();
        for (number, ear) in ears.iter().enumerate() {
            batcher.submit(Request { uses_cache: number == 3, ..asked.request(ear) }).unwrap();
            while number > 0 && !batcher.is_idle() {
                batcher.step(&|| false).unwrap();
            }
        }
        let heard: Vec<_> = ears.iter().map(Ear::heard).collect();
        let started: Vec<_> = heard.iter().map(|heard| heard.started.unwrap()).collect();
        assert_eq!(started[..3], [0; 3]);
        assert!(started[3] >= 128, "{started:?}");
        heard.iter().for_each(|heard| assert_eq!(heard.events, asked.alone(448).0));
    }
}

#[test]
fn a_request_that_fails_alone_harms_nobody() {
    struct Broken;
    impl Constraint for Broken {
        fn allow(&mut self, _mask: &mut TokenMask) -> Result<()> {
            Err(Error::Constraint("too large".into()))
        }
        fn accept(&mut self, _token: u32) -> Result<()> {
            Ok(())
        }
    }
    let mut batcher =
        Batcher::new(Engine::new(Box::new(Mock::new(VOCABULARY, 400, 32, 20))), &BatchSettings::default());
    let (good, bad, empty) = (Ear::default(), Ear::default(), Ear::default());
    let asked = question(vec![1, 2, 3], 12);
    batcher.submit(asked.request(&good)).unwrap();
    batcher.submit(Request { constraint: Some(Box::new(Broken)), ..asked.request(&bad) }).unwrap();
    assert_eq!(batcher.submit(question(vec![], 3).request(&empty)), Err(Error::EmptyPrompt));
    assert!(matches!(
        batcher.submit(question(vec![1; 401], 3).request(&empty)),
        Err(Error::PromptTooLong { .. })
    ));
    assert!(matches!(batcher.submit(question(vec![99], 3).request(&empty)), Err(Error::UnknownToken { .. })));
    let late = Ear::default();
    batcher.submit(Request { deadline: Some(Instant::now()), ..asked.request(&late) }).unwrap();
    while !batcher.is_idle() {
        batcher.step(&|| false).unwrap();
    }
    assert_eq!(good.heard().events, asked.alone(400).0);
    assert_eq!(bad.heard().failure, Some(Error::Constraint("too large".into())));
    assert_eq!(late.heard().failure, Some(Error::TooLate));
    assert_eq!(empty.heard(), Heard::default());
}

/// Waits for something that another thread does.
fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_thread_answers_refuses_and_ends() {
    let mock = Mock::new(VOCABULARY, 400, 32, 20);
    let log = mock.log();
    let settings = BatchSettings { most_running: 2, most_waiting: 1, ..BatchSettings::default() };
    let handle = EngineHandle::start(Engine::new(Box::new(mock)), settings);
    let asked = question(vec![1, 2, 3], 40);
    let ears: Vec<Ear> = (0..50).map(|_| Ear::default()).collect();
    let (mut taken, mut full) = (vec![], 0);
    for ear in &ears {
        match handle.submit(asked.request(ear)) {
            Ok(()) => taken.push(ear),
            Err(Refusal::QueueFull { .. }) => full += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(taken.len() >= 3 && full > 0, "{} {full}", taken.len());
    until("answers", || taken.iter().all(|ear| ear.is_over()));
    let truth = asked.alone(400).0;
    assert!(taken.iter().all(|ear| ear.heard().events == truth));
    until("idle", || handle.is_idle());
    assert_eq!(handle.status().generated_tokens, 40 * taken.len() as u64);
    assert!(matches!(
        handle.submit(question(vec![1; 500], 1).request(&Ear::default())),
        Err(Refusal::Invalid(Error::PromptTooLong { .. }))
    ));
    assert!(matches!(
        handle.embed(vec![vec![1]], Box::new(|_| ())),
        Err(Refusal::Invalid(Error::NoEmbedding))
    ));
    handle.close();
    assert_eq!(handle.submit(asked.request(&Ear::default())), Err(Refusal::Closing));

    // A device that fails ends all answers, and the next request is told.
    let mock = Mock::new(VOCABULARY, 400, 32, 20);
    let broken = mock.log();
    let handle = EngineHandle::start(Engine::new(Box::new(mock)), BatchSettings::default());
    let ear = Ear::default();
    broken.broken.store(true, Ordering::Relaxed);
    handle.submit(asked.request(&ear)).unwrap();
    until("the failure", || ear.is_over() && handle.has_stopped());
    assert!(matches!(ear.heard().failure, Some(Error::Step(_))));
    assert_eq!(handle.submit(asked.request(&Ear::default())), Err(Refusal::Stopped));
    assert!(log.steps.load(Ordering::Relaxed) > 0 && handle.is_idle());
}

#[test]
fn an_engine_is_gone_when_its_last_handle_is() {
    let mock = Mock::new(VOCABULARY, 400, 32, 20);
    let log = mock.log();
    let handle = EngineHandle::start(Engine::new(Box::new(mock)), BatchSettings::default());
    let (ear, asked) = (Ear::default(), question(vec![1, 2, 3], 300));
    handle.submit(asked.request(&ear)).unwrap();
    drop(handle.clone());
    assert_eq!(Arc::strong_count(&log), 2);
    drop(handle);
    assert_eq!(Arc::strong_count(&log), 1);
    assert_eq!(ear.heard().events, asked.alone(400).0);
}
