//! Decoding ahead on the mock executor: every answer, and what it leaves behind, is that of single steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gleed_engine::sampler::Random;
use gleed_engine::{Engine, Error, Event, Finish, GenerationSettings, Pace, SamplerSettings, Sequence};
use gleed_model::StepError;
use gleed_testing::{Log, Mock, MockText};

const VOCABULARY: usize = MockText::VOCABULARY;

/// An engine whose executor has chains, or one that has none.
fn engine(chains: bool, context: usize, pages: usize) -> (Engine, Arc<Log>) {
    let mock = Mock::new(VOCABULARY, context, 48, pages);
    let mock = if chains { mock.with_chains() } else { mock };
    let log = mock.log();
    (Engine::new(Box::new(mock)), log)
}

/// What can be seen of an answer but for its times.
type Seen = (Vec<Event>, Result<(String, usize, usize, usize), Error>);

/// Answers, cancelling after so many events.
fn answer(
    engine: &mut Engine,
    sequence: &mut Sequence,
    prompt: &[u32],
    settings: &GenerationSettings,
    cancel_after: Option<usize>,
) -> Seen {
    let (mut events, cancel) = (vec![], AtomicBool::new(false));
    let result = engine.generate(sequence, prompt, settings.clone(), MockText::default(), &cancel, |event| {
        events.push(event);
        cancel.store(cancel_after == Some(events.len()), Ordering::Relaxed);
    });
    let told = |finish: Finish| {
        let Finish { reason, prompt_tokens, cached_tokens, generated_tokens, .. } = finish;
        (format!("{reason:?}"), prompt_tokens, cached_tokens, generated_tokens)
    };
    (events, result.map(told))
}

/// From `least` to fewer than `most` tokens.
fn some_tokens(random: &mut Random, least: u64, most: u64) -> Vec<u32> {
    let count = least + random.below(most - least);
    random_tokens(random, count)
}

fn random_tokens(random: &mut Random, count: u64) -> Vec<u32> {
    (0..count).map(|_| random.below(VOCABULARY as u64) as u32).collect()
}

/// Settings of all kinds, all of which a device can follow.
fn random_settings(random: &mut Random) -> GenerationSettings {
    let stops = ["END", "a", "é", "ab b", "the c"];
    let some = |random: &mut Random| random.below(3) == 0;
    GenerationSettings {
        max_tokens: (!some(random)).then(|| random.below(60) as usize),
        stop: if some(random) { vec![stops[random.below(5) as usize].to_string()] } else { vec![] },
        stop_tokens: if some(random) { random_tokens(random, 1) } else { vec![] },
        sampler: if random.below(2) == 0 {
            SamplerSettings::greedy()
        } else {
            SamplerSettings {
                temperature: [0.3, 0.8, 2.0][random.below(3) as usize],
                top_k: 1 + random.below(20) as usize,
                top_p: [1.0, 0.9, 0.4][random.below(3) as usize],
                min_p: [0.0, 0.05][random.below(2) as usize],
                seed: Some(random.next_u64()),
                ..Default::default()
            }
        },
        logprobs: None,
        ignore_eos: random.below(2) == 0,
    }
}

