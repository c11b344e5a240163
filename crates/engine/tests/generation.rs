//! Generation end to end on the mock executor, whose logits betray any wrong page, position or token.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gleed_engine::sampler::Random;
use gleed_engine::{
    Engine, Error, Event, Finish, FinishReason, GenerationSettings, LogSoftmax, SamplerSettings, Sequence,
    Text, Token, Turn,
};
use gleed_model::executor::Observer;
use gleed_model::groups::PageGroup;
use gleed_model::{Batch, Executor, Program, StepError};
use gleed_testing::{Log, Mock, MockText};

const VOCABULARY: usize = MockText::VOCABULARY;

fn engine(context: usize, max_rows: usize, pages: usize) -> (Engine, Arc<Log>) {
    let mock = Mock::new(VOCABULARY, context, max_rows, pages);
    let log = mock.log();
    (Engine::new(Box::new(mock)), log)
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
    engine: &mut Engine,
    sequence: &mut Sequence,
    prompt: &[u32],
    settings: GenerationSettings,
) -> (Vec<Token>, String, Finish) {
    let (mut tokens, mut text) = (vec![], String::new());
    let never = AtomicBool::new(false);
    let finish = engine
        .generate(sequence, prompt, settings, MockText::default(), &never, |event| {
            text.push_str(event.text());
            if let Event::Token(token) = event {
                tokens.push(token);
            }
        })
        .unwrap();
    assert_eq!(finish.generated_tokens, tokens.len());
    (tokens, text, finish)
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
            let (mut engine, log) = engine(512, max_rows, 8);
            let mut sequence = Sequence::default();
            let (tokens, _, finish) = answer(&mut engine, &mut sequence, &prompt, settings(20));
            assert_eq!(ids(&tokens), truth, "prompt of {length} in chunks of {max_rows}");
            assert_eq!(finish.reason, FinishReason::Length);
            assert_eq!((finish.prompt_tokens, finish.cached_tokens), (length, 0));
            // Every token but the last of the answer is computed once, and one row per token wants logits.
            assert_eq!(rows(&log), length + 19);
            assert_eq!(log.wanted.load(Ordering::Relaxed), 20);
            assert_eq!(log.steps.load(Ordering::Relaxed), length.div_ceil(max_rows) + 19);
            let held: Vec<u32> = prompt.iter().chain(&truth[..19]).copied().collect();
            assert_eq!((sequence.tokens(), sequence.computed()), (&held[..], held.len()));
            drop(sequence);
            assert_eq!(engine.pages().free(), 8);
        }
    }
}

