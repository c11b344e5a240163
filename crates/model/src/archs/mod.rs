//! One small file per model family: what it computes, in the builder's vocabulary.

mod afmoe;
mod apertus;
mod bert;
mod command_r;
mod decoder;
mod deepseek2;
mod exaone;
mod falcon_h1;
mod gemma;
mod gemma3n;
mod gemma4;
mod glm4;
mod gpt2;
mod gpt_oss;
mod gptneox;
mod granite;
mod hunyuan;
mod kimi_linear;
mod laguna;
mod lfm2;
mod llama;
mod llama4;
mod mamba;
mod mimo2;
mod modern_bert;
mod nemotron;
mod nemotron_h;
mod olmo2;
mod olmoe;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen35;
mod rwkv7;
mod seed_oss;
mod smollm3;
mod stablelm;
mod step35;

use crate::build::Builder;
use crate::{Error, Result};

/// A family's name in `general.architecture` and the function that emits its program.
type Family = (&'static str, fn(&mut Builder) -> Result<()>);

const FAMILIES: &[Family] = &[
    ("afmoe", afmoe::build),
    ("apertus", apertus::build),
    ("arcee", llama::arcee),
    ("bailingmoe2", qwen3::ling),
    ("bert", bert::bert),
    ("cohere2", command_r::second),
    ("command-r", command_r::build),
    ("deepseek2", deepseek2::build),
    ("deepseek32", deepseek2::third),
    ("dots1", qwen3::dots),
    ("ernie4_5", llama::build),
    ("ernie4_5-moe", llama::ernie_experts),
    ("exaone-moe", exaone::experts),
    ("exaone4", exaone::build),
    ("falcon", gptneox::falcon),
    ("falcon-h1", falcon_h1::build),
    ("gemma", gemma::gemma),
    ("gemma-embedding", gemma::embedding),
    ("gemma2", gemma::gemma2),
    ("gemma3", gemma::gemma3),
    ("gemma3n", gemma3n::build),
    ("gemma4", gemma4::build),
    ("glm-dsa", deepseek2::glm5),
    ("glm4", glm4::build),
    ("glm4moe", glm4::experts),
    ("gpt-oss", gpt_oss::build),
    ("gpt2", gpt2::build),
    ("gptneox", gptneox::build),
    ("granite", granite::build),
    ("granitehybrid", granite::hybrid),
    ("granitemoe", granite::build),
    ("hunyuan-dense", hunyuan::build),
    ("hunyuan-moe", hunyuan::experts),
    ("hy_v3", qwen3::hunyuan3),
    ("internlm2", llama::build),
    ("jamba", mamba::jamba),
    ("jina-bert-v2", bert::jina2),
    ("jina-bert-v3", bert::jina3),
    ("kimi-linear", kimi_linear::build),
    ("laguna", laguna::build),
    ("lfm2", lfm2::build),
    ("lfm2moe", lfm2::experts),
    ("llama", llama::build),
    ("llama4", llama4::build),
    ("mamba", mamba::build),
    ("mamba2", mamba::second),
    ("mimo2", mimo2::build),
    ("minicpm", granite::minicpm),
    ("minicpm3", granite::minicpm3),
    ("minimax-m2", olmoe::minimax),
    ("mistral3", llama::mistral3),
    ("mistral4", deepseek2::mistral4),
    ("modern-bert", modern_bert::build),
    ("nemotron", nemotron::build),
    ("nemotron_h", nemotron_h::build),
    ("nemotron_h_moe", nemotron_h::experts),
    ("nomic-bert", bert::nomic),
    ("nomic-bert-moe", bert::nomic_experts),
    ("olmo2", olmo2::build),
    ("olmoe", olmoe::build),
    ("phi2", gptneox::phi2),
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
    ("rwkv7", rwkv7::build),
    ("seed_oss", seed_oss::build),
    ("smollm3", smollm3::build),
    ("stablelm", stablelm::build),
    ("starcoder2", gpt2::starcoder2),
    ("step35", step35::build),
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
