//! Converts a llama2.c checkpoint and its tokenizer to a GGUF file of the `llama` architecture.
//!
//! `cargo run --release -p gleed-gguf --example llama2c -- stories15M.bin tokenizer.bin stories15M-f32.gguf`
//!
//! The checkpoint is seven integers, then every weight as `f32`, each kind for all layers together. Its
//! query and key rows are in the interleaved RoPE order that the `llama` architecture of GGUF expects, so
//! the weights are copied as they are.

use std::error::Error;
use std::path::Path;

use gleed_gguf::{Array, Format, Metadata, Strings, TensorSpec, Value, Writer};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [checkpoint, tokenizer, out] = arguments.as_slice() else {
        return Err("usage: llama2c CHECKPOINT.bin TOKENIZER.bin OUT.gguf".into());
    };
    let bytes = std::fs::read(checkpoint).map_err(|error| format!("{checkpoint}: {error}"))?;
    let vocabulary = std::fs::read(tokenizer).map_err(|error| format!("{tokenizer}: {error}"))?;
    let (config, weights) = Config::read(&bytes).map_err(|error| format!("{checkpoint}: {error}"))?;
    let tensors = tensors(&config, weights).map_err(|error| format!("{checkpoint}: {error}"))?;

    let name = Path::new(checkpoint).file_stem().unwrap_or_default().to_string_lossy();
    let mut metadata = config.metadata(&name);
    add_tokenizer(&mut metadata, &vocabulary, config.vocabulary)
        .map_err(|error| format!("{tokenizer}: {error}"))?;

    let specs: Vec<TensorSpec> = tensors.iter().map(|(spec, _)| spec.clone()).collect();
    let mut writer = Writer::create(Path::new(out), &metadata, &specs)?;
    for (spec, data) in &tensors {
        writer.write(&spec.name, data)?;
    }
    writer.finish()?;
    Ok(())
}

/// The seven integers at the start of a checkpoint.
struct Config {
    width: usize,
    hidden: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    vocabulary: usize,
    context: usize,
    /// Whether the output matrix is the embedding matrix; the file says it by the sign of the vocabulary.
    tied: bool,
}

impl Config {
    /// The configuration, and the weights that follow it.
    fn read(bytes: &[u8]) -> Result<(Config, &[u8])> {
        let (header, weights) = bytes.split_at_checked(7 * 4).ok_or("shorter than a header")?;
        let numbers: Vec<i32> = header.as_chunks::<4>().0.iter().map(|&n| i32::from_le_bytes(n)).collect();
        let size = |index: usize| -> Result<usize> {
            let number = numbers[index].unsigned_abs() as usize;
            // Only the vocabulary may be negative, and no number is large: this keeps products in range.
            if number == 0 || number > 1 << 20 || (numbers[index] < 0 && index != 5) {
                return Err(
                    format!("header number {index} is {}: not a llama2.c file", numbers[index]).into()
                );
            }
            Ok(number)
        };
        let config = Config {
            width: size(0)?,
            hidden: size(1)?,
            layers: size(2)?,
            heads: size(3)?,
            kv_heads: size(4)?,
            vocabulary: size(5)?,
            context: size(6)?,
            tied: numbers[5] > 0,
        };
        if !config.width.is_multiple_of(config.heads) || !config.heads.is_multiple_of(config.kv_heads) {
            return Err("the heads do not divide the width: not a llama2.c file".into());
        }
        Ok((config, weights))
    }

    fn head_size(&self) -> usize {
        self.width / self.heads
    }

