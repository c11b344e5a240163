//! From a model's name to something that computes: what `run`, `chat`, `bench` and the others share.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use gleed_cpu::{Cpu, Isa};
use gleed_engine::Engine;
use gleed_gguf::Gguf;
#[cfg(feature = "gpu")]
use gleed_gpu::{Gpu, GpuExecutor, Selection};
use gleed_hub::Source;
use gleed_model::adapters::Adapter;
use gleed_model::arithmetic::PAGE;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::{Output, Program};
use gleed_model::{Arithmetic, KvType, Model};
#[cfg(feature = "gpu")]
use gleed_model::{Halves, Joined, cuts, split};
use gleed_tokenizer::Tokenizer;

use crate::context;
use crate::device::{Device, On, Placed};
use crate::lora::{self, Lora};
use crate::models;
use crate::output;
use crate::progress::Progress;
use crate::talk::MAX_ROWS;

/// How a model is run.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Where to compute: auto (a GPU if there is one and the model fits), cpu, gpu, or a GPU's number or name
    /// as `gleed devices` shows them
    #[arg(long, default_value_t, value_name = "DEVICE")]
    pub device: Device,

    /// Put only the last N layers and the head on the GPU, the others on the CPU: for a model that does not fit
    /// (also -ngl)
    #[arg(long, visible_alias = "n-gpu-layers", value_name = "N")]
    pub gpu_layers: Option<usize>,

    /// The order of operations: q8 (int8 activations), f32, or on a GPU with matrix units f16
    /// [default: f16 where a GPU with matrix units has the whole model, else q8]
    #[arg(long, value_name = "ORDER")]
    pub arithmetic: Option<Arithmetic>,

    /// How keys and values are kept: f32, f16 or q8_0
    #[arg(long, default_value_t, value_name = "TYPE")]
    pub kv: KvType,

    /// Threads to compute with [default: one per core]
    #[arg(short, long, value_name = "N")]
    pub threads: Option<usize>,

    /// Use this instruction set instead of the best one: portable, avx2, avx-vnni, avx512, amx, neon or neon-i8mm
    #[arg(long)]
    pub isa: Option<Isa>,

    /// A LoRA adapter (GGUF) beside the model, and how much of it [default: 1]; may be repeated
    #[arg(long, value_name = "FILE[:SCALE]")]
    pub lora: Vec<Lora>,
}

/// A model that is understood and ready to be put on a device.
pub struct Loaded {
    /// What the user called it.
    pub name: String,
    /// The file.
    pub file: Arc<Gguf>,
    /// What it computes.
    pub model: Model,
    /// What may be added to it.
    pub adapters: Vec<Adapter>,
    /// State slots that its executors get where it has recurrent layers; what is not used of them is not taken.
    pub slots: usize,
    /// How many sequences of an engine its executors are for, where they are counted: layers that see a window then have
    /// pages for these, and not for all positions.
    pub sequences: Option<usize>,
    /// Positions that all sequences together can have at most.
    most_positions: usize,
}

/// Opens a model by path, catalogue name or hub reference, with adapters beside it.
pub fn open(name: &str, adapters: &[Lora]) -> Result<Loaded> {
    let file = open_source(models::resolve(name)?)?;
    let model = Model::load(&file).with_context(|| file.name().to_string())?;
    if !model.unused.is_empty() {
        output::warning(format!(
            "{}: {} tensors are not used, such as {}",
            file.name(),
            model.unused.len(),
            model.unused[0]
        ));
    }
    let (file, model, adapters) = lora::adapt(file, model, adapters)?;
    Ok(Loaded { adapters, ..Loaded::new(name.to_string(), Arc::new(file), model) })
}

/// Opens the file of a model without asking whether it can be run.
pub fn open_file(name: &str) -> Result<Arc<Gguf>> {
    Ok(Arc::new(open_source(models::resolve_to_read(name)?)?))
}

