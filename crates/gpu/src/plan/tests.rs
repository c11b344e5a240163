//! Plans of tiny models of all families, made without a device: that what they say of buffers, kernels and launches fits
//! together, whatever runs it.

use gleed_gguf::{Format, Gguf};
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::Program;
use gleed_model::{Arithmetic, KvType};

use super::*;
use crate::launch::{Access, Bindings, Kernel, Operand, Part, Purpose, Run};
use crate::step::{Counts, Pieces};
use crate::units::fragments::Fragments;
use crate::{Facts, Options};

#[path = "../../../model/tests/support/mod.rs"]
mod support;

use support::adapters::tiny_adapted;
use support::{ENCODERS, FAMILIES, RECURRENT, tiny};

/// Of integers and of floats.
const FORMATS: &[Format] = &[Format::Q4_0, Format::F16];

/// Rows of the largest step.
const ROWS: usize = 200;

/// Workgroups that may be dispatched along an axis.
const MOST_GROUPS: u32 = 65_535;

/// Where the parts of buffers may begin that are bound.
const ALIGNMENT: u64 = 256;

/// A large device with matrix units, one whose lanes share the elements of matrices, and a small one without any.
fn devices() -> [Facts; 3] {
    let large = Facts {
        adapter: "none".to_string(),
        software: false,
        multiprocessors: Some(132),
        workgroup_memory: 48 << 10,
        workgroup_threads: 1024,
        storage_bindings: 64,
        largest_binding: 2 << 30,
        largest_buffer: 4 << 30,
        fragments: Some(Fragments::Lanes),
    };
    let shared = Facts {
        workgroup_memory: 32 << 10,
        storage_bindings: 31,
        fragments: Some(Fragments::Shared(8)),
        ..large.clone()
    };
    let small = Facts {
        multiprocessors: None,
        workgroup_memory: 16 << 10,
        workgroup_threads: 256,
        storage_bindings: 16,
        largest_binding: 128 << 20,
        fragments: None,
        ..large.clone()
    };
    [large, shared, small]
}

/// Everything that is settled before a device is asked for anything.
#[derive(Debug, PartialEq)]
struct Plan {
    kernels: Kernels,
    nodes: Vec<Planned>,
    choosers: Choosers,
}

fn planned(facts: &Facts, file: &Gguf, program: &Program, options: Options) -> Plan {
    check(program).unwrap();
    let sizes = Sizes::new(facts, file, program, options).unwrap();
    let capacity = sizes.capacity;
    let mut kernels =
        Kernels::new(facts.clone(), capacity.row_words()).with_header_words(capacity.header_words());
    let (resources, contents) = Resources::new(&mut kernels, &sizes, file, program, options).unwrap();
    let logits = resources.activations.place(program.logits, List::Wanted);
    let choosers = Choosers::new(&mut kernels, logits, sizes.logits_rows, &resources);
    let reserved = kernels.all_buffers().len();
    let nodes = plan(&mut kernels, program, &resources).unwrap();
    assert_eq!(kernels.all_buffers().len(), reserved, "buffers are settled before nodes are");
    assert!(contents.vectors.iter().all(|(buffer, values)| buffer.size() >= 4 * values.len() as u64));
    Plan { kernels, nodes, choosers }
}

impl Plan {
    /// All that steps of some sizes record.
    fn runs(&self) -> Vec<Run> {
        let mut all = Vec::new();
        let near = Pieces { items: [1, 0, 0, 0, 0], merges: 0 };
        let whole = Pieces { items: [0, ROWS, 0, 0, 0], merges: 0 };
        let every = Pieces { items: [4, ROWS, ROWS, ROWS, ROWS], merges: ROWS };
        for (rows, pieces) in [(1, near), (1, every), (3, every), (40, whole), (ROWS, every)] {
            let attention = &[pieces; 8];
            let counts = Counts { rows, attention, sequences: rows.min(3) };
            for recorded in [Recorded::Together, Recorded::Apart] {
                for node in &self.nodes {
                    let mut see = |run| {
                        all.push(run);
                        Ok(())
                    };
                    node.visit(counts, recorded, &mut see).unwrap();
                }
            }
            let choosers = self.choosers.greedy.iter().chain(&self.choosers.drawn);
            all.extend(choosers.filter_map(|dispatch| dispatch.run(counts)));
        }
        all
    }

