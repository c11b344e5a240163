//! Sampling allocates nothing after the first token.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use gleed_engine::sampler::Random;
use gleed_engine::{Sampler, SamplerSettings};

thread_local! {
    /// Of this thread alone: the test harness allocates on others.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise about the layout holds for the system's allocator too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn sampling_does_not_allocate() {
    let vocabulary = 5000;
    let mut random = Random::new(1);
    let mut logits = vec![0.0f32; vocabulary];
    let all = SamplerSettings {
        typical_p: 0.9,
        top_k: 2000,
        min_p: 1e-4,
        repeat_penalty: 1.1,
        frequency_penalty: 0.1,
        logit_bias: vec![(3, 1.0)],
        ..SamplerSettings::default()
    };
    for settings in [SamplerSettings::greedy(), SamplerSettings::default(), SamplerSettings::plain(), all] {
        let mut sampler = Sampler::new(settings, vocabulary).unwrap();
        let mut after_first = 0;
        for step in 0..500 {
            logits.iter_mut().for_each(|x| *x = random.below(1000) as f32 * 0.01);
            let choice = sampler.sample(&logits, None).unwrap();
            sampler.accept(choice.token);
            sampler.top_logprobs(&logits, 5);
            if step == 0 {
                after_first = ALLOCATIONS.get();
            }
        }
        assert!(after_first > 0);
        assert_eq!(ALLOCATIONS.get(), after_first);
    }
}