fn open_source(source: Source) -> Result<Gguf> {
    Ok(match source {
        Source::Path(path) if path.is_dir() => open_folder(&path)?,
        Source::Path(path) => Gguf::open(&path)?,
        Source::Embedded => Gguf::from_vec(gleed_hub::EMBEDDED_NAME, gleed_hub::embedded())?,
    })
}

/// Opens a checkpoint folder.
pub fn open_folder(folder: &Path) -> Result<Gguf> {
    Ok(gleed_convert::open(folder)?)
}

/// The file's tokenizer, with a warning for what it had to assume.
pub fn tokenizer(file: &Gguf) -> Result<Tokenizer> {
    let tokenizer = Tokenizer::from_metadata(file.metadata()).with_context(|| file.name().to_string())?;
    for note in tokenizer.notes() {
        output::warning(format!("{}: {note}", file.name()));
    }
    Ok(tokenizer)
}

impl Loaded {
    /// A model of a file, for executors of uncounted sequences.
    pub fn new(name: String, file: Arc<Gguf>, model: Model) -> Loaded {
        let most_positions = model.config.context;
        let (adapters, slots) = (vec![], Engine::SLOTS);
        Loaded { name, file, model, adapters, slots, sequences: None, most_positions }
    }

    /// The same for executors that are given to an engine with `sequences` sequences, each of `context` positions where
    /// the user says how many.
    pub fn for_sequences(self, sequences: usize, context: Option<usize>) -> Result<Loaded> {
        let model = match context {
            Some(context) => Model::load_for(&self.file, context)?.adapted(&self.adapters)?,
            None => self.model,
        };
        let most_positions = context.unwrap_or(model.config.context).saturating_mul(sequences);
        let slots = Engine::SLOTS.saturating_mul(sequences);
        Ok(Loaded { model, slots, sequences: Some(sequences), most_positions, ..self })
    }

    /// An executor for sequences of up to `positions` positions in all, or as many as the model and memory allow;
    /// `max_rows` rows a step.
    pub fn executor(
        &self,
        options: &Options,
        positions: impl Into<Option<usize>>,
        max_rows: usize,
    ) -> Result<Placed> {
        let positions = positions.into();
        match (options.gpu_layers, &options.device) {
            (Some(0), _) => return self.on_cpu(options, positions, max_rows),
            (Some(layers), Device::Cpu) => {
                bail!("--gpu-layers {layers} is for a GPU: leave out --device cpu, or use --gpu-layers 0")
            }
            #[cfg(not(feature = "gpu"))]
            (Some(layers), _) => {
                bail!("--gpu-layers {layers}: this gleed was built without GPUs; leave it out")
            }
            _ => {}
        }
        match &options.device {
            Device::Cpu => self.on_cpu(options, positions, max_rows),
            #[cfg(feature = "gpu")]
            Device::Gpu => self.on_gpu(Selection::Best, options, positions, max_rows),
            #[cfg(feature = "gpu")]
            Device::Named(name) => self.on_gpu(Selection::Named(name), options, positions, max_rows),
            #[cfg(feature = "gpu")]
            Device::Auto => self.on_best(options, positions, max_rows),
            #[cfg(not(feature = "gpu"))]
            Device::Auto => self.on_cpu(options, positions, max_rows),
            #[cfg(not(feature = "gpu"))]
            device => bail!("--device {device}: this gleed was built without GPUs; use --device cpu"),
        }
    }