#[test]
fn the_next_turn_computes_only_its_new_tokens() {
    let mut random = Random::new(2);
    let (mut engine, log) = engine(4096, 48, 64);
    let mut sequence = Sequence::default();
    let mut prompt = random_tokens(&mut random, 100);
    for turn in 0..6 {
        let held = sequence.computed();
        let before = rows(&log);
        let (tokens, _, finish) = answer(&mut engine, &mut sequence, &prompt, settings(30));
        assert_eq!(ids(&tokens), greedy_truth(&prompt, 30), "turn {turn}");
        assert_eq!(finish.cached_tokens, held);
        assert_eq!(rows(&log) - before, prompt.len() - held + 29);
        prompt.extend(ids(&tokens));
        prompt.extend(random_tokens(&mut random, 17));
    }
    // An edited history keeps what comes before the edit; the same prompt again computes one token.
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
    // One without pages belongs to nobody yet, and one that outlives its engine does no harm.
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

#[test]
fn stop_strings_end_the_answer_wherever_they_lie() {
    let mut random = Random::new(5);
    let (mut across, mut inside) = (0, 0);
    for case in 0..300 {
        let prompt = random_tokens(&mut random, 1 + case % 5);
        let (mut engine, _) = engine(512, 64, 8);
        let all = greedy_truth(&prompt, 40);
        let text = MockText::decode(&all);
        // A stop string that will come up: some characters of the answer.
        let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let start = starts[random.below(starts.len() as u64) as usize];
        let length = 1 + random.below(6) as usize;
        let stop: String = text[start..].chars().take(length).collect();
        let first = text.find(&stop).unwrap();

        let mut sequence = Sequence::default();
        let with_stop = GenerationSettings { stop: vec!["no such".into(), stop.clone()], ..settings(40) };
        let (tokens, shown, finish) = answer(&mut engine, &mut sequence, &prompt, with_stop);
        assert_eq!(finish.reason, FinishReason::StopString(stop.clone()));
        assert_eq!(shown, text[..first], "stop {stop:?} in {text:?}");
        // It ends with the token that completes the stop string.
        let count = tokens.len();
        assert_eq!(ids(&tokens), all[..count]);
        if count < 40 {
            assert!(MockText::decode(&all[..count]).contains(&stop));
        }
        let mut stream = MockText::default();
        let before: String = all[..count - 1].iter().map(|&token| stream.push(token)).collect();
        assert!(!before.contains(&stop));
        across += usize::from(first < before.len());
        inside += usize::from(first >= before.len());
        // The next turn can continue: only computed tokens are held.
        assert_eq!(sequence.tokens(), [&prompt[..], &all[..count - 1]].concat());
    }
    assert!(across > 50 && inside > 50, "{across} across tokens, {inside} inside one");
}

#[test]
fn held_text_is_shown_when_no_stop_comes() {
    let mut random = Random::new(6);
    for _ in 0..200 {
        let prompt = random_tokens(&mut random, 3);
        let count = 1 + random.below(12) as usize;
        let (mut engine, _) = engine(512, 64, 8);
        // Every character may begin these, and none ends.
        let stop = ["a", "b", "c", "é", "字", " ", "\n", "t", "E", "D"].map(|c| format!("{c}#")).to_vec();
        let with_stop = GenerationSettings { stop, ..settings(count) };
        let (tokens, shown, finish) =
            answer(&mut engine, &mut Sequence::default(), &prompt, with_stop.clone());
        assert_eq!(shown, MockText::decode(&greedy_truth(&prompt, count)));
        assert_eq!((finish.reason, tokens.len()), (FinishReason::Length, count));

        // The same when the model ends by itself.
        let ending = GenerationSettings { ignore_eos: false, max_tokens: None, ..with_stop };
        let (tokens, shown, finish) = answer(&mut engine, &mut Sequence::default(), &prompt, ending);
        assert_eq!(shown, MockText::decode(&ids(&tokens)));
        let truth = greedy_truth(&prompt, tokens.len() + 1);
        assert!(!ids(&tokens).contains(&MockText::END));
        if finish.reason != FinishReason::Length {
            assert_eq!(
                (finish.reason, truth.last()),
                (FinishReason::Stop(MockText::END), Some(&MockText::END))
            );
        }
    }
}

#[test]
fn stop_tokens_end_the_answer() {
    let (mut engine, _) = engine(512, 64, 8);
    let truth = greedy_truth(&[1, 2], 30);
    let stop = truth[10];
    let first = truth.iter().position(|&token| token == stop).unwrap();
    let mut sequence = Sequence::default();
    let with_stop = GenerationSettings { stop_tokens: vec![stop], ..settings(30) };
    let (tokens, _, finish) = answer(&mut engine, &mut sequence, &[1, 2], with_stop);
    assert_eq!((ids(&tokens), finish.reason), (truth[..first].to_vec(), FinishReason::Stop(stop)));
    assert_eq!(sequence.tokens().len(), 2 + first);
}

#[test]
fn the_context_ends_the_answer() {
    for (context, pages) in [(100, 8), (1000, 1), (64, 1)] {
        let (mut engine, _) = engine(context, 64, pages);
        let limit = context.min(pages * 64);
        assert_eq!(engine.context(), limit);
        let prompt = vec![3; limit - 10];
        let endless = GenerationSettings { max_tokens: None, ..settings(0) };
        let mut sequence = Sequence::default();
        let (tokens, _, finish) = answer(&mut engine, &mut sequence, &prompt, endless.clone());
        // Ten tokens fit, and the logits after the last of them give one more.
        assert_eq!(ids(&tokens), greedy_truth(&prompt, 11));
        assert_eq!((finish.reason, sequence.computed()), (FinishReason::Length, limit));

        let full = vec![4; limit];
        let (tokens, _, _) = answer(&mut engine, &mut sequence, &full, endless.clone());
        assert_eq!(ids(&tokens), greedy_truth(&full, 1));

        let never = AtomicBool::new(false);
        let over = vec![4; limit + 1];
        let error = engine.generate(&mut sequence, &over, endless, MockText::default(), &never, |_| {});
        assert_eq!(error, Err(Error::PromptTooLong { prompt: limit + 1, context: limit }));
        assert_eq!(
            engine.prefill(&mut sequence, &[1]),
            Err(Error::PromptTooLong { prompt: limit + 1, context: limit })
        );
        assert_eq!(sequence.computed(), limit, "a refused prompt changes nothing");
    }
}

#[test]
fn cancelling_keeps_what_is_computed() {
    // From the callback, in the middle of the answer.
    let (mut engine, log) = engine(512, 8, 8);
    let cancel = AtomicBool::new(false);
    let mut sequence = Sequence::default();
    let mut seen = vec![];
    let finish = engine
        .generate(&mut sequence, &[1, 2, 3], settings(100), MockText::default(), &cancel, |event| {
            if let Event::Token(token) = event {
                seen.push(token.id);
                cancel.store(seen.len() == 7, Ordering::Relaxed);
            }
        })
        .unwrap();
    let truth = greedy_truth(&[1, 2, 3], 7);
    assert_eq!((finish.reason, finish.generated_tokens), (FinishReason::Cancelled, 7));
    assert_eq!(seen, truth);
    assert_eq!(sequence.tokens(), [&[1, 2, 3], &truth[..6]].concat());

    // Before a prompt: nothing is computed and nothing lost.
    let before = rows(&log);
    let prompt: Vec<u32> = sequence.tokens().iter().copied().chain([5; 60]).collect();
    let finish = engine
        .generate(&mut sequence, &prompt, settings(5), MockText::default(), &cancel, |_| panic!())
        .unwrap();
    assert_eq!((finish.reason, rows(&log) - before), (FinishReason::Cancelled, 0));
    assert_eq!((finish.cached_tokens, sequence.tokens().len()), (9, 9));
    assert_eq!(finish.timings.time_to_first_token, None);
}

/// A mock in whose n-th step the user presses Ctrl-C.
struct Interrupted {
    mock: Mock,
    steps_left: usize,
    cancel: Arc<AtomicBool>,
}

impl Executor for Interrupted {
    fn program(&self) -> &Program {
        self.mock.program()
    }

    fn max_rows(&self) -> usize {
        self.mock.max_rows()
    }

    fn page_groups(&self) -> &[PageGroup] {
        self.mock.page_groups()
    }

    fn step(&mut self, batch: &Batch, observer: &mut dyn Observer) -> Result<(), StepError> {
        self.steps_left -= 1;
        self.cancel.store(self.steps_left == 0, Ordering::Relaxed);
        self.mock.step(batch, observer)
    }

    fn logits(&self, index: usize) -> &[f32] {
        self.mock.logits(index)
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) {
        self.mock.copy_page(group, from, to);
    }
}

#[test]
fn cancelling_during_a_step_stops_after_it() {
    let prompt = random_tokens(&mut Random::new(7), 50);
    // Five chunks of a prompt of fifty, then the answer.
    for (steps, held, generated) in [(1, 10, 0), (3, 30, 0), (5, 50, 0), (6, 51, 1), (9, 54, 4)] {
        let cancel = Arc::new(AtomicBool::new(false));
        let mock = Mock::new(VOCABULARY, 512, 10, 8);
        let mut engine =
            Engine::new(Box::new(Interrupted { mock, steps_left: steps, cancel: cancel.clone() }));
        let mut sequence = Sequence::default();
        let text = MockText::default();
        let finish = engine.generate(&mut sequence, &prompt, settings(20), text, &cancel, |_| {}).unwrap();
        assert_eq!((finish.reason, finish.generated_tokens), (FinishReason::Cancelled, generated));
        assert_eq!((sequence.computed(), sequence.pending().len()), (held, 0));
    }
}

#[test]
fn failures_leave_the_sequence_usable() {
    let (mut engine, log) = engine(512, 8, 3);
    let mut sequence = Sequence::default();
    let never = AtomicBool::new(false);
    log.fail.store(true, Ordering::Relaxed);
    let result = engine.generate(&mut sequence, &[1; 20], settings(5), MockText::default(), &never, |_| {});
    assert!(matches!(result, Err(Error::Step(StepError::Device(_)))), "{result:?}");
    assert_eq!(sequence.tokens().len(), 0);
    let (tokens, ..) = answer(&mut engine, &mut sequence, &[1; 20], settings(5));
    assert_eq!(ids(&tokens), greedy_truth(&[1; 20], 5));

    // Another sequence holds the pages: a typed error, and going on when it is gone.
    let mut other = Sequence::default();
    engine.prefill(&mut other, &[2; 100]).unwrap();
    let result = engine.prefill(&mut sequence, &[3; 100]);
    assert_eq!(result, Err(Error::NoPages { needed: 1, free: 0, total: 3 }));
    drop(other);
    let held = sequence.tokens().to_vec();
    engine.prefill(&mut sequence, &[3; 50]).unwrap();
    assert_eq!(engine.logits(0), Mock::expected(&[&held[..], &[3; 50]].concat(), VOCABULARY));

    let result = engine.prefill(&mut sequence, &[VOCABULARY as u32]);
    assert!(matches!(result, Err(Error::Step(StepError::UnknownToken { .. }))), "{result:?}");
    assert_eq!(engine.step_many(&mut [&mut sequence]), Err(Error::NothingPending { index: 0 }));
    assert_eq!(engine.sync(&mut sequence, &[]), Err(Error::EmptyPrompt));
    let refused = |settings| {
        let mut engine = self::engine(64, 8, 1).0;
        engine.generate(&mut Sequence::default(), &[1], settings, MockText::default(), &never, |_| {})
    };
    let empty_stop = GenerationSettings { stop: vec![String::new()], ..settings(1) };
    assert_eq!(refused(empty_stop), Err(Error::EmptyStop { index: 0 }));
    let unknown = GenerationSettings { stop_tokens: vec![99], ..settings(1) };
    assert_eq!(refused(unknown), Err(Error::UnknownToken { name: "stop_tokens", token: 99, vocabulary: 16 }));
}

#[test]
fn log_probabilities_come_with_the_tokens() {
    let (mut engine, _) = engine(512, 64, 8);
    let prompt = [1, 2, 3];
    let with_top = GenerationSettings { logprobs: Some(4), ..settings(6) };
    let (tokens, ..) = answer(&mut engine, &mut Sequence::default(), &prompt, with_top);
    let mut all = prompt.to_vec();
    for token in tokens {
        let logits = Mock::expected(&all, VOCABULARY);
        let softmax = LogSoftmax::new(&logits);
        assert_eq!(token.logprob, Some(softmax.of(logits[token.id as usize]) as f32));
        let mut best: Vec<u32> = (0..VOCABULARY as u32).collect();
        best.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]));
        let top: Vec<u32> = token.top.iter().map(|top| top.token).collect();
        assert_eq!(top, best[..4]);
        assert_eq!(Some(token.top[0].logprob), token.logprob);
        all.push(token.id);
    }
}

