//! How an answer ends, what it says of its tokens, and what is left when it is cancelled or fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gleed_engine::sampler::Random;
use gleed_engine::{
    Batcher, Engine, Error, Event, FinishReason, GenerationSettings, LogSoftmax, SamplerSettings, Sequence,
    Text,
};
use gleed_model::executor::Observer;
use gleed_model::groups::PageGroup;
use gleed_model::{Batch, Executor, Program, StepError};
use gleed_testing::{Mock, MockText};

use super::{
    VOCABULARY, answer, batcher, engine, greedy_truth, holds, ids, one_by_one, random_tokens, rows, settings,
};

#[test]
fn stop_strings_end_the_answer_wherever_they_lie() {
    let mut random = Random::new(5);
    let (mut across, mut inside) = (0, 0);
    for case in 0..300 {
        let prompt = random_tokens(&mut random, 1 + case % 5);
        let (mut batcher, _) = batcher(512, 64, 8);
        let all = greedy_truth(&prompt, 40);
        let text = MockText::decode(&all);
        // A stop string that will come up: some characters of the answer.
        let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let start = starts[random.below(starts.len() as u64) as usize];
        let length = 1 + random.below(6) as usize;
        let stop: String = text[start..].chars().take(length).collect();
        let first = text.find(&stop).unwrap();

        let with_stop = GenerationSettings { stop: vec!["no such".into(), stop.clone()], ..settings(40) };
        let (tokens, shown, finish) = answer(&mut batcher, &prompt, with_stop);
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
        // The next turn can continue from what was computed.
        assert!(holds(&mut batcher, &[&prompt[..], &all[..count - 1]].concat()));
    }
    assert!(across > 50 && inside > 50, "{across} across tokens, {inside} inside one");
}

