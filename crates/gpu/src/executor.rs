//! The executor: runs a program over batches of rows, one submission to the device per step.

mod chain;
mod room;
mod run;
mod sizes;
mod start;
mod timing;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use gleed_gguf::Gguf;
use gleed_model::batch::{check, check_states};
use gleed_model::chain::Chain;
use gleed_model::executor::Observer;
use gleed_model::groups::PageGroup;
use gleed_model::program::{KvLayer, Output, Program, View};
use gleed_model::{Arithmetic, Batch, Executor, StepError};

use crate::buffers::Activations;
use crate::cache::{self, LayerCache};
use crate::compiler::Pipeline;
use crate::kernels::experts::tiles::{self, ExpertRows};
use crate::kernels::{Kernels, List};
use crate::linear::{HalfRows, LinearKernels, Quantized, Tiling, Upload};
use crate::plan::{self, Command, Planned, Recorded, Resources, RowCounts, Within, plan};
use crate::state::LayerState;
use crate::step::{Counts, Step};
use crate::weights::{self, Converted, Weights};
use crate::{Error, Gpu, Options, Result};
use chain::{Choosers, Links};
pub use room::KvRoom;
use sizes::Sizes;
use start::Ordered;
pub use start::{Start, StartWatch};

/// Rows of a step: more workgroups than this are not dispatched along one axis.
const MOST_ROWS: usize = 65_535;

/// Bytes that an executor has allocated on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Activations, the rows of a step, and what is read back.
    pub buffers: u64,
    /// Keys and values, and the states of recurrent layers.
    pub kv: u64,
    /// Weights.
    pub weights: u64,
}

/// Runs programs on a GPU.
pub struct GpuExecutor {
    gpu: Gpu,
    program: Program,
    options: Options,
    memory: Memory,
    converted: Vec<Converted>,
    kernels: Kernels,
    nodes: Vec<Planned>,
    /// Kernels that were not compiled when a step last needed any.
    uncompiled: Vec<Pipeline>,
    start: Arc<Mutex<Start>>,
    step: Step,
    step_buffer: wgpu::Buffer,
    row_counts: RowCounts,
    /// What the row counts of the lists are on the device.
    uploaded_counts: [Option<usize>; 2],
    activations: Activations,
    page_groups: Vec<PageGroup>,
    caches: Vec<LayerCache>,
    /// Room for one page, on its way from one place of a cache to another.
    page: wgpu::Buffer,
    /// The node that writes the logits.
    head: usize,
    /// Rows of logits that fit on the device.
    logits_rows: usize,
    /// Where logits are read from, in turn: the device writes one while the host reads the other.
    readable: [wgpu::Buffer; 2],
    /// The choice of tokens, for rows whose logits all fit on the device.
    choosers: Choosers,
    /// Chains of steps.
    links: Links,
    /// Steps whose logits nobody wanted, and which may still be computed.
    in_flight: VecDeque<wgpu::SubmissionIndex>,
    /// Room for the inputs of as many rows of logits, on their way to the beginning of their buffer.
    inputs: wgpu::Buffer,
    /// `[wanted row][stride]` of the last step.
    logits: Vec<f32>,
    /// The vocabulary, rounded up as rows on the device are.
    logits_stride: usize,
}

impl GpuExecutor {
    /// Makes an executor; all memory that steps need is allocated here.
    pub fn new(gpu: Gpu, file: &Gguf, program: Program, options: Options) -> Result<GpuExecutor> {
        GpuExecutor::load(gpu, file, program, options, &mut |_, _| {})
    }

