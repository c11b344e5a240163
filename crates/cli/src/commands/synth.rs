//! `gleed synth`: a file of a well-known model's exact shape with random weights, so that anyone can ask
//! "how fast would it be here?" before downloading gigabytes.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use gleed_engine::sampler::Random;
use gleed_gguf::{Array, Facts, Format, Metadata, Mix, Strings, TensorSpec, Value, Writer};
use gleed_model::shapes::{SHAPES, Shape};
use serde_json::json;

use super::quantize::mix;
use crate::output;
use crate::progress::Progress;

/// Write a model of a real shape with random weights
#[derive(Args)]
pub struct Arguments {
    /// The shape, such as qwen3-8b; an unknown one lists them all
    shape: String,

    /// The file to write
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// The mix of formats: f16, q8_0, q4_0, q4_k_m, …
    #[arg(long = "type", value_name = "TYPE", default_value = "q4_k_m", value_parser = mix)]
    mix: Mix,

    /// The same seed writes the same file
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    let Some(shape) = Shape::find(&arguments.shape) else {
        let known: Vec<&str> = SHAPES.iter().map(|s| s.name).collect();
        bail!("no shape named {}; known: {}", arguments.shape, known.join(", "));
    };
    let model = shape.model()?;
    let tensors = shape.tensors()?;
    let named: Vec<(&str, &[usize])> = tensors.iter().map(|(n, s)| (n.as_str(), s.as_slice())).collect();
    let config = &model.config;
    let experts = model.program.weights.iter().map(|weight| weight.experts).max().filter(|most| *most > 1);
    let facts = Facts {
        layers: config.layers,
        heads: config.heads,
        kv_heads: config.kv_heads,
        experts: experts.unwrap_or(0),
        importance: false,
    };
    let choices = arguments.mix.plan(&named, &facts);
    let specs: Vec<TensorSpec> = tensors
        .iter()
        .zip(choices)
        .map(|((name, shape), choice)| TensorSpec {
            name: name.clone(),
            shape: shape.clone(),
            format: choice.format.unwrap_or(Format::F32),
        })
        .collect();
    let mut metadata = shape.metadata();
    metadata.set("general.file_type", Value::U32(arguments.mix.file_type()));
    metadata.set("general.quantization_version", Value::U32(2));
    set_tokenizer(&mut metadata, shape.vocabulary as usize);
    let mut writer = Writer::create(&arguments.output, &metadata, &specs)?;
    let sizes: Vec<usize> = specs.iter().map(|s| s.bytes()).collect::<gleed_gguf::Result<_>>()?;
    let progress = Progress::new("synth", sizes.iter().sum::<usize>() as u64).bytes();
    let mut blocks = Blocks { random: Random::new(arguments.seed), banks: HashMap::new() };
    for (spec, bytes) in specs.iter().zip(sizes) {
        progress.message(&spec.name);
        if spec.name == "rope_freqs.weight" {
            let factors = shape.rope_factors().unwrap_or_default();
            writer.write(&spec.name, &factors.iter().flat_map(|f| f.to_le_bytes()).collect::<Vec<u8>>())?;
            continue;
        }
        blocks.write(spec, bytes, &mut writer, |written| progress.advance(written as u64))?;
    }
    writer.finish()?;
    progress.finish();
    let bytes = std::fs::metadata(&arguments.output)?.len();
    if arguments.json {
        return output::print_json(&json!({
            "path": arguments.output, "shape": shape.name, "type": arguments.mix.name(), "bytes": bytes,
        }));
    }
    output::note(format!("{} as {}: {}", shape.name, arguments.mix.name(), output::human_bytes(bytes)));
    output::print_line(arguments.output.display())
}

/// Encoded random blocks. Encoding billions of values would take minutes, so each kind of tensor has a
/// bank of a few thousand blocks, and its data is runs of them from random places.
struct Blocks {
    random: Random,
    banks: HashMap<(Format, u32), Vec<u8>>,
}

/// Values in a bank: a multiple of every block length.
const BANK: usize = 1 << 20;
/// Values in a run.
const RUN: usize = 1 << 14;

impl Blocks {
    fn write(
        &mut self,
        spec: &TensorSpec,
        bytes: usize,
        writer: &mut Writer,
        mut done: impl FnMut(usize),
    ) -> Result<()> {
        // Norms are near 1, biases small; matrices keep the size of what passes through them, and states decay.
        let (mean, spread) = match spec.shape[..] {
            _ if spec.name.ends_with("norm.weight") || spec.name.ends_with("norm") => (1.0, 0.1),
            _ if spec.name.ends_with("ssm_a") => (-8.0, 1.0),
            _ if spec.name.ends_with("ssm_d") => (1.0, 0.1),
            _ if spec.name.ends_with("ssm_dt.bias") => (-3.0, 0.5),
            [_] => (0.0, 0.02),
            [inputs, ..] => (0.0, 1.0 / (inputs as f32).sqrt()),
            [] => (0.0, 1.0),
        };
        let bank = self.bank(spec.format, mean, spread)?;
        let run = RUN / spec.format.block_len() * spec.format.block_bytes();
        let mut left = bytes;
        while left > 0 {
            let run = run.min(left);
            let places = (bank.len() - run) / spec.format.block_bytes() + 1;
            let start = self.random.below(places as u64) as usize * spec.format.block_bytes();
            writer.write_part(&spec.name, &bank[start..start + run])?;
            left -= run;
            done(run);
        }
        Ok(())
    }

    /// The bank of a format and distribution, made on first use.
    fn bank(&mut self, format: Format, mean: f32, spread: f32) -> Result<Vec<u8>> {
        let key = (format, (mean + spread).to_bits());
        if let Some(bank) = self.banks.get(&key) {
            return Ok(bank.clone());
        }
        let values: Vec<f32> = (0..BANK).map(|_| mean + spread * self.normal()).collect();
        let mut bank = vec![0; BANK / format.block_len() * format.block_bytes()];
        format.encode(&values, &mut bank)?;
        self.banks.insert(key, bank.clone());
        Ok(bank)
    }

    /// Nearly normal: the sum of twelve uniform numbers, less its mean, has variance 1.
    fn normal(&mut self) -> f32 {
        let sum: u64 = (0..12).map(|_| self.random.next_u64() >> 40).sum();
        sum as f32 / (1u64 << 24) as f32 - 6.0
    }
}

/// A byte-level vocabulary: 256 bytes, then entries that no text becomes.
fn set_tokenizer(metadata: &mut Metadata, vocabulary: usize) {
    let bytes = gleed_tokenizer::byte_alphabet();
    let name = |i: usize| bytes.get(i).map_or_else(|| format!("[UNUSED{i}]"), |c| c.to_string());
    let tokens: Strings = (0..vocabulary).map(name).collect();
    let types: Vec<i32> = (0..vocabulary).map(|i| if i < 256 { 1 } else { 5 }).collect();
    metadata.set("tokenizer.ggml.model", Value::Str("gpt2".to_string()));
    metadata.set("tokenizer.ggml.pre", Value::Str("gpt-2".to_string()));
    metadata.set("tokenizer.ggml.tokens", Value::Array(Array::Str(tokens)));
    metadata.set("tokenizer.ggml.token_type", Value::Array(Array::I32(types)));
    metadata.set("tokenizer.ggml.merges", Value::Array(Array::Str(Strings::default())));
    let last = vocabulary as u32 - 1;
    metadata.set("tokenizer.ggml.bos_token_id", Value::U32(last));
    metadata.set("tokenizer.ggml.eos_token_id", Value::U32(last));
    metadata.set("tokenizer.ggml.add_bos_token", Value::Bool(false));
}
