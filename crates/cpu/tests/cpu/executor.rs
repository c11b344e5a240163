//! The executor as others see it: every op of every program against the reference, every format through
//! linear ops, refusals, pages, counters and memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{
    Capture, FAMILIES, Random, VOCABULARY, batch, contract, cpu, file, logits, random_blocks, tiny,
};
use gleed_cpu::{Cpu, Error, Isa, Options};
use gleed_gguf::{Format, Gguf, Metadata};
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::{Activation, Buffer, Node, Op, Output, Program, Projection, View, Weight};
use gleed_model::routing::{Gate, Routing};
use gleed_model::{Arithmetic, KvType, Reference, reference};

const OPTIONS: Options = Options {
    arithmetic: Arithmetic::Q8,
    kv: KvType::F16,
    threads: 2,
    isa: None,
    max_rows: contract::MAX_ROWS,
    pages: contract::PAGES,
    window_sequences: None,
    memory: None,
};

fn reference(file: &Arc<Gguf>, program: &Program, arithmetic: Arithmetic, kv: KvType) -> Reference {
    let options = reference::Options {
        arithmetic,
        rounds_to_groups: None,
        kv,
        max_rows: OPTIONS.max_rows,
        pages: OPTIONS.pages,
    };
    Reference::new(Arc::clone(file), program.clone(), options).unwrap()
}

#[test]
fn every_op_writes_what_the_reference_writes() {
    for family in FAMILIES {
        let (file, plain) = tiny(family, &[Format::Q5_K, Format::BF16, Format::Q8_0], 3);
        for program in [plain.clone(), fuse(&plain, Rules::ALL)] {
            let mut truth = reference(&file, &program, Arithmetic::Q8, KvType::Q8_0);
            let mut found = cpu(&file, &program, Options { kv: KvType::Q8_0, ..OPTIONS });
            for wanted in [[true; 6], [false, true, false, false, true, true]] {
                let rows: Vec<_> =
                    (0..6).map(|i| (i / 4, i % 4, (7 * i % VOCABULARY) as u32, wanted[i])).collect();
                let batch = batch(&rows, 2, OPTIONS.pages);
                let truth = Capture::run(&program, &mut truth, &batch);
                let found = Capture::run(&program, &mut found, &batch);
                for (node, (truth, found)) in program.nodes.iter().zip(truth.iter().zip(&found)) {
                    assert!(truth == found, "{family} {:?}", node.labels);
                }
            }
        }
    }
}

/// Embeds tokens in some columns (more than two panels, the last one not full) and multiplies them with
/// weights of one format: plainly with two parts and a bias, gated, and as the head.
fn linear_program(random: &mut Random, format: Format) -> (Arc<Gguf>, Program) {
    let width = if format.block_len() == 256 { 1280 } else { 1120 };
    let view = |buffer, width| View { buffer, offset: 0, width };
    let mut tensors = Vec::new();
    let mut weights = Vec::new();
    for (name, experts, rows, format) in [
        ("table", 1, 23, Format::F32),
        ("first", 1, 19, format),
        ("second", 1, 34, format),
        ("up", 1, 19, format),
        ("head", 1, 23, format),
        ("bias", 1, 1, Format::F32),
        ("router", 1, 3, Format::F32),
        ("experts", 3, 19, format),
    ] {
        let columns = if name == "bias" { 34 } else { width };
        let data = if ["table", "bias", "router"].contains(&name) {
            let mut values = random.units(rows * columns);
            // Every third token has a value so large that what is left of the others counts as well.
            values.iter_mut().skip(7).step_by(3 * columns).for_each(|x| *x = 900.0);
            values.iter().flat_map(|x| x.to_le_bytes()).collect()
        } else {
            random_blocks(random, format, experts * rows * columns / format.block_len())
        };
        let shape = if rows == 1 { vec![columns] } else { vec![columns, rows, experts] };
        tensors.push((name.to_string(), shape, format, data));
        weights.push(Weight { name: name.to_string(), experts, rows, columns, format });
    }
    let part = |weight, bias| Projection { weight, bias };
    let (scores, choice) = (view(4, 3), view(5, 4));
    let routing = Routing {
        gate: Gate::Softmax,
        used: 2,
        groups: None,
        bias: None,
        normalised: true,
        scale: 1.0,
        factors: None,
    };
    let (input, both, gated, out) = (view(0, width), view(1, 53), view(2, 19), view(3, 23));
    let ops = [
        Op::Embed { table: 0, out: input },
        Op::Linear { parts: vec![part(1, None), part(2, Some(5))], input, out: both },
        Op::GatedLinear {
            activation: Activation::Silu,
            gate: part(1, None),
            up: part(3, None),
            input,
            out: gated,
        },
        Op::Linear { parts: vec![part(6, None)], input, out: scores },
        Op::Route { routing, scores, out: choice },
        Op::ExpertLinear { parts: vec![part(7, None)], choice: Some(choice), input, out: view(6, 2 * 19) },
        Op::ExpertLinear { parts: vec![part(7, None)], choice: None, input, out: view(7, 3 * 19) },
        Op::Linear { parts: vec![part(4, None)], input, out },
    ];
    let nodes = ops.map(|op| Node { op, labels: vec![], layer: None }).to_vec();
    let buffers = [
        ("x", width),
        ("both", 53),
        ("gated", 19),
        ("logits", 23),
        ("scores", 3),
        ("choice", 4),
        ("chosen", 38),
        ("all", 57),
    ];
    let program = Program {
        buffers: buffers.map(|(name, width)| Buffer { name, width }).to_vec(),
        weights,
        nodes,
        caches: vec![],
        states: vec![],
        adapters: vec![],
        ropes: vec![],
        output: Output::Logits,
        logits: out,
        vocabulary: 23,
        context: 256,
    };
    (file(&Metadata::default(), &tensors), program)
}

