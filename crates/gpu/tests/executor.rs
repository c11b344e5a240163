//! The executor as others see it: every op of every program against the reference, refusals, pages, memory.

mod common;

use std::sync::Arc;

use common::{FAMILIES, VOCABULARY, batch, executor, gpu, logits, tiny};
use gleed_gguf::{Format, Gguf};
use gleed_gpu::{Error, GpuExecutor, Options};
use gleed_model::compare::ops_alone;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::Program;
use gleed_model::{Arithmetic, Executor, KvType, Reference, StepError, reference};

const OPTIONS: Options = Options { kv: KvType::F16, max_rows: 40, pages: 4 };

/// What one op may be off, as a share of the largest true value: the orders of sums differ, and division
/// and square root are not exact on every device.
const TOLERANCE: f32 = 2e-6;

fn reference(file: &Arc<Gguf>, program: &Program, options: Options) -> Reference {
    let Options { kv, max_rows, pages } = options;
    let options = reference::Options { arithmetic: Arithmetic::F32, kv, max_rows, pages };
    Reference::new(Arc::clone(file), program.clone(), options).unwrap()
}

#[test]
fn every_op_writes_what_the_reference_writes() {
    let gpu = gpu();
    for family in FAMILIES {
        let (file, plain) = tiny(family, &[Format::Q5_K, Format::BF16, Format::Q8_0], 3);
        for program in [plain.clone(), fuse(&plain, Rules::ALL)] {
            for kv in [KvType::F32, KvType::F16, KvType::Q8_0] {
                let options = Options { kv, ..OPTIONS };
                let mut truth = reference(&file, &program, options);
                let mut found = executor(&gpu, &file, &program, options);
                for wanted in [[true; 6], [false, true, false, false, true, true]] {
                    let rows: Vec<_> =
                        (0..6).map(|i| (i / 4, i % 4, (7 * i % VOCABULARY) as u32, wanted[i])).collect();
                    let batch = batch(&rows, 2, OPTIONS.pages);
                    let differences = ops_alone(&mut found, &mut truth, &batch, || {}).unwrap();
                    for difference in differences {
                        let labels = &program.nodes[difference.node].labels;
                        let off = difference.difference.relative;
                        assert!(off < TOLERANCE, "{family} kv {kv} {labels:?}: {off:e}");
                    }
                }
            }
        }
    }
}
