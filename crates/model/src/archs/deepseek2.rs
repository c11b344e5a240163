//! DeepSeek V2, V3 and R1, Kimi K2, GLM-4.7 Flash: attention over a latent vector, and experts beside one that every row
//! uses, in all but the first layers. Mistral 4 is one of them, with queries that grow with their position. In DeepSeek
//! V3.2 and GLM 5 an indexer chooses the positions that a row sees.

use super::decoder::Decoder;
use crate::build::{Builder, Experts, Index, Latent};
use crate::rope::{Pairing, Rope, Scaling, Temperature, yarn_magnitude};
use crate::routing::Gate;
use crate::{Error, Result};

/// Files write the multiplier of YaRN's logarithm times this.
const WRITTEN: f32 = 0.1;

/// The context from which on files of GLM 5 that do not say so have indexers in some layers only (GLM 5.2).
const SHARED_FROM: usize = 1 << 20;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    let (rope, scale) = stretched(b, true)?;
    let rope = b.add_rope(rope);
    let latent = Latent::read(b, Some(rope), scale)?;
    decoder(b, latent, None, |_| true)
}

/// DeepSeek V3.2. The indexer's pairs are half of what is rotated apart, attention's are neighbours.
pub(super) fn third(b: &mut Builder) -> Result<()> {
    let latent = indexed(b, Pairing::SplitHalf)?;
    decoder(b, latent, None, |_| true)
}

/// GLM 5. Since 5.2 most layers see what the indexer of an earlier one chose: those for which the file says so.
pub(super) fn glm5(b: &mut Builder) -> Result<()> {
    let latent = indexed(b, Pairing::Interleaved)?;
    let listed = b.keys.listed_layers("attention.indexer.types", b.config.layers)?;
    let shared = b.config.context >= SHARED_FROM;
    let own = |layer: usize| match &listed {
        Some(own) => own[layer],
        None => !shared || layer < 2 || layer % 4 == 2,
    };
    if !own(0) {
        return Err(Error::Invalid(
            "the first layer has no indexer, and there is none before it".to_string(),
        ));
    }
    decoder(b, latent, Some(Gate::Sigmoid), own)
}

/// Latent attention with an indexer, which rotates by the same frequencies.
fn indexed(b: &mut Builder, pairing: Pairing) -> Result<Latent> {
    let (rope, scale) = stretched(b, true)?;
    let index = b.add_rope(Rope { pairing, ..rope.clone() });
    let rope = b.add_rope(rope);
    let latent = Latent::read(b, Some(rope), scale)?;
    if latent.query_rank.is_none() {
        b.keys.required("attention.q_lora_rank")?;
    }
    Ok(Latent { index: Index::read(b, index)?, ..latent })
}

pub(super) fn mistral4(b: &mut Builder) -> Result<()> {
    let (rope, scale) = stretched(b, false)?;
    let rope = b.add_rope(rope);
    let latent = Latent::read(b, Some(rope), scale)?;
    let growth = growth(b, latent.key_dim)?;
    decoder(b, Latent { growth, ..latent }, None, |_| true)
}

/// A rotation of whole queries by no angle at all, which is what makes them grow.
fn growth(b: &mut Builder, dimensions: usize) -> Result<Option<usize>> {
    let Some(scale) = b.keys.f32("attention.temperature_scale")?.filter(|scale| *scale != 0.0) else {
        return Ok(None);
    };
    let temperature =
        Temperature { scale, length: b.keys.required("attention.temperature_length")?, offset: 0 };
    let still = Rope::new(Pairing::Interleaved, dimensions, b.config.rope_base, &Scaling::None, None)?;
    let frequencies = vec![0.0; still.frequencies.len()];
    Ok(Some(b.add_rope(Rope { frequencies, temperature: Some(temperature), ..still })))
}

/// All layers. `own` says which of them have indexers of their own, where there are any.
fn decoder(b: &mut Builder, latent: Latent, gate: Option<Gate>, own: impl Fn(usize) -> bool) -> Result<()> {
    let experts = Experts::read(b.keys, b.config.feed_forward)?.map(|experts| adjusted(b, gate, experts));
    let decoder = Decoder { experts: experts.transpose()?, ..Decoder::default() };
    let x = b.embed()?;
    let h = decoder.layers_of(b, x, b.config.layers, |b, layer, h| {
        let index = latent.index.map(|index| Index { own: own(layer), ..index });
        b.latent_attention(&Latent { index, ..latent }, h)
    })?;
    b.head(h)?;
    Ok(())
}

/// The rotary embedding and what scores are multiplied with. A context that was stretched by YaRN makes scores larger
/// through a factor of their own: where the file says so, instead of the magnitude of what is rotated. DeepSeek's is the
/// file's, and all of the magnitude is taken back; else it is the usual one, and as much as the file says is.
fn stretched(b: &mut Builder, deepseeks: bool) -> Result<(Rope, f32)> {
    let c = b.config;
    let multiplier = b.keys.f32("rope.scaling.yarn_log_multiplier")?.unwrap_or(0.0) / WRITTEN;
    let mut scaling = c.rope_scaling.clone();
    let mut scale = 1.0;
    if let Scaling::Yarn { factor, attention, .. } = &mut scaling {
        let (usual, files) = (yarn_magnitude(*factor, 1.0), yarn_magnitude(*factor, multiplier));
        scale = *attention * if deepseeks && multiplier != 0.0 { files } else { usual };
        if multiplier != 0.0 {
            *attention /= if deepseeks { usual } else { files };
        }
    }
    let rope = Rope::new(Pairing::Interleaved, c.rope_dimensions, c.rope_base, &scaling, None)?;
    Ok((rope, scale * scale))
}

/// Weights are as they are unless the file says that they are divided by their sum. GLM-4.7 Flash has sigmoids and
/// does not say so: it is known by its number of layers and its vocabulary. `usual` is the gate of a family whose files
/// need not say it.
fn adjusted(b: &Builder, usual: Option<Gate>, experts: Experts) -> Result<Experts> {
    let says = b.keys.size("expert_gating_func")?.is_some_and(|gate| gate != 0);
    let is_glm = matches!(b.config.layers, 47 | 48) && b.vocabulary() == Some(154_880);
    let usual = usual.or(is_glm.then_some(Gate::Sigmoid));
    let gate = usual.filter(|_| !says).unwrap_or(experts.gate);
    let normalised = b.keys.bool("expert_weights_norm")?.unwrap_or(false);
    Ok(Experts { gate, normalised, ..experts })
}
