//! An importance matrix beside the model that is quantised with it: which tensors it knows, and what the file says of it.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use gleed_gguf::{Gguf, Importance, Metadata, TensorSpec, Value};

use crate::output;

/// An importance matrix and where it came from.
pub struct Weights {
    path: PathBuf,
    importance: Importance,
}

impl Weights {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Weights> {
        Ok(Weights { path: path.to_path_buf(), importance: Importance::read(path)? })
    }

    /// How much each column of each matrix matters, for each tensor of a model that the matrix knows and that is
    /// quantised. Tells which others are quantised: the embeddings and the output are not expected to be known.
    pub fn of_tensors(&self, file: &Gguf, specs: &[TensorSpec]) -> Result<Vec<Option<Vec<f32>>>> {
        let mut unknown = Vec::new();
        let mut means = Vec::with_capacity(specs.len());
        for (tensor, spec) in file.tensors().iter().zip(specs) {
            if spec.format == tensor.format || spec.format.block_len() == 1 {
                means.push(None);
                continue;
            }
            let found = self.importance.inputs.get(&spec.name).map(|inputs| inputs.means());
            let expected = spec.shape[0] * spec.shape.iter().skip(2).product::<usize>();
            match &found {
                Some(found) if found.len() != expected => bail!(
                    "{}: tensor {}: {} columns are known and the model has {expected}; is it of another model?",
                    self.path.display(),
                    spec.name,
                    found.len()
                ),
                None if spec.name.starts_with("blk.") => unknown.push(spec.name.as_str()),
                _ => {}
            }
            means.push(found);
        }
        if !unknown.is_empty() && means.iter().all(Option::is_none) {
            bail!("{}: knows none of the model's tensors, such as {}", self.path.display(), unknown[0]);
        }
        if let Some(first) = unknown.first() {
            output::warning(format!(
                "{}: {} tensors that are quantised are not in it, such as {first}",
                self.path.display(),
                unknown.len()
            ));
        }
        Ok(means)
    }

    /// Writes into a model's metadata what it was quantised with, under the keys that others use.
    pub fn describe(&self, metadata: &mut Metadata) {
        metadata.set("quantize.imatrix.file", Value::Str(self.path.display().to_string()));
        if let Some(dataset) = self.importance.datasets.first() {
            metadata.set("quantize.imatrix.dataset", Value::Str(dataset.clone()));
        }
        metadata.set("quantize.imatrix.entries_count", Value::U32(self.importance.inputs.len() as u32));
        metadata.set("quantize.imatrix.chunks_count", Value::U32(self.importance.chunks));
    }
}
