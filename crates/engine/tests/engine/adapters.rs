//! Sequences of different adapters: each is computed with its own, and none goes on from what another's left.

use gleed_engine::sampler::Random;
use gleed_engine::{
    Adapters, BatchSettings, Batcher, Engine, Error, Event, GenerationSettings, Request, SamplerSettings,
};
use gleed_testing::{Ear, Mock, MockText};

const VOCABULARY: usize = MockText::VOCABULARY;

/// What the model says, nothing, one of them, less of it, both.
fn choices() -> [Adapters; 5] {
    let of = |scales: [f32; 2]| Adapters::of(&scales);
    [Adapters::default(), of([0.0, -0.0]), of([1.0, 0.0]), of([0.5, 0.0]), of([1.0, -1.0])]
}

fn request(prompt: &[u32], adapters: &Adapters, ear: &Ear) -> Request {
    let settings = GenerationSettings {
        max_tokens: Some(12),
        sampler: SamplerSettings::greedy(),
        ignore_eos: true,
        ..GenerationSettings::default()
    };
    Request {
        prompt: prompt.to_vec(),
        settings,
        text: Box::new(MockText::default()),
        constraint: None,
        adapters: adapters.clone(),
        uses_cache: true,
        deadline: None,
        listener: Box::new(ear.clone()),
    }
}

fn batcher(mock: Mock) -> Batcher {
    Batcher::new(Engine::new(Box::new(mock.with_adapters(2))), &BatchSettings::default())
}

fn answer_all(batcher: &mut Batcher) {
    while !batcher.is_idle() {
        batcher.step(&|| false).unwrap();
    }
}

fn alone(prompt: &[u32], adapters: &Adapters) -> Vec<Event> {
    let (mut batcher, ear) = (batcher(Mock::new(VOCABULARY, 400, 64, 20)), Ear::default());
    batcher.submit(request(prompt, adapters, &ear)).unwrap();
    answer_all(&mut batcher);
    ear.heard().events
}

#[test]
fn company_of_other_adapters_changes_nothing() {
    let mut random = Random::new(5);
    let prompts: Vec<Vec<u32>> =
        [150, 150, 90].iter().map(|length| (0..*length).map(|at| 1 + at % 7).collect()).collect();
    for chains in [false, true] {
        let mock = Mock::new(VOCABULARY, 400, 64, 60);
        let mut batcher = batcher(if chains { mock.with_chains() } else { mock });
        let mut asked: Vec<(usize, Adapters, Ear)> = vec![];
        for round in 0..60 {
            let (prompt, ear) = (random.below(3) as usize, Ear::default());
            let adapters = choices()[random.below(5) as usize].clone();
            batcher.submit(request(&prompts[prompt], &adapters, &ear)).unwrap();
            asked.push((prompt, adapters, ear));
            if round % 7 == 0 {
                answer_all(&mut batcher);
            } else {
                batcher.step(&|| true).unwrap();
            }
        }
        answer_all(&mut batcher);
        let status = batcher.status();
        // Those of the same adapters do go on from each other.
        assert!(status.cached_tokens > 3000, "{status:?}");
        for (prompt, adapters, ear) in asked {
            assert_eq!(
                ear.heard().events,
                alone(&prompts[prompt], &adapters),
                "{adapters:?}, chains: {chains}"
            );
        }
    }
    // Had they gone on from others', they would have said something else.
    let answers = choices().map(|adapters| alone(&prompts[0], &adapters));
    for (index, answer) in answers.iter().enumerate() {
        assert!(answers[..index].iter().all(|other| other != answer), "{index}");
    }
}

#[test]
fn scales_that_fit_no_adapters_are_refused() {
    let mut batcher = batcher(Mock::new(VOCABULARY, 400, 64, 20));
    let mut refused = |scales: &[f32]| {
        batcher.submit(request(&[1, 2], &Adapters::of(scales), &Ear::default())).unwrap_err()
    };
    assert_eq!(refused(&[1.0]), Error::Adapters { scales: 1, adapters: 2 });
    assert_eq!(refused(&[1.0, 0.0, 0.0]), Error::Adapters { scales: 3, adapters: 2 });
    assert_eq!(refused(&[1.0, f32::INFINITY]), Error::AdapterScale { scale: f32::INFINITY });
}
