//! A model whose first layers are on the CPU and whose last are on a GPU: close to the reference wherever it is
//! cut, the same bits whatever the batches, and refused or advised by what fits.

use std::sync::Arc;

use crate::common::{FLOATS, Sequences, batch, bits, contract, executor, gpu, test_families, tiny};
use gleed_cpu::Cpu;
use gleed_gguf::{Format, Gguf};
use gleed_gpu::{Error, Gpu, GpuExecutor, Options};
use gleed_model::compare::{LogitsDifference, ops_alone};
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::Program;
use gleed_model::{Arithmetic, Executor, Halves, Joined, KvType, Reference, StepError, reference, split};

/// Many rows, some, one: where a model is cut has nothing to do with the spans of attention.
const SEQUENCES: Sequences = Sequences { lengths: [75, 9, 1], pages: 15 };
const OPTIONS: Options = Options {
    arithmetic: Arithmetic::F32,
    kv: KvType::F32,
    max_rows: 96,
    pages: SEQUENCES.pages,
    window_sequences: None,
    slots: 6,
    logits_rows: None,
};

/// What the logits of a whole model may be off, as a share of the largest true one: as of one that is not split.
const TOLERANCE: f32 = 1e-5;

/// What one op may be off.
const OP_TOLERANCE: f32 = 2e-6;

fn joined(
    gpu: &Gpu,
    file: &Arc<Gguf>,
    program: &Program,
    layer: usize,
    options: Options,
) -> Joined<Cpu, GpuExecutor> {
    let Halves { first, second } = split(program, layer).unwrap();
    let Options { arithmetic, kv, max_rows, pages, .. } = options;
    let settings = gleed_cpu::Options {
        arithmetic,
        kv,
        max_rows,
        pages,
        threads: 2,
        isa: None,
        window_sequences: None,
        memory: None,
    };
    let cpu = Cpu::new(Arc::clone(file), first, settings).unwrap();
    Joined::new(program.clone(), cpu, executor(gpu, file, &second, options))
}

/// What is computed where a GPU has the nodes from this one on.
fn truth(file: &Arc<Gguf>, program: &Program, on_gpu: usize, options: Options) -> Reference {
    let Options { arithmetic, kv, max_rows, pages, .. } = options;
    let rounds_to_groups = (arithmetic == Arithmetic::Q8).then_some(on_gpu);
    let options = reference::Options { arithmetic, rounds_to_groups, kv, max_rows, pages };
    Reference::new(Arc::clone(file), program.clone(), options).unwrap()
}

fn check_family(family: &str) {
    let (file, plain) = tiny(family, FLOATS, 5);
    let fused = fuse(&plain, Rules::ALL);
    let gpu = gpu();
    let mut reference = truth(&file, &plain, 0, OPTIONS);
    let truth = SEQUENCES.run(&mut reference, &SEQUENCES.whole(), 1);
    for program in [&plain, &fused] {
        for layer in 0..program.layers() {
            let run = |schedule, every| {
                let mut joined = joined(&gpu, &file, program, layer, OPTIONS);
                SEQUENCES.run(&mut joined, &schedule, every)
            };
            let whole = run(SEQUENCES.whole(), 1);
            let mut difference = LogitsDifference::default();
            whole.iter().for_each(|(place, logits)| difference.add(logits, &truth[place]));
            assert!(difference.difference.relative < TOLERANCE, "{family} {layer}: {difference:?}");
            // Fused or not, the bits are the same: the plain program need not prove it again.
            let schedules = [(SEQUENCES.chunks(&[1, 7, 40, 3]), 2), (SEQUENCES.one_at_a_time(60), 1)];
            for (schedule, every) in schedules.into_iter().filter(|_| std::ptr::eq(program, &fused)) {
                for (place, logits) in run(schedule, every) {
                    assert_eq!(bits(&logits), bits(&whole[&place]), "{family} {layer}, row {place:?}");
                }
            }
        }
    }
}

// A cut knows nothing of a family: one with rotary positions and head norms is enough, and one without.

test_families!(check_family: qwen3, gpt2);

#[test]
fn the_company_of_a_row_does_not_matter_in_q8() {
    let gpu = gpu();
    let (file, plain) = tiny("gemma2", &[Format::Q4_K, Format::Q8_0, Format::Q6_K, Format::Q4_1], 5);
    let program = fuse(&plain, Rules::ALL);
    let run = |schedule, every| {
        let options = Options { arithmetic: Arithmetic::Q8, kv: KvType::Q8_0, ..OPTIONS };
        SEQUENCES.run(&mut joined(&gpu, &file, &program, 1, options), &schedule, every)
    };
    let whole = run(SEQUENCES.whole(), 1);
    for (schedule, every) in [(SEQUENCES.chunks(&[1, 7, 40, 3]), 2), (SEQUENCES.one_at_a_time(60), 1)] {
        for (place, logits) in run(schedule, every) {
            assert_eq!(bits(&logits), bits(&whole[&place]), "row {place:?}");
        }
    }
}

