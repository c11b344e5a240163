//! One answer at a time on the mock executor: devices that choose tokens themselves, guesses from the text and those of
//! a draft change nothing of it, nor of what it leaves behind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gleed_engine::sampler::Random;
use gleed_engine::{
    BatchSettings, Batcher, Draft, Engine, Error, Event, Finish, GenerationSettings, Pace, SamplerSettings,
    Sequence, Speculation,
};
use gleed_model::StepError;
use gleed_testing::{Log, Mock, MockText};

const VOCABULARY: usize = MockText::VOCABULARY;

/// How an answer is computed.
#[derive(Clone, Copy, Debug)]
struct Mode {
    chains: bool,
    speculation: Speculation,
    draft: bool,
}

/// One step after the other.
const PLAIN: Mode = Mode { chains: false, speculation: Speculation::Off, draft: false };

const MODES: [Mode; 6] = [
    PLAIN,
    Mode { chains: true, ..PLAIN },
    Mode { speculation: Speculation::Always, ..PLAIN },
    Mode { speculation: Speculation::Always, draft: true, ..PLAIN },
    Mode { chains: true, speculation: Speculation::Always, draft: true },
    Mode { chains: true, speculation: Speculation::Auto, draft: true },
];

impl Mode {
    fn batcher(self, context: usize, pages: usize) -> (Batcher, Arc<Log>) {
        self.batcher_of(Mock::new(VOCABULARY, context, 48, pages))
    }

    fn batcher_of(self, mock: Mock) -> (Batcher, Arc<Log>) {
        let mock = if self.chains { mock.with_chains() } else { mock };
        let log = mock.log();
        let settings = BatchSettings { speculation: self.speculation, ..BatchSettings::default() };
        let batcher = Batcher::new(Engine::new(Box::new(mock)), &settings);
        if !self.draft {
            return (batcher, log);
        }
        // It guesses what a greedy answer will be, and has less room.
        let draft = Engine::new(Box::new(Mock::new(VOCABULARY, 250, 30, 3)));
        (batcher.with_draft(Draft::new(draft)).unwrap(), log)
    }
}

/// Answers, cancelling after `cancel_after` events.
fn answer(
    batcher: &mut Batcher,
    prompt: &[u32],
    settings: &GenerationSettings,
    cancel_after: Option<usize>,
) -> (Vec<Event>, Result<Finish, Error>) {
    let (mut events, cancel) = (vec![], Arc::new(AtomicBool::new(false)));
    let result = batcher.answer(prompt, settings.clone(), MockText::default(), &cancel, |event| {
        events.push(event);
        cancel.fetch_or(cancel_after == Some(events.len()), Ordering::Relaxed);
    });
    (events, result)
}

/// What can be seen of how an answer ended but for its times.
fn told(finish: &Finish) -> (String, usize, usize, usize) {
    let Finish { reason, prompt_tokens, cached_tokens, generated_tokens, .. } = finish;
    (format!("{reason:?}"), *prompt_tokens, *cached_tokens, *generated_tokens)
}

fn tokens(events: &[Event]) -> Vec<u32> {
    let id = |event: &Event| match event {
        Event::Token(token) => Some(token.id),
        Event::Rest(_) => None,
    };
    events.iter().filter_map(id).collect()
}

/// From `least` to fewer than `most` tokens.
fn some_tokens(random: &mut Random, least: u64, most: u64) -> Vec<u32> {
    let count = least + random.below(most - least);
    random_tokens(random, count)
}

fn random_tokens(random: &mut Random, count: u64) -> Vec<u32> {
    (0..count).map(|_| random.below(VOCABULARY as u64) as u32).collect()
}

/// Settings of all kinds, most of which a device can follow.
fn random_settings(random: &mut Random) -> GenerationSettings {
    let stops = ["END", "a", "é", "ab b", "the c"];
    let some = |random: &mut Random| random.below(3) == 0;
    // With these an answer repeats itself, which is where its own text gives guesses.
    let logit_bias = if random.below(4) == 0 { vec![(3, 14.0)] } else { vec![] };
    GenerationSettings {
        max_tokens: (!some(random)).then(|| random.below(60) as usize),
        stop: if some(random) { vec![stops[random.below(5) as usize].to_string()] } else { vec![] },
        stop_tokens: if some(random) { random_tokens(random, 1) } else { vec![] },
        sampler: if random.below(2) == 0 {
            SamplerSettings { logit_bias, ..SamplerSettings::greedy() }
        } else {
            SamplerSettings {
                temperature: [0.3, 0.8, 2.0][random.below(3) as usize],
                top_k: 1 + random.below(20) as usize,
                top_p: [1.0, 0.9, 0.4][random.below(3) as usize],
                min_p: [0.0, 0.05][random.below(2) as usize],
                seed: Some(random.next_u64()),
                logit_bias,
                ..Default::default()
            }
        },
        logprobs: None,
        ignore_eos: random.below(2) == 0,
    }
}

