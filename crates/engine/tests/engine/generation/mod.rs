//! Generation end to end on the mock executor, whose logits betray any wrong page, position or token.

mod answers;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gleed_engine::sampler::Random;
use gleed_engine::{
    BatchSettings, Batcher, Engine, Error, Event, Finish, FinishReason, GenerationSettings, SamplerSettings,
    Sequence, Speculation, Token, Turn,
};
use gleed_model::StepError;
use gleed_testing::{Log, Mock, MockText};

const VOCABULARY: usize = MockText::VOCABULARY;

fn engine(context: usize, max_rows: usize, pages: usize) -> (Engine, Arc<Log>) {
    let mock = Mock::new(VOCABULARY, context, max_rows, pages);
    let log = mock.log();
    (Engine::new(Box::new(mock)), log)
}

/// A batcher that takes one step after the other.
fn batcher(context: usize, max_rows: usize, pages: usize) -> (Batcher, Arc<Log>) {
    let (engine, log) = engine(context, max_rows, pages);
    (Batcher::new(engine, &one_by_one()), log)
}

fn one_by_one() -> BatchSettings {
    BatchSettings { speculation: Speculation::Off, ..BatchSettings::default() }
}

fn rows(log: &Log) -> usize {
    log.rows.load(Ordering::Relaxed)
}

fn random_tokens(random: &mut Random, count: usize) -> Vec<u32> {
    (0..count).map(|_| random.below(VOCABULARY as u64) as u32).collect()
}

/// Greedy, past the end of the answer, so that lengths are known.
fn settings(max_tokens: usize) -> GenerationSettings {
    GenerationSettings {
        max_tokens: Some(max_tokens),
        sampler: SamplerSettings::greedy(),
        ignore_eos: true,
        ..Default::default()
    }
}

/// A whole answer: the tokens, the text as shown, how it ended.
fn answer(
    batcher: &mut Batcher,
    prompt: &[u32],
    settings: GenerationSettings,
) -> (Vec<Token>, String, Finish) {
    let (mut tokens, mut text) = (vec![], String::new());
    let finish = batcher
        .answer(prompt, settings, MockText::default(), &Arc::default(), |event| {
            text.push_str(event.text());
            if let Event::Token(token) = event {
                tokens.push(token);
            }
        })
        .unwrap();
    assert_eq!(finish.generated_tokens, tokens.len());
    (tokens, text, finish)
}

/// Whether an answer left these tokens, and the next one finds them all.
fn holds(batcher: &mut Batcher, tokens: &[u32]) -> bool {
    let next = [tokens, &[1]].concat();
    answer(batcher, &next, settings(0)).2.cached_tokens == tokens.len()
}

fn ids(tokens: &[Token]) -> Vec<u32> {
    tokens.iter().map(|token| token.id).collect()
}

/// What a greedy answer must be, from the definition of the mock's logits alone.
fn greedy_truth(prompt: &[u32], count: usize) -> Vec<u32> {
    let mut all = prompt.to_vec();
    for _ in 0..count {
        let logits = Mock::expected(&all, VOCABULARY);
        let best = (0..VOCABULARY).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        all.push(best as u32);
    }
    all.split_off(prompt.len())
}

#[test]
fn chunks_of_any_size_give_the_same_answer() {
    let mut random = Random::new(1);
    for length in [1, 2, 63, 64, 65, 128, 200] {
        let prompt = random_tokens(&mut random, length);
        let truth = greedy_truth(&prompt, 20);
        for max_rows in [1, 2, 3, 7, 63, 64, 65, 100, 512] {
            let (mut batcher, log) = batcher(512, max_rows, 8);
            let (tokens, _, finish) = answer(&mut batcher, &prompt, settings(20));
            assert_eq!(ids(&tokens), truth, "prompt of {length} in chunks of {max_rows}");
            assert_eq!(finish.reason, FinishReason::Length);
            assert_eq!((finish.prompt_tokens, finish.cached_tokens), (length, 0));
            // Every token but the last of the answer is computed once, and one row per token wants logits.
            assert_eq!(rows(&log), length + 19);
            assert_eq!(log.wanted.load(Ordering::Relaxed), 20);
            assert_eq!(log.steps.load(Ordering::Relaxed), length.div_ceil(max_rows) + 19);
            let held: Vec<u32> = prompt.iter().chain(&truth[..19]).copied().collect();
            assert_eq!(batcher.status().pages_used, held.len().div_ceil(64));
            assert!(holds(&mut batcher, &held));
        }
    }
}

