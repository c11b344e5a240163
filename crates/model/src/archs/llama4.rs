//! Llama 4: three of four layers see chunks of positions, with queries and keys that are normed when they have been
//! rotated; the fourth sees everything, without rotation, and its queries grow with their position. Experts are chosen by
//! sigmoid, weigh what they read, and are in every layer or in every other; one is used by every row.

use super::decoder::Decoder;
use crate::Result;
use crate::build::{AttentionStyle, Builder, Experts, QueryNorms};
use crate::rope::{Pairing, Rope, Temperature};
use crate::routing::Gate;

/// Positions of a chunk, and of a step of temperature, where the file says nothing.
const CHUNK: usize = 8192;

/// How many layers it is to the next one without rotation.
const UNROTATED: usize = 4;

pub(super) fn build(b: &mut Builder) -> Result<()> {
    // Zero is what files say whose layers all see everything, rotated.
    let chunk = Some(b.keys.size("attention.sliding_window")?.unwrap_or(CHUNK)).filter(|chunk| *chunk > 0);
    let chunked = b.keys.windowed_layers(b.config.layers, UNROTATED)?;
    let rope = b.configured_rope(Pairing::Interleaved)?;
    let still = Rope {
        frequencies: vec![0.0; rope.frequencies.len()],
        magnitude: 1.0,
        temperature: Some(temperature(b)?),
        ..rope.clone()
    };
    let (rope, still) = (Some(b.add_rope(rope)), Some(b.add_rope(still)));
    let experts = experts(b)?;
    // No key tells Maverick, which norms neither queries nor keys.
    let is_maverick = experts.is_some_and(|experts| experts.count == 128);
    let norms = if is_maverick { QueryNorms::None } else { QueryNorms::AfterRope };
    let scale = b.keys.f32("attention.scale")?.filter(|scale| *scale != 0.0);
    let x = b.embed()?;
    let h = Decoder { experts, ..Decoder::default() }.layers(b, x, |layer| {
        let style = AttentionStyle { chunk: chunk.filter(|_| chunked[layer]), scale, ..Default::default() };
        match chunk.is_some() && (layer + 1).is_multiple_of(UNROTATED) {
            true => AttentionStyle { query_rope: still, ..style },
            false => AttentionStyle { rope, norms, ..style },
        }
    })?;
    b.head(h)?;
    Ok(())
}

fn temperature(b: &Builder) -> Result<Temperature> {
    let scale = b.keys.f32("attention.temperature_scale")?.unwrap_or(0.1);
    let length = b.keys.size("attention.temperature_length")?.unwrap_or(CHUNK);
    Temperature::new(b.config, scale, length, 1)
}

fn experts(b: &Builder) -> Result<Option<Experts>> {
    let step = b.keys.size("interleave_moe_layer_step")?.unwrap_or(1);
    let read = Experts::read(b.keys, b.config.feed_forward)?;
    Ok(read.map(|read| Experts {
        gate: Gate::Sigmoid,
        normalised: false,
        weighs_input: true,
        shared: read.width,
        step,
        ..read
    }))
}