#[test]
fn every_mode_answers_as_single_steps_do() {
    let mut random = Random::new(11);
    let mut endings = BTreeMap::new();
    // Links of chains, tokens chosen in them, guesses and right ones, by mode.
    let mut done = [[0; 4]; MODES.len()];
    for case in 0..240 {
        // Sometimes the context is the end, sometimes the pages, of which a bystander holds some.
        let context = [100, 300, 1000][case % 3];
        let pages = [2, 4, 8][case / 3 % 3];
        let kind = case / 9 % 4;
        let mut batchers = MODES.map(|mode| {
            let mock = Mock::new(VOCABULARY, context, 48, pages);
            match kind {
                // A recurrent model has no chains.
                0 => Mode { chains: false, ..mode }.batcher_of(mock.with_states(Engine::SLOTS)),
                1 => mode.batcher_of(mock.with_window(90, pages + 2)),
                _ => mode.batcher_of(mock),
            }
        });
        let bystander = some_tokens(&mut random, 0, 65);
        let mut others = vec![];
        for (batcher, _) in &mut batchers {
            let mut other = Sequence::default();
            if !bystander.is_empty() {
                batcher.engine_mut().prefill(&mut other, &bystander).unwrap();
            }
            others.push(other);
        }
        let (mut prompt, mut parted) = (some_tokens(&mut random, 1, 70), false);
        for turn in 0..3 {
            let settings = random_settings(&mut random);
            let cancel = (random.below(4) == 0).then(|| 1 + random.below(20) as usize);
            let mut truth: Option<(Vec<Event>, Result<Finish, Error>)> = None;
            for (number, (batcher, _)) in batchers.iter_mut().enumerate() {
                let seen = answer(batcher, &prompt, &settings, cancel);
                if let Ok(finish) = &seen.1 {
                    done[number][2] += finish.guesses.guessed;
                    done[number][3] += finish.guesses.accepted;
                }
                let Some((events, end)) = &truth else {
                    truth = Some(seen);
                    continue;
                };
                let what = || format!("case {case} turn {turn}, {:?}: {settings:?}", MODES[number]);
                match (end, &seen.1) {
                    (Ok(end), _) if end.reason.name() == "cancelled" => {
                        // What is under way when it is cancelled still comes.
                        let (ours, all) = (tokens(&seen.0), tokens(events));
                        assert!(ours.starts_with(&all), "{}", what());
                        assert!(ours.len() <= all.len() + 2 * Pace::MOST, "{}", what());
                        parted = true;
                    }
                    (Ok(end), Ok(our_end)) => {
                        assert_eq!(&seen.0, events, "{}", what());
                        let (ours, mut plain) = (told(our_end), told(end));
                        // One that was cancelled later has left more.
                        plain.2 = if parted || kind < 2 { ours.2 } else { plain.2 };
                        assert_eq!(ours, plain, "{}", what());
                    }
                    (end, our_end) => {
                        assert_eq!(tokens(&seen.0), tokens(events), "{}", what());
                        assert_eq!(end.is_err(), our_end.is_err(), "{}: {end:?} {our_end:?}", what());
                    }
                }
            }
            let (events, end) = truth.unwrap();
            let ending = match &end {
                Ok(finish) => told(finish).0.split('(').next().unwrap().to_string(),
                Err(Error::NoPages { .. } | Error::PromptTooLong { .. }) => "full".to_string(),
                Err(error) => panic!("{error}"),
            };
            *endings.entry(ending).or_insert(0) += 1;
            prompt.extend(tokens(&events));
            prompt.extend(some_tokens(&mut random, 1, 10));
        }
        let used = batchers[0].0.status().pages_used;
        for ((batcher, log), done) in batchers.iter().zip(&mut done) {
            done[0] += log.links.load(Ordering::Relaxed);
            done[1] += log.chosen.load(Ordering::Relaxed);
            // Where there are enough, nothing is held but what the next turn can begin with.
            let is_same = batcher.status().pages_used == used;
            assert!(is_same || parted || pages < 8 || kind < 2, "case {case}: {:?}", batcher.status());
        }
    }
    assert!(endings.len() == 5 && endings.values().all(|count| *count > 20), "{endings:?}");
    let [plain, chained, looked_up, drafted, both, auto] = done;
    assert_eq!((plain, &looked_up[..2], &drafted[..2], chained[2]), ([0; 4], &[0; 2][..], &[0; 2][..], 0));
    assert!(chained[0] > 500 && chained[1] as f64 > 1.5 * chained[0] as f64, "{chained:?}");
    for [.., guessed, accepted] in [looked_up, drafted, both] {
        assert!(guessed > 1000 && accepted > 500 && accepted < guessed, "{done:?}");
    }
    assert!(drafted[3] > looked_up[3] && auto[0] > 200, "{done:?}");
}

