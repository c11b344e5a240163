//! One small file per model family: what it computes, in the builder's vocabulary.

mod bert;
mod decoder;
mod deepseek2;
mod falcon_h1;
mod gemma;
mod gemma3n;
mod gemma4;
mod glm4;
mod gpt2;
mod gpt_oss;
mod granite;
mod lfm2;
mod llama;
mod llama4;
mod mamba;
mod modern_bert;
mod nemotron;
mod nemotron_h;
mod olmo2;
mod olmoe;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen35;
mod smollm3;

use crate::build::Builder;
use crate::{Error, Result};

/// A family's name in `general.architecture` and the function that emits its program.
type Family = (&'static str, fn(&mut Builder) -> Result<()>);

const FAMILIES: &[Family] = &[
    ("bert", bert::bert),
    ("deepseek2", deepseek2::build),
    ("falcon-h1", falcon_h1::build),
    ("gemma", gemma::gemma),
    ("gemma-embedding", gemma::embedding),
    ("gemma2", gemma::gemma2),
    ("gemma3", gemma::gemma3),
    ("gemma3n", gemma3n::build),
    ("gemma4", gemma4::build),
    ("glm4", glm4::build),
    ("glm4moe", glm4::experts),
    ("gpt-oss", gpt_oss::build),
    ("gpt2", gpt2::build),
    ("granite", granite::build),
    ("granitehybrid", granite::hybrid),
    ("granitemoe", granite::build),
    ("jina-bert-v2", bert::jina2),
    ("jina-bert-v3", bert::jina3),
    ("lfm2", lfm2::build),
    ("lfm2moe", lfm2::experts),
    ("llama", llama::build),
    ("llama4", llama4::build),
    ("mamba", mamba::build),
    ("mamba2", mamba::second),
    ("mistral3", llama::mistral3),
    ("modern-bert", modern_bert::build),
    ("nemotron", nemotron::build),
    ("nemotron_h", nemotron_h::build),
    ("nemotron_h_moe", nemotron_h::experts),
    ("nomic-bert", bert::nomic),
    ("nomic-bert-moe", bert::nomic_experts),
    ("olmo2", olmo2::build),
    ("olmoe", olmoe::build),
    ("phi3", phi3::build),
    ("phimoe", phi3::experts),
    ("qwen2", qwen2::build),
    ("qwen2moe", qwen2::experts),
    ("qwen2vl", qwen2::vision),
    ("qwen3", qwen3::build),
    ("qwen35", qwen35::build),
    ("qwen35moe", qwen35::experts),
    ("qwen3moe", qwen3::build),
    ("qwen3next", qwen35::next),
    ("qwen3vl", qwen3::vision),
    ("qwen3vlmoe", qwen3::vision),
    ("smollm3", smollm3::build),
];

/// The names of all known architectures.
pub fn known() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|(name, _)| *name)
}

/// Emits the program of the builder's configuration.
pub(crate) fn build(builder: &mut Builder) -> Result<()> {
    let name = &builder.config.architecture;
    match FAMILIES.iter().find(|(known, _)| known == name) {
        Some((_, build)) => build(builder),
        None => Err(unknown(name)),
    }
}

/// The error for an architecture that is not known.
pub(crate) fn unknown(name: &str) -> Error {
    let known = known().collect::<Vec<_>>().join(", ");
    Error::UnknownArchitecture { name: name.to_string(), known }
}

/// Whether an architecture is known.
pub(crate) fn is_known(name: &str) -> bool {
    known().any(|k| k == name)
}