#[test]
fn held_text_is_shown_when_no_stop_comes() {
    let mut random = Random::new(6);
    for _ in 0..200 {
        let prompt = random_tokens(&mut random, 3);
        let count = 1 + random.below(12) as usize;
        let (mut batcher, _) = batcher(512, 64, 8);
        // Every character may begin these, and none ends.
        let stop = ["a", "b", "c", "é", "字", " ", "\n", "t", "E", "D"].map(|c| format!("{c}#")).to_vec();
        let with_stop = GenerationSettings { stop, ..settings(count) };
        let (tokens, shown, finish) = answer(&mut batcher, &prompt, with_stop.clone());
        assert_eq!(shown, MockText::decode(&greedy_truth(&prompt, count)));
        assert_eq!((finish.reason, tokens.len()), (FinishReason::Length, count));

        // The same when the model ends by itself.
        let ending = GenerationSettings { ignore_eos: false, max_tokens: None, ..with_stop };
        let (tokens, shown, finish) = answer(&mut batcher, &prompt, ending);
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
    let (mut batcher, _) = batcher(512, 64, 8);
    let truth = greedy_truth(&[1, 2], 30);
    let stop = truth[10];
    let first = truth.iter().position(|&token| token == stop).unwrap();
    let with_stop = GenerationSettings { stop_tokens: vec![stop], ..settings(30) };
    let (tokens, _, finish) = answer(&mut batcher, &[1, 2], with_stop);
    assert_eq!((ids(&tokens), finish.reason), (truth[..first].to_vec(), FinishReason::Stop(stop)));
    assert!(holds(&mut batcher, &[&[1, 2], &truth[..first]].concat()));
}

#[test]
fn the_context_ends_the_answer() {
    for (context, pages) in [(100, 8), (1000, 1), (64, 1)] {
        let (mut batcher, _) = batcher(context, 64, pages);
        let limit = context.min(pages * 64);
        assert_eq!(batcher.engine().context(), limit);
        let prompt = vec![3; limit - 10];
        let endless = GenerationSettings { max_tokens: None, ..settings(0) };
        let (tokens, _, finish) = answer(&mut batcher, &prompt, endless.clone());
        // Ten tokens fit, and the logits after the last of them give one more.
        let truth = greedy_truth(&prompt, 11);
        assert_eq!((ids(&tokens), finish.reason), (truth.clone(), FinishReason::Length));

        let never = Arc::default();
        let over = vec![4; limit + 1];
        let error = batcher.answer(&over, endless.clone(), MockText::default(), &never, |_| {});
        assert_eq!(error, Err(Error::PromptTooLong { prompt: limit + 1, context: limit }));
        assert!(
            holds(&mut batcher, &[&prompt[..], &truth[..9]].concat()),
            "a refused prompt changes nothing"
        );

        let full = vec![4; limit];
        let (tokens, _, _) = answer(&mut batcher, &full, endless);
        assert_eq!(ids(&tokens), greedy_truth(&full, 1));

        let (mut engine, mut sequence) = (engine(context, 64, pages).0, Sequence::default());
        engine.prefill(&mut sequence, &full).unwrap();
        assert_eq!(
            engine.prefill(&mut sequence, &[1]),
            Err(Error::PromptTooLong { prompt: limit + 1, context: limit })
        );
        assert_eq!(sequence.computed(), limit, "a refused token changes nothing");
    }
}

#[test]
fn cancelling_keeps_what_is_computed() {
    // From the callback, in the middle of the answer.
    let (mut batcher, log) = batcher(512, 8, 8);
    let cancel = Arc::new(AtomicBool::new(false));
    let mut seen = vec![];
    let finish = batcher
        .answer(&[1, 2, 3], settings(100), MockText::default(), &cancel, |event| {
            if let Event::Token(token) = event {
                seen.push(token.id);
                cancel.store(seen.len() == 7, Ordering::Relaxed);
            }
        })
        .unwrap();
    let truth = greedy_truth(&[1, 2, 3], 7);
    assert_eq!((finish.reason, finish.generated_tokens), (FinishReason::Cancelled, 7));
    assert_eq!(seen, truth);

    // Before a prompt: nothing is computed and nothing lost.
    let before = rows(&log);
    let held = [&[1, 2, 3], &truth[..6]].concat();
    let finish = batcher
        .answer(&[&held[..], &[5; 60]].concat(), settings(5), MockText::default(), &cancel, |_| panic!())
        .unwrap();
    assert_eq!((finish.reason, rows(&log) - before), (FinishReason::Cancelled, 0));
    assert_eq!(finish.timings.time_to_first_token, None);
    assert!(holds(&mut batcher, &held));
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
        self.steps_left = self.steps_left.wrapping_sub(1);
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
    // Five chunks of a prompt of fifty, the last of which brings the first token; then the answer.
    for (steps, held, generated) in [(1, 10, 0), (3, 30, 0), (5, 50, 1), (6, 51, 2), (9, 54, 5)] {
        let cancel = Arc::new(AtomicBool::new(false));
        let mock = Mock::new(VOCABULARY, 512, 10, 8);
        let engine = Engine::new(Box::new(Interrupted { mock, steps_left: steps, cancel: cancel.clone() }));
        let mut batcher = Batcher::new(engine, &one_by_one());
        let text = MockText::default();
        let finish = batcher.answer(&prompt, settings(20), text, &cancel, |_| {}).unwrap();
        assert_eq!((finish.reason, finish.generated_tokens), (FinishReason::Cancelled, generated));
        let all = [&prompt[..], &greedy_truth(&prompt, 20)].concat();
        assert!(holds(&mut batcher, &all[..held]));
    }
}

#[test]
fn failures_leave_what_was_computed_usable() {
    let (mut batcher, log) = batcher(512, 8, 3);
    let mut ask = |settings| batcher.answer(&[1; 20], settings, MockText::default(), &Arc::default(), |_| {});
    // A step that fails is tried once more; a device that fails again is given up.
    log.broken.store(true, Ordering::Relaxed);
    let result = ask(settings(5));
    assert!(matches!(result, Err(Error::Step(StepError::Device(_)))), "{result:?}");
    log.broken.store(false, Ordering::Relaxed);
    log.fail.store(true, Ordering::Relaxed);
    let empty_stop = GenerationSettings { stop: vec![String::new()], ..settings(1) };
    assert_eq!(ask(empty_stop), Err(Error::EmptyStop { index: 0 }));
    let unknown = GenerationSettings { stop_tokens: vec![99], ..settings(1) };
    assert_eq!(ask(unknown), Err(Error::UnknownToken { name: "stop_tokens", token: 99, vocabulary: 16 }));
    let (tokens, ..) = answer(&mut batcher, &[1; 20], settings(5));
    assert_eq!(ids(&tokens), greedy_truth(&[1; 20], 5));
    assert!(!log.fail.load(Ordering::Relaxed));

    // Another sequence holds the pages: a typed error, and going on when it is gone.
    let (mut engine, _) = engine(512, 8, 3);
    let (mut sequence, mut other) = (Sequence::default(), Sequence::default());
    engine.prefill(&mut sequence, &[1; 20]).unwrap();
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
}

#[test]
fn log_probabilities_come_with_the_tokens() {
    let (mut batcher, _) = batcher(512, 64, 8);
    let prompt = [1, 2, 3];
    let with_top = GenerationSettings { logprobs: Some(4), ..settings(6) };
    let (tokens, ..) = answer(&mut batcher, &prompt, with_top);
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
    let (mut batcher, _) = batcher(512, 64, 8);
    let sampled = |seed| GenerationSettings {
        sampler: SamplerSettings { seed, temperature: 1.5, ..SamplerSettings::plain() },
        ..settings(40)
    };
    let mut run = |seed| {
        let (tokens, _, finish) = answer(&mut batcher, &[1, 2], sampled(seed));
        (ids(&tokens), finish.seed)
    };
    let (tokens, seed) = run(None);
    assert_eq!(run(Some(seed)), (tokens.clone(), seed));
    assert_ne!(run(None).0, tokens);
}

#[test]
fn penalties_count_the_prompt_and_the_answer() {
    let (mut batcher, _) = batcher(512, 64, 8);
    let sampler = SamplerSettings { presence_penalty: 3.0, repeat_last_n: 6, ..SamplerSettings::greedy() };
    let penalised = GenerationSettings { sampler, ..settings(10) };
    let mut changed = 0;
    for first in 0..20 {
        let prompt = [first % 16, first / 2, 3, 4];
        let (tokens, ..) = answer(&mut batcher, &prompt, penalised.clone());
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
    let (mut batcher, log) = batcher(512, 64, 8);
    let (tokens, text, finish) = answer(&mut batcher, &[1, 2, 3], settings(0));
    assert_eq!((tokens.len(), text.as_str(), finish.reason), (0, "", FinishReason::Length));
    assert_eq!((rows(&log), finish.timings.time_to_first_token), (3, None));
    assert!(holds(&mut batcher, &[1, 2, 3]));
}