#[test]
fn every_format_goes_through_linear_ops() {
    let mut random = Random::new(9);
    let mut formats = 0;
    for format in Format::all() {
        formats += 1;
        let (file, program) = linear_program(&mut random, format);
        for arithmetic in [Arithmetic::Q8, Arithmetic::F32] {
            let mut truth = reference(&file, &program, arithmetic, KvType::F32);
            for rows in [1, 2, 3, 13, 16, 39] {
                let rows: Vec<_> = (0..rows).map(|i| (0, i, (5 * i % 23) as u32, true)).collect();
                let batch = batch(&rows, 1, 1);
                let truth = Capture::run(&program, &mut truth, &batch);
                for isa in Isa::available() {
                    let mut cpu = cpu(&file, &program, Options { arithmetic, isa: Some(isa), ..OPTIONS });
                    let found = Capture::run(&program, &mut cpu, &batch);
                    assert!(truth == found, "{format} {arithmetic} {isa} {} rows", rows.len());
                }
            }
        }
    }
    assert_eq!(formats, 31);
}

#[test]
fn counters_prove_which_kernel_ran() {
    let (file, plain) = tiny("llama", &[Format::Q4_K, Format::TQ2_0, Format::F16], 1);
    let program = fuse(&plain, Rules::ALL);
    let ways = [
        (Arithmetic::Q8, None, ["q4_k packed", "tq2_0 from the file", "f16"]),
        (Arithmetic::Q8, Some(1000), ["q4_k from the file", "tq2_0 from the file", "f16"]),
        (Arithmetic::F32, None, ["q4_k by plain decode", "tq2_0 by plain decode", "f16"]),
    ];
    for (isa, (arithmetic, memory, expected)) in Isa::available().flat_map(|isa| ways.map(|way| (isa, way))) {
        let mut cpu = cpu(&file, &program, Options { isa: Some(isa), arithmetic, memory, ..OPTIONS });
        assert_eq!(cpu.isa(), isa);
        assert!(cpu.counters().is_empty(), "nothing has run");
        // What is announced, before anything runs: one kernel for each of the seven weights of two layers,
        // and the head.
        let mut announced: BTreeMap<String, u64> = BTreeMap::new();
        cpu.kernels().into_iter().for_each(|k| *announced.entry(k.kernel).or_default() += 1);
        assert_eq!(announced.values().sum::<u64>(), 15);
        for expected in expected {
            assert!(announced.keys().any(|name| name.ends_with(expected)), "{expected} in {announced:?}");
        }
        // What is counted where the work is done.
        for (steps, rows) in [(1, 1), (2, 11)] {
            let rows: Vec<_> = (0..rows).map(|i| (0, i, 1, i == rows - 1)).collect();
            logits(&mut cpu, &batch(&rows, 1, 4));
            let counters = cpu.counters();
            assert!(counters.keys().all(|name| name.contains(isa.name())), "{counters:?}");
            let linear = |(name, _): &(&String, &u64)| name.starts_with("q8/") || name.starts_with("f32/");
            for (name, count) in counters.iter().filter(linear) {
                assert_eq!(announced.get(name).map(|weights| weights * steps), Some(*count), "{name}");
            }
            assert_eq!(counters.iter().filter(linear).count(), announced.len(), "{counters:?}");
            assert_eq!(counters[&format!("attention/{isa}")], 2 * steps);
        }
        // Rows that want nothing stop at the gather: no head, one down projection less.
        let linear = |cpu: &Cpu| -> u64 {
            let linear = |name: &str| name.starts_with("q8/") || name.starts_with("f32/");
            cpu.counters().iter().filter(|(name, _)| linear(name)).map(|(_, count)| count).sum()
        };
        let before = linear(&cpu);
        logits(&mut cpu, &batch(&[(0, 11, 1, false)], 1, 4));
        assert!((1..15).contains(&(linear(&cpu) - before)));
    }
}

