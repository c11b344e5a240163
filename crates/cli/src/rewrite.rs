//! Writes a model that is open to a file, in other formats or in those that it has: what `quantize` and `convert`
//! share. It is streamed, so that memory stays small however large the model is.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use gleed_gguf::{Facts, Format, Gguf, Mix, TensorFormat, TensorInfo, TensorSpec, Value, Writer};
use serde_json::json;

use crate::importance::Weights;
use crate::output;
use crate::progress::Progress;

/// Values that are decoded and encoded at a time: bounds the memory, keeps the threads busy.
const CHUNK: usize = 4 << 20;

/// Writes a model in a mix of formats, or as it is, and tells what was written. `label` stands before the bar; `weights`
/// say which errors matter.
pub fn rewrite(
    label: &str,
    file: &Gguf,
    target: &Path,
    mix: Option<Mix>,
    weights: Option<&Weights>,
    threads: Option<usize>,
    json: bool,
) -> Result<()> {
    let threads = match threads {
        Some(0) => bail!("--threads must be at least 1"),
        Some(n) => n,
        None => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    };
    if let Some(part) = file.parts().find(|part| is_same_file(part, target)) {
        bail!("{}: IN and OUT are the same file", part.display());
    }
    let mut metadata = file.metadata().clone();
    let choices = match mix {
        Some(mix) => choose(file, mix, weights.is_some())?,
        None => vec![TensorFormat { format: None, instead_of: None }; file.tensors().len()],
    };
    if let Some(mix) = mix {
        metadata.set("general.file_type", Value::U32(mix.file_type()));
        metadata.set("general.quantization_version", Value::U32(2));
    }
    if let Some(weights) = weights {
        weights.describe(&mut metadata);
    }
    metadata.remove_prefix("split.");
    if let Some(mix) = mix.filter(|mix| mix.needs_importance() && weights.is_none()) {
        output::warning(format!(
            "{} leaves so few bits that it needs an importance matrix: `gleed imatrix` makes one, `gleed quantize \
             --imatrix` takes it",
            mix.name()
        ));
    }
    let specs: Vec<TensorSpec> = file
        .tensors()
        .iter()
        .zip(&choices)
        .map(|(tensor, choice)| TensorSpec {
            format: choice.format.unwrap_or(tensor.format),
            ..TensorSpec::from(tensor)
        })
        .collect();
    let importance = weights.map(|weights| weights.of_tensors(file, &specs)).transpose()?;
    tell_stand_ins(file, &choices);
    let mut writer = Writer::create(target, &metadata, &specs)?;
    let total: usize = file.tensors().iter().map(TensorInfo::len).sum();
    let progress = Progress::new(label, total as u64);
    for (index, (tensor, spec)) in file.tensors().iter().zip(&specs).enumerate() {
        progress.message(&tensor.name);
        let importance = importance.as_ref().and_then(|of_tensors| of_tensors[index].as_deref());
        let coding = Coding { format: spec.format, importance, threads };
        recode(file, tensor, &coding, &mut writer, |values| progress.advance(values as u64))
            .with_context(|| format!("tensor {}", tensor.name))?;
        file.release(tensor);
    }
    writer.finish()?;
    progress.finish();
    let bytes = std::fs::metadata(target)?.len();
    if json {
        let file_type = metadata.u64("general.file_type")?;
        let name = Mix::all().find(|mix| Some(u64::from(mix.file_type())) == file_type).map(Mix::name);
        return output::print_json(&json!({ "path": target, "type": name, "bytes": bytes }));
    }
    output::note(format!(
        "{} tensors, {} of weights in, {} out",
        specs.len(),
        output::human_bytes(file.tensor_bytes()),
        output::human_bytes(bytes)
    ));
    output::print_line(target.display())
}

