//! The executor as others see it: every op of every program against the reference, refusals, pages, memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{VOCABULARY, batch, contract, executor, gpu, logits, own_gpu, tiny};
use gleed_gguf::{Format, Gguf};
use gleed_gpu::{Error, GpuExecutor, Options};
use gleed_model::chain::{Chain, Link};
use gleed_model::choice::{Rule, choose};
use gleed_model::compare::ops_alone;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::{Op, Program};
use gleed_model::{Arithmetic, Batch, Executor, KvType, Reference, StepError, reference};

pub const OPTIONS: Options = Options {
    arithmetic: Arithmetic::F32,
    kv: KvType::F16,
    max_rows: contract::MAX_ROWS,
    pages: contract::PAGES,
    window_sequences: None,
    slots: 6,
    logits_rows: None,
};

/// What one op may be off, as a share of the largest true value: the orders of sums differ, and division
/// and square root are not exact on every device.
const TOLERANCE: f32 = 2e-6;

/// The same of attention where one number of a stored key may be the next value.
const STORED_TOLERANCE: f32 = 1e-4;

pub fn reference(file: &Arc<Gguf>, program: &Program, options: Options) -> Reference {
    let Options { kv, max_rows, pages, .. } = options;
    let rounds_to_groups = (options.arithmetic == Arithmetic::Q8).then_some(0);
    let options = reference::Options { arithmetic: Arithmetic::F32, rounds_to_groups, kv, max_rows, pages };
    Reference::new(Arc::clone(file), program.clone(), options).unwrap()
}

#[test]
fn every_op_writes_what_the_reference_writes() {
    let gpu = gpu();
    // The others have the same ops.
    for family in ["qwen3", "gpt2", "gemma2"] {
        // All matrices of integers, and such that their ops have some with floats.
        let integers = [Format::Q5_K, Format::Q4_0, Format::Q8_0, Format::Q6_K, Format::Q4_K];
        let mixed = [Format::Q5_K, Format::BF16, Format::Q8_0];
        // The first has all formats.
        let (integers, mixed) =
            if family == "qwen3" { (&integers[..], &mixed[..]) } else { (&integers[2..3], &mixed[1..]) };
        for (arithmetic, formats, fuses, kv) in [
            (Arithmetic::Q8, integers, true, KvType::F16),
            (Arithmetic::Q8, integers, false, KvType::Q8_0),
            (Arithmetic::F32, mixed, false, KvType::F32),
            (Arithmetic::F32, mixed, true, KvType::F16),
            (Arithmetic::F32, integers, true, KvType::Q8_0),
        ] {
            let (file, plain) = tiny(family, formats, 3);
            let program = if fuses { fuse(&plain, Rules::ALL) } else { plain };
            {
                let options = Options { arithmetic, kv, ..OPTIONS };
                let mut truth = reference(&file, &program, options);
                let mut found = executor(&gpu, &file, &program, options);
                for wanted in [[true; 6], [false, true, false, false, true, true]] {
                    let rows: Vec<_> =
                        (0..6).map(|i| (i / 4, i % 4, (7 * i % VOCABULARY) as u32, wanted[i])).collect();
                    let batch = batch(&rows, 2, OPTIONS.pages);
                    let differences = ops_alone(&mut found, &mut truth, &batch, || {}).unwrap();
                    for difference in differences {
                        let node = &program.nodes[difference.node];
                        // A number of a key that differs in its last bit may be stored as the next value.
                        let stored = matches!(node.op, Op::Attention { .. }) && kv != KvType::F32;
                        let most = if stored { STORED_TOLERANCE } else { TOLERANCE };
                        let (labels, off) = (&node.labels, difference.difference.relative);
                        assert!(off < most, "{family} kv {kv} {labels:?}: {off:e}");
                    }
                }
            }
        }
    }
}

/// Where there are matrix units of halves, their logits are those of f32 to some digits, and a row has the same bits alone
/// as among others; elsewhere asking for them is an error.
#[test]
fn halves_are_close_where_there_are_units_for_them() {
    let (file, program) = tiny("llama", &[Format::Q8_0, Format::Q4_K, Format::Q6_K], 1);
    let gpu = gpu();
    let halves = Options { arithmetic: Arithmetic::F16, ..OPTIONS };
    if !gleed_gpu::linear::half_units(&gpu.info) {
        let refused = GpuExecutor::new(gpu, &file, program, halves).err().expect("it has none");
        assert!(refused.to_string().contains("--arithmetic f16"), "{refused}");
        return;
    }
    let rows: Vec<_> = (0..40).map(|i| (0, i, (7 * i % VOCABULARY) as u32, i == 39)).collect();
    let floats = Options { arithmetic: Arithmetic::F32, ..OPTIONS };
    let exact = logits(&mut executor(&gpu, &file, &program, floats), &batch(&rows, 1, 4));
    let found = logits(&mut executor(&gpu, &file, &program, halves), &batch(&rows, 1, 4));
    assert_ne!(found, exact, "they were not used");
    let mut one_by_one = executor(&gpu, &file, &program, halves);
    let alone = rows.iter().map(|row| logits(&mut one_by_one, &batch(&[*row], 1, 4))).last();
    assert_eq!(alone.as_ref(), Some(&found), "a row depends on its company");
    let values = |bits: &[Vec<u32>]| bits.concat().iter().map(|x| f32::from_bits(*x)).collect::<Vec<f32>>();
    let off = gleed_model::compare::Difference::of(&values(&found), &values(&exact)).relative;
    assert!(off < 1e-2, "{off:e}");
}

