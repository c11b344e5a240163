//! A model: its configuration and its plain program, built from a file or planned for one.

use gleed_gguf::{Format, Gguf, Metadata};

use crate::Result;
use crate::archs;
use crate::build::{Builder, Tensors};
use crate::config::Config;
use crate::keys::Keys;
use crate::program::Program;

/// A model that is understood, though not yet loaded onto any device.
#[derive(Debug, Clone)]
pub struct Model {
    /// The hyper-parameters.
    pub config: Config,
    /// What it computes, one plain op at a time.
    pub program: Program,
    /// Tensors of the file that the program does not use.
    pub unused: Vec<String>,
    /// Hyper-parameters of the file that nothing reads. None of them is known to change the result.
    pub unread: Vec<String>,
}

impl Model {
    /// Reads a file's metadata and tensor table.
    pub fn load(file: &Gguf) -> Result<Model> {
        Model::load_for(file, usize::MAX)
    }

    /// The same for sequences of at most `positions` positions, where the model computes something else for fewer: some
    /// have rotary factors for short contexts and others for long ones.
    pub fn load_for(file: &Gguf, positions: usize) -> Result<Model> {
        let Built { config, program, read, unread } = build(file.metadata(), file, positions)?;
        let guessing = config.layers..config.layers + config.guessing_layers;
        let used = |name: &str| {
            let layer = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok());
            read.iter().any(|read| read == name)
                || program.weights.iter().any(|w| w.name == name)
                || layer.is_some_and(|layer: usize| guessing.contains(&layer))
        };
        let unused = file.tensors().iter().filter(|t| !used(&t.name)).map(|t| t.name.clone()).collect();
        Ok(Model { config, program, unused, unread })
    }

    /// A model that has no file yet, with all the tensors that its architecture requires, and of the
    /// optional ones those that `optional` accepts. Their formats are F32.
    pub fn plan(metadata: &Metadata, vocabulary: usize, optional: impl Fn(&str) -> bool) -> Result<Model> {
        let plan = Planned { vocabulary, optional: &optional };
        let Built { config, program, unread, .. } = build(metadata, &plan, usize::MAX)?;
        Ok(Model { config, program, unused: vec![], unread })
    }
}

/// What a model's metadata and tensors come to.
struct Built {
    config: Config,
    program: Program,
    /// Tensors whose values are in the program, such as rotary factors.
    read: Vec<String>,
    /// Hyper-parameters that nothing read.
    unread: Vec<String>,
}

fn build(metadata: &Metadata, tensors: &dyn Tensors, positions: usize) -> Result<Built> {
    let keys = Keys::new(metadata)?;
    if !archs::is_known(keys.architecture()) {
        return Err(archs::unknown(keys.architecture()));
    }
    let mut config = Config::from_keys(&keys)?;
    config.used_context = config.context.min(positions);
    let mut builder = Builder::new(&config, &keys, tensors);
    archs::build(&mut builder)?;
    let (program, read) = builder.finish();
    let unread = keys.judge_unread(&config)?;
    Ok(Built { config, program, read, unread })
}

/// Has every tensor that is asked for, in the shape that is expected of it.
struct Planned<'a> {
    vocabulary: usize,
    optional: &'a dyn Fn(&str) -> bool,
}

impl Tensors for Planned<'_> {
    fn find(&self, name: &str, expected: &[usize], required: bool) -> Option<(Vec<usize>, Format)> {
        if !required && !(self.optional)(name) {
            return None;
        }
        let mut shape = expected.to_vec();
        if name == "token_embd.weight" {
            shape[1] = self.vocabulary;
        }
        Some((shape, Format::F32))
    }

    fn values(&self, _name: &str) -> Option<Vec<f32>> {
        None
    }
}
