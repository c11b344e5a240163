//! The promise with layers that see a window and give back the pages that it has left: forks, rewinding, chunks and
//! prefixes that are used again give the bits of a sequence that was computed in one go.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::support::{Random, VOCABULARY, bits, tiny};
use gleed_cpu::{Cpu, Options};
use gleed_engine::{
    BatchSettings, Batcher, Engine, Error, Event, GenerationSettings, SamplerSettings, Sequence, Speculation,
    Turn,
};
use gleed_gguf::Format;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::groups::NO_PAGE;
use gleed_model::{Executor, Halves, Joined, split};
use gleed_testing::{Mock, MockText};

const ROWS: usize = 64;

/// An engine whose layers with a window have pages for `window_sequences` sequences, or as many as all others.
fn engine(family: &str, window_sequences: Option<usize>) -> Engine {
    let (file, plain) = tiny(family, &[Format::Q8_0, Format::Q4_K, Format::F16], 9);
    let options = Options { threads: 2, max_rows: ROWS, pages: 40, window_sequences, ..Options::default() };
    Engine::new(Box::new(Cpu::new(file, fuse(&plain, Rules::ALL), options).unwrap()))
}

fn tokens(random: &mut Random, count: usize) -> Vec<u32> {
    (0..count).map(|_| random.below(VOCABULARY) as u32).collect()
}

/// The logits after each of some prompts, computed at once in pages of their own.
struct Fresh(Engine);

impl Fresh {
    fn logits(&mut self, prompt: &[u32]) -> Vec<u32> {
        self.0.prefill(&mut Sequence::default(), prompt).unwrap();
        bits(self.0.logits(0))
    }
}

/// Pages that a sequence holds in the group with the window.
fn held(sequence: &Sequence) -> usize {
    sequence.group_pages(1).iter().filter(|page| **page != NO_PAGE).count()
}

#[test]
fn every_way_to_a_prompt_gives_the_same_bits() {
    for family in ["gemma2", "olmo2", "gpt_oss", "llama4"] {
        let (mut engine, mut fresh) = (engine(family, Some(3)), Fresh(engine(family, None)));
        let pools = engine.page_pools().to_vec();
        assert_eq!(pools.len(), 2, "{family}");
        assert!(pools[1].total() < pools[0].total(), "{family}");
        let mut random = Random::new(3);
        let mut sequences = vec![Sequence::default()];
        let (mut given_back, mut again) = (0, 0);
        for _ in 0..40 {
            let pick = random.below(sequences.len());
            match random.below(5) {
                0 if sequences.len() < 3 => {
                    let fork = sequences[pick].fork();
                    sequences.push(fork);
                    continue;
                }
                0 => {
                    sequences.swap_remove(pick);
                    continue;
                }
                1 => {
                    let sequence = &mut sequences[pick];
                    let length = random.below(sequence.tokens().len() + 1);
                    sequence.truncate(length);
                    again += usize::from(sequence.computed() < length);
                }
                _ => {}
            }
            let sequence = &mut sequences[pick];
            let room = 500usize.saturating_sub(sequence.tokens().len());
            let count = [1, 3, 90, 200][random.below(4)].min(room);
            sequence.extend(&tokens(&mut random, count));
            // In chunks of any size, one row among them.
            let chunk = [1 + random.below(7), ROWS][random.below(2)];
            if sequence.pending().is_empty() {
                continue;
            }
            while !sequence.pending().is_empty() {
                engine.step(&mut [Turn::next(sequence, chunk)]).unwrap();
            }
            let ours = bits(engine.logits(0));
            assert_eq!(ours, fresh.logits(sequence.tokens()), "{family}: {} tokens", sequence.tokens().len());
            given_back += sequence.group_pages(1).len() - held(sequence);
        }
        assert!(given_back > 10 && again > 0, "{family}: {given_back} {again}");
        // Several go on side by side.
        if sequences.len() == 1 {
            let fork = sequences[0].fork();
            sequences.push(fork);
        }
        for _ in 0..3 {
            sequences.iter_mut().for_each(|sequence| sequence.push(random.below(VOCABULARY) as u32));
            let mut all: Vec<&mut Sequence> = sequences.iter_mut().collect();
            engine.step_many(&mut all).unwrap();
        }
        for (index, sequence) in sequences.iter().enumerate() {
            assert_eq!(bits(engine.logits(index)), fresh.logits(sequence.tokens()), "{family}, in company");
        }
        drop(sequences);
        assert!(pools.iter().all(|pool| pool.free() == pool.total()), "{family}: {pools:?}");
    }
}

#[test]
fn halves_find_the_pages_of_their_own_groups() {
    // One layer with a window and one without: the second half has no group for windows.
    let (file, plain) = tiny("gemma2", &[Format::Q8_0, Format::Q4_K, Format::F16], 9);
    let program = fuse(&plain, Rules::ALL);
    let Halves { first, second } = split(&program, 1).unwrap();
    let options =
        Options { threads: 2, max_rows: ROWS, pages: 40, window_sequences: Some(2), ..Options::default() };
    let [first, second] = [first, second].map(|half| Cpu::new(file.clone(), half, options).unwrap());
    assert_eq!((first.page_groups().len(), second.page_groups().len()), (2, 1));
    let mut engine = Engine::new(Box::new(Joined::new(program, first, second)));
    let pools = engine.page_pools().to_vec();
    assert!(pools.len() == 2 && pools[1].total() < pools[0].total());
    let mut fresh = Fresh(self::engine("gemma2", None));
    let mut random = Random::new(7);
    // Another one before it: the two groups number their pages differently.
    let (mut other, mut sequence) = (Sequence::default(), Sequence::default());
    engine.prefill(&mut other, &tokens(&mut random, 250)).unwrap();
    engine.prefill(&mut sequence, &tokens(&mut random, 230)).unwrap();
    assert_ne!(sequence.group_pages(0)[3], sequence.group_pages(1)[3]);
    // Both go on in the page that they share, which is copied in both halves.
    let mut fork = sequence.fork();
    for _ in 0..20 {
        let mut all = [&mut other, &mut sequence, &mut fork];
        all.iter_mut().for_each(|sequence| sequence.push(random.below(VOCABULARY) as u32));
        engine.step_many(&mut all).unwrap();
    }
    for (index, sequence) in [other, sequence, fork].into_iter().enumerate() {
        assert_eq!(bits(engine.logits(index)), fresh.logits(sequence.tokens()), "{index}");
    }
    assert!(pools.iter().all(|pool| pool.free() == pool.total()), "{pools:?}");
}

