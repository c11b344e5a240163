//! A step allocates nothing: proven by an allocator that counts.

#[path = "cpu/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{FAMILIES, batch, cpu, tiny};
use gleed_cpu::Options;
use gleed_gguf::Format;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::{Arithmetic, Executor, KvType};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the caller's promise is the one that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The only test of this binary, so that nothing else allocates meanwhile.
#[test]
fn steps_do_not_allocate() {
    for family in FAMILIES {
        let formats = [Format::Q4_K, Format::F16, Format::Q6_K, Format::Q5_1, Format::F32];
        let (file, plain) = tiny(family, &formats, 4);
        for program in [plain.clone(), fuse(&plain, Rules::ALL)] {
            for (arithmetic, kv) in [
                (Arithmetic::Q8, KvType::Q8_0),
                (Arithmetic::Q8, KvType::F16),
                (Arithmetic::F32, KvType::F32),
            ] {
                let options = Options {
                    arithmetic,
                    kv,
                    threads: 2,
                    isa: None,
                    max_rows: 96,
                    pages: 12,
                    window_sequences: None,
                    memory: None,
                };
                let mut cpu = cpu(&file, &program, options);
                let prompt = |positions: std::ops::Range<usize>| -> Vec<_> {
                    positions.map(|i| (0, i, i as u32 % 60, i % 9 == 0)).collect()
                };
                let mut batches = vec![batch(&[(0, 0, 1, true)], 2, 12)];
                batches.extend([0..80, 80..176, 176..272].map(|positions| batch(&prompt(positions), 2, 12)));
                // Deep enough for attention over several spans.
                batches.push(batch(&[(0, 272, 7, true), (1, 0, 7, true)], 2, 12));
                cpu.step(&batches[0], &mut ()).unwrap();
                let before = ALLOCATIONS.load(Ordering::SeqCst);
                for batch in &batches {
                    cpu.step(batch, &mut ()).unwrap();
                }
                let count = ALLOCATIONS.load(Ordering::SeqCst) - before;
                assert_eq!(count, 0, "{family} {arithmetic} kv {kv}");
                assert!(cpu.attention_splits() > 0);
            }
        }
    }
}