#[test]
fn chains_answer_as_single_steps_do() {
    let mut random = Random::new(11);
    let (mut endings, mut links, mut chosen, mut used) = (std::collections::BTreeMap::new(), 0, 0, 0);
    for case in 0..400 {
        // Sometimes the context is the end, sometimes the pages, of which a bystander holds some.
        let context = [100, 300, 1000][case % 3];
        let pages = [2, 4, 8][case / 3 % 3];
        let mut engines = [false, true].map(|chains| engine(chains, context, pages));
        let mut sequences = [Sequence::default(), Sequence::default()];
        let bystander = some_tokens(&mut random, 0, 65);
        let mut prompt = some_tokens(&mut random, 1, 70);
        let mut others = vec![];
        for (engine, _) in &mut engines {
            let mut other = Sequence::default();
            if !bystander.is_empty() {
                engine.prefill(&mut other, &bystander).unwrap();
            }
            others.push(other);
        }
        for turn in 0..3 {
            let settings = random_settings(&mut random);
            let cancel = (random.below(4) == 0).then(|| 1 + random.below(20) as usize);
            let mut seen = vec![];
            for ((engine, _), sequence) in engines.iter_mut().zip(&mut sequences) {
                seen.push(answer(engine, sequence, &prompt, &settings, cancel));
                // Forks of the turn's end, to be gone on with by both: a page is shared.
                if turn == 1 {
                    *sequence = sequence.fork();
                }
            }
            assert_eq!(seen[0], seen[1], "case {case} turn {turn}: {settings:?} from {prompt:?}");
            assert_eq!(sequences[0].tokens(), sequences[1].tokens());
            assert_eq!(sequences[0].computed(), sequences[1].computed());
            assert_eq!(sequences[1].computed(), sequences[1].tokens().len());
            assert_eq!(
                engines[0].0.pages().free(),
                engines[1].0.pages().free(),
                "spare pages are given back"
            );
            let ending = match &seen[1].1 {
                Ok((reason, .., generated)) => {
                    used += generated;
                    reason.split('(').next().unwrap().to_string()
                }
                Err(Error::NoPages { .. } | Error::PromptTooLong { .. }) => "full".to_string(),
                Err(error) => panic!("{error}"),
            };
            *endings.entry(ending).or_insert(0) += 1;
            prompt = sequences[1].tokens().to_vec();
            prompt.extend(some_tokens(&mut random, 1, 10));
        }
        let log = &engines[1].1;
        links += log.links.load(Ordering::Relaxed);
        chosen += log.chosen.load(Ordering::Relaxed);
        assert_eq!(engines[0].1.links.load(Ordering::Relaxed), 0);
        // What is left is what single steps leave: the same logits after any further token.
        let (mut engines, text) = (engines, [sequences[1].tokens(), &[3]].concat());
        for (((engine, _), sequence), other) in engines.iter_mut().zip(&mut sequences).zip(others) {
            drop(other);
            if text.len() <= engine.context() {
                engine.prefill(sequence, &[3]).unwrap();
                assert_eq!(engine.logits(0), Mock::expected(&text, VOCABULARY), "case {case}");
            }
        }
    }
    assert!(endings.len() == 5 && endings.values().all(|count| *count > 30), "{endings:?}");
    assert!(links > 1000 && chosen as f64 > 1.5 * links as f64, "{links} links of {chosen} tokens");
    // The first token of an answer is the host's choice; what was decoded ahead in vain is two links at most.
    assert!(used < chosen + 1200 && chosen < used + 1200 * 2 * Pace::MOST, "{used} used of {chosen}");
}

#[test]
fn no_link_goes_past_what_was_asked_for() {
    for max_tokens in 1..40 {
        let (mut engine, log) = engine(true, 512, 8);
        let sampler = SamplerSettings::greedy();
        let settings = GenerationSettings {
            max_tokens: Some(max_tokens),
            sampler,
            ignore_eos: true,
            ..Default::default()
        };
        let (events, _) = answer(&mut engine, &mut Sequence::default(), &[1, 2, 3], &settings, None);
        assert_eq!(events.len(), max_tokens);
        assert_eq!(log.chosen.load(Ordering::Relaxed), max_tokens - 1);
        assert_eq!(log.rows.load(Ordering::Relaxed), 3 + max_tokens - 1);
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
        let (mut engine, log) = engine(true, 512, 8);
        let (events, _) = answer(&mut engine, &mut Sequence::default(), &[1, 2, 3], &settings, None);
        assert_eq!((events.len(), log.links.load(Ordering::Relaxed)), (10, 0), "{settings:?}");
        let has_logprobs = events.iter().all(|event| match event {
            Event::Token(token) => token.logprob.is_some(),
            Event::Rest(_) => true,
        });
        assert_eq!(has_logprobs, settings.logprobs.is_some());
    }
}

#[test]
fn a_device_that_fails_ahead_leaves_the_sequence_usable() {
    let settings = GenerationSettings {
        max_tokens: Some(60),
        sampler: SamplerSettings::greedy(),
        ignore_eos: true,
        ..Default::default()
    };
    for fail_after in 1..30 {
        let (mut engine, log) = engine(true, 512, 8);
        let (mut sequence, mut count, never) = (Sequence::default(), 0, AtomicBool::new(false));
        let result =
            engine.generate(&mut sequence, &[1, 2], settings.clone(), MockText::default(), &never, |_| {
                count += 1;
                if count == fail_after {
                    log.fail.store(true, Ordering::Relaxed);
                }
            });
        assert!(matches!(result, Err(Error::Step(StepError::Device(_)))), "{fail_after}: {result:?}");
        assert_eq!(sequence.computed(), sequence.tokens().len());
        assert_eq!(engine.pages().free(), 8 - sequence.computed().div_ceil(64));
        let (events, _) = answer(&mut engine, &mut sequence, &[1, 2], &settings, None);
        let (mut fresh, _) = self::engine(false, 512, 8);
        assert_eq!(events, answer(&mut fresh, &mut Sequence::default(), &[1, 2], &settings, None).0);
    }
}