#[test]
fn an_empty_batch_and_one_that_wants_nothing_are_fine() {
    let gpu = gpu();
    contract::takes_empty_batches(|file, program, kv| {
        executor(&gpu, file, program, Options { kv, ..OPTIONS })
    });
}

#[test]
fn there_are_logits_of_wanted_rows_only() {
    let gpu = gpu();
    contract::has_logits_of_wanted_rows_only(|file, program, kv| {
        executor(&gpu, file, program, Options { kv, ..OPTIONS })
    });
}

#[test]
fn bad_batches_are_refused_and_change_nothing() {
    let gpu = gpu();
    contract::refuses_bad_batches(|file, program, kv| {
        executor(&gpu, file, program, Options { kv, ..OPTIONS })
    });
}

/// Steps without logits return before they are computed, but not many of them: a long prompt can be cancelled.
#[test]
fn few_steps_are_in_flight() {
    let (file, program) = tiny("llama", &[Format::Q8_0], 1);
    let gpu = gpu();
    let mut executor = executor(&gpu, &file, &program, OPTIONS);
    let done = Arc::new(AtomicUsize::new(0));
    for position in 0..10 {
        executor.step(&batch(&[(0, position, 1, false)], 1, OPTIONS.pages), &mut ()).unwrap();
        let done = Arc::clone(&done);
        gpu.queue.on_submitted_work_done(move || _ = done.fetch_add(1, Ordering::Relaxed));
    }
    let done = done.load(Ordering::Relaxed);
    assert!(done >= 7, "{done} of 10 steps were computed when the last was submitted");
}

#[test]
fn copied_pages_let_sequences_part() {
    let gpu = gpu();
    contract::copies_pages(|file, program, kv| executor(&gpu, file, program, Options { kv, ..OPTIONS }));
}

#[test]
fn states_are_kept_in_slots() {
    let gpu = gpu();
    contract::keeps_states(|file, program, kv| executor(&gpu, file, program, Options { kv, ..OPTIONS }));
}

#[test]
fn what_cannot_be_run_is_an_error() {
    let (file, program) = tiny("llama", &[Format::Q8_0], 1);
    let gpu = gpu();
    let new = |program: &Program, options| {
        GpuExecutor::new(gpu.clone(), &file, program.clone(), options).err().unwrap()
    };
    let mut missing = program.clone();
    missing.weights[0].name = "nothing.weight".to_string();
    assert_eq!(new(&missing, OPTIONS).to_string(), "tensor nothing.weight is missing");
    let mut shape = program.clone();
    shape.weights[0].rows += 1;
    assert!(matches!(new(&shape, OPTIONS), Error::Tensor { .. }));
    let mut width = program.clone();
    width.buffers[0].width -= 1;
    let error = new(&width, OPTIONS).to_string();
    assert!(error.starts_with("node 0 (embed)"), "{error}");
    let mut twice = program.clone();
    let gather = twice.nodes.iter().position(|node| matches!(node.op, Op::Gather { .. })).unwrap();
    twice.nodes.insert(gather, twice.nodes[gather].clone());
    assert!(matches!(new(&twice, OPTIONS), Error::Program { kind: "gather", .. }));
    let mut unfinished = program.clone();
    unfinished.nodes.pop();
    assert!(matches!(new(&unfinished, OPTIONS), Error::Program { .. }));
    assert!(matches!(new(&program, Options { max_rows: 70_000, ..OPTIONS }), Error::TooManyRows { .. }));
    for pages in [1 << 40, usize::MAX] {
        let error = new(&program, Options { pages, ..OPTIONS });
        assert!(matches!(error, Error::DoesNotFit { .. } | Error::Limit { .. }), "{error}");
        assert!(error.to_string().contains(&gpu.info.name), "{error}");
    }
}

