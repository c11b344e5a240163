//! `gleed inspect`: what is in a file, and what would be computed with it.

use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use gleed_cpu::Isa;
use gleed_gguf::{Array, Gguf, Value};
#[cfg(feature = "gpu")]
use gleed_gpu::{Gpu, Selection};
#[cfg(feature = "gpu")]
use gleed_model::Halves;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::groups::PageGroups;
use gleed_model::program::Output;
use gleed_model::{Model, Program};
use serde_json::json;

#[cfg(feature = "gpu")]
use crate::device::Device;
use crate::load::{self, Loaded, Options};
use crate::output::{self, Align, Table};

/// Show what is in a model file and how it would be run
#[derive(Args)]
pub struct Arguments {
    /// A path, a name from `gleed list`, or `hf:owner/repository[:FORMAT]`
    model: String,

    /// Show the program: every op that a step runs
    #[arg(long)]
    program: bool,

    /// Show the program before fusion
    #[arg(long)]
    plain: bool,

    /// Show every tensor, and the kernel that it gets on the CPU, or on the GPU that --device names
    #[arg(long)]
    tensors: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    options: Options,
}

/// Array elements that are shown before an ellipsis.
const SHOWN: usize = 4;

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    let (file, loaded) = open(&arguments.model, &arguments.options)?;
    let program = |plain: bool| {
        loaded.as_ref().map(|l| match plain {
            true => l.model.program.clone(),
            false => fuse(&l.model.program, Rules::ALL),
        })
    };
    let kernels = match &loaded {
        Some(loaded) if arguments.tensors => kernels(&loaded.model.program, &arguments.options)?,
        _ => Vec::new(),
    };
    let kernel = |name: &str| kernels.iter().find(|(weight, _)| weight == name).map(|(_, k)| k.clone());
    if arguments.json {
        let program = (arguments.program || arguments.plain).then(|| program(arguments.plain)).flatten();
        return print_json(&file, loaded.as_ref(), program, kernel);
    }
    if arguments.program || arguments.plain {
        match program(arguments.plain) {
            Some(program) => return output::print_lines(program),
            None => anyhow::bail!("{}: there is no program to show", file.name()),
        }
    }
    if arguments.tensors {
        return print_tensors(&file, kernel);
    }
    print_summary(&file, loaded.as_ref(), &arguments.options)
}

/// A file, and what it computes where it can be run; with adapters it must.
fn open(name: &str, options: &Options) -> Result<(Arc<Gguf>, Option<Loaded>)> {
    if !options.lora.is_empty() {
        let loaded = load::open(name, &options.lora)?;
        return Ok((loaded.file.clone(), Some(loaded)));
    }
    let file = load::open_file(name)?;
    // A file that cannot be run can still be looked at.
    let model = Model::load(&file);
    if let Err(error) = &model {
        output::warning(format!("{}: cannot be run: {error}", file.name()));
    }
    let loaded = model.ok().map(|model| Loaded::new(name.to_string(), file.clone(), model));
    Ok((file, loaded))
}

/// The kernels of every matrix, on the device that would compute.
fn kernels(program: &Program, options: &Options) -> Result<Vec<(String, String)>> {
    #[cfg(feature = "gpu")]
    if let Some(kernels) = kernels_of_gpu(program, options)? {
        return Ok(kernels);
    }
    Ok(kernels_of_cpu(program, options))
}

fn kernels_of_cpu(program: &Program, options: &Options) -> Vec<(String, String)> {
    let (isa, arithmetic) = (options.isa.unwrap_or_else(Isa::detect), options.arithmetic.unwrap_or_default());
    let kernels = gleed_cpu::kernels_of(program, arithmetic, isa);
    kernels.into_iter().map(|kernel| (kernel.weight, kernel.kernel)).collect()
}