    fn metadata(&self, name: &str) -> Metadata {
        let mut metadata = Metadata::default();
        metadata.set("general.architecture", Value::Str("llama".into()));
        metadata.set("general.name", Value::Str(name.into()));
        // The published checkpoints and the code that trained them are under this licence.
        metadata.set("general.license", Value::Str("MIT".into()));
        metadata.set("general.file_type", Value::U32(0));
        metadata.set("llama.rope.freq_base", Value::F32(10_000.0));
        metadata.set("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5));
        for (key, size) in [
            ("context_length", self.context),
            ("embedding_length", self.width),
            ("block_count", self.layers),
            ("feed_forward_length", self.hidden),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("rope.dimension_count", self.head_size()),
            ("vocab_size", self.vocabulary),
        ] {
            metadata.set(format!("llama.{key}"), Value::U32(size as u32));
        }
        metadata
    }
}

/// Every tensor with its data, in the order of the layers.
fn tensors<'a>(config: &Config, mut weights: &'a [u8]) -> Result<Vec<(TensorSpec, &'a [u8])>> {
    let mut take = |values: usize| -> Result<&'a [u8]> {
        let (taken, rest) = weights.split_at_checked(values * 4).ok_or("the weights are cut short")?;
        weights = rest;
        Ok(taken)
    };
    let kv_width = config.kv_heads * config.head_size();
    let (width, hidden, layers) = (config.width, config.hidden, config.layers);

    let embedding = take(config.vocabulary * width)?;
    // The order of the file: each kind of weight for all layers.
    let mut stacks = Vec::new();
    for (name, shape) in [
        ("attn_norm", vec![width]),
        ("attn_q", vec![width, width]),
        ("attn_k", vec![width, kv_width]),
        ("attn_v", vec![width, kv_width]),
        ("attn_output", vec![width, width]),
        ("ffn_norm", vec![width]),
        ("ffn_gate", vec![width, hidden]),
        ("ffn_down", vec![hidden, width]),
        ("ffn_up", vec![width, hidden]),
    ] {
        let values = shape.iter().product::<usize>();
        stacks.push((name, shape, take(layers * values)?));
    }
    let norm = take(width)?;
    // Tables of cosines and sines that every reader computes for itself.
    take(config.context * config.head_size())?;
    let output = if config.tied { None } else { Some(take(config.vocabulary * width)?) };
    if !weights.is_empty() {
        return Err(format!("{} bytes are left over: not a llama2.c file", weights.len()).into());
    }

    let spec = |name: String, shape: Vec<usize>| TensorSpec { name, shape, format: Format::F32 };
    let mut tensors = vec![(spec("token_embd.weight".into(), vec![width, config.vocabulary]), embedding)];
    for layer in 0..layers {
        for (name, shape, data) in &stacks {
            let size = data.len() / layers;
            let spec = spec(format!("blk.{layer}.{name}.weight"), shape.clone());
            tensors.push((spec, &data[layer * size..][..size]));
        }
    }
    tensors.push((spec("output_norm.weight".into(), vec![width]), norm));
    if let Some(output) = output {
        tensors.push((spec("output.weight".into(), vec![width, config.vocabulary]), output));
    }
    Ok(tensors)
}

/// The token types of GGUF.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const BYTE: i32 = 6;

/// Adds a SentencePiece vocabulary: the longest token's length, then score, length and bytes of each.
fn add_tokenizer(metadata: &mut Metadata, mut bytes: &[u8], vocabulary: usize) -> Result<()> {
    let mut take = |count: usize| -> Result<&[u8]> {
        let (taken, rest) = bytes.split_at_checked(count).ok_or("the vocabulary is cut short")?;
        bytes = rest;
        Ok(taken)
    };
    take(4)?;
    let mut tokens = Strings::default();
    let mut scores = Vec::new();
    let mut types = Vec::new();
    for id in 0..vocabulary {
        scores.push(f32::from_le_bytes(take(4)?.try_into()?));
        let length = i32::from_le_bytes(take(4)?.try_into()?);
        let piece = std::str::from_utf8(take(usize::try_from(length)?)?)?;
        // llama2.c stores the three special tokens with line breaks around them.
        let (piece, kind) = match (id, byte_token(id, piece)) {
            (0, _) => ("<unk>".to_string(), UNKNOWN),
            (1, _) => ("<s>".to_string(), CONTROL),
            (2, _) => ("</s>".to_string(), CONTROL),
            (_, Some(byte)) => (byte, BYTE),
            (_, None) => (piece.replace(' ', "\u{2581}"), NORMAL),
        };
        tokens.push(piece.as_bytes());
        types.push(kind);
    }
    if !bytes.is_empty() {
        return Err(format!("{} bytes are left over: the vocabulary is of another model", bytes.len()).into());
    }
    metadata.set("tokenizer.ggml.model", Value::Str("llama".into()));
    metadata.set("tokenizer.ggml.pre", Value::Str("default".into()));
    metadata.set("tokenizer.ggml.tokens", Value::Array(Array::Str(tokens)));
    metadata.set("tokenizer.ggml.scores", Value::Array(Array::F32(scores)));
    metadata.set("tokenizer.ggml.token_type", Value::Array(Array::I32(types)));
    metadata.set("tokenizer.ggml.unknown_token_id", Value::U32(0));
    metadata.set("tokenizer.ggml.bos_token_id", Value::U32(1));
    metadata.set("tokenizer.ggml.eos_token_id", Value::U32(2));
    metadata.set("tokenizer.ggml.add_bos_token", Value::Bool(true));
    metadata.set("tokenizer.ggml.add_eos_token", Value::Bool(false));
    metadata.set("tokenizer.ggml.add_space_prefix", Value::Bool(true));
    Ok(())
}

/// The byte tokens follow the three special ones, in order: older files hold each as the character of
/// that number, newer ones as `<0x0A>`.
fn byte_token(id: usize, piece: &str) -> Option<String> {
    let byte = u8::try_from(id.checked_sub(3)?).ok()?;
    let name = format!("<0x{byte:02X}>");
    (piece == name || piece.chars().eq([char::from(byte)])).then_some(name)
}