    /// On a real GPU where there is one and the model fits, else on the CPU; says which and why. What there is
    /// a GPU for and runs on the CPU is told even where stderr is no terminal: it may be a hundred times slower.
    #[cfg(feature = "gpu")]
    fn on_best(&self, options: &Options, positions: Option<usize>, max_rows: usize) -> Result<Placed> {
        if let Some(layers) = options.gpu_layers {
            let placed = self.on_gpu(Selection::Best, options, positions, max_rows)?;
            output::remark(format!("{placed}: --gpu-layers {layers}"));
            return Ok(placed);
        }
        let why = match not_on_a_gpu(options, gleed_gpu::may_be_there()) {
            Some(why) => why,
            None => match self.on_gpu(Selection::Best, options, positions, max_rows) {
                Ok(placed) => {
                    output::remark(format!("on {placed}: it is the best GPU, and the model fits"));
                    return Ok(placed);
                }
                Err(error) => NotOnGpu::PassedOver(format!("{:#}", error.root_cause())),
            },
        };
        let placed = self.on_cpu(options, positions, max_rows)?;
        Ok(match why {
            NotOnGpu::NoneThere => {
                output::remark(format!("on the CPU ({placed}): there is no GPU"));
                placed
            }
            NotOnGpu::PassedOver(why) => {
                output::note(format!("on the CPU ({placed}), not on the GPU: {why}"));
                placed.instead_of_gpu(why)
            }
        })
    }

    /// On a GPU, or with all but the last layers on the CPU.
    #[cfg(feature = "gpu")]
    fn on_gpu(
        &self,
        choice: Selection,
        options: &Options,
        positions: Option<usize>,
        max_rows: usize,
    ) -> Result<Placed> {
        // Without a folder to keep them in, kernels are compiled again each time.
        let kernels = gleed_hub::Cache::locate().ok().map(|cache| cache.file("kernels"));
        let gpu = Gpu::open_with(choice, kernels.as_deref())?;
        let program = fuse(&self.model.program, Rules::ALL);
        let halves = halves(&program, options)?;
        // Layers on the CPU have no halves.
        let default = if halves.is_none() { gpu.arithmetic() } else { Arithmetic::default() };
        let mut settings = gleed_gpu::Options {
            arithmetic: options.arithmetic.unwrap_or(default),
            kv: options.kv,
            max_rows,
            pages: 0,
            window_sequences: self.sequences,
            slots: self.slots,
            // The device chooses tokens only where the logits of all sequences fit at once; for few they do anyway.
            logits_rows: self.sequences.filter(|sequences| *sequences > 64),
        };
        let positions = match (positions, &halves) {
            (Some(positions), _) => positions,
            (None, None) => self.positions_on_gpu(&gpu, &program, settings)?,
            (None, Some(Halves { first, second })) => {
                let on_gpu = self.positions_on_gpu(&gpu, second, settings)?;
                on_gpu.min(self.positions_on_cpu(first, options, max_rows))
            }
        };
        settings.pages = pages(positions);
        let placed = |on: On| Placed::new(on, settings.arithmetic, settings.kv);
        let load = |program: Program| {
            let load = |progress: &mut dyn FnMut(usize, usize)| {
                GpuExecutor::load(gpu, &self.file, program, settings, progress)
            };
            let executor = self.with_progress(load).with_context(|| self.file.name().to_string())?;
            executor.converted().iter().for_each(|converted| output::remark(told(converted)));
            anyhow::Ok(executor)
        };
        let Some(Halves { first, second }) = halves else {
            return Ok(placed(On::Gpu(Box::new(load(program)?))));
        };
        // The GPU first: it may refuse.
        let gpu = load(second)?;
        let cpu = self.cpu(first, options, positions, max_rows)?;
        Ok(placed(On::Split(Box::new(Joined::new(program, cpu, gpu)))))
    }

    /// The positions that a GPU has room for beside a program's weights: all its memory is taken at once.
    #[cfg(feature = "gpu")]
    fn positions_on_gpu(&self, gpu: &Gpu, program: &Program, settings: gleed_gpu::Options) -> Result<usize> {
        let room = GpuExecutor::kv_room(gpu, &self.file, program, settings)
            .with_context(|| self.file.name().to_string())?;
        let bytes = |pages| GpuExecutor::kv_bytes(program, gleed_gpu::Options { pages, ..settings });
        let positions = context::that_fits(self.most_positions, bytes, room.bytes);
        Ok(positions.min(room.most_pages.saturating_mul(PAGE)))
    }