/// Those on the GPU that was asked for, with the CPU's of the layers that stay there; none when no GPU was asked for.
#[cfg(feature = "gpu")]
fn kernels_of_gpu(program: &Program, options: &Options) -> Result<Option<Vec<(String, String)>>> {
    let choice = match &options.device {
        Device::Auto | Device::Cpu => return Ok(None),
        Device::Gpu => Selection::Best,
        Device::Named(name) => Selection::Named(name),
    };
    let gpu = Gpu::open(choice)?;
    let program = fuse(program, Rules::ALL);
    let (mut all, on_gpu, default) = match load::halves(&program, options)? {
        Some(Halves { first, second }) => {
            (kernels_of_cpu(&first, options), second, gleed_model::Arithmetic::default())
        }
        None => (Vec::new(), program, gpu.arithmetic()),
    };
    let arithmetic = options.arithmetic.unwrap_or(default);
    let settings = gleed_gpu::Options { arithmetic, ..Default::default() };
    let kernels = gleed_gpu::kernels_of(&gpu, &on_gpu, settings);
    all.extend(kernels.into_iter().map(|kernels| (kernels.weight, kernels.kernels)));
    Ok(Some(all))
}

fn print_summary(file: &Gguf, loaded: Option<&Loaded>, options: &Options) -> Result<()> {
    let mut table = Table::new(&[("key", Align::Left), ("value", Align::Left)]);
    for (key, value) in file.metadata().iter() {
        table.row([(key.to_string(), None), (show(value), None)]);
    }
    output::print(table.render(output::colour(&std::io::stdout())))?;
    let values: usize = file.tensors().iter().map(|t| t.len()).sum();
    output::print_line("")?;
    output::print_line(format!(
        "{}: GGUF version {}, {} tensors, {:.1} M parameters, {} of weights in {} file{}",
        file.name(),
        file.version(),
        file.tensors().len(),
        values as f64 / 1e6,
        output::human_bytes(file.tensor_bytes()),
        file.parts().len().max(1),
        if file.parts().len() > 1 { "s" } else { "" },
    ))?;
    output::print_line(format!("formats: {}", formats(file)))?;
    if let Some(loaded @ Loaded { model, slots, .. }) = loaded {
        let c = &model.config;
        output::print_line(format!(
            "{}: {} layers of width {}, {} query heads on {} key-value heads of {}, feed-forward {}, context {}, \
             vocabulary {}",
            c.architecture,
            c.layers,
            c.width,
            c.heads,
            c.kv_heads,
            c.key_dim,
            c.feed_forward,
            c.context,
            model.program.vocabulary
        ))?;
        if !model.program.caches.is_empty() && model.program.output == Output::Logits {
            output::print_line(format!(
                "keys and values of a conversation as long as the context: {} in {}{}",
                output::human_bytes(loaded.conversation_bytes(options)),
                options.kv,
                windows(&model.program),
            ))?;
        }
        if !model.program.states.is_empty() {
            let slot = model.program.slot_bytes() as u64;
            output::print_line(format!(
                "recurrent layers keep {} of a sequence; a conversation has {} such states ({})",
                output::human_bytes(slot),
                slots,
                output::human_bytes(slot.saturating_mul(*slots as u64)),
            ))?;
        }
        for name in &model.unused {
            output::warning(format!("tensor {name} is not used"));
        }
        for key in &model.unread {
            output::warning(format!("metadata key {} is not used", key.escape_debug()));
        }
        let tokenizer = load::tokenizer(file)?;
        if tokenizer.missing_bytes() > 0 {
            output::warning(format!(
                "the vocabulary has no token for {} of the 256 bytes: a text loses them",
                tokenizer.missing_bytes()
            ));
        }
    }
    Ok(())
}

/// Which layers keep only the keys and values of a window.
fn windows(program: &Program) -> String {
    let (groups, all) = (PageGroups::of(program), program.caches.len());
    let of_group = |(group, window): (usize, &Option<usize>)| {
        let count = (0..all).filter(|cache| groups.of_cache(*cache) == group).count();
        window.map(|window| format!("; {count} of {all} layers keep only a window of {window} positions"))
    };
    groups.windows().iter().enumerate().filter_map(of_group).collect()
}

/// How many tensors there are of each format, the most bytes first.
/// The block formats of a file's tensors, those with the most bytes first: how many tensors, and their bytes.
pub fn by_format(file: &Gguf) -> Vec<(gleed_gguf::Format, usize, usize)> {
    let mut counts: Vec<(gleed_gguf::Format, usize, usize)> = Vec::new();
    for tensor in file.tensors() {
        match counts.iter_mut().find(|(format, _, _)| *format == tensor.format) {
            Some((_, count, bytes)) => (*count, *bytes) = (*count + 1, *bytes + tensor.bytes),
            None => counts.push((tensor.format, 1, tensor.bytes)),
        }
    }
    counts.sort_by_key(|(_, _, bytes)| std::cmp::Reverse(*bytes));
    counts
}