#[test]
fn the_next_turn_computes_only_its_new_tokens() {
    let mut random = Random::new(2);
    let (mut batcher, log) = batcher(4096, 48, 64);
    let mut prompt = random_tokens(&mut random, 100);
    let mut held = 0;
    for turn in 0..6 {
        let before = rows(&log);
        let (tokens, _, finish) = answer(&mut batcher, &prompt, settings(30));
        assert_eq!(ids(&tokens), greedy_truth(&prompt, 30), "turn {turn}");
        assert_eq!(finish.cached_tokens, held);
        assert_eq!(rows(&log) - before, prompt.len() - held + 29);
        held = prompt.len() + 29;
        prompt.extend(ids(&tokens));
        prompt.extend(random_tokens(&mut random, 17));
    }
    // An edited history keeps what comes before the edit; the same prompt again computes one token; a shorter one too.
    prompt[250] ^= 1;
    for (prompt, cached) in [(&prompt[..], 250), (&prompt, prompt.len() - 1), (&prompt[..70], 69)] {
        let before = rows(&log);
        let (tokens, _, finish) = answer(&mut batcher, prompt, settings(1));
        assert_eq!((ids(&tokens), finish.cached_tokens), (greedy_truth(prompt, 1), cached));
        assert_eq!(rows(&log) - before, prompt.len() - cached);
    }
}

#[test]
fn syncing_computes_only_what_is_new() {
    let mut random = Random::new(2);
    let (mut engine, log) = engine(4096, 48, 64);
    let (mut sequence, mut prompt) = (Sequence::default(), random_tokens(&mut random, 300));
    assert_eq!(engine.sync(&mut sequence, &prompt), Ok(0));
    prompt[250] ^= 1;
    let before = rows(&log);
    assert_eq!(engine.sync(&mut sequence, &prompt), Ok(250));
    assert_eq!(rows(&log) - before, prompt.len() - 250);
    assert_eq!(engine.logits(0), Mock::expected(&prompt, VOCABULARY));
    assert_eq!(engine.sync(&mut sequence, &prompt), Ok(prompt.len() - 1));
    assert_eq!(engine.logits(0), Mock::expected(&prompt, VOCABULARY));
    // A shorter prompt too.
    assert_eq!(engine.sync(&mut sequence, &prompt[..70]), Ok(69));
    assert_eq!(engine.logits(0), Mock::expected(&prompt[..70], VOCABULARY));
    // And appending, without looking at what is held.
    engine.prefill(&mut sequence, &[1, 2, 3]).unwrap();
    let appended: Vec<u32> = prompt[..70].iter().copied().chain([1, 2, 3]).collect();
    assert_eq!(engine.logits(0), Mock::expected(&appended, VOCABULARY));
}

#[test]
fn forks_go_their_own_ways() {
    let mut random = Random::new(3);
    for length in [1, 40, 63, 64, 65, 127, 128, 150] {
        let (mut engine, log) = engine(512, 64, 40);
        let mut trunk = Sequence::default();
        let prompt = random_tokens(&mut random, length);
        engine.prefill(&mut trunk, &prompt).unwrap();
        let used = 40 - engine.pages().free();
        let mut branches: Vec<Sequence> = (0..4).map(|_| trunk.fork()).collect();
        assert_eq!(40 - engine.pages().free(), used, "a fork takes no page");
        let mut texts: Vec<Vec<u32>> = vec![prompt; 4];
        for _ in 0..70 {
            for (branch, text) in branches.iter_mut().zip(&mut texts) {
                let token = random.below(VOCABULARY as u64) as u32;
                branch.push(token);
                text.push(token);
            }
            let mut all: Vec<&mut Sequence> = branches.iter_mut().collect();
            engine.step_many(&mut all).unwrap();
            for (index, text) in texts.iter().enumerate() {
                assert_eq!(engine.logits(index), Mock::expected(text, VOCABULARY), "branch {index}");
            }
        }
        // The trunk still holds the shared page, so each of the four needs its own copy of it.
        let copies = if length % 64 == 0 { 0 } else { 4 };
        assert_eq!(log.copies.load(Ordering::Relaxed), copies);
        assert_eq!(engine.sync(&mut trunk, &texts[0][..length]), Ok(length - 1));
        assert_eq!(engine.logits(0), Mock::expected(&texts[0][..length], VOCABULARY));
        branches.push(trunk);
        drop(branches);
        assert_eq!(engine.pages().free(), 40);
    }
}

