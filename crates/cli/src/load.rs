//! From a model's name to something that computes: what `run`, `chat`, `bench` and the others share.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use gleed_cpu::{Cpu, Isa};
use gleed_gguf::Gguf;
use gleed_model::arithmetic::PAGE;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::{Arithmetic, KvType, Model};
use gleed_tokenizer::Tokenizer;

use crate::models::{self, Source};
use crate::output;
use crate::progress::Progress;

/// How a model is run.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The order of operations: q8 (int8 activations, fast) or f32
    #[arg(long, default_value_t, value_name = "ORDER")]
    pub arithmetic: Arithmetic,

    /// How keys and values are kept: f32, f16 or q8_0
    #[arg(long, default_value_t, value_name = "TYPE")]
    pub kv: KvType,

    /// Threads to compute with [default: one per core]
    #[arg(short, long, value_name = "N")]
    pub threads: Option<usize>,

    /// Use this instruction set instead of the best one: portable, avx2, avx512 or amx
    #[arg(long)]
    pub isa: Option<Isa>,
}

/// A model that is understood and ready to be put on a device.
pub struct Loaded {
    /// What the user called it.
    pub name: String,
    /// The file.
    pub file: Arc<Gguf>,
    /// What it computes.
    pub model: Model,
}

/// Opens a model by path, catalogue name or hub reference.
pub fn open(name: &str) -> Result<Loaded> {
    let file = open_file(name)?;
    let model = Model::load(&file).with_context(|| file.name().to_string())?;
    if !model.unused.is_empty() {
        output::warning(format!(
            "{}: {} tensors are not used, such as {}",
            file.name(),
            model.unused.len(),
            model.unused[0]
        ));
    }
    Ok(Loaded { name: name.to_string(), file, model })
}

/// Opens the file of a model without asking whether it can be run.
pub fn open_file(name: &str) -> Result<Arc<Gguf>> {
    let file = match models::resolve(name)? {
        Source::Path(path) => Gguf::open(&path)?,
        Source::Embedded => Gguf::from_bytes(models::EMBEDDED_NAME, models::EMBEDDED)?,
    };
    Ok(Arc::new(file))
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
    /// An executor for sequences of up to `positions` positions in all, `max_rows` rows a step.
    pub fn executor(&self, options: &Options, positions: usize, max_rows: usize) -> Result<Cpu> {
        if options.threads == Some(0) {
            bail!("--threads must be at least 1");
        }
        let program = fuse(&self.model.program, Rules::ALL);
        let settings = gleed_cpu::Options {
            arithmetic: options.arithmetic,
            kv: options.kv,
            threads: options.threads.unwrap_or(0),
            isa: options.isa,
            max_rows,
            pages: positions.div_ceil(PAGE).max(1),
            memory: None,
        };
        let progress = Progress::new("loading", self.file.tensor_bytes()).bytes();
        let cpu = Cpu::load(self.file.clone(), program, settings, &mut |done, total| {
            progress.set_total(total as u64);
            progress.set(done as u64);
        });
        progress.finish();
        let cpu = cpu.with_context(|| self.file.name().to_string())?;
        if cpu.stays_in_file() {
            output::warning(format!(
                "{}: not enough memory to repack the weights; they are used from the file, which is slower",
                self.file.name()
            ));
        }
        Ok(cpu)
    }

    /// The context to run with: what the user asked for, at most what the model was made for.
    pub fn context(&self, asked: Option<usize>) -> Result<usize> {
        let most = self.model.config.context;
        match asked {
            None => Ok(most.min(DEFAULT_CONTEXT)),
            Some(0) => bail!("--context must be at least 1"),
            Some(n) if n > most => bail!("--context {n} is more than the model's {most} positions"),
            Some(n) => Ok(n),
        }
    }
}

/// Positions a conversation gets unless the user asks for more: KV memory is taken up front.
const DEFAULT_CONTEXT: usize = 4096;