    /// The same, telling `progress` how many bytes of weights are on the device, and of how many.
    pub fn load(
        gpu: Gpu,
        file: &Gguf,
        program: Program,
        options: Options,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<GpuExecutor> {
        let begun = Instant::now();
        let mut start = Start { opened: gpu.opened(), ..Start::default() };
        plan::check(&program)?;
        if options.arithmetic == Arithmetic::F16 && gpu.fragments().is_none() {
            return Err(Error::NoHalves { adapter: gpu.info.name.clone() });
        }
        let Options { kv, max_rows, .. } = options;
        let limit = match options.arithmetic {
            Arithmetic::F16 => tiles::most_rows(&program, MOST_ROWS),
            Arithmetic::Q8 | Arithmetic::F32 => MOST_ROWS,
        };
        if max_rows > limit {
            return Err(Error::TooManyRows { rows: max_rows, limit });
        }
        let sizes = Sizes::new(&gpu, file, &program, options)?;
        let Sizes { attention_rows, capacity, logits_rows, logits_stride, integer_columns, memory, .. } =
            sizes;
        sizes::fits(&gpu, file, &program, options, memory)?;
        let converted = weights::converted(&program, options.arithmetic)?;

        let activations = Activations::new(&gpu, &program, plan::gathered(&program), max_rows, logits_rows)?;
        let (groups, page_groups) = cache::page_groups(&program, options);
        let cache = |(index, layer): (usize, &KvLayer)| {
            let group = groups.of_cache(index);
            LayerCache::new(&gpu, *layer, kv, group, page_groups[group].pages)
        };
        let caches = program.caches.iter().enumerate().map(cache);
        let caches = caches.collect::<Result<Vec<_>>>()?;
        let states = program.states.iter().map(|layer| LayerState::new(&gpu, *layer, options.slots));
        let states = states.collect::<Result<Vec<_>>>()?;
        let step_buffer = gpu.storage("the rows of a step", sizes.step_bytes)?;
        let partials = gpu.storage("the spans of attention", sizes.partial_bytes)?;
        let index_scores = gpu.storage("the scores of indexers", sizes.index_bytes)?;
        let count = || gpu.uniform("how many rows there are");
        let row_counts = RowCounts { lists: [count()?, count()?], logits: count()? };
        let page = gpu.storage("a page", sizes.page_bytes)?;
        let inputs = gpu.storage("the inputs of logits", sizes.input_bytes)?;
        let readable = gpu.readable("the logits", sizes.logits_bytes)?;
        let more = if logits_rows < max_rows {
            gpu.readable("the logits", sizes.logits_bytes)?
        } else {
            readable.clone()
        };
        let readable = [readable, more];
        let links = Links::new(&gpu, max_rows, sizes.link_bytes)?;
        let (weights, chunks) = Weights::new(&gpu, file, &program, options.arithmetic)?;
        let half_rows = || HalfRows::new(&gpu, max_rows, sizes.half_columns);
        let half_rows = [half_rows()?, half_rows()?];
        let quantized = || Quantized::new(&gpu, max_rows, integer_columns);
        let quantized = [quantized()?, quantized()?];
        let linear = LinearKernels::new(
            &gpu,
            &Tiling::needed(Tiling::floats(&gpu), max_rows),
            &Tiling::needed(Tiling::integers(&gpu), max_rows),
        )?;
        let expert_rows = match options.arithmetic {
            Arithmetic::F16 => ExpertRows::new(&gpu, &program, max_rows)?,
            Arithmetic::Q8 | Arithmetic::F32 => None,
        };
        let mut kernels =
            Kernels::new(gpu.clone(), capacity.row_words()).with_first_row(capacity.first_row());
        start.allocating = begun.elapsed();
        let (nodes, choosers, pipelines) = std::thread::scope(|scope| {
            let upload = Upload::begin(scope, &gpu, &chunks);
            let resources = Resources {
                step: &step_buffer,
                outlooks: &sizes.outlooks,
                first_scale: capacity.first_scale(),
                first_angle: capacity.first_angle(),
                weights: &weights,
                activations: &activations,
                caches: &caches,
                states: &states,
                partials: &partials,
                index_scores: &index_scores,
                linear: &linear,
                quantized: (integer_columns > 0).then_some(&quantized),
                halves: (sizes.half_columns > 0).then_some(&half_rows),
                expert_rows: expert_rows.as_ref(),
                workgroup_memory: gpu.device.limits().max_compute_workgroup_storage_size as usize,
                row_counts: &row_counts,
                chosen: &links.chosen,
            };
            let nodes = plan(&mut kernels, &program, resources, attention_rows)?;
            let logits_place = activations.place(program.logits, List::Wanted);
            let choosers = Choosers::new(&mut kernels, logits_place, logits_rows, &links.chosen)?;
            let pipelines = Ordered::new(&nodes, &choosers);
            pipelines.begin(&gpu);
            start.planning = begun.elapsed() - start.allocating;
            let mut done = 0;
            let uploaded = upload.finish(&mut |bytes| {
                done += bytes;
                progress(done as usize, memory.weights as usize);
            })?;
            start.uploaded(uploaded);
            Ok((nodes, choosers, pipelines))
        })?;
        gpu.wait()?;
        // Stacked together, rows are padded less than each by itself.
        progress(memory.weights as usize, memory.weights as usize);
        start.uploading = begun.elapsed() - start.allocating;
        pipelines.wait(&gpu)?;
        start.loading = begun.elapsed();
        let uncompiled = pipelines.all;
        start.kernels = uncompiled.len();
        let (step, logits, head) = (Step::new(capacity, sizes.outlooks), Vec::new(), plan::head(&program));
        Ok(GpuExecutor {
            gpu,
            program,
            options,
            memory,
            converted,
            kernels,
            nodes,
            uncompiled,
            start: Arc::new(Mutex::new(start)),
            step,
            step_buffer,
            row_counts,
            uploaded_counts: [None; 2],
            activations,
            page_groups,
            caches,
            page,
            head,
            logits_rows,
            readable,
            choosers,
            links,
            in_flight: VecDeque::new(),
            inputs,
            logits,
            logits_stride,
        })
    }

    /// The device.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The order of operations of its linear layers.
    pub fn arithmetic(&self) -> Arithmetic {
        self.options.arithmetic
    }

    /// Bytes on the device.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// The weights that take more room than in the file.
    pub fn converted(&self) -> &[Converted] {
        &self.converted
    }

    /// How many norms a step of so many rows leaves to the linear layers before them.
    pub fn norms_in_layers(&self, rows: usize) -> usize {
        let counts = Counts { rows, ..Counts::default() };
        let in_layers = |node: &&Planned| matches!(node.within, Some(Within::Layer(_)));
        let done = self.nodes.iter().filter(|node| node.is_done(counts, Recorded::Together));
        done.filter(in_layers).count()
    }

    /// How many linear layers multiply so many rows of integers on matrix units.
    pub fn layers_on_matrix_units(&self, rows: usize) -> usize {
        let commands = self.nodes.iter().flat_map(|node| &node.commands);
        let layers = commands.filter_map(|command| match command {
            Command::Linear(layers) => Some(layers.layers()),
            Command::Dispatch(_) | Command::Experts(_) => None,
        });
        layers.flatten().filter(|layer| layer.on_matrix_units(rows as u32)).count()
    }

    /// The WGSL texts of all kernels of this program, with its sizes in them.
    pub fn kernel_texts(&self) -> impl Iterator<Item = &str> {
        self.kernels.texts()
    }
}

impl Executor for GpuExecutor {
    fn program(&self) -> &Program {
        &self.program
    }