    /// The positions that there is memory for beside a program's weights and state slots; what is not used of it is not taken.
    fn positions_on_cpu(&self, program: &Program, options: &Options, max_rows: usize) -> usize {
        let slots = Cpu::slot_bytes(program).saturating_mul(self.slots) as u64;
        let taken = self.file.tensor_bytes().saturating_add(slots);
        let left = |bytes: usize| (bytes as u64).saturating_sub(taken);
        let bytes = |pages| Cpu::kv_bytes(program, self.on_cpu_with(options, pages, max_rows)) as u64;
        context::that_fits(self.most_positions, bytes, gleed_cpu::available_memory().map(left))
    }

    /// Bytes of keys and values on the CPU for one conversation of all positions that the model was made for.
    pub fn conversation_bytes(&self, options: &Options) -> u64 {
        let most = self.model.config.context;
        let settings = self.on_cpu_with(options, pages(most), MAX_ROWS.min(most));
        Cpu::kv_bytes(&self.model.program, gleed_cpu::Options { window_sequences: Some(1), ..settings })
            as u64
    }

    /// What an executor on the CPU with `pages` pages is made with.
    fn on_cpu_with(&self, options: &Options, pages: usize, max_rows: usize) -> gleed_cpu::Options {
        gleed_cpu::Options {
            arithmetic: options.arithmetic.unwrap_or_default(),
            kv: options.kv,
            threads: options.threads.unwrap_or(0),
            isa: options.isa,
            max_rows,
            pages,
            window_sequences: self.sequences,
            memory: None,
        }
    }

    fn on_cpu(&self, options: &Options, positions: Option<usize>, max_rows: usize) -> Result<Placed> {
        let program = fuse(&self.model.program, Rules::ALL);
        let positions = positions.unwrap_or_else(|| self.positions_on_cpu(&program, options, max_rows));
        let cpu = self.cpu(program, options, positions, max_rows)?;
        Ok(Placed::new(On::Cpu(Box::new(cpu)), options.arithmetic.unwrap_or_default(), options.kv))
    }

    /// A program, or the first half of one, on the CPU.
    fn cpu(&self, program: Program, options: &Options, positions: usize, max_rows: usize) -> Result<Cpu> {
        if options.threads == Some(0) {
            bail!("--threads must be at least 1");
        }
        let settings = self.on_cpu_with(options, pages(positions), max_rows);
        let cpu = self.with_progress(|progress| Cpu::load(self.file.clone(), program, settings, progress));
        let cpu = cpu.and_then(|cpu| cpu.with_slots(self.slots));
        let cpu = cpu.with_context(|| self.file.name().to_string())?;
        if cpu.stays_in_file() {
            output::warning(format!(
                "{}: not enough memory to repack the weights; they are used from the file, which is slower",
                self.file.name()
            ));
        }
        Ok(cpu)
    }

    /// Refuses an embedding model where text is to be generated or judged.
    pub fn must_generate(&self) -> Result<()> {
        if self.model.program.output != Output::Logits {
            let name = &self.name;
            bail!(
                "{name} is an embedding model, which turns texts into vectors: `gleed embed {name} TEXT` does that"
            );
        }
        Ok(())
    }

    /// Loads with a bar that shows how far it is.
    fn with_progress<T>(&self, load: impl FnOnce(&mut dyn FnMut(usize, usize)) -> T) -> T {
        let progress = Progress::new("loading", self.file.tensor_bytes()).bytes();
        let loaded = load(&mut |done, total| {
            progress.set_total(total as u64);
            progress.set(done as u64);
        });
        progress.finish();
        loaded
    }

    /// The context that the user asks for, which is at most what the model was made for.
    pub fn context(&self, asked: Option<usize>) -> Result<Option<usize>> {
        let most = self.model.config.context;
        match asked {
            Some(0) => bail!("--context must be at least 1"),
            Some(n) if n > most => bail!("--context {n} is more than the model's {most} positions"),
            asked => Ok(asked),
        }
    }
}

