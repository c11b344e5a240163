//! The executor: runs a program over batches of rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use gleed_gguf::Gguf;
use gleed_model::batch::{check, check_states};
use gleed_model::executor::{Buffers, Observer};
use gleed_model::fuse::{Rules, fuse};
use gleed_model::groups::{PageGroup, PageGroups};
use gleed_model::program::{KvLayer, Program, View};
use gleed_model::verify::vectors;
use gleed_model::{Arithmetic, Batch, Executor, Model, StepError};

use crate::cache::LayerCache;
use crate::kernels::pool::Pool;
use crate::kernels::{Isa, Kernels};
use crate::machine::Machine;
use crate::ops::{self, Fixed};
use crate::plan::{Plan, plan};
use crate::scratch::lock;
use crate::state::StateMemory;
use crate::weights::{Way, WeightKernel, Weights, linear_weights, named_kernels};
use crate::{Error, Options};

/// State slots that an executor of a program with recurrent layers has unless told otherwise: enough for one sequence
/// of an engine.
const SLOTS: usize = 6;

/// Runs programs on the CPU.
pub struct Cpu {
    arithmetic: Arithmetic,
    program: Program,
    plans: Vec<Plan>,
    weights: Weights,
    stays_in_file: bool,
    machine: Machine,
    caches: Vec<LayerCache>,
    states: Vec<StateMemory>,
    slots: usize,
    max_rows: usize,
    page_groups: Vec<PageGroup>,
    /// How often each node has run.
    runs: Vec<u64>,
}

/// Bytes that an executor has allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Activations and scratch; the system provides them when they are first used.
    pub buffers: usize,
    /// Keys and values, likewise.
    pub kv: usize,
    /// The state slots of recurrent layers, likewise.
    pub states: usize,
    /// Decoded vectors and repacked matrices. All other weights stay in the file.
    pub weights: usize,
}

impl Cpu {
    /// Makes an executor for the model in a file, as it runs fastest.
    pub fn open(file: &Arc<Gguf>, options: Options) -> Result<Cpu, Error> {
        let program = fuse(&Model::load(file)?.program, Rules::ALL);
        Cpu::new(Arc::clone(file), program, options)
    }

    /// Makes an executor; all memory that steps need is allocated here.
    pub fn new(file: Arc<Gguf>, program: Program, options: Options) -> Result<Cpu, Error> {
        Cpu::load(file, program, options, &mut |_, _| {})
    }

    /// The same, telling `progress` how many bytes of weights are ready, and of how many.
    pub fn load(
        file: Arc<Gguf>,
        program: Program,
        options: Options,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Cpu, Error> {
        if options.arithmetic == Arithmetic::F16 {
            return Err(Error::Arithmetic { arithmetic: options.arithmetic });
        }
        let isa = options.isa.unwrap_or_else(Isa::detect);
        let kernels = Kernels::new(isa).ok_or_else(|| Error::Isa {
            isa,
            available: Isa::available().map(Isa::name).collect::<Vec<_>>().join(", "),
        })?;
        let mut weights = Weights::new(file, &program, options.arithmetic, vectors(&program))?;
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let plans = plan(&program, threads)?;
        let mut pool = Pool::new(threads).map_err(|source| Error::Threads { threads, source })?;
        let matrices = linear_weights(&program);
        weights.pack(kernels, &mut pool, &matrices, options.memory, progress)?;
        let stays_in_file = weights.stays_in_file(&matrices);
        let machine = Machine::new(kernels, pool, &program, &weights, options.max_rows, options.pages)?;
        let (groups, page_groups) = page_groups(&program, options);
        let cache = |(index, layer): (usize, &KvLayer)| {
            let group = groups.of_cache(index);
            LayerCache::new(*layer, options.kv, group, page_groups[group].pages)
        };
        let caches = program.caches.iter().enumerate().map(cache);
        let caches = caches.collect::<Option<_>>().ok_or(Error::Memory { what: "the keys and values" })?;
        let runs = vec![0; program.nodes.len()];
        let Options { max_rows, arithmetic, .. } = options;
        let cpu = Cpu {
            arithmetic,
            program,
            plans,
            weights,
            stays_in_file,
            machine,
            caches,
            states: vec![],
            slots: 0,
            max_rows,
            page_groups,
            runs,
        };
        cpu.with_slots(SLOTS)
    }

    /// The same with this many slots for the states of recurrent layers, none of which holds anything yet.
    pub fn with_slots(self, slots: usize) -> Result<Cpu, Error> {
        let states = self.program.states.iter().map(|layer| StateMemory::new(*layer, slots));
        let states = states.collect::<Option<_>>().ok_or(Error::Memory { what: "the state slots" })?;
        Ok(Cpu { states, slots, ..self })
    }

    /// Bytes that one state slot of a program takes, in all its recurrent layers.
    pub fn slot_bytes(program: &Program) -> usize {
        program.states.iter().map(|layer| StateMemory::slot_bytes(*layer)).fold(0, usize::saturating_add)
    }

    /// Bytes that the keys and values of a program take in an executor made with these options.
    pub fn kv_bytes(program: &Program, options: Options) -> usize {
        let (groups, page_groups) = page_groups(program, options);
        let bytes = |(index, layer): (usize, &KvLayer)| {
            let pages = page_groups[groups.of_cache(index)].pages;
            LayerCache::page_bytes(*layer, options.kv).saturating_mul(pages)
        };
        program.caches.iter().enumerate().map(bytes).fold(0, usize::saturating_add)
    }

    /// The instruction set of the kernels.
    pub fn isa(&self) -> Isa {
        self.machine.kernels.isa()
    }

    /// How many threads compute, the caller's among them.
    pub fn threads(&self) -> usize {
        self.machine.pool.threads()
    }

    /// Which kernel multiplies with each weight of the program's linear ops.
    pub fn kernels(&self) -> Vec<WeightKernel> {
        named_kernels(&self.program, self.arithmetic, self.isa(), !self.stays_in_file)
    }

    /// Whether weights are used from the file because there was no memory to repack them.
    pub fn stays_in_file(&self) -> bool {
        self.stays_in_file
    }

    /// How often each kernel has run, for those that have: linear kernels once per weight and step, counted
    /// where they are called, all others by op.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let mut counters = BTreeMap::new();
        let mut add = |name: String, count: u64| {
            if count > 0 {
                *counters.entry(name).or_default() += count;
            }
        };
        for (node, runs) in self.program.nodes.iter().zip(&self.runs) {
            if node.op.matrices().is_empty() {
                add(format!("{}/{}", node.op.kind(), self.isa()), *runs);
            }
        }
        for scratch in &self.machine.scratch {
            for (weight, ways) in self.program.weights.iter().zip(&lock(scratch).tile.multiplied) {
                Way::ALL.iter().zip(ways).for_each(|(way, count)| {
                    add(way.name(weight.format, self.isa()), *count);
                });
            }
        }
        counters
    }

