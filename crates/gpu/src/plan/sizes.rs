//! What an executor will allocate, settled before anything is; and what of a model fits.

use gleed_gguf::Gguf;
use gleed_model::program::{Output, Program};
use gleed_model::{Arithmetic, split};

use crate::kernels::attention::index;
use crate::kernels::choose;
use crate::kernels::experts::tiles;
use crate::linear::{HalfRows, Quantized};
use crate::step::{Capacity, Outlook};
use crate::weights::Weights;
use crate::{Error, Facts, Options, Result, activations, cache, plan, state};

/// Bytes of logits that are computed and read back at once, unless the options say how many rows.
const LOGITS_BYTES: usize = 64 << 20;

/// Bytes that the steps of a link have room for together, at least.
const LINK_BYTES: u64 = 256 << 10;

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

/// How large everything is.
pub(crate) struct Sizes {
    /// Rows of a sequence that one workgroup of attention takes.
    pub attention_rows: usize,
    /// By which a step cuts attention, and what it has room for.
    pub outlooks: Vec<Outlook>,
    pub capacity: Capacity,
    /// Rows of logits that fit on the device.
    pub logits_rows: usize,
    pub logits_stride: usize,
    pub logits_bytes: u64,
    pub step_bytes: u64,
    /// What the steps of a link bring, all at once if they are small.
    pub link_bytes: u64,
    pub partial_bytes: u64,
    pub index_bytes: u64,
    pub page_bytes: u64,
    pub input_bytes: u64,
    /// The most columns of activations that become integers.
    pub integer_columns: usize,
    /// The most columns of activations that become halves.
    pub half_columns: usize,
    /// All of it, and the weights.
    pub memory: Memory,
}

impl Sizes {
    /// Of a program whose weights, which are checked, are in a file.
    pub fn new(facts: &Facts, file: &Gguf, program: &Program, options: Options) -> Result<Sizes> {
        let Options { arithmetic, kv, max_rows, slots, logits_rows, .. } = options;
        let (attention_rows, partial_room) = plan::attention_tiles(facts, program);
        let outlooks = Outlook::of(program, arithmetic, kv);
        let item_rows = attention_rows.min(max_rows).max(1);
        let capacity = Capacity::new(program, outlooks.len(), max_rows, item_rows);
        let capacity = if program.states.is_empty() { capacity } else { capacity.with_slots(slots) };
        let logits_stride = activations::stride(program.buffers[program.logits.buffer].width);
        let logits_rows = match program.output {
            Output::Logits => logits_rows.unwrap_or(LOGITS_BYTES / (4 * logits_stride)),
            // Its buffer may be that of all rows.
            Output::Embedding(_) => max_rows,
        };
        let logits_rows = logits_rows.clamp(1, max_rows.max(1));
        let logits_bytes = (4 * logits_rows * logits_stride) as u64;
        // What is read back is there twice where it is read in turns.
        let read_bytes = if logits_rows < max_rows { 2 * logits_bytes } else { logits_bytes };
        let step_bytes = 4 * capacity.words() as u64;
        let partial_bytes = (4 * capacity.partials * partial_room) as u64;
        let index_bytes = index::bytes(program);
        let page_bytes = cache::largest_page(&program.caches, kv);
        let strides = plan::logits_inputs(program)
            .into_iter()
            .map(|buffer| activations::stride(program.buffers[buffer].width));
        let input_stride = strides.max().unwrap_or(0);
        let input_bytes = if logits_rows < max_rows { (4 * logits_rows * input_stride) as u64 } else { 0 };
        let integer_columns = match arithmetic {
            Arithmetic::Q8 => plan::integer_columns(program),
            Arithmetic::F32 | Arithmetic::F16 => 0,
        };
        let half_columns = match arithmetic {
            Arithmetic::F16 => plan::half_columns(program),
            Arithmetic::Q8 | Arithmetic::F32 => 0,
        };
        let converted_bytes =
            2 * (Quantized::bytes(max_rows, integer_columns) + HalfRows::bytes(max_rows, half_columns));
        let expert_bytes = match arithmetic {
            Arithmetic::F16 => tiles::bytes(program, max_rows),
            Arithmetic::Q8 | Arithmetic::F32 => 0,
        };
        let rule_bytes = (4 * choose::RULE_WORDS * logits_rows) as u64;
        let link_bytes = (step_bytes + rule_bytes).max(LINK_BYTES);
        let choice_bytes = choose::bytes(program.vocabulary, logits_rows);
        let activations = activations::bytes(program, plan::gathered(program), max_rows, logits_rows);
        let kv_bytes = cache::all_bytes(program, options);
        let states = program.states.iter().map(|layer| state::layer_bytes(*layer, slots));
        let memory = Memory {
            weights: Weights::check(file, program, arithmetic)?,
            kv: kv_bytes.chain(states).fold(0, u64::saturating_add),
            buffers: [
                step_bytes,
                link_bytes,
                partial_bytes,
                index_bytes,
                page_bytes,
                input_bytes,
                converted_bytes,
                expert_bytes,
                read_bytes,
                choice_bytes,
            ]
            .into_iter()
            .fold(activations, u64::saturating_add),
        };
        Ok(Sizes {
            attention_rows,
            outlooks,
            capacity,
            logits_rows,
            logits_stride,
            logits_bytes,
            step_bytes,
            link_bytes,
            partial_bytes,
            index_bytes,
            page_bytes,
            input_bytes,
            integer_columns,
            half_columns,
            memory,
        })
    }
}

impl Memory {
    pub(crate) fn total(self) -> u64 {
        self.weights.saturating_add(self.kv).saturating_add(self.buffers)
    }
}

/// Refuses what cannot fit, where the device says how much is free.
pub(crate) fn fits(
    facts: &Facts,
    free: Option<u64>,
    file: &Gguf,
    program: &Program,
    options: Options,
    needed: Memory,
) -> Result<()> {
    match free {
        Some(free) if needed.total() > free => {
            let layers = layers_that_fit(facts, file, program, options, free)?;
            let (adapter, Memory { weights, kv, buffers }) = (facts.adapter.clone(), needed);
            Err(Error::DoesNotFit { adapter, free, weights, kv, buffers, layers })
        }
        _ => Ok(()),
    }
}

/// How many of the last layers fit, with all that comes after them; 0 for none.
fn layers_that_fit(
    facts: &Facts,
    file: &Gguf,
    program: &Program,
    options: Options,
    free: u64,
) -> Result<usize> {
    let layers = program.layers();
    for first in 1..layers {
        let Some(halves) = split(program, first) else { continue };
        if Sizes::new(facts, file, &halves.second, options)?.memory.total() <= free {
            return Ok(layers - first);
        }
    }
    Ok(0)
}