    fn check(&self, what: &str) {
        self.kernels.all_bindings().iter().for_each(|bindings| self.check_bindings(what, bindings));
        self.kernels.all_kernels().iter().for_each(|kernel| check_declared(what, kernel));
        let mut launched = vec![false; self.kernels.all_bindings().len()];
        for Run { kernel, bindings, groups } in self.runs() {
            let kernel = &self.kernels.all_kernels()[kernel.number()];
            launched[bindings.number()] = true;
            let bindings = &self.kernels.all_bindings()[bindings.number()];
            assert_eq!(kernel.slots, bindings.slots, "{what}: what {} binds", kernel.name);
            let within = groups.iter().all(|groups| (1..=MOST_GROUPS).contains(groups));
            assert!(within, "{what}: {} of {groups:?} workgroups", kernel.name);
        }
        let idle = launched.iter().filter(|launched| !*launched).count();
        assert!(idle * 4 < launched.len(), "{what}: {idle} of {} are never launched", launched.len());
    }

    /// That there is all that is bound, within its buffer and the device's limits, and that nothing is written which is
    /// bound a second time.
    fn check_bindings(&self, what: &str, Bindings { what: name, slots, operands }: &Bindings) {
        let facts = &self.kernels.facts;
        assert_eq!(slots.len(), operands.len(), "{what}: {name}");
        let storage = slots.iter().filter(|access| **access != Access::Uniform).count();
        assert!(storage <= facts.storage_bindings as usize, "{what}: {name} binds {storage} buffers");
        let mut parts: Vec<(Part, Access)> = Vec::new();
        for (operand, access) in operands.iter().zip(slots) {
            let Operand::Part(part) = operand else {
                assert_eq!(*access, Access::Uniform, "{what}: {name} has words for a buffer");
                continue;
            };
            let reserved = &self.kernels.all_buffers()[part.buffer.number()];
            assert_eq!(reserved.bytes, part.buffer.size(), "{what}: {name}");
            let inside = part.bytes > 0 && part.offset + part.bytes <= reserved.bytes;
            assert!(inside, "{what}: {name} binds {part:?} of {} bytes", reserved.bytes);
            let whole = part.offset.is_multiple_of(ALIGNMENT) && part.bytes.is_multiple_of(4);
            assert!(whole && part.bytes <= facts.largest_binding, "{what}: {name} binds {part:?}");
            let fits = match (reserved.purpose, access) {
                (Purpose::Uniform, access) => *access == Access::Uniform,
                (Purpose::Weights, access) => *access == Access::Reads,
                (Purpose::Storage, access) => *access != Access::Uniform,
            };
            assert!(fits, "{what}: {name} has {reserved:?} for {access:?}");
            let apart = |(other, access_of_other): &(Part, Access)| {
                let both_read = (*access, *access_of_other) == (Access::Reads, Access::Reads);
                other.buffer != part.buffer || both_read || *access == Access::Uniform
            };
            assert!(parts.iter().all(apart), "{what}: {name} writes what it binds twice");
            parts.push((*part, *access));
        }
    }
}

/// That a kernel's text declares no binding but those of its slots, as they are.
fn check_declared(what: &str, Kernel { name, text, slots }: &Kernel) {
    let mut declared = 0;
    for declaration in text.split("@group(0) @binding(").skip(1) {
        let (number, variable) = declaration.split_once(") var<").expect("a variable after each number");
        let access = match variable.split('>').next() {
            Some("storage, read") => Access::Reads,
            Some("storage, read_write") => Access::Writes,
            Some("uniform") => Access::Uniform,
            other => panic!("{what}: {name} has a variable in {other:?}"),
        };
        let number: usize = number.parse().unwrap();
        assert_eq!(slots.get(number), Some(&access), "{what}: binding {number} of {name}");
        declared += 1;
    }
    assert!(declared > 0 && text.contains("fn main("), "{what}: {name}");
}

fn options(arithmetic: Arithmetic, kv: KvType) -> Options {
    Options { arithmetic, kv, max_rows: ROWS, pages: 4, ..Options::default() }
}

fn check_families(families: &[&str]) {
    let [large, shared, small] = devices();
    for family in families {
        let (file, plain) = tiny(family, FORMATS, 3);
        let fused = fuse(&plain, Rules::ALL);
        let of = |facts: &Facts, program: &Program, arithmetic, kv| {
            let what = format!("{family}, {arithmetic:?} with {} bytes", facts.workgroup_memory);
            let plan = planned(facts, &file, program, options(arithmetic, kv));
            plan.check(&what);
            plan
        };
        let first = of(&large, &fused, Arithmetic::F16, KvType::F16);
        let second = planned(&large, &file, &fused, options(Arithmetic::F16, KvType::F16));
        assert!(first == second, "{family}: a second plan of the same program is another");
        of(&large, &fused, Arithmetic::Q8, KvType::F16);
        // What other devices have differs in linear layers and attention, which are the same in all families.
        if *family == families[0] {
            of(&shared, &fused, Arithmetic::F16, KvType::Q8_0);
            of(&small, &fused, Arithmetic::Q8, KvType::Q8_0);
            of(&large, &plain, Arithmetic::F32, KvType::F32);
        }
    }
}

