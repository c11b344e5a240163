//! The promise among many requests, on a CPU: an answer and its log-probabilities are the same bits alone and in company,
//! with prefixes that others left, with guesses and without.

use crate::support::{Random, VOCABULARY, tiny};
use gleed_cpu::{Cpu, Options};
use gleed_engine::{
    BatchSettings, Batcher, Draft, Engine, Event, GenerationSettings, Request, SamplerSettings, Speculation,
    Text,
};
use gleed_gguf::Format;
use gleed_model::fuse::{Rules, fuse};
use gleed_testing::Ear;

/// A vocabulary of numbers.
struct Numbers;

impl Text for Numbers {
    fn push(&mut self, token: u32) -> String {
        format!("{token} ")
    }

    fn finish(&mut self) -> String {
        String::new()
    }

    fn is_end(&self, _token: u32) -> bool {
        false
    }
}

fn engine(family: &str, pages: usize) -> Engine {
    let (file, plain) = tiny(family, &[Format::Q8_0, Format::Q4_K, Format::F16], 9);
    let options = Options { threads: 2, max_rows: 48, pages, ..Options::default() };
    let cpu = Cpu::new(file, fuse(&plain, Rules::ALL), options).unwrap();
    Engine::new(Box::new(cpu.with_slots(24).unwrap()))
}

/// One whose guesses, if it makes any, are right where answers are greedy.
fn batcher(family: &str, pages: usize, settings: &BatchSettings) -> Batcher {
    let batcher = Batcher::new(engine(family, pages), settings);
    match settings.speculation {
        Speculation::Off => batcher,
        _ => batcher.with_draft(Draft::new(engine(family, 40))).unwrap(),
    }
}

fn request(prompt: &[u32], seed: u64, ear: &Ear) -> Request {
    let sampler = match seed % 2 {
        0 => SamplerSettings::greedy(),
        _ => SamplerSettings { seed: Some(seed), ..SamplerSettings::default() },
    };
    let settings = GenerationSettings {
        max_tokens: Some(20),
        sampler,
        logprobs: Some(2),
        ..GenerationSettings::default()
    };
    Request {
        prompt: prompt.to_vec(),
        settings,
        text: Box::new(Numbers),
        constraint: None,
        adapters: Default::default(),
        uses_cache: true,
        deadline: None,
        listener: Box::new(ear.clone()),
    }
}

/// Tokens, text and log-probabilities of answers to prompts that come one after the other, each `apart` steps later.
fn answers(batcher: &mut Batcher, prompts: &[Vec<u32>], apart: usize) -> Vec<Vec<Event>> {
    let ears: Vec<Ear> = prompts.iter().map(|_| Ear::default()).collect();
    for (index, (prompt, ear)) in prompts.iter().zip(&ears).enumerate() {
        batcher.submit(request(prompt, index as u64, ear)).unwrap();
        (0..apart).for_each(|_| batcher.step(&|| false).unwrap());
    }
    while !batcher.is_idle() {
        batcher.step(&|| false).unwrap();
    }
    ears.iter().map(|ear| ear.heard().events).collect()
}

#[test]
fn company_changes_no_bit() {
    let (mut guessed, mut accepted) = (0, 0);
    for family in ["llama", "gemma2", "gpt_oss", "mamba2", "qwen35"] {
        let mut random = Random::new(7);
        let common: Vec<u32> = (0..70).map(|_| random.below(VOCABULARY) as u32).collect();
        let prompt = |own: usize| {
            let end = (0..3 + 11 * own).map(|at| ((at * at + own) % VOCABULARY) as u32);
            common[..if own.is_multiple_of(3) { 0 } else { 70 }]
                .iter()
                .copied()
                .chain(end)
                .collect::<Vec<u32>>()
        };
        let prompts: Vec<Vec<u32>> = (0..6).map(prompt).collect();
        let plain =
            BatchSettings { prefix_cache: false, speculation: Speculation::Off, ..BatchSettings::default() };
        let mut alone = batcher(family, 40, &plain);
        let truth = answers(&mut alone, &prompts, 1000);
        assert!(truth.iter().all(|events| events.len() == 20), "{family}");
        let guessing = BatchSettings { speculation: Speculation::Always, ..BatchSettings::default() };
        // Room for all of them, and for two or three at a time.
        for (pages, settings, apart) in [(40, &plain, 0), (40, &guessing, 3), (7, &guessing, 1)] {
            let mut together = batcher(family, pages, settings);
            assert_eq!(answers(&mut together, &prompts, apart), truth, "{family}, {pages} pages");
            // Once more, with all that the first ones left.
            assert_eq!(answers(&mut together, &prompts, apart), truth, "{family}, {pages} pages, again");
            let status = together.status();
            assert!(settings != &guessing || status.cached_tokens > 0, "{family}: {status:?}");
            guessed += status.guessed_tokens;
            accepted += status.accepted_tokens;
        }
    }
    assert!(accepted > 500 && guessed > accepted + 100, "{guessed} {accepted}");
}
