//! The promise with recurrent layers, on a CPU: forks, rewinding and prefixes that are used again give the bits of a
//! sequence that was computed in one go.

use crate::support::{RECURRENT, Random, VOCABULARY, bits, tiny};
use gleed_cpu::{Cpu, Options};
use gleed_engine::{Engine, Sequence, Turn};
use gleed_gguf::Format;
use gleed_model::fuse::{Rules, fuse};

const OPTIONS: fn() -> Options = || Options { threads: 2, max_rows: 64, pages: 40, ..Options::default() };

fn engine(family: &str, slots: usize) -> Engine {
    let (file, plain) = tiny(family, &[Format::Q8_0, Format::Q4_K, Format::F16], 9);
    let cpu = Cpu::new(file, fuse(&plain, Rules::ALL), OPTIONS()).unwrap();
    Engine::new(Box::new(cpu.with_slots(slots).unwrap()))
}

fn tokens(random: &mut Random, count: usize) -> Vec<u32> {
    (0..count).map(|_| random.below(VOCABULARY) as u32).collect()
}

/// The logits after a prompt, computed by itself.
fn fresh(engine: &mut Engine, prompt: &[u32]) -> Vec<u32> {
    let mut sequence = Sequence::default();
    engine.prefill(&mut sequence, prompt).unwrap();
    bits(engine.logits(0))
}

#[test]
fn every_way_to_a_prompt_gives_the_same_bits() {
    for family in RECURRENT {
        for slots in [5, 20] {
            let mut random = Random::new(4);
            let mut engine = engine(family, slots);
            let trunk = tokens(&mut random, 150);
            let mut sequence = Sequence::default();
            engine.prefill(&mut sequence, &trunk).unwrap();
            assert_eq!(bits(engine.logits(0)), fresh(&mut engine, &trunk));
            // Two go on side by side from the same state, one token at a time.
            let mut fork = sequence.fork();
            let (left, right) = (tokens(&mut random, 3), tokens(&mut random, 3));
            for (a, b) in left.iter().zip(&right) {
                sequence.push(*a);
                fork.push(*b);
                engine.step_many(&mut [&mut sequence, &mut fork]).unwrap();
            }
            let ours = [bits(engine.logits(0)), bits(engine.logits(1))];
            drop(fork);
            let held = sequence;
            for (more, ours) in [&left, &right].into_iter().zip(ours) {
                assert_eq!(fresh(&mut engine, &[&trunk[..], more].concat()), ours, "{family}, a fork");
            }
            // Back to places with a state and without one.
            let mut sequence = held;
            for length in [152, 150, 140, 128, 100, 3] {
                let prompt = [&trunk[..length.min(trunk.len())], &tokens(&mut random, 5)].concat();
                engine.sync(&mut sequence, &prompt).unwrap();
                let ours = bits(engine.logits(0));
                assert_eq!(fresh(&mut engine, &prompt), ours, "{family}, back to {length}");
            }
            // Rows of a prompt in steps of their own.
            let prompt = tokens(&mut random, 30);
            let mut sequence = Sequence::default();
            sequence.extend(&prompt);
            while !sequence.pending().is_empty() {
                engine.step(&mut [Turn::next(&mut sequence, 7)]).unwrap();
            }
            let ours = bits(engine.logits(0));
            assert_eq!(fresh(&mut engine, &prompt), ours, "{family}, in chunks");
        }
    }
}
