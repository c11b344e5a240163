//! What happens to the heads of queries, keys and values before attention: norms, rotation, KV write, in
//! one dispatch, for one row and for many.

use gleed_model::KvType;
use gleed_model::rope::Pairing;

use super::norm::Norm;
use super::{Dispatch, Grid, List, Place, Source};
use crate::cache::LayerCache;
use crate::launch::{Buffer, Kernels};
use crate::step::pages_word;
use crate::template::{Values, expand};

/// The rotation of a model's heads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rotation {
    pub pairing: Pairing,
    pub pairs: usize,
    /// Where its cosines begin after a row's fixed words; the sines follow.
    pub angles: usize,
    /// The same of keys, which may have other ones.
    pub key_angles: usize,
}

/// The heads of queries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queries {
    pub heads: usize,
    pub place: Place,
    pub norm: Option<Norm>,
}

/// The heads of keys and values, and where they are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeysValues {
    pub cache: LayerCache,
    pub key: Place,
    pub value: Place,
    pub norm: Option<Norm>,
}

/// Queries are changed in place, keys and values go to the cache; each where given.
pub(crate) fn heads(
    kernels: &mut Kernels,
    step: Buffer,
    list: List,
    queries: Option<Queries>,
    keys_values: Option<KeysValues>,
    rotation: Option<Rotation>,
) -> Option<Dispatch> {
    let (query_heads, kv_heads) =
        (queries.map_or(0, |q| q.heads), keys_values.map_or(0, |kv| kv.cache.shape.heads));
    let query = queries.map(|q| q.place).or(keys_values.map(|kv| kv.key))?;
    let key_dim = keys_values.map_or_else(|| query.width / query_heads.max(1), |kv| kv.cache.shape.key_dim);
    let value_dim = keys_values.map_or(0, |kv| kv.cache.shape.value_dim);
    let room = key_dim.max(value_dim).next_multiple_of(16);
    let threads = room.next_multiple_of(32).min(256);
    let quads = key_dim.div_ceil(4).next_multiple_of(16);
    let (query_norm, key_norm) = (queries.and_then(|q| q.norm), keys_values.and_then(|kv| kv.norm));
    let epsilon = |norm: Option<Norm>| norm.map_or(0.0, |norm| norm.epsilon);
    let unrolled = Values::default()
        .list("TURNS", (0..key_dim.next_multiple_of(16).div_ceil(threads)).map(|turn| format!("{turn}u")))
        .list("BLOCKS", (0..(quads / 16).min(16)).map(|block| format!("{block}u")));
    let key = keys_values.map_or(query, |kv| kv.key);
    let mut source = Source::new("heads", &expand(include_str!("heads.wgsl"), &unrolled))
        .known_rows(step, list)
        .snippet(include_str!("../../common/fold.wgsl"))
        .size("THREADS", threads)
        .size("ROOM", room)
        .size("FRESH_QUADS", quads)
        .size("HEADS", query_heads)
        .size("KV_HEADS", kv_heads)
        .size("KEY_DIM", key_dim)
        .size("PAIRS", rotation.map_or(0, |r| r.pairs))
        .size("ANGLES", rotation.map_or(0, |r| r.angles))
        .size("KEY_ANGLES", rotation.map_or(0, |r| r.key_angles))
        .flag("INTERLEAVED", rotation.is_some_and(|r| r.pairing == Pairing::Interleaved))
        .flag("QUERY_NORM", query_norm.is_some())
        .flag("KEY_NORM", key_norm.is_some())
        .float("QUERY_EPSILON", epsilon(query_norm))
        .float("KEY_EPSILON", epsilon(key_norm))
        .float("INVERSE_WIDTH", 1.0 / key_dim as f32)
        .read("query_norm", "f32", query_norm.map_or(query.buffer, |norm| norm.weight))
        .read("key_norm", "f32", key_norm.map_or(query.buffer, |norm| norm.weight))
        .write_place("query", "QUERY_", query)
        .read_place("key", "KEY_", key);
    source = match keys_values {
        None => source
            .snippet("fn write_key(lane: u32, row: u32, kv_head: u32) {}\n")
            .snippet("fn write_value(lane: u32, row: u32, kv_head: u32) {}\n"),
        Some(KeysValues { cache, value, .. }) => source
            .snippet(include_str!("kv_write.wgsl"))
            .snippet(include_str!("half.wgsl"))
            .snippet(match cache.kind {
                KvType::F32 => include_str!("stored_f32.wgsl"),
                KvType::F16 => include_str!("stored_f16.wgsl"),
                KvType::Q8_0 => include_str!("stored_q8_0.wgsl"),
            })
            .size("CACHE_PAGES", pages_word(cache.group))
            .size("VALUE_DIM", value_dim)
            .size("KEY_WORDS", cache.key_words().0)
            .size("KEY_SCALES", cache.key_words().1)
            .size("VALUE_WORDS", cache.value_words().0)
            .size("VALUE_SCALES", cache.value_words().1)
            .read_place("value", "VALUE_", value)
            .write("keys", "u32", cache.keys)
            .write("values", "u32", cache.values),
    };
    Some(kernels.dispatch(source, Grid::Rows((query_heads + 2 * kv_heads) as u32)))
}
