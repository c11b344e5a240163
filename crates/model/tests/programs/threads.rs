//! The reference on one thread and on several.

use std::sync::Arc;

use gleed_gguf::Format;
use gleed_model::{Arithmetic, KvType, Reference, reference};

use crate::support::{FAMILIES, VOCABULARY, batch, logits, tiny};

#[test]
fn the_number_of_threads_changes_no_bit() {
    const ROWS: usize = 50;
    let tokens = |position: usize| ((7 * position) % VOCABULARY) as u32;
    let rows: Vec<_> = (0..ROWS).map(|position| (0, position, tokens(position), true)).collect();
    for family in FAMILIES {
        for arithmetic in [Arithmetic::Q8, Arithmetic::F32] {
            let (file, program) = tiny(family, &[Format::Q4_K, Format::Q8_0, Format::F16], 3);
            let run = |threads: usize| {
                let kv = KvType::F16;
                let options =
                    reference::Options { arithmetic, rounds_to_groups: None, kv, max_rows: ROWS, pages: 1 };
                let reference = Reference::new(Arc::clone(&file), program.clone(), options).unwrap();
                logits(&mut reference.with_threads(threads), &batch(&rows, 1, 1))
            };
            // The smallest matrix that is shared out has 256 times 256 weights: three threads have work.
            let one = run(1);
            assert!(run(3) == one && run(64) == one, "{family} {arithmetic}");
        }
    }
}