#[test]
fn a_long_sequence_holds_few_pages() {
    // A window of 21: two pages and one more, both for the end and the prompt's, and a step of 64 rows.
    let mut engine = engine("gpt_oss", Some(1));
    assert_eq!(engine.context(), 512);
    let mut sequence = Sequence::default();
    engine.prefill(&mut sequence, &tokens(&mut Random::new(1), 300)).unwrap();
    assert!(held(&sequence) <= 3, "{:?}", sequence.group_pages(1));
    for token in 0..200 {
        sequence.push(token % VOCABULARY as u32);
        engine.step_many(&mut [&mut sequence]).unwrap();
        assert!(held(&sequence) <= 6, "{:?}", sequence.group_pages(1));
    }
    assert_eq!(sequence.pages().len(), 8);
    let whole = engine.executor().page_groups()[0].pages;
    assert_eq!((whole, engine.pages().free()), (40, 32));
}

/// A mock with a window of 70, for which there are `pages` pages.
fn mock(pages: usize) -> Mock {
    Mock::new(50, 4000, 96, 200).with_window(70, pages)
}

#[test]
fn failed_steps_can_be_tried_again() {
    let mut random = Random::new(6);
    for pages in [4, 9, 200] {
        let mock = mock(pages);
        let log = mock.log();
        let mut engine = Engine::new(Box::new(mock));
        let mut sequence = Sequence::default();
        while sequence.tokens().len() < 1200 {
            let count = 1 + random.below(150);
            sequence.extend(&tokens(&mut random, count).iter().map(|t| t % 50).collect::<Vec<_>>());
            while !sequence.pending().is_empty() {
                let before: Vec<u32> = sequence.group_pages(1).to_vec();
                log.fail.store(random.below(3) == 0, Ordering::Relaxed);
                if engine.step(&mut [Turn::next(&mut sequence, 96)]).is_err() {
                    let now = sequence.group_pages(1);
                    assert_eq!(now.len(), before.len());
                    // What the row sees is as it was; what is kept to go back may be given up.
                    assert!(now.iter().zip(&before).all(|(now, before)| now == before || *now == NO_PAGE));
                }
            }
            assert_eq!(engine.logits(0), Mock::expected(sequence.tokens(), 50), "{pages}");
            if random.below(3) == 0 {
                sequence.truncate(random.below(sequence.tokens().len()));
            }
        }
        drop(sequence);
        assert!(engine.page_pools().iter().all(|pool| pool.free() == pool.total()));
    }
}

#[test]
fn too_few_pages_for_a_window_bound_the_context() {
    // A step of 96 rows sees 165 positions, which are in up to four pages.
    assert_eq!(Engine::new(Box::new(mock(4))).context(), 4000);
    assert_eq!(Engine::new(Box::new(mock(3))).context(), 192);
    let mut engine = Engine::new(Box::new(mock(4)));
    let (mut first, mut second) = (Sequence::default(), Sequence::default());
    engine.prefill(&mut first, &[1; 900]).unwrap();
    second.extend(&[2; 192]);
    let refused = engine.step(&mut [Turn::next(&mut second, 192)]);
    assert!(matches!(refused, Err(Error::NoPages { total: 4, .. })), "{refused:?}");
    assert_eq!((second.computed(), second.group_pages(1).len()), (0, 0));
}

#[test]
fn decoding_ahead_gives_pages_back() {
    let answers: Vec<Vec<u32>> = [false, true]
        .map(|chains| {
            // As many as one sequence needs, with two links of eight steps under way.
            let mock = if chains { mock(8).with_chains() } else { mock(200) };
            let settings = BatchSettings { speculation: Speculation::Off, ..BatchSettings::default() };
            let mut batcher = Batcher::new(Engine::new(Box::new(mock)), &settings);
            let pools = batcher.engine().page_pools().to_vec();
            let mut tokens = vec![3; 150];
            for turn in 0..3 {
                let settings = GenerationSettings {
                    max_tokens: Some(400),
                    ignore_eos: true,
                    sampler: SamplerSettings::greedy(),
                    ..Default::default()
                };
                let (text, prompt) = (MockText::default(), tokens.clone());
                let finish = batcher.answer(&prompt, settings, text, &Arc::default(), |event| {
                    if let Event::Token(token) = event {
                        tokens.push(token.id);
                    }
                });
                let finish = finish.unwrap();
                assert_eq!(finish.generated_tokens, 400);
                // The next turn begins with what was computed, but for the last few tokens.
                assert_eq!(finish.cached_tokens, if turn == 0 { 0 } else { prompt.len() - 30 });
                tokens.truncate(tokens.len() - 6);
                tokens.extend([7; 30]);
            }
            drop(batcher);
            assert!(pools.iter().all(|pool| pool.free() == pool.total()));
            tokens
        })
        .to_vec();
    assert_eq!(answers[0], answers[1]);
}