#[test]
fn memory_is_what_was_asked_for() {
    let (file, program) = tiny("qwen2", &[Format::Q8_0], 1);
    let gpu = gpu();
    let memory = |kv, max_rows| executor(&gpu, &file, &program, Options { kv, max_rows, ..OPTIONS }).memory();
    // Two layers, one head of 64 keys and 64 values, 4 pages of 64 positions.
    let values = 2 * 2 * 64 * 4 * 64;
    assert_eq!(memory(KvType::F32, 8).kv, 4 * values);
    assert_eq!(memory(KvType::F16, 8).kv, 2 * values);
    assert_eq!(memory(KvType::Q8_0, 8).kv, values + 2 * values / 32);
    let (few, many) = (memory(KvType::F16, 8).buffers, memory(KvType::F16, 64).buffers);
    let widths: usize = program.buffers.iter().map(|b| b.width).sum();
    assert!(many - few > 56 * widths as u64 * 4, "{few} {many}");
}

#[test]
fn formats_that_no_kernel_reads_are_told() {
    let gpu = gpu();
    let (file, program) = tiny("llama", &[Format::Q8_0, Format::Q4_K], 1);
    assert_eq!(executor(&gpu, &file, &program, OPTIONS).converted(), []);
    let (file, program) = tiny("llama", &[Format::Q8_0, Format::TQ2_0], 1);
    let ternary: Vec<_> = program.weights.iter().filter(|weight| weight.format == Format::TQ2_0).collect();
    let [converted] = executor(&gpu, &file, &program, OPTIONS).converted().to_vec().try_into().unwrap();
    assert_eq!((converted.format, converted.tensors), (Format::TQ2_0, ternary.len()));
    assert_eq!(converted.kept_as, "8-bit integers");
    // About two bits became eight.
    let bytes: usize = ternary.iter().map(|weight| weight.bytes()).sum();
    let times = 1.0 + converted.more_bytes as f64 / bytes as f64;
    assert!((3.0..5.0).contains(&times), "{times}");
}

/// Greedy, and drawn.
const RULES: [[Rule; 2]; 2] =
    [[Rule::GREEDY; 2], [Rule { temperature: 0.9, top_k: 40, top_p: 0.95, min_p: 0.01 }, Rule::GREEDY]];

