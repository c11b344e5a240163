//! Tiny models with random adapters, and sequences that take them.

use std::sync::Arc;

use gleed_gguf::{Format, Gguf, Metadata, Value};
use gleed_model::adapters::{Adapter, join};
use gleed_model::executor::Observer;
use gleed_model::groups::PageGroup;
use gleed_model::program::{Op, Program};
use gleed_model::{Batch, Executor, Model, StepError};

use super::{Random, file, tiny};

/// What a file says that is an adapter of an architecture.
pub fn adapter_metadata(architecture: &str) -> Metadata {
    let mut metadata = Metadata::default();
    for (key, value) in
        [("general.type", "adapter"), ("general.architecture", architecture), ("adapter.type", "lora")]
    {
        metadata.set(key, Value::Str(value.to_string()));
    }
    metadata.set("adapter.lora.alpha", Value::F32(6.0));
    metadata
}

/// A random adapter: of every third weight none, of the others ranks from 1 to 19, in F32 and F16.
pub fn random_adapter(model: &Model, seed: u64) -> Gguf {
    let (mut random, mut tensors, mut seen) = (Random::new(seed), Vec::new(), Vec::new());
    for node in &model.program.nodes {
        let (ids, is_embedding) = match &node.op {
            Op::Linear { parts, .. } | Op::ExpertLinear { parts, .. } => {
                (parts.iter().map(|part| part.weight).collect(), false)
            }
            Op::Embed { table, .. } => (vec![*table], true),
            _ => (vec![], false),
        };
        for id in ids {
            let weight = &model.program.weights[id];
            if seen.contains(&id) || (id as u64 + seed).is_multiple_of(3) {
                continue;
            }
            seen.push(id);
            let rank = 1 + random.below(19);
            let (mut lower, mut upper) = match is_embedding {
                true => (vec![rank, weight.rows], vec![rank, weight.columns]),
                false => (vec![weight.columns, rank], vec![rank, weight.rows]),
            };
            if weight.experts > 1 {
                [&mut lower, &mut upper].into_iter().for_each(|shape| shape.push(weight.experts));
            }
            let format = if id % 2 == 0 { Format::F32 } else { Format::F16 };
            for (half, shape) in [("lora_a", lower), ("lora_b", upper)] {
                let size: usize = shape.iter().product();
                let reach = (shape[0] as f32).powf(-0.5);
                let values: Vec<f32> = (0..size).map(|_| reach * random.unit()).collect();
                let mut bytes = vec![0; size * format.block_bytes()];
                format.encode(&values, &mut bytes).unwrap();
                tensors.push((format!("{}.{half}", weight.name), shape, format, bytes));
            }
        }
    }
    let file = file(&adapter_metadata(&model.config.architecture), &tensors);
    Arc::into_inner(file).unwrap()
}

/// A tiny model with a random adapter for each of these seeds, of which rows take nothing that do not say.
pub fn tiny_adapted(family: &str, formats: &[Format], seeds: &[u64]) -> (Arc<Gguf>, Program) {
    let (file, _) = tiny(family, formats, 5);
    let model = Model::load(&file).unwrap();
    let read = |seed: &u64| Adapter::read(random_adapter(&model, *seed), 0.0, &model).unwrap();
    let adapters: Vec<Adapter> = seeds.iter().map(read).collect();
    let joined = join(Arc::into_inner(file).unwrap(), &adapters).unwrap();
    let program = model.adapted(&adapters).unwrap().program;
    (Arc::new(joined), program)
}

/// An executor whose sequences take adapters by `scales`, which has a list for each table's number.
pub struct Taking<E> {
    pub executor: E,
    pub scales: Vec<Vec<f32>>,
}

impl<E: Executor> Executor for Taking<E> {
    fn program(&self) -> &Program {
        self.executor.program()
    }

    fn max_rows(&self) -> usize {
        self.executor.max_rows()
    }

    fn page_groups(&self) -> &[PageGroup] {
        self.executor.page_groups()
    }

    fn slot_count(&self) -> usize {
        self.executor.slot_count()
    }

    fn step(&mut self, batch: &Batch, observer: &mut dyn Observer) -> Result<(), StepError> {
        let mut batch = batch.clone();
        for (table, scales) in self.scales.iter().enumerate() {
            batch.adapt(table as u32, scales);
        }
        self.executor.step(&batch, observer)
    }

    fn logits(&self, index: usize) -> &[f32] {
        self.executor.logits(index)
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) {
        self.executor.copy_page(group, from, to);
    }
}
