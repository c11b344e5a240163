//! A model whose file holds a NaN gives an error that names the op, not an answer.

use std::sync::Arc;

use crate::support::{damaged, tiny};
use gleed_engine::{
    BatchSettings, Batcher, Engine, Error, GenerationSettings, PerplexitySettings, SamplerSettings, Sequence,
    perplexity,
};
use gleed_gguf::Format;
use gleed_model::chain::{Chain, Link};
use gleed_model::choice::{NO_TOKEN, Rule};
use gleed_model::executor::Observer;
use gleed_model::groups::PageGroup;
use gleed_model::reference::{Options, Reference};
use gleed_model::{Arithmetic, Batch, Executor, KvType, Program, StepError};
use gleed_testing::MockText;

const OPTIONS: Options =
    Options { arithmetic: Arithmetic::Q8, rounds_to_groups: None, kv: KvType::F16, max_rows: 8, pages: 2 };

/// Nothing is kept of an answer.
fn batcher(executor: impl Executor + 'static) -> Batcher {
    let settings = BatchSettings { prefix_cache: false, ..BatchSettings::default() };
    Batcher::new(Engine::new(Box::new(executor)), &settings)
}

fn reference(weight: &str) -> Reference {
    let (file, program) = damaged("qwen2", &[Format::Q8_0], weight, f32::NAN);
    Reference::new(file, program, OPTIONS).unwrap()
}

fn generate(batcher: &mut Batcher, prompt: &[u32]) -> Result<usize, Error> {
    let sampler = SamplerSettings { temperature: 0.0, ..Default::default() };
    let settings =
        GenerationSettings { max_tokens: Some(3), ignore_eos: true, sampler, ..Default::default() };
    let text = MockText::default();
    batcher.answer(prompt, settings, text, &Arc::default(), |_| {}).map(|finish| finish.generated_tokens)
}

fn nan(op: &str, position: u32) -> Error {
    Error::Step(StepError::NotANumber { op: op.to_string(), position })
}

#[test]
fn the_op_and_the_position_are_named() {
    let mut damaged = batcher(reference("blk.1.ffn_down.weight"));
    assert_eq!(generate(&mut damaged, &[5, 6, 7]), Err(nan("blk.1.ffn_down", 0)));
    let message = generate(&mut damaged, &[5]).unwrap_err().to_string();
    assert!(message.starts_with("blk.1.ffn_down gave NaN at position 0: "), "{message}");
    let mut engine = Engine::new(Box::new(reference("blk.0.attn_v.weight")));
    let settings = PerplexitySettings { context: 6, chunks: None, bos: None };
    let measured = perplexity(&mut engine, &[1; 12], settings, |_| {});
    assert_eq!(measured, Err(nan("blk.0.attn_v", 0)));
}

#[test]
fn a_nan_of_an_earlier_chunk_is_found_where_it_began() {
    // Token 0 is damaged. It is the third of a prompt that takes three steps, of which only the last has
    // logits.
    let mut prompt = [9; 20];
    prompt[2] = 0;
    let mut batcher = batcher(reference("token_embd.weight"));
    assert_eq!(generate(&mut batcher, &prompt), Err(nan("embed", 2)));
    assert_eq!(generate(&mut batcher, &[9; 20]), Ok(3), "other tokens have no part in it");
}

#[test]
fn a_nan_is_found_before_what_windows_have_left() {
    // The window of every other layer is 21 positions; the page of the damaged token is given back long before the logits.
    let mut prompt = [9; 200];
    prompt[2] = 0;
    let (file, program) = damaged("gemma2", &[Format::Q8_0], "token_embd.weight", f32::NAN);
    let reference = Reference::new(file, program, Options { pages: 8, ..OPTIONS }).unwrap();
    let mut batcher = batcher(reference);
    assert_eq!(generate(&mut batcher, &prompt), Err(nan("embed", 2)));
    assert!(batcher.engine().page_pools().iter().all(|pool| pool.free() == pool.total()));
    assert_eq!(generate(&mut batcher, &[9; 200]), Ok(3));
}

/// A device that chooses tokens itself, and never finds one.
struct Choosy(Reference);

impl Executor for Choosy {
    fn program(&self) -> &Program {
        self.0.program()
    }

    fn max_rows(&self) -> usize {
        self.0.max_rows()
    }

    fn page_groups(&self) -> &[PageGroup] {
        self.0.page_groups()
    }

    fn step(&mut self, batch: &Batch, observer: &mut dyn Observer) -> Result<(), StepError> {
        self.0.step(batch, observer)
    }

    fn logits(&self, index: usize) -> &[f32] {
        self.0.logits(index)
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) {
        self.0.copy_page(group, from, to);
    }

    fn chain(&mut self) -> Option<&mut dyn Chain> {
        Some(self)
    }
}

impl Chain for Choosy {
    fn most_rows(&self) -> usize {
        1
    }

    fn follows(&self, _: &Rule) -> bool {
        true
    }

    fn submit(&mut self, _: Link<'_>) -> Result<(), StepError> {
        Ok(())
    }

    fn collect(&mut self, tokens: &mut Vec<u32>) -> Result<(), StepError> {
        tokens.push(NO_TOKEN);
        Ok(())
    }
}

#[test]
fn a_device_without_a_token_is_asked_why() {
    let choosy = |(file, program)| {
        let reference = Reference::new(file, program, OPTIONS).unwrap();
        batcher(Choosy(reference))
    };
    let mut whole = choosy(tiny("qwen2", &[Format::Q8_0], 3));
    assert_eq!(generate(&mut whole, &[5, 6]), Err(Error::NoCandidate), "no NaN, and no token either");
    // A prompt whose answer begins with token 0, which is the damaged one: the device computes it.
    let mut answers_0 = |prompt: &[u32]| {
        let mut sequence = Sequence::default();
        let engine = whole.engine_mut();
        engine.prefill(&mut sequence, prompt).unwrap();
        let logits = engine.logits(0);
        logits.iter().all(|x| *x <= logits[0])
    };
    let mut prompts = (1..67).flat_map(|a| (1..67).map(move |b| [a, b]));
    let prompt = prompts.find(|prompt| answers_0(prompt)).unwrap();
    let mut damaged = choosy(damaged("qwen2", &[Format::Q8_0], "token_embd.weight", f32::NAN));
    assert_eq!(generate(&mut damaged, &prompt), Err(nan("embed", 2)));
}