/// Whether an instruction set has a tile unit, or kernels that stand in for one.
fn takes_blocks(isa: Isa) -> bool {
    isa != Isa::Portable
}

#[test]
fn the_tile_unit_takes_many_rows() {
    let (file, plain) = tiny("llama", &[Format::Q4_K, Format::Q6_K], 1);
    let program = fuse(&plain, Rules::ALL);
    let rows = |count: usize| -> Vec<_> { (0..count).map(|i| (0, i, (i % 23) as u32, true)).collect() };
    for isa in Isa::available() {
        let mut cpu = cpu(&file, &program, Options { isa: Some(isa), ..OPTIONS });
        logits(&mut cpu, &batch(&rows(5), 1, 4));
        assert_eq!(cpu.tile_products(), 0, "{isa}: too few rows");
        logits(&mut cpu, &batch(&rows(35), 1, 4));
        assert_eq!(cpu.tile_products() > 0, takes_blocks(isa), "{isa}");
    }
}

#[test]
fn the_tile_unit_takes_the_rows_of_experts() {
    let (file, all) = linear_program(&mut Random::new(4), Format::Q4_K);
    let mut others = all.clone();
    others.nodes.retain(|node| !matches!(node.op, Op::ExpertLinear { .. }));
    let products = |program: &Program, isa: Isa, rows: usize| {
        let mut cpu = cpu(&file, program, Options { isa: Some(isa), ..OPTIONS });
        let rows: Vec<_> = (0..rows).map(|i| (0, i, (i % 23) as u32, true)).collect();
        logits(&mut cpu, &batch(&rows, 1, 4));
        cpu.tile_products()
    };
    for isa in Isa::available() {
        let of_experts = |rows| products(&all, isa, rows) - products(&others, isa, rows);
        assert_eq!(of_experts(5), 0, "{isa}: too few rows");
        // Two tiles of each of three experts that all rows use, and of those of three that enough rows chose.
        let most = if takes_blocks(isa) { 6..=12 } else { 0..=0 };
        assert!(most.contains(&of_experts(35)), "{isa}: {}", of_experts(35));
        assert_eq!(of_experts(35) > 6, takes_blocks(isa), "{isa}");
    }
}

#[test]
fn weights_stay_in_the_file_when_memory_is_short() {
    let (file, plain) = tiny("llama", &[Format::Q4_K, Format::Q6_K, Format::Q8_0], 1);
    let program = fuse(&plain, Rules::ALL);
    let rows: Vec<_> = (0..35).map(|i| (0, i, (i % 23) as u32, true)).collect();
    let batch = batch(&rows, 1, 4);
    let mut packed = cpu(&file, &program, OPTIONS);
    let mut mapped = cpu(&file, &program, Options { memory: Some(1000), ..OPTIONS });
    assert!(!packed.stays_in_file() && mapped.stays_in_file());
    assert!(packed.memory().weights > 1000 * mapped.memory().weights / 100);
    assert_eq!(logits(&mut packed, &batch), logits(&mut mapped, &batch));
    let integer_kernels = |cpu: &Cpu| -> Vec<String> {
        cpu.kernels().into_iter().map(|k| k.kernel).filter(|name| name.starts_with("q8/")).collect()
    };
    assert!(integer_kernels(&packed).iter().all(|name| name.ends_with("packed")));
    assert!(integer_kernels(&mapped).iter().all(|name| name.ends_with("from the file")));
    let ran = |cpu: &Cpu, name: &str| cpu.counters().keys().any(|n| n.ends_with(name));
    assert!(ran(&packed, "packed") && ran(&mapped, "from the file") && !ran(&mapped, "packed"));
}