#[test]
fn plans_of_attention_families_are_sound() {
    check_families(&FAMILIES);
}

#[test]
fn plans_of_recurrent_families_and_encoders_are_sound() {
    check_families(&RECURRENT);
    check_families(&ENCODERS);
}

#[test]
fn plans_with_adapters_are_sound() {
    for family in ["llama", "qwen2moe"] {
        let (file, program) = tiny_adapted(family, FORMATS, &[1, 2]);
        let program = fuse(&program, Rules::ALL);
        for arithmetic in [Arithmetic::F16, Arithmetic::Q8] {
            let plan = planned(&devices()[0], &file, &program, options(arithmetic, KvType::F16));
            plan.check(&format!("{family} with adapters"));
        }
    }
}

/// Experts of a single row choose and norm for themselves, and add up what they give, with the norm after that where it follows:
/// qwen2moe and deepseek2 have an expert that every row uses in between.
#[test]
fn experts_of_a_single_row_do_what_is_around_them() {
    let [large, ..] = devices();
    for (family, norms_after) in [("gpt_oss", true), ("qwen2moe", false), ("deepseek2", false)] {
        let (file, plain) = tiny(family, FORMATS, 3);
        let program = fuse(&plain, Rules::ALL);
        let plan = planned(&large, &file, &program, options(Arithmetic::F16, KvType::F16));
        let is_done = |node: usize, rows: usize, recorded: Recorded| {
            plan.nodes[node].is_done(Counts { rows, ..Counts::default() }, recorded)
        };
        let mut sums = 0;
        for (node, op) in program.nodes.iter().map(|node| &node.op).enumerate() {
            let next_is_norm =
                matches!(program.nodes.get(node + 1), Some(next) if matches!(next.op, Op::AddNorm { .. }));
            match op {
                Op::Route { .. } => assert!(is_done(node, 1, Recorded::Together), "{family}: node {node}"),
                Op::Combine { .. } => {
                    assert!(is_done(node, 1, Recorded::Together), "{family}: node {node}");
                    sums += usize::from(next_is_norm && is_done(node + 1, 1, Recorded::Together));
                }
                _ => continue,
            }
            assert!(!is_done(node, 2, Recorded::Together) && !is_done(node, 1, Recorded::Apart), "{family}");
        }
        assert_eq!(sums > 0, norms_after, "{family}");
    }
}

/// Attention over keys of many dimensions is on matrix units where workgroups have room for its queries.
#[test]
fn keys_of_many_dimensions_need_memory() {
    let (file, program) = tiny("deepseek2_wide", FORMATS, 3);
    let [large, shared, small] = devices();
    let small = Facts { fragments: shared.fragments, ..small };
    for (facts, in_halves) in [(large, true), (shared, true), (small, false)] {
        let plan = planned(&facts, &file, &program, options(Arithmetic::F16, KvType::F16));
        plan.check("deepseek2_wide");
        let names = || plan.kernels.all_kernels().iter().map(|kernel| kernel.name);
        let on_units = names().any(|name| name == "attention in halves");
        let plain = names().any(|name| name == "attention of single rows");
        assert_eq!((on_units, plain), (in_halves, !in_halves), "{} bytes", facts.workgroup_memory);
    }
}

/// The last layer attends for the wanted rows only, by the same kernels as the others: each takes a driver a while.
#[test]
fn attention_of_all_and_of_wanted_rows_is_by_the_same_kernels() {
    let (file, plain) = tiny("llama", FORMATS, 3);
    let program = fuse(&plain, Rules::ALL);
    let [large, _, small] = devices();
    for (facts, arithmetic, kinds) in [(large, Arithmetic::F16, 5), (small, Arithmetic::Q8, 4)] {
        let plan = planned(&facts, &file, &program, options(arithmetic, KvType::F16));
        let attends = |what: &str| what.starts_with("attention");
        let kernels = plan.kernels.all_kernels().iter().filter(|kernel| attends(kernel.name));
        let bindings = plan.kernels.all_bindings().iter().filter(|bindings| attends(&bindings.what));
        assert_eq!((kernels.count(), bindings.count()), (kinds, 2 * kinds), "{arithmetic}");
    }
}

/// What is planned knows no interface to a device.
#[test]
fn plans_name_nothing_of_wgpu() {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders: Vec<_> =
        ["plan", "kernels", "linear", "step"].iter().map(|name| source.join(name)).collect();
    let files = ["plan", "launch", "facts", "activations", "cache", "state", "step", "weights", "template"];
    let mut files: Vec<_> = files.iter().map(|name| source.join(name).with_extension("rs")).collect();
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let list = if path.is_dir() { &mut folders } else { &mut files };
            list.push(path);
        }
    }
    let texts = files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    for path in texts {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(!text.contains(concat!("wgpu", "::")), "{}", path.display());
    }
}
