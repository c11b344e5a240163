//! Attention over pages: how queries are cut into workgroups, and the merge of spans.

use gleed_model::KvType;

use super::{Dispatch, Grid, Kernels, List, Place, Source};
use crate::cache::Layer;
use crate::step::header;
use crate::{Gpu, Result};

/// Queries that a workgroup takes at once, where its memory suffices.
const QUERIES: usize = 8;

/// How the query heads that share a key head are cut, and how many rows go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// Query heads of a workgroup.
    pub head_part: usize,
    /// Workgroups for all heads that share a key head.
    pub parts: usize,
    /// Neighbouring rows of one sequence that an item may have.
    pub rows: usize,
}

impl Tiling {
    /// The tiling for so many query heads per key head.
    pub fn new(gpu: &Gpu, group: usize, key_dim: usize) -> Tiling {
        let memory = gpu.device.limits().max_compute_workgroup_storage_size as usize;
        // Per query: itself, its weights and eight sums; for all: the peaks and the chains.
        let bytes =
            |queries: usize| queries * (key_dim.next_multiple_of(4) * 4 + 256 * 4 + 8 * 4) + 256 * (4 + 16);
        let most = [QUERIES, 4, 2].into_iter().find(|queries| bytes(*queries) <= memory).unwrap_or(1);
        let parts = group.div_ceil(most);
        let head_part = group.div_ceil(parts);
        Tiling { head_part, parts, rows: most / head_part }
    }
}

/// One attention op.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attention<'a> {
    pub cache: &'a Layer,
    pub heads: usize,
    pub scale: f32,
    pub query: Place<'a>,
    pub out: Place<'a>,
    /// Results of single spans: `[span of a row][head][value, rounded up to quads, then maximum and sum]`.
    pub partials: &'a wgpu::Buffer,
    /// Neighbouring rows of one sequence that an item may have, at most.
    pub rows: usize,
}

/// Values that the partial result of one head takes.
pub(crate) fn partial_room(value_dim: usize) -> usize {
    value_dim.next_multiple_of(4) + 2
}

/// Attention of items of one row, that of items of several rows, and the merge of spans.
pub(crate) fn attention(
    kernels: &mut Kernels,
    step: &wgpu::Buffer,
    list: List,
    op: Attention,
) -> Result<Vec<Dispatch>> {
    let mut all = vec![attend(kernels, step, list, op, 1)?];
    if op.rows > 1 {
        all.push(attend(kernels, step, list, op, op.rows)?);
    }
    let source = Source::new("merge", include_str!("merge.wgsl"))
        .step(step, list)
        .snippet(include_str!("exp.wgsl"))
        .snippet(include_str!("softmax.wgsl"))
        .size("MERGES", header::MERGES)
        .size("HEADS", op.heads)
        .size("VALUE_DIM", op.cache.shape.value_dim)
        .read("partials", "f32", op.partials)
        .write_place("out", "OUT_", op.out);
    all.push(kernels.dispatch(source, Grid::Merges(op.heads as u32))?);
    Ok(all)
}

fn attend(
    kernels: &mut Kernels,
    step: &wgpu::Buffer,
    list: List,
    op: Attention,
    rows: usize,
) -> Result<Dispatch> {
    let shape = op.cache.shape;
    let group = op.heads / shape.heads;
    let Tiling { head_part, parts, .. } = Tiling::new(&kernels.gpu, group, shape.key_dim);
    let source = Source::new("attention", include_str!("attention.wgsl"))
        .step(step, list)
        .snippet(include_str!("exp.wgsl"))
        .snippet(include_str!("softmax.wgsl"))
        .snippet(match op.cache.kind {
            KvType::F32 => include_str!("read_f32.wgsl"),
            KvType::F16 => include_str!("read_f16.wgsl"),
            KvType::Q8_0 => include_str!("read_q8_0.wgsl"),
        })
        .size("ITEMS", header::ITEMS)
        .size("ROWS", rows)
        .size("HEAD_PART", head_part)
        .size("PEAK_QUERIES", (rows * head_part).next_power_of_two())
        .size("PARTS", parts)
        .size("GROUP", group)
        .size("HEADS", op.heads)
        .size("KV_HEADS", shape.heads)
        .size("KEY_DIM", shape.key_dim)
        .size("VALUE_DIM", shape.value_dim)
        .size("KEY_WORDS", op.cache.key_words())
        .size("VALUE_WORDS", op.cache.value_words())
        .float("SCALE", op.scale)
        .read_place("query", "QUERY_", op.query)
        .read("keys", "u32", &op.cache.keys)
        .read("values", "u32", &op.cache.values)
        .write("partials", "f32", op.partials)
        .write_place("out", "OUT_", op.out);
    kernels.dispatch(source, Grid::Items { each: (shape.heads * parts) as u32, several_rows: rows > 1 })
}