/// As the contract wants it.
fn make(file: &Arc<Gguf>, program: &Program, kv: KvType) -> Cpu {
    cpu(file, program, Options { kv, ..OPTIONS })
}

#[test]
fn an_empty_batch_and_one_that_wants_nothing_are_fine() {
    contract::takes_empty_batches(make);
}

#[test]
fn there_are_logits_of_wanted_rows_only() {
    contract::has_logits_of_wanted_rows_only(make);
}

#[test]
fn bad_batches_are_refused_and_change_nothing() {
    contract::refuses_bad_batches(make);
}

#[test]
fn states_are_kept_in_slots() {
    contract::keeps_states(make);
}

#[test]
fn copied_pages_let_sequences_part() {
    contract::copies_pages(make);
}

#[test]
fn what_cannot_be_run_is_an_error() {
    let (file, program) = tiny("llama", &[Format::Q8_0], 1);
    let new =
        |program: &Program, options| Cpu::new(Arc::clone(&file), program.clone(), options).err().unwrap();
    let mut missing = program.clone();
    missing.weights[0].name = "nothing.weight".to_string();
    assert_eq!(new(&missing, OPTIONS).to_string(), "tensor nothing.weight is missing");
    let mut shape = program.clone();
    shape.weights[0].rows += 1;
    assert!(matches!(new(&shape, OPTIONS), Error::Tensor { .. }));
    let mut format = program.clone();
    format.weights[0].format = Format::Q4_0;
    assert!(matches!(new(&format, OPTIONS), Error::Tensor { .. }));
    let mut width = program.clone();
    width.buffers[0].width -= 1;
    let error = new(&width, OPTIONS).to_string();
    assert!(error.starts_with("node 0 (embed)"), "{error}");
    for too_large in [usize::MAX, usize::MAX / (1 << 20), 1 << 40] {
        assert!(matches!(new(&program, Options { pages: too_large, ..OPTIONS }), Error::Memory { .. }));
        assert!(matches!(new(&program, Options { max_rows: too_large, ..OPTIONS }), Error::Memory { .. }));
    }
    for isa in Isa::ALL.into_iter().filter(|isa| !isa.is_available()) {
        assert!(matches!(new(&program, Options { isa: Some(isa), ..OPTIONS }), Error::Isa { .. }));
    }
}

#[test]
fn memory_is_what_was_asked_for() {
    let (file, program) = tiny("qwen2", &[Format::Q8_0], 1);
    let memory = |kv, max_rows| cpu(&file, &program, Options { kv, max_rows, ..OPTIONS }).memory();
    // Two layers, one head of 64 keys and 64 values, 4 pages of 64 positions.
    let values = 2 * 2 * 64 * 4 * 64;
    assert_eq!(memory(KvType::F32, 8).kv, 4 * values);
    assert_eq!(memory(KvType::F16, 8).kv, 2 * values);
    assert_eq!(memory(KvType::Q8_0, 8).kv, values + 2 * values / 32);
    let (few, many) = (memory(KvType::F16, 8).buffers, memory(KvType::F16, 64).buffers);
    let widths: usize = program.buffers.iter().map(|b| b.width).sum();
    assert!(many - few > 56 * widths * 4, "{few} {many}");
}

#[test]
fn threads_default_to_all_cores() {
    let (file, program) = tiny("qwen2", &[Format::Q8_0], 1);
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(cpu(&file, &program, Options { threads: 0, ..OPTIONS }).threads(), cores);
    assert_eq!(cpu(&file, &program, Options { threads: 3, ..OPTIONS }).threads(), 3);
}