    fn max_rows(&self) -> usize {
        self.options.max_rows
    }

    fn page_groups(&self) -> &[PageGroup] {
        &self.page_groups
    }

    fn slot_count(&self) -> usize {
        self.options.slots
    }

    fn step(&mut self, batch: &Batch, observer: &mut dyn Observer) -> std::result::Result<(), StepError> {
        check(batch, &self.program, self.options.max_rows, &self.page_groups)?;
        check_states(batch, &self.program, self.options.slots)?;
        observer.start();
        let begun = Instant::now();
        self.begin(batch, false);
        let result = if observer.looks() { self.run_observed(observer) } else { self.run() };
        start::lock(&self.start).first_step.get_or_insert(begun.elapsed());
        result.map_err(|error| StepError::Device(error.to_string()))
    }

    fn logits(&self, index: usize) -> &[f32] {
        let row = self.logits.chunks(self.logits_stride.max(1)).nth(index);
        let View { offset, width, .. } = self.program.logits;
        row.and_then(|row| row.get(offset..offset + width)).unwrap_or_default()
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) {
        if from == to {
            return;
        }
        let mut encoder = self.encoder();
        let caches = self.caches.iter().filter(|cache| cache.group == group);
        caches.for_each(|cache| cache.copy_page(&mut encoder, &self.page, from, to));
        self.gpu.queue.submit([encoder.finish()]);
    }

    fn chain(&mut self) -> Option<&mut dyn Chain> {
        // A program that begins in the middle of a model needs the host for every step, and one without logits has
        // nothing to choose from.
        let chains = self.program.inputs().is_empty() && self.program.output == Output::Logits;
        if chains { Some(self) } else { None }
    }
}