/// Why a model that might run on any device is not on a GPU.
#[cfg(feature = "gpu")]
#[derive(Debug, PartialEq)]
enum NotOnGpu {
    /// There is none.
    NoneThere,
    /// It was not used, for a reason.
    PassedOver(String),
}

/// Why a GPU need not even be opened; `is_there` when there may be one.
#[cfg(feature = "gpu")]
fn not_on_a_gpu(options: &Options, is_there: bool) -> Option<NotOnGpu> {
    let flags = [("--threads", options.threads.is_some()), ("--isa", options.isa.is_some())];
    let given: Vec<&str> = flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect();
    match (is_there, &given[..]) {
        (false, _) => Some(NotOnGpu::NoneThere),
        (true, []) => None,
        (true, given) => {
            let given = given.join(" and ");
            Some(NotOnGpu::PassedOver(format!("{given} asked for the CPU; --device gpu asks for the GPU")))
        }
    }
}

/// One line about weights that a GPU keeps in more bits than the file.
#[cfg(feature = "gpu")]
fn told(converted: &gleed_gpu::Converted) -> String {
    let gleed_gpu::Converted { format, kept_as, tensors, more_bytes } = converted;
    let are = if *tensors == 1 { "tensor of {} is" } else { "tensors of {} are" };
    let are = are.replace("{}", format.name());
    format!("{tensors} {are} kept as {kept_as} ({} more)", output::human_bytes(*more_bytes))
}

/// What runs on the CPU and what on the GPU, where both were asked for.
#[cfg(feature = "gpu")]
pub fn halves(program: &Program, options: &Options) -> Result<Option<Halves>> {
    let layers = program.layers();
    let Some(on_gpu) = options.gpu_layers.filter(|on_gpu| (1..layers).contains(on_gpu)) else {
        return Ok(None);
    };
    if let Some(halves) = split(program, layers - on_gpu) {
        return Ok(Some(halves));
    }
    let possible: Vec<String> = cuts(program).map(|layer| (layers - layer).to_string()).collect();
    bail!(
        "--gpu-layers {on_gpu}: the model cannot be cut there, because later layers read the keys of earlier ones; \
         possible: 0, {}",
        possible.join(", ")
    )
}

/// Pages for `positions` positions.
fn pages(positions: usize) -> usize {
    positions.div_ceil(PAGE).max(1)
}

#[cfg(all(test, feature = "gpu"))]
mod tests {
    use gleed_gguf::Format;
    use gleed_gpu::Converted;

    use clap::Parser;

    use super::{NotOnGpu, Options, not_on_a_gpu, told};

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn a_gpu_that_is_not_used_is_told_of() {
        let why = |flags: &[&str], is_there: bool| {
            let flags = Flags::parse_from([&["gleed"], flags].concat());
            not_on_a_gpu(&flags.options, is_there)
        };
        let passed_over = |why: &str| {
            Some(NotOnGpu::PassedOver(format!("{why} asked for the CPU; --device gpu asks for the GPU")))
        };
        assert_eq!(why(&[], true), None);
        assert_eq!(why(&["-t", "2"], true), passed_over("--threads"));
        assert_eq!(why(&["--isa", "portable"], true), passed_over("--isa"));
        assert_eq!(why(&["--isa", "portable", "-t", "2"], true), passed_over("--threads and --isa"));
        assert_eq!(why(&["-t", "2"], false), Some(NotOnGpu::NoneThere));
    }

    #[test]
    fn conversions_are_told_in_one_line() {
        let mut converted = Converted {
            format: Format::IQ2_XXS,
            kept_as: "8-bit integers",
            tensors: 12,
            more_bytes: 2_100_000_000,
        };
        assert_eq!(told(&converted), "12 tensors of IQ2_XXS are kept as 8-bit integers (2.1 GB more)");
        converted.tensors = 1;
        assert_eq!(told(&converted), "1 tensor of IQ2_XXS is kept as 8-bit integers (2.1 GB more)");
    }
}