#[test]
fn no_link_goes_past_what_was_asked_for() {
    for max_tokens in 1..40 {
        let (mut batcher, log) = Mode { chains: true, ..PLAIN }.batcher(512, 8);
        let settings = greedy(max_tokens);
        let (events, _) = answer(&mut batcher, &[1, 2, 3], &settings, None);
        assert_eq!(events.len(), max_tokens);
        assert_eq!(log.chosen.load(Ordering::Relaxed), max_tokens - 1);
        assert_eq!(log.rows.load(Ordering::Relaxed), 3 + max_tokens - 1);
    }
}

fn greedy(max_tokens: usize) -> GenerationSettings {
    GenerationSettings {
        max_tokens: Some(max_tokens),
        sampler: SamplerSettings::greedy(),
        ignore_eos: true,
        ..Default::default()
    }
}

#[test]
fn what_needs_the_logits_is_not_decoded_ahead() {
    let greedy = SamplerSettings::greedy();
    let settings = [
        GenerationSettings { logprobs: Some(0), sampler: greedy.clone(), ..Default::default() },
        GenerationSettings {
            sampler: SamplerSettings { presence_penalty: 0.5, ..greedy.clone() },
            ..Default::default()
        },
        GenerationSettings {
            sampler: SamplerSettings { logit_bias: vec![(3, 1.0)], ..greedy },
            ..Default::default()
        },
        GenerationSettings { sampler: SamplerSettings::plain(), ..Default::default() },
        GenerationSettings {
            sampler: SamplerSettings { typical_p: 0.9, ..Default::default() },
            ..Default::default()
        },
    ];
    for settings in settings {
        let settings = GenerationSettings { max_tokens: Some(10), ignore_eos: true, ..settings };
        let (mut batcher, log) = Mode { chains: true, ..PLAIN }.batcher(512, 8);
        let (events, _) = answer(&mut batcher, &[1, 2, 3], &settings, None);
        assert_eq!((events.len(), log.links.load(Ordering::Relaxed)), (10, 0), "{settings:?}");
        let has_logprobs = events.iter().all(|event| match event {
            Event::Token(token) => token.logprob.is_some(),
            Event::Rest(_) => true,
        });
        assert_eq!(has_logprobs, settings.logprobs.is_some());
    }
}

#[test]
fn a_device_that_fails_ahead_leaves_what_was_computed() {
    let settings = greedy(60);
    let truth = answer(&mut PLAIN.batcher(512, 8).0, &[1, 2], &settings, None).0;
    for fail_after in 1..30 {
        let (mut batcher, log) = Mode { chains: true, ..PLAIN }.batcher(512, 8);
        let mut count = 0;
        let result = batcher.answer(&[1, 2], settings.clone(), MockText::default(), &Arc::default(), |_| {
            count += 1;
            if count == fail_after {
                log.broken.store(true, Ordering::Relaxed);
            }
        });
        assert!(matches!(result, Err(Error::Step(StepError::Device(_)))), "{fail_after}: {result:?}");
        log.broken.store(false, Ordering::Relaxed);
        let (events, finish) = answer(&mut batcher, &[1, 2], &settings, None);
        assert_eq!(events, truth);
        assert_eq!(finish.unwrap().cached_tokens, 1);
    }
}

#[test]
fn a_draft_reads_a_conversation_once() {
    let draft = Mock::new(VOCABULARY, 2000, 512, 40);
    let log = draft.log();
    let (batcher, _) = Mode { speculation: Speculation::Always, ..PLAIN }.batcher(2000, 40);
    let mut batcher = batcher.with_draft(Draft::new(Engine::new(Box::new(draft)))).unwrap();
    let mut prompt: Vec<u32> = (0..500).map(|at| 1 + at * at % 13).collect();
    for turn in 0..3 {
        let before = log.rows.load(Ordering::Relaxed);
        let (events, finish) = answer(&mut batcher, &prompt, &greedy(40), None);
        let guesses = finish.unwrap().guesses;
        assert!(guesses.accepted > 20 && guesses.accepted == guesses.guessed, "{guesses:?}");
        let read = log.rows.load(Ordering::Relaxed) - before;
        let new = if turn == 0 { 500 } else { 60 };
        assert!((new..new + 100).contains(&read), "turn {turn}: {read} rows");
        prompt.extend(tokens(&events));
        prompt.extend((0..20).map(|at| 1 + (at * 7 + turn) % 11));
    }
}

#[test]
fn a_draft_with_another_vocabulary_is_refused() {
    let draft = Draft::new(Engine::new(Box::new(Mock::new(VOCABULARY + 1, 100, 8, 2))));
    let refused = PLAIN.batcher(100, 2).0.with_draft(draft).err();
    let (draft, model) = (VOCABULARY + 1, VOCABULARY);
    assert_eq!(refused, Some(Error::OtherVocabulary { draft, model }));
}