/// Tells which tensors have another format than the mix asked for: a line for all of one kind.
fn tell_stand_ins(file: &Gguf, choices: &[TensorFormat]) {
    let mut kinds: BTreeMap<(usize, &str, &str), Vec<&str>> = BTreeMap::new();
    for (tensor, choice) in file.tensors().iter().zip(choices) {
        if let (Some(wanted), Some(format)) = (choice.instead_of, choice.format) {
            let kind = (tensor.shape[0], wanted.name(), format.name());
            kinds.entry(kind).or_default().push(&tensor.name);
        }
    }
    for ((columns, wanted, format), names) in kinds {
        let which = match names[..] {
            [name] => format!("tensor {name}"),
            _ => format!("{} tensors, such as {}", names.len(), names[0]),
        };
        output::warning(format!(
            "{which}: {columns} columns are not whole blocks of {wanted}, {format} is used instead"
        ));
    }
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// What becomes of each tensor.
fn choose(file: &Gguf, mix: Mix, importance: bool) -> Result<Vec<TensorFormat>> {
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
        importance,
    };
    let tensors: Vec<(&str, &[usize])> =
        file.tensors().iter().map(|t| (t.name.as_str(), t.shape.as_slice())).collect();
    Ok(mix.plan(&tensors, &facts))
}

/// How a tensor is encoded.
struct Coding<'a> {
    format: Format,
    /// How much each column of each of its matrices matters, if that is known.
    importance: Option<&'a [f32]>,
    threads: usize,
}

impl Coding<'_> {
    /// Encodes a row of a tensor of matrices with `rows` rows.
    fn encode(&self, row: usize, rows: usize, values: &[f32], out: &mut [u8]) -> gleed_gguf::Result<()> {
        match self.importance {
            None => self.format.encode(values, out),
            Some(importance) => {
                let importance = &importance[row / rows.max(1) * values.len()..][..values.len()];
                self.format.encode_weighted(values, importance, out)
            }
        }
    }
}

/// Decodes and encodes one tensor, rows shared out to the threads, and writes it chunk by chunk.
fn recode(
    file: &Gguf,
    tensor: &TensorInfo,
    coding: &Coding,
    writer: &mut Writer,
    mut done: impl FnMut(usize),
) -> Result<()> {
    let &Coding { format, threads, .. } = coding;
    if tensor.bytes == 0 {
        writer.write(&tensor.name, &[])?;
    }
    let columns = tensor.shape.first().copied().unwrap_or(1).max(1);
    let rows_of_matrix = tensor.shape.get(1).copied().unwrap_or(1);
    let (from, to) = (tensor.format.row_bytes(columns)?, format.row_bytes(columns)?);
    let bytes_at_once = (CHUNK / columns).max(threads) * from;
    for start in (0..tensor.bytes).step_by(bytes_at_once) {
        let chunk = file.stretch(tensor, start..tensor.bytes.min(start + bytes_at_once));
        let rows = chunk.len() / from;
        done(rows * columns);
        if format == tensor.format {
            writer.write_part(&tensor.name, &chunk)?;
            continue;
        }
        let mut encoded = vec![0u8; rows * to];
        let per_thread = rows.div_ceil(threads);
        std::thread::scope(|scope| {
            let workers: Vec<_> = chunk
                .chunks(per_thread * from)
                .zip(encoded.chunks_mut(per_thread * to))
                .enumerate()
                .map(|(worker, (source, target))| {
                    let first = start / from + worker * per_thread;
                    scope.spawn(move || -> gleed_gguf::Result<()> {
                        let mut values = vec![0.0; columns];
                        let rows = source.chunks(from).zip(target.chunks_mut(to));
                        for (row, (source, target)) in (first..).zip(rows) {
                            tensor.format.decode(source, &mut values);
                            coding.encode(row, rows_of_matrix, &values, target)?;
                        }
                        Ok(())
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|w| w.join().expect("a worker does not panic"))
        })?;
        writer.write_part(&tensor.name, &encoded)?;
    }
    Ok(())
}
