//! The matrices of adapters as tensors of f32 beside those of the model.

use std::sync::Arc;

use gleed_gguf::{Format, Gguf, Make, TensorInfo, TensorSpec};

use super::{Adapter, Pair};

/// What the lower matrix that an adapter has for a weight is called beside the model's tensors.
pub(super) fn lower_name(weight: &str, adapter: usize) -> String {
    format!("{weight}.lora_a.{adapter}")
}

/// The same of the upper one.
pub(super) fn upper_name(weight: &str, adapter: usize) -> String {
    format!("{weight}.lora_b.{adapter}")
}

/// All matrices of some adapters; the upper ones turned.
pub(super) fn tensors(adapters: &[Adapter]) -> Vec<(TensorSpec, Box<dyn Make>)> {
    let mut tensors: Vec<(TensorSpec, Box<dyn Make>)> = Vec::new();
    for (number, adapter) in adapters.iter().enumerate() {
        for (weight, Pair { lower, upper, .. }) in &adapter.pairs {
            let mut turned = upper.shape.clone();
            turned.swap(0, 1);
            let both = [
                (lower_name(weight, number), lower.shape.clone(), lower, false),
                (upper_name(weight, number), turned, upper, true),
            ];
            for (name, shape, tensor, turned) in both {
                let (file, tensor) = (Arc::clone(&adapter.file), tensor.clone());
                let spec = TensorSpec { name, shape, format: Format::F32 };
                tensors.push((spec, Box::new(Decoded { file, tensor, turned })));
            }
        }
    }
    tensors
}

/// A tensor of an adapter as f32.
struct Decoded {
    file: Arc<Gguf>,
    tensor: TensorInfo,
    /// Whether rows become columns, in each of its matrices.
    turned: bool,
}

impl Make for Decoded {
    fn make(&self, start: usize, out: &mut [u8]) {
        let mut values = vec![0.0; self.tensor.len()];
        self.tensor.format.decode(self.file.data(&self.tensor), &mut values);
        let (columns, rows) = (self.tensor.shape[0], self.tensor.shape.get(1).copied().unwrap_or(1));
        for (index, out) in (start / 4..).zip(out.as_chunks_mut::<4>().0) {
            let from = if self.turned {
                let (matrix, place) = (index / (rows * columns), index % (rows * columns));
                matrix * rows * columns + place % rows * columns + place / rows
            } else {
                index
            };
            *out = values[from].to_le_bytes();
        }
    }

    fn release(&self) {
        self.file.release(&self.tensor);
    }
}