/// The random bits of each choice.
fn randoms(count: usize) -> Vec<u64> {
    (1..=count as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

/// Tokens chosen by the host from the logits of single steps.
fn single_steps(
    executor: &mut GpuExecutor,
    rows: &[(usize, usize, u32, bool)],
    steps: usize,
    rules: &[Rule],
) -> Vec<Vec<u32>> {
    let (mut rows, randoms) = (rows.to_vec(), randoms(rows.len() * steps));
    let mut all = Vec::new();
    for randoms in randoms.chunks(rows.len()) {
        executor.step(&batch(&rows, 2, 16), &mut ()).unwrap();
        for (i, (_, position, token, _)) in rows.iter_mut().enumerate() {
            *token = choose(executor.logits(i), &rules[i], randoms[i]);
            *position += 1;
        }
        all.push(rows.iter().map(|row| row.2).collect());
    }
    all
}

/// Submits a link of greedy choices.
fn greedy_link(
    executor: &mut GpuExecutor,
    batch: &Batch,
    steps: usize,
    continues: bool,
) -> Result<(), StepError> {
    let rows = batch.rows().len();
    let (rules, randoms) = (vec![Rule::GREEDY; rows], vec![0; rows * steps]);
    executor.submit(Link { batch, continues, steps, rules: &rules, randoms: &randoms })
}

fn collected(executor: &mut GpuExecutor) -> Vec<u32> {
    let mut tokens = Vec::new();
    executor.collect(&mut tokens).unwrap();
    tokens
}

#[test]
fn a_chain_chooses_what_single_steps_choose() {
    let gpu = gpu();
    for (family, rules) in ["llama", "gpt2"].into_iter().zip(RULES) {
        let (file, plain) = tiny(family, &[Format::Q8_0, Format::Q4_K], 7);
        let program = fuse(&plain, Rules::ALL);
        let options = Options { pages: 16, max_rows: 256, ..OPTIONS };
        let prompt: Vec<_> = (0..250).map(|i| (0, i, (i % 61) as u32, false)).collect();
        // The first sequence passes from one page and span to the next.
        let rows = [(0, 250, 3, true), (1, 0, 5, true)];
        let mut single = executor(&gpu, &file, &program, options);
        let mut chained = executor(&gpu, &file, &program, options);
        for executor in [&mut single, &mut chained] {
            logits(executor, &batch(&prompt, 2, 16));
        }
        let expected = single_steps(&mut single, &rows, 20, &rules);
        assert!(expected.iter().any(|tokens| tokens != &expected[0]), "all the same: {expected:?}");
        let randoms = randoms(40);
        let submit = |chained: &mut GpuExecutor, rows: &[_], from: usize, to: usize, continues| {
            let batch = batch(rows, 2, 16);
            let randoms = &randoms[2 * from..2 * to];
            chained
                .submit(Link { batch: &batch, continues, steps: to - from, rules: &rules, randoms })
                .unwrap();
        };
        // Two links are under way before the first is collected; the tokens of the second are not known.
        submit(&mut chained, &rows, 0, 5, false);
        submit(&mut chained, &[(0, 255, 0, true), (1, 5, 0, true)], 5, 12, true);
        assert_eq!(collected(&mut chained), expected[..5].concat());
        submit(&mut chained, &[(0, 262, 0, true), (1, 12, 0, true)], 12, 15, true);
        assert_eq!(collected(&mut chained), expected[5..12].concat());
        assert_eq!(collected(&mut chained), expected[12..15].concat());
        // A new chain starts from tokens of the host, and forgets links that were not collected.
        let again = [(0, 265, expected[14][0], true), (1, 15, expected[14][1], true)];
        submit(&mut chained, &again, 15, 20, false);
        submit(&mut chained, &again, 15, 20, false);
        assert_eq!(collected(&mut chained), expected[15..].concat());
        assert!(chained.collect(&mut vec![]).is_err());
    }
}

#[test]
fn chains_that_cannot_be_are_refused() {
    let (file, program) = tiny("qwen2", &[Format::Q8_0], 7);
    let mut executor = executor(&gpu(), &file, &program, OPTIONS);
    let mut chain = |rows: &[_], steps| {
        greedy_link(&mut executor, &batch(rows, 1, 4), steps, false)?;
        Ok(collected(&mut executor))
    };
    assert_eq!(chain(&[], 3), Ok(vec![]));
    assert_eq!(chain(&[(0, 0, 1, true)], 0), Ok(vec![]));
    assert!(matches!(chain(&[(0, 0, 1, true), (0, 1, 1, true)], 1), Err(StepError::Chain(_))));
    assert!(matches!(chain(&[(0, 0, 1, false)], 1), Err(StepError::Chain(_))));
    assert!(chain(&[(0, 0, 1, true)], 5000).is_err());
    let past = chain(&[(0, 250, 1, true)], 7);
    assert_eq!(past, Err(StepError::NoPage { row: 0, position: 256 }), "four pages end at 256");
    assert_eq!(chain(&[(0, 250, 1, true)], 6).map(|tokens| tokens.len()), Ok(6));
    let (one, rows) = (batch(&[(0, 0, 1, true)], 1, 4), [(0, 1, 0, true)]);
    greedy_link(&mut executor, &one, 1, false).unwrap();
    greedy_link(&mut executor, &batch(&rows, 1, 4), 1, true).unwrap();
    let third = greedy_link(&mut executor, &batch(&rows, 1, 4), 1, true);
    assert!(matches!(third, Err(StepError::Chain(_))), "two links wait already");
    let without = Link { batch: &one, continues: false, steps: 1, rules: &[], randoms: &[] };
    assert!(matches!(executor.submit(without), Err(StepError::Chain(_))));
}

#[test]
fn nodes_are_timed_where_the_device_has_a_clock() {
    let gpu = gpu();
    let (file, program) = tiny("qwen3", &[Format::Q8_0], 7);
    let mut executor = executor(&gpu, &file, &program, OPTIONS);
    let rows: Vec<_> = (0..40).map(|i| (0, i, 3, i == 39)).collect();
    let start = Instant::now();
    match executor.time_nodes(&batch(&rows, 1, 4)) {
        Ok(times) => {
            assert_eq!(times.len(), program.nodes.len());
            let total: Duration = times.iter().sum();
            assert!(total.as_nanos() > 0 && total <= start.elapsed(), "{total:?}");
            let nodes = program.nodes.len();
            let together = executor.time_together(&batch(&rows, 1, 4), 1..nodes, 3).unwrap();
            assert!(together.as_nanos() > 0 && together <= start.elapsed(), "{together:?}");
        }
        Err(error) => assert!(!gpu.info.timestamps, "{error}"),
    }
}

#[test]
fn a_lost_device_is_an_error_of_every_later_step() {
    let (file, program) = tiny("qwen3", &[Format::Q8_0], 7);
    let mut executor = executor(&own_gpu(), &file, &program, OPTIONS);
    let batch = batch(&[(0, 0, 1, true)], 1, 4);
    executor.step(&batch, &mut ()).unwrap();
    executor.gpu().device.destroy();
    executor.copy_page(0, 0, 1);
    for _ in 0..2 {
        assert!(matches!(executor.step(&batch, &mut ()), Err(StepError::Device(_))));
        let submitted = greedy_link(&mut executor, &batch, 2, false);
        let chained = submitted.and_then(|()| executor.collect(&mut vec![]));
        assert!(matches!(chained, Err(StepError::Device(_))));
        assert!(matches!(executor.time_nodes(&batch), Err(StepError::Device(_))));
    }
}