fn formats(file: &Gguf) -> String {
    let show = |(format, count, bytes): &(gleed_gguf::Format, usize, usize)| {
        format!("{count} {format} ({})", output::human_bytes(*bytes as u64))
    };
    by_format(file).iter().map(show).collect::<Vec<_>>().join(", ")
}

fn print_tensors(file: &Gguf, kernel: impl Fn(&str) -> Option<String>) -> Result<()> {
    let mut table = Table::new(&[
        ("tensor", Align::Left),
        ("format", Align::Left),
        ("shape", Align::Left),
        ("size", Align::Right),
        ("kernel", Align::Left),
    ]);
    for tensor in file.tensors() {
        let shape = tensor.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" × ");
        let cells = [
            tensor.name.clone(),
            tensor.format.to_string(),
            shape,
            output::human_bytes(tensor.bytes as u64),
            kernel(&tensor.name).unwrap_or_default(),
        ];
        table.row(cells.map(|c| (c, None)));
    }
    output::print(table.render(output::colour(&std::io::stdout())))
}

fn print_json(
    file: &Gguf,
    loaded: Option<&Loaded>,
    program: Option<Program>,
    kernel: impl Fn(&str) -> Option<String>,
) -> Result<()> {
    let tensor = |t: &gleed_gguf::TensorInfo| {
        json!({ "name": t.name, "format": t.format.name(), "shape": t.shape, "bytes": t.bytes,
                "kernel": kernel(&t.name) })
    };
    let metadata: serde_json::Map<String, serde_json::Value> =
        file.metadata().iter().map(|(key, value)| (key.to_string(), to_json(value))).collect();
    let node =
        |n: &gleed_model::program::Node| json!({ "op": n.op.kind(), "labels": n.labels, "layer": n.layer });
    output::print_json(&json!({
        "file": file.name(),
        "version": file.version(),
        "metadata": metadata,
        "tensors": file.tensors().iter().map(tensor).collect::<Vec<_>>(),
        "architecture": loaded.map(|l| &l.model.config.architecture),
        "unused_tensors": loaded.map(|l| &l.model.unused),
        "unread_keys": loaded.map(|l| &l.model.unread),
        "program": program.map(|p| p.nodes.iter().map(node).collect::<Vec<_>>()),
    }))
}

/// One line for a value: the beginning of a string, the first elements of an array.
fn show(value: &Value) -> String {
    match value {
        Value::Str(text) => match text.char_indices().nth(80) {
            Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
            None => text.clone(),
        },
        Value::Array(array) => {
            let first: Vec<String> =
                (0..array.len().min(SHOWN)).filter_map(|i| array.get(i)).map(|v| show(&v)).collect();
            let more = if array.len() > SHOWN { ", …" } else { "" };
            format!("[{}{more}] ({})", first.join(", "), array.len())
        }
        Value::Bool(v) => v.to_string(),
        Value::F32(v) => v.to_string(),
        Value::F64(v) => v.to_string(),
        Value::I8(v) => v.to_string(),
        Value::I16(v) => v.to_string(),
        Value::I32(v) => v.to_string(),
        Value::I64(v) => v.to_string(),
        Value::U8(_) | Value::U16(_) | Value::U32(_) | Value::U64(_) => {
            value.as_u64().map(|v| v.to_string()).unwrap_or_default()
        }
    }
}

/// The whole value. Numbers that JSON cannot hold become null.
fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::U8(v) => json!(v),
        Value::I8(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::U64(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::F32(v) => json!(v),
        Value::F64(v) => json!(v),
        Value::Bool(v) => json!(v),
        Value::Str(v) => json!(v),
        Value::Array(Array::Nested(arrays)) => {
            arrays.iter().map(|a| to_json(&Value::Array(a.clone()))).collect()
        }
        Value::Array(array) => (0..array.len()).filter_map(|i| array.get(i)).map(|v| to_json(&v)).collect(),
    }
}
