//! The executor: runs a program over batches of rows, one submission to the device per step.

mod chain;
mod room;
mod run;
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
use gleed_model::program::{Output, Program, View};
use gleed_model::{Arithmetic, Batch, Executor, StepError};

use crate::bind::{Bound, Buffers};
use crate::cache::LayerCache;
use crate::kernels::List;
use crate::kernels::experts::tiles;
use crate::launch::{KernelId, Kernels};
use crate::plan::{self, Choosers, Command, Memory, Planned, Recorded, Resources, Sizes, plan};
use crate::step::{Counts, Step};
use crate::upload::Upload;
use crate::weights::{self, Converted};
use crate::{Error, Gpu, Options, Result};
use chain::Links;
pub use room::KvRoom;
use start::Ordered;
pub use start::{Start, StartWatch};

/// Rows of a step: more workgroups than this are not dispatched along one axis.
const MOST_ROWS: usize = 65_535;

/// Runs programs on a GPU.
pub struct GpuExecutor {
    gpu: Gpu,
    program: Program,
    options: Options,
    memory: Memory,
    converted: Vec<Converted>,
    kernels: Kernels,
    resources: Resources,
    nodes: Vec<Planned>,
    /// The choice of tokens, for rows whose logits all fit on the device.
    choosers: Choosers,
    buffers: Buffers,
    bound: Bound,
    /// Kernels that were not compiled when a step last needed any.
    uncompiled: Vec<KernelId>,
    start: Arc<Mutex<Start>>,
    step: Step,
    /// What the row counts of the lists are on the device.
    uploaded_counts: [Option<usize>; 2],
    /// The node that writes the logits.
    head: usize,
    /// Rows of logits that fit on the device.
    logits_rows: usize,
    /// Where logits are read from, in turn: the device writes one while the host reads the other.
    readable: [wgpu::Buffer; 2],
    /// Chains of steps.
    links: Links,
    /// Steps whose logits no caller wanted, and which may still be computed.
    in_flight: VecDeque<wgpu::SubmissionIndex>,
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
        let max_rows = options.max_rows;
        let limit = match options.arithmetic {
            Arithmetic::F16 => tiles::most_rows(&program, MOST_ROWS),
            Arithmetic::Q8 | Arithmetic::F32 => MOST_ROWS,
        };
        if max_rows > limit {
            return Err(Error::TooManyRows { rows: max_rows, limit });
        }
        let facts = gpu.facts();
        let sizes = Sizes::new(&facts, file, &program, options)?;
        let Sizes { capacity, logits_rows, logits_stride, memory, .. } = sizes;
        plan::fits(&facts, gpu.free_memory(), file, &program, options, memory)?;
        let converted = weights::converted(&program, options.arithmetic)?;

        let mut kernels =
            Kernels::new(facts, capacity.row_words()).with_header_words(capacity.header_words());
        let (resources, contents) = Resources::new(&mut kernels, &sizes, file, &program, options)?;
        let logits_place = resources.activations.place(program.logits, List::Wanted);
        let choosers = Choosers::new(&mut kernels, logits_place, logits_rows, &resources);
        let mut buffers = Buffers::default();
        buffers.allocate(&gpu, &kernels)?;
        for (buffer, values) in &contents.vectors {
            gpu.queue.write_buffer(&buffers[*buffer], 0, bytemuck::cast_slice(values));
        }
        let readable = gpu.readable("the logits", sizes.logits_bytes)?;
        let more = if logits_rows < max_rows {
            gpu.readable("the logits", sizes.logits_bytes)?
        } else {
            readable.clone()
        };
        let readable = [readable, more];
        let links = Links::new(&gpu, max_rows, buffers[resources.brought].clone())?;
        start.allocating = begun.elapsed();
        let (nodes, bound, ordered) = std::thread::scope(|scope| {
            let upload = Upload::begin(scope, &gpu, &buffers, &contents.chunks);
            let nodes = plan(&mut kernels, &program, &resources)?;
            let mut bound = Bound::default();
            bound.bind(&gpu, &kernels, &buffers)?;
            let ordered = Ordered::new(&nodes, &choosers);
            ordered.begin(&gpu, &bound);
            start.planning = begun.elapsed() - start.allocating;
            let mut done = 0;
            let uploaded = upload.finish(&mut |bytes| {
                done += bytes;
                progress(done as usize, memory.weights as usize);
            })?;
            start.uploaded(uploaded);
            Ok::<_, Error>((nodes, bound, ordered))
        })?;
        gpu.wait()?;
        // Stacked together, rows are padded less than each by itself.
        progress(memory.weights as usize, memory.weights as usize);
        start.uploading = begun.elapsed() - start.allocating;
        ordered.wait(&gpu, &bound)?;
        start.loading = begun.elapsed();
        let uncompiled = ordered.all;
        start.kernels = uncompiled.len();
        let (step, logits, head) = (Step::new(capacity, sizes.outlooks), Vec::new(), plan::head(&program));
        Ok(GpuExecutor {
            gpu,
            program,
            options,
            memory,
            converted,
            kernels,
            resources,
            nodes,
            choosers,
            buffers,
            bound,
            uncompiled,
            start: Arc::new(Mutex::new(start)),
            step,
            uploaded_counts: [None; 2],
            head,
            logits_rows,
            readable,
            links,
            in_flight: VecDeque::new(),
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

    /// How many norms a step of `rows` rows leaves to the linear layers before them.
    pub fn norms_in_layers(&self, rows: usize) -> usize {
        let counts = Counts { rows, ..Counts::default() };
        let is_norm = |node: usize| self.program.nodes[node].op.rms_norm().is_some();
        let done = self.nodes.iter().enumerate();
        done.filter(|(index, node)| is_norm(*index) && node.is_done(counts, Recorded::Together)).count()
    }

    /// How many linear layers multiply `rows` rows on matrix units.
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
        self.kernels.all_kernels().iter().map(|kernel| &*kernel.text)
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
        &self.resources.page_groups
    }

    fn slot_count(&self) -> usize {
        self.options.slots
    }

    fn step(&mut self, batch: &Batch, observer: &mut dyn Observer) -> std::result::Result<(), StepError> {
        check(batch, &self.program, self.options.max_rows, self.page_groups())?;
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
        // By way of a buffer: one cannot be copied to itself.
        let page = &self.buffers[self.resources.page];
        let caches = self.resources.caches.iter().filter(|cache| cache.group == group);
        for (buffer, bytes) in caches.flat_map(LayerCache::page_bytes) {
            let buffer = &self.buffers[buffer];
            encoder.copy_buffer_to_buffer(buffer, u64::from(from) * bytes, page, 0, bytes);
            encoder.copy_buffer_to_buffer(page, 0, buffer, u64::from(to) * bytes, bytes);
        }
        self.gpu.queue.submit([encoder.finish()]);
    }

    fn chain(&mut self) -> Option<&mut dyn Chain> {
        // A program that begins in the middle of a model needs the host for every step, and one without logits has
        // nothing to choose from.
        let chains = self.program.inputs().is_empty() && self.program.output == Output::Logits;
        if chains { Some(self) } else { None }
    }
}