    /// How many tiles of weights the tile unit, or what stands in for one, has multiplied with.
    pub fn tile_products(&self) -> u64 {
        self.machine.scratch.iter().map(|scratch| lock(scratch).tile.tiles_multiplied).sum()
    }

    /// How many attention ops were split over spans of positions, each span a task of its own.
    pub fn attention_splits(&self) -> u64 {
        self.machine.attention_splits
    }

    /// Bytes of buffers and KV cache.
    pub fn memory(&self) -> Memory {
        Memory {
            buffers: self.machine.bytes(),
            kv: self.caches.iter().map(LayerCache::bytes).sum(),
            states: self.states.iter().map(StateMemory::bytes).sum(),
            weights: self.weights.bytes(),
        }
    }
}

/// The page groups of a program's caches, and the pages of each.
fn page_groups(program: &Program, options: Options) -> (PageGroups, Vec<PageGroup>) {
    let groups = PageGroups::of(program);
    let pages = groups.with_pages(options.pages, options.max_rows, options.window_sequences);
    (groups, pages)
}

impl Buffers for Machine {
    fn read(&self, view: View, out: &mut Vec<f32>) {
        for row in 0..self.rows.len() {
            out.extend_from_slice(self.activations.row(view, row));
        }
    }
}

impl Executor for Cpu {
    fn program(&self) -> &Program {
        &self.program
    }

    fn max_rows(&self) -> usize {
        self.max_rows
    }

    fn page_groups(&self) -> &[PageGroup] {
        &self.page_groups
    }

    fn slot_count(&self) -> usize {
        self.slots
    }

    fn step(&mut self, batch: &Batch, observer: &mut dyn Observer) -> Result<(), StepError> {
        check(batch, &self.program, self.max_rows, &self.page_groups)?;
        check_states(batch, &self.program, self.slots)?;
        observer.start();
        self.machine.begin(batch, &self.program);
        for (index, (node, plan)) in self.program.nodes.iter().zip(&self.plans).enumerate() {
            let fixed = Fixed { program: &self.program, weights: &self.weights, batch };
            if !self.machine.rows.is_empty() {
                ops::run(fixed, plan, &node.op, &mut self.machine, &mut self.caches, &mut self.states);
                self.runs[index] += 1;
            }
            observer.after(index, &self.machine);
        }
        Ok(())
    }

    fn logits(&self, index: usize) -> &[f32] {
        // Ops have ended with the wanted rows; what lies after them is of another step.
        let row = || self.machine.activations.row(self.program.logits, index);
        if index < self.machine.rows.len() { row() } else { &[] }
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) {
        for cache in self.caches.iter_mut().filter(|cache| cache.group == group) {
            cache.copy_page(from as usize, to as usize);
        }
    }
}