#[test]
fn random_use_of_many_sequences_gives_the_right_logits() {
    let mut random = Random::new(4);
    let (mut engine, log) = engine(400, 32, 24);
    let mut sequences: Vec<(Sequence, Vec<u32>)> = (0..3).map(|_| Default::default()).collect();
    let mut refused = 0;
    for _ in 0..3000 {
        let pick = random.below(sequences.len() as u64) as usize;
        match random.below(6) {
            0 if sequences.len() < 8 => {
                let copy = sequences[pick].0.fork();
                let text = sequences[pick].1.clone();
                sequences.push((copy, text));
            }
            1 if sequences.len() > 2 => {
                sequences.swap_remove(pick);
            }
            2 => {
                let (sequence, text) = &mut sequences[pick];
                let length = random.below(text.len() as u64 + 1) as usize;
                sequence.truncate(length);
                text.truncate(length);
            }
            3 => log.fail.store(true, Ordering::Relaxed),
            _ => {
                let mut parts: Vec<(usize, Vec<u32>)> = vec![];
                let mut left = 32;
                for (index, (_, text)) in sequences.iter().enumerate() {
                    let count = random.below(left as u64 / 2 + 1) as usize;
                    if text.len() + count < 400 {
                        parts.push((index, random_tokens(&mut random, count)));
                        left -= count;
                    }
                }
                let mut step: Vec<Turn> = vec![];
                for (index, (sequence, text)) in sequences.iter_mut().enumerate() {
                    if let Some((_, tokens)) = parts.iter().find(|part| part.0 == index) {
                        sequence.extend(tokens);
                        // All new positions want logits.
                        let logits = text.len()..text.len() + tokens.len();
                        step.push(Turn { sequence, rows: tokens.len(), logits, guesses: 0 });
                    }
                }
                let held = |step: &[Turn]| -> Vec<Vec<u32>> {
                    step.iter().map(|part| part.sequence.pages().to_vec()).collect()
                };
                let (pages, free) = (held(&step), engine.pages().free());
                match engine.step(&mut step) {
                    Ok(()) => {
                        let mut wanted = 0;
                        for (index, tokens) in parts {
                            for token in tokens {
                                sequences[index].1.push(token);
                                let truth = Mock::expected(&sequences[index].1, VOCABULARY);
                                assert_eq!(engine.logits(wanted), truth);
                                wanted += 1;
                            }
                        }
                    }
                    Err(Error::NoPages { .. } | Error::Step(StepError::Device(_))) => {
                        refused += 1;
                        // Nothing that was reserved is kept, and a page that was copied is shared again.
                        assert_eq!((held(&step), engine.pages().free()), (pages, free));
                        sequences.iter_mut().for_each(|(sequence, _)| sequence.discard_pending());
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
        for (sequence, text) in &sequences {
            assert_eq!((sequence.tokens(), sequence.computed()), (&text[..], text.len()));
        }
    }
    assert!(refused > 50 && log.copies.load(Ordering::Relaxed) > 20, "{refused} refused");
    drop(sequences);
    assert_eq!(engine.pages().free(), 24);
}

#[test]
fn sequences_hold_pages_of_one_engine_while_they_live() {
    let (mut first, mut second) = (engine(512, 64, 4).0, engine(512, 64, 4).0);
    let mut sequence = Sequence::default();
    first.prefill(&mut sequence, &[1; 100]).unwrap();
    let fork = sequence.fork();
    assert_eq!(first.pages().free(), 2);
    // Another engine refuses it and leaves it as it was, whichever way it is asked.
    let other = Err(Error::OtherEngine { index: 0 });
    assert_eq!(second.prefill(&mut sequence, &[2]), other);
    assert_eq!(second.sync(&mut sequence, &[1, 2, 3]), Err(Error::OtherEngine { index: 0 }));
    let mut own = Sequence::default();
    own.push(3);
    sequence.push(3);
    assert_eq!(second.step_many(&mut [&mut own, &mut sequence]), Err(Error::OtherEngine { index: 1 }));
    sequence.discard_pending();
    assert_eq!((sequence.tokens(), sequence.computed()), (&[1; 100][..], 100));
    assert_eq!((first.pages().free(), second.pages().free()), (2, 4));
    first.prefill(&mut sequence, &[2]).unwrap();
    assert_eq!(first.logits(0), Mock::expected(&[&[1; 100][..], &[2]].concat(), VOCABULARY));
    // A page for the copy; every holder gives back what it held alone.
    assert_eq!(first.pages().free(), 1);
    drop(fork);
    assert_eq!(first.pages().free(), 2);
    drop(sequence);
    assert_eq!(first.pages().free(), 4);
    // One without pages belongs to no engine yet, and one that outlives its engine does no harm.
    let mut empty = Sequence::default();
    first.prefill(&mut empty, &[1; 10]).unwrap();
    empty.truncate(0);
    second.prefill(&mut empty, &[1; 10]).unwrap();
    assert_eq!(second.logits(0), Mock::expected(&[1; 10], VOCABULARY));
    drop(second);
    drop(empty);
}

#[test]
fn a_step_without_pages_keeps_none() {
    let mut engine = engine(512, 512, 3).0;
    let (mut a, mut b) = (Sequence::default(), Sequence::default());
    a.extend(&[1; 100]);
    b.extend(&[2; 100]);
    // The first one's pages are there, the second one's are not.
    let refused = engine.step_many(&mut [&mut a, &mut b]);
    assert_eq!(refused, Err(Error::NoPages { needed: 2, free: 1, total: 3 }));
    assert_eq!((a.pages().len(), b.pages().len(), engine.pages().free()), (0, 0, 3));
    // Each of them alone has room.
    engine.step_many(&mut [&mut b]).unwrap();
    assert_eq!(engine.logits(0), Mock::expected(&[2; 100], VOCABULARY));
}
