//! `gleed quantize`: the same model in other formats.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use gleed_gguf::{Facts, Format, Gguf, Mix, TensorFormat, TensorInfo, TensorSpec, Value, Writer};
use serde_json::json;

use crate::load;
use crate::output;
use crate::progress::Progress;

/// Write a model in other formats, such as q4_k_m
#[derive(Args)]
pub struct Arguments {
    /// A path, a name from `gleed list`, or `hf:owner/repository[:FORMAT]`
    #[arg(value_name = "IN")]
    input: String,

    /// The file to write
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// The mix of formats: f16, q8_0, q4_0, q4_k_m, q5_k_m, q6_k, …
    #[arg(long = "type", value_name = "TYPE", value_parser = mix)]
    mix: Mix,

    /// Threads to compute with [default: one per core]
    #[arg(short, long, value_name = "N")]
    threads: Option<usize>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A mix by its name, for the argument parser.
pub fn mix(name: &str) -> Result<Mix, String> {
    Mix::from_name(name).map_err(|e| e.to_string())
}

/// Values that are decoded and encoded at a time: bounds the memory, keeps the threads busy.
const CHUNK: usize = 4 << 20;

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    let threads = match arguments.threads {
        Some(0) => bail!("--threads must be at least 1"),
        Some(n) => n,
        None => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    };
    let file = load::open_file(&arguments.input)?;
    if let Some(part) = file.parts().find(|part| is_same_file(part, &arguments.output)) {
        bail!("{}: IN and OUT are the same file", part.display());
    }
    let choices = choose(&file, arguments.mix)?;
    let specs: Vec<TensorSpec> = file
        .tensors()
        .iter()
        .zip(&choices)
        .map(|(tensor, choice)| TensorSpec {
            format: choice.format.unwrap_or(tensor.format),
            ..TensorSpec::from(tensor)
        })
        .collect();
    for (tensor, choice) in file.tensors().iter().zip(&choices) {
        if let (Some(wanted), Some(format)) = (choice.instead_of, choice.format) {
            output::warning(format!(
                "tensor {}: {} columns are not whole blocks of {wanted}, {format} is used instead",
                tensor.name, tensor.shape[0]
            ));
        }
    }
    let mut metadata = file.metadata().clone();
    metadata.set("general.file_type", Value::U32(arguments.mix.file_type()));
    metadata.set("general.quantization_version", Value::U32(2));
    metadata.remove_prefix("split.");
    let mut writer = Writer::create(&arguments.output, &metadata, &specs)?;
    let total: usize = file.tensors().iter().map(TensorInfo::len).sum();
    let progress = Progress::new("quantize", total as u64);
    for (tensor, spec) in file.tensors().iter().zip(&specs) {
        progress.message(&tensor.name);
        convert(&file, tensor, spec.format, threads, &mut writer, |values| progress.advance(values as u64))
            .with_context(|| format!("tensor {}", tensor.name))?;
        file.release(tensor);
    }
    writer.finish()?;
    progress.finish();
    let bytes = std::fs::metadata(&arguments.output)?.len();
    let before = file.tensor_bytes();
    if arguments.json {
        return output::print_json(&json!({
            "path": arguments.output, "type": arguments.mix.name(), "bytes": bytes,
        }));
    }
    output::note(format!(
        "{} tensors, {} of weights in, {} out",
        specs.len(),
        output::human_bytes(before),
        output::human_bytes(bytes)
    ));
    output::print_line(arguments.output.display())
}

fn is_same_file(a: &std::path::Path, b: &std::path::Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// What becomes of each tensor.
fn choose(file: &Gguf, mix: Mix) -> Result<Vec<TensorFormat>> {
    let metadata = file.metadata();
    let architecture = metadata.str("general.architecture")?.unwrap_or_default();
    let size = |key: &str| {
        let key = format!("{architecture}.{key}");
        match metadata.get(&key) {
            // Of a list of all layers' the largest.
            Some(Value::Array(sizes)) => {
                let largest = (0..sizes.len()).filter_map(|i| sizes.get(i)?.as_u64()).max();
                Ok(largest.and_then(|size| usize::try_from(size).ok()))
            }
            _ => metadata.size(&key),
        }
    };
    let heads = size("attention.head_count")?.unwrap_or(0);
    let facts = Facts {
        layers: size("block_count")?.unwrap_or(0),
        heads,
        kv_heads: size("attention.head_count_kv")?.unwrap_or(heads),
        experts: size("expert_count")?.unwrap_or(0),
    };
    let tensors: Vec<(&str, &[usize])> =
        file.tensors().iter().map(|t| (t.name.as_str(), t.shape.as_slice())).collect();
    Ok(mix.plan(&tensors, &facts))
}

/// Decodes and encodes one tensor, rows shared out to the threads, and writes it chunk by chunk.
fn convert(
    file: &Gguf,
    tensor: &TensorInfo,
    format: Format,
    threads: usize,
    writer: &mut Writer,
    mut done: impl FnMut(usize),
) -> Result<()> {
    let data = file.data(tensor);
    if format == tensor.format {
        writer.write(&tensor.name, data)?;
        done(tensor.len());
        return Ok(());
    }
    let columns = tensor.shape.first().copied().unwrap_or(1).max(1);
    let (from, to) = (tensor.format.row_bytes(columns)?, format.row_bytes(columns)?);
    let rows_at_once = (CHUNK / columns).max(threads);
    for chunk in data.chunks(rows_at_once * from) {
        let rows = chunk.len() / from;
        let mut encoded = vec![0u8; rows * to];
        let per_thread = rows.div_ceil(threads);
        std::thread::scope(|scope| {
            let workers: Vec<_> = chunk
                .chunks(per_thread * from)
                .zip(encoded.chunks_mut(per_thread * to))
                .map(|(source, target)| {
                    scope.spawn(move || -> gleed_gguf::Result<()> {
                        let mut values = vec![0.0; columns];
                        for (source, target) in source.chunks(from).zip(target.chunks_mut(to)) {
                            tensor.format.decode(source, &mut values);
                            format.encode(&values, target)?;
                        }
                        Ok(())
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|w| w.join().expect("a worker does not panic"))
        })?;
        writer.write_part(&tensor.name, &encoded)?;
        done(rows * columns);
    }
    Ok(())
}