#[test]
fn a_seed_repeats_an_answer() {
    let (mut engine, _) = engine(512, 64, 8);
    let sampled = |seed| GenerationSettings {
        sampler: SamplerSettings { seed, temperature: 1.5, ..SamplerSettings::plain() },
        ..settings(40)
    };
    let mut run = |seed| {
        let mut sequence = Sequence::default();
        let (tokens, _, finish) = answer(&mut engine, &mut sequence, &[1, 2], sampled(seed));
        (ids(&tokens), finish.seed)
    };
    let (tokens, seed) = run(None);
    assert_eq!(run(Some(seed)), (tokens.clone(), seed));
    assert_ne!(run(None).0, tokens);
}

#[test]
fn penalties_count_the_prompt_and_the_answer() {
    let (mut engine, _) = engine(512, 64, 8);
    let sampler = SamplerSettings { presence_penalty: 3.0, repeat_last_n: 6, ..SamplerSettings::greedy() };
    let penalised = GenerationSettings { sampler, ..settings(10) };
    let mut changed = 0;
    for first in 0..20 {
        let prompt = [first % 16, first / 2, 3, 4];
        let mut sequence = Sequence::default();
        let (tokens, ..) = answer(&mut engine, &mut sequence, &prompt, penalised.clone());
        let mut all = prompt.to_vec();
        for token in ids(&tokens) {
            let mut logits = Mock::expected(&all, VOCABULARY);
            for (id, logit) in logits.iter_mut().enumerate() {
                if all[all.len().saturating_sub(6)..].contains(&(id as u32)) {
                    *logit -= 3.0;
                }
            }
            let best = (0..VOCABULARY).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
            assert_eq!(token, best as u32, "after {all:?}");
            all.push(token);
        }
        changed += usize::from(ids(&tokens)[0] != greedy_truth(&prompt, 1)[0]);
    }
    assert!(changed > 0, "the prompt alone must matter in some case");
}

#[test]
fn no_tokens_asked_for_computes_the_prompt() {
    let (mut engine, log) = engine(512, 64, 8);
    let mut sequence = Sequence::default();
    let (tokens, text, finish) = answer(&mut engine, &mut sequence, &[1, 2, 3], settings(0));
    assert_eq!((tokens.len(), text.as_str(), finish.reason), (0, "", FinishReason::Length));
    assert_eq!((rows(&log), sequence.computed()), (3, 3));
}
