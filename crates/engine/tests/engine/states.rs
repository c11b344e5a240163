//! Recurrent models on the mock executor, whose logits are wrong where a state slot and the KV pages do not hold the
//! same tokens: forks, rewinding, prefixes that are used again, steps that fail, slots that run out.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gleed_engine::sampler::Random;
use gleed_engine::{
    BatchSettings, Batcher, Engine, Error, Event, GenerationSettings, SamplerSettings, Sequence, Speculation,
};
use gleed_model::arithmetic::PAGE;
use gleed_model::{Batch, Executor, Row, StepError};
use gleed_testing::{Log, Mock, MockText};

const VOCABULARY: usize = MockText::VOCABULARY;

fn engine(max_rows: usize, slots: usize) -> (Engine, Arc<Log>) {
    let mock = Mock::new(VOCABULARY, 4096, max_rows, 400).with_states(slots);
    let log = mock.log();
    (Engine::new(Box::new(mock)), log)
}

fn random_tokens(random: &mut Random, count: usize) -> Vec<u32> {
    (0..count).map(|_| random.below(VOCABULARY as u64) as u32).collect()
}

#[test]
fn random_use_of_many_sequences_gives_the_right_logits() {
    let mut random = Random::new(8);
    let (mut failed, mut without_slots, mut again) = (0, 0, 0);
    for slots in [2, 7, 30] {
        let (mut engine, log) = engine(48, slots);
        let mut sequences: Vec<Sequence> = vec![Sequence::default()];
        for _ in 0..1500 {
            let pick = random.below(sequences.len() as u64) as usize;
            match random.below(7) {
                0 if sequences.len() < 6 => {
                    let fork = sequences[pick].fork();
                    sequences.push(fork);
                }
                1 if sequences.len() > 1 => drop(sequences.swap_remove(pick)),
                2 => {
                    let length = random.below(sequences[pick].tokens().len() as u64 + 1) as usize;
                    sequences[pick].truncate(length);
                    again += usize::from(!sequences[pick].pending().is_empty());
                }
                3 => log.fail.store(true, Ordering::Relaxed),
                _ => {
                    // A prompt that shares a beginning with what is held.
                    let sequence = &mut sequences[pick];
                    let common = random.below(sequence.tokens().len() as u64 + 1) as usize;
                    let common = if random.below(3) > 0 { sequence.tokens().len() } else { common };
                    let mut prompt = sequence.tokens()[..common.min(3900)].to_vec();
                    let count = if random.below(2) == 0 { 1 } else { 1 + random.below(90) as usize };
                    prompt.extend(random_tokens(&mut random, count));
                    match engine.sync(sequence, &prompt) {
                        Ok(_) => {
                            assert_eq!(engine.logits(0), Mock::expected(&prompt, VOCABULARY));
                            assert_eq!((sequence.tokens(), sequence.computed()), (&prompt[..], prompt.len()));
                        }
                        Err(Error::NoSlots { total }) => {
                            assert_eq!((total, engine.slots().unwrap().free()), (slots, 0));
                            without_slots += 1;
                        }
                        Err(Error::Step(StepError::Device(_))) => failed += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
        drop(sequences);
        assert_eq!((engine.slots().unwrap().free(), engine.pages().free()), (slots, 400));
    }
    assert!(failed > 50 && without_slots > 50 && again > 50, "{failed} {without_slots} {again}");
}

#[test]
fn an_answer_can_be_taken_back_without_computing_the_prompt_again() {
    let (engine, log) = engine(64, Engine::SLOTS);
    let mut random = Random::new(3);
    let prompt = random_tokens(&mut random, 5 * PAGE + 20);
    let settings =
        GenerationSettings { sampler: SamplerSettings::greedy(), ignore_eos: true, ..Default::default() };
    let batching = BatchSettings { speculation: Speculation::Off, ..BatchSettings::default() };
    let mut batcher = Batcher::new(engine, &batching);
    let mut answer = |prompt: &[u32], max_tokens: usize| {
        let settings = GenerationSettings { max_tokens: Some(max_tokens), ..settings.clone() };
        let mut tokens = vec![];
        let text = MockText::default();
        let finish = batcher.answer(prompt, settings, text, &Arc::default(), |event| {
            if let Event::Token(token) = event {
                tokens.push(token.id);
            }
        });
        (finish.unwrap().cached_tokens, tokens)
    };
    let (cached, tokens) = answer(&prompt, 3 * PAGE);
    assert_eq!((cached, tokens.len()), (0, 3 * PAGE));
    let rows = |log: &Log| log.rows.load(Ordering::Relaxed);
    // Another question after the same prompt, and one that parts a little before its end.
    for (common, cached) in [(prompt.len(), prompt.len()), (prompt.len() - 5, 5 * PAGE)] {
        let mut next = prompt[..common].to_vec();
        next.extend(random_tokens(&mut random, 3));
        let before = rows(&log);
        let logits = Mock::expected(&next, VOCABULARY);
        let best =
            (0..VOCABULARY as u32).rev().max_by(|a, b| logits[*a as usize].total_cmp(&logits[*b as usize]));
        assert_eq!(answer(&next, 1), (cached, vec![best.unwrap()]));
        assert_eq!(rows(&log) - before, next.len() - cached);
    }
}

#[test]
fn a_batch_that_lacks_a_state_is_refused() {
    let mut mock = Mock::new(VOCABULARY, 512, 16, 8).with_states(3);
    let batch = |positions: &[u32]| {
        let mut batch = Batch::default();
        let table = batch.add_table(&[0, 1, 2]);
        for &position in positions {
            batch.push(Row { table, position, token: 1, wants_logits: false });
        }
        batch
    };
    let refusal = |mock: &mut Mock, batch: &Batch| {
        let error = mock.step(batch, &mut ()).unwrap_err();
        assert!(error.is_refusal(), "{error}");
        error
    };
    assert_eq!(refusal(&mut mock, &batch(&[3, 4])), StepError::State { table: 0, position: 3, found: false });
    let mut from_the_start = batch(&[0, 1]);
    from_the_start.read_state(0, 1);
    assert_eq!(refusal(&mut mock, &from_the_start), StepError::State { table: 0, position: 0, found: true });
    let mut gap = batch(&[3, 5]);
    gap.read_state(0, 1);
    assert_eq!(refusal(&mut mock, &gap), StepError::Gap { row: 1, position: 5 });
    let mut without = |read: u32, saves: &[(u32, u32)]| {
        let mut batch = batch(&[3, 4]);
        batch.read_state(0, read);
        saves.iter().for_each(|(position, slot)| batch.save_state(0, *position, *slot));
        refusal(&mut mock, &batch)
    };
    let slot = |slot, why| StepError::Slot { slot, why };
    assert_eq!(without(3, &[]), slot(3, "does not exist"));
    assert_eq!(without(0, &[(4, 3)]), slot(3, "does not exist"));
    assert_eq!(without(1, &[(4, 1)]), slot(1, "is read and written in one step"));
    assert_eq!(without(1, &[(3, 2), (4, 2)]), slot(2, "is written twice in one step"));
    for position in [2, 5] {
        let why = "is to be written after a row that the batch does not have";
        assert_eq!(without(1, &[(position, 2)]), slot(2, why));
    }
}