#[test]
fn every_op_writes_what_the_reference_writes_each_half_with_its_blocks() {
    let gpu = gpu();
    let rows: Vec<_> = (0..6).map(|i| (i / 4, i % 4, 7 * i as u32, i % 3 > 0)).collect();
    let batch = batch(&rows, 2, OPTIONS.pages);
    for family in ["qwen3", "gpt2", "gemma2"] {
        let formats = [Format::Q5_K, Format::Q4_0, Format::Q8_0, Format::Q6_K, Format::Q4_K];
        let (file, plain) = tiny(family, &formats, 3);
        let program = fuse(&plain, Rules::ALL);
        for layer in 0..program.layers() {
            let options = Options { arithmetic: Arithmetic::Q8, ..OPTIONS };
            let mut joined = joined(&gpu, &file, &program, layer, options);
            let mut truth = truth(&file, &program, joined.cut(), options);
            let differences = ops_alone(&mut joined, &mut truth, &batch, || {}).unwrap();
            for difference in differences {
                let labels = &program.nodes[difference.node].labels;
                let off = difference.difference.relative;
                let most = if difference.node < joined.cut() { f32::MIN_POSITIVE } else { OP_TOLERANCE };
                assert!(off < most, "{family} {layer} {labels:?}: {off:e}");
            }
        }
    }
}

#[test]
fn it_is_an_executor_like_others() {
    let gpu = gpu();
    let (max_rows, pages) = (contract::MAX_ROWS, contract::PAGES);
    for layer in 0..2 {
        let make = |file: &Arc<Gguf>, program: &Program, kv| {
            joined(&gpu, file, program, layer, Options { kv, max_rows, pages, ..OPTIONS })
        };
        contract::takes_empty_batches(make);
        contract::has_logits_of_wanted_rows_only(make);
        contract::refuses_bad_batches(make);
        contract::copies_pages(make);
    }
}

#[test]
fn the_second_half_alone_needs_inputs_and_decodes_nothing_ahead() {
    let (file, program) = tiny("llama", &[Format::Q8_0], 3);
    let Halves { first, second } = split(&program, 1).unwrap();
    let gpu = gpu();
    let mut executor = executor(&gpu, &file, &second, OPTIONS);
    let mut batch = batch(&[(0, 0, 1, true)], 1, OPTIONS.pages);
    let none = StepError::Inputs { found: 0, expected: 256 };
    assert_eq!(executor.step(&batch, &mut ()), Err(none));
    batch.inputs_mut().resize(256, 0.5);
    assert_eq!(executor.step(&batch, &mut ()), Ok(()));
    assert!(executor.chain().is_none());
    // A first half is for the CPU.
    let refused = GpuExecutor::new(gpu, &file, first, OPTIONS).err().unwrap();
    assert!(matches!(refused, Error::Program { .. }), "{refused}");
}

#[test]
fn a_refusal_says_what_would_fit() {
    let (file, plain) = tiny("llama", &[Format::Q8_0], 5);
    let program = fuse(&plain, Rules::ALL);
    let mut gpu = gpu();
    let needed = |gpu: &Gpu, program: &Program| {
        let memory = executor(gpu, &file, program, OPTIONS).memory();
        memory.weights + memory.kv + memory.buffers
    };
    let Halves { second, .. } = split(&program, 1).unwrap();
    let (whole, half) = (needed(&gpu, &program), needed(&gpu, &second));
    assert!(half < whole);
    let mut refused = |memory: u64, program: &Program| {
        gpu.info.memory = Some(memory);
        GpuExecutor::new(gpu.clone(), &file, program.clone(), OPTIONS).err().map(|error| error.to_string())
    };
    assert_eq!(refused(whole, &program), None);
    let told = refused(whole - 1, &program).unwrap();
    assert!(told.ends_with("or a part of it: `--gpu-layers 1` would fit"), "{told}");
    assert!(refused(half, &program).unwrap().contains("`--gpu-layers 1` would fit"));
    assert_eq!(refused(half, &second), None, "it does");
    // Nothing but a smaller model helps.
    for program in [&program, &second] {
        let told = refused(half - 1, program).unwrap();
        assert!(told.ends_with("or a smaller model"), "{told}");
    }
}

/// What others use of a device's memory is not there for a model.
#[test]
fn what_is_free_counts_not_what_there_is() {
    let (file, program) = tiny("llama", &[Format::Q8_0], 5);
    let gpu = gpu();
    let (Some(free), Some(all)) = (gpu.free_memory(), gpu.info.memory) else { return };
    assert!(free <= all, "{free} of {all}");
    let room = 64 << 20;
    if all - free > 2 * room {
        let page = executor(&gpu, &file, &program, OPTIONS).memory().kv / OPTIONS.pages as u64;
        let options = Options { pages: ((all - room) / page) as usize, ..OPTIONS };
        let refused = GpuExecutor::new(gpu, &file, program, options).err().unwrap();
        assert!(matches!(refused, Error::DoesNotFit { .. }), "{refused}");
    }
}
