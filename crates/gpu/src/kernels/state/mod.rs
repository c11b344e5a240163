//! Recurrent layers. A thread goes through a sequence's rows in order with a channel's state in its own memory; of a scan,
//! several threads do with a part of it each. Convolutions need only a few rows before each, so that segments of them are
//! computed side by side. All of it is the same for any number of rows.

use gleed_model::recurrence::{Convolution, Decay, DeltaRule, Scan, Wkv};

use super::{Dispatch, Grid, List, Place, Source};
use crate::launch::{Buffer, Kernels};
use crate::state::LayerState;
use crate::step::{Counts, header};
use crate::template::{Values, expand};
use crate::weights::Weights;

/// Threads of a workgroup.
const THREADS: usize = 64;

/// Rows of a segment of a convolution, and the most segments that are begun at once.
const SEGMENT: usize = 16;
const MOST_SEGMENTS: usize = 64;

/// Channels of a workgroup of a scan, and the most threads that share the state of a channel.
const SCAN_LANES: usize = 32;
const MOST_STAGES: usize = 8;

/// Rows that are handed on together, where there is memory for the first number.
const SCAN_ROWS: [usize; 2] = [8, 4];

/// Segments of the longest sequence that there may be.
pub(super) fn segments(counts: Counts) -> usize {
    let longest = (counts.rows + 1).saturating_sub(counts.sequences);
    longest.div_ceil(SEGMENT).clamp(1, MOST_SEGMENTS)
}

/// What the kernels of all recurrent layers bind.
fn source(name: &'static str, text: &str, step: Buffer, layer: LayerState) -> Source {
    Source::new(name, text)
        .snippet(include_str!("sequence.wgsl"))
        .list(step, List::All)
        .size("STATES", header::STATES)
        .size("CHANNELS", layer.shape.columns)
        .size("DEPTH", layer.shape.rows)
        .write("state", "f32", layer.buffer)
}

/// The text of a kernel whose threads have each value of a channel's state in a variable of its own.
fn with_own_state(text: &str, depth: usize) -> String {
    let values = Values::default().list("STATE", numbers(depth));
    let [begin, save] =
        [include_str!("own_begin.wgsl"), include_str!("own_save.wgsl")].map(|text| expand(text, &values));
    expand(text, &values.set("BEGIN", begin).set("SAVE", save))
}

/// The first `count` numbers, from zero on, in WGSL.
fn numbers(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("{number}u"))
}

fn dispatch(kernels: &mut Kernels, source: Source, layer: LayerState) -> Dispatch {
    let groups = layer.shape.columns.div_ceil(THREADS) as u32;
    kernels.dispatch(source.sharing_reads(), Grid::Sequences(groups))
}

/// out = the input of the row before.
pub(crate) fn shift(
    kernels: &mut Kernels,
    step: Buffer,
    layer: LayerState,
    [x, out]: [Place; 2],
) -> Dispatch {
    let source = source("shift", include_str!("shift.wgsl"), step, layer)
        .read_place("x", "X_", x)
        .write_place("out", "OUT_", out);
    dispatch(kernels, source, layer)
}

/// out = a short convolution of each channel.
pub(crate) fn convolve(
    kernels: &mut Kernels,
    step: Buffer,
    weights: &Weights,
    layer: LayerState,
    op: Convolution,
    [x, out]: [Place; 2],
) -> Dispatch {
    let taps = weights.vector(op.taps);
    let groups = layer.shape.columns.div_ceil(THREADS) as u32;
    let source = source("convolve", include_str!("convolve.wgsl"), step, layer)
        .snippet(include_str!("../../common/exp.wgsl"))
        .size("SEGMENT", SEGMENT)
        .flag("SILU", op.silu)
        .flag("BIASED", op.bias.is_some())
        .read("taps", "f32", taps)
        .read("bias", "f32", op.bias.map_or(taps, |bias| weights.vector(bias)))
        .read_place("x", "X_", x)
        .write_place("out", "OUT_", out);
    kernels.dispatch(source.sharing_reads(), Grid::Segments(groups))
}

/// out = what a selective scan reads from its state.
pub(crate) fn scan(
    kernels: &mut Kernels,
    step: Buffer,
    weights: &Weights,
    layer: LayerState,
    (op, decays): (Scan, usize),
    [x, dt, b, c, out]: [Place; 5],
) -> Dispatch {
    let (skip, depth) = (weights.vector(op.skip), layer.shape.rows);
    let shares = |stages: &usize| depth.is_multiple_of(*stages) && depth / stages >= 4;
    let stages = [MOST_STAGES, 4, 2].into_iter().find(shares).unwrap_or(1);
    let part = depth / stages;
    // Three values of each row and channel that are on their way.
    let passed = |rows: usize| stages * rows * SCAN_LANES;
    let fits = |rows: &usize| 3 * 4 * passed(*rows) <= kernels.facts.workgroup_memory as usize;
    let rows = SCAN_ROWS.into_iter().find(fits).unwrap_or(SCAN_ROWS[1]);
    let aligned = part.is_multiple_of(4)
        && [b, c].iter().all(|place| (place.offset | place.stride).is_multiple_of(4))
        && [x, dt, b, c].iter().all(|place| place.buffer != out.buffer);
    let width = if aligned { 4 } else { 1 };
    let values = Values::default()
        .switch("ALIGNED", aligned)
        .switch("UNALIGNED", !aligned)
        .set("PASSED", passed(rows))
        .set("THREADS", SCAN_LANES * stages)
        .set("WIDTH", format!("{width}u"))
        .list("QUADS", numbers(part / width))
        .list("ELEMENTS", numbers(width));
    let some = |rows: usize, first: &str| {
        expand(
            include_str!("scan_rows.wgsl"),
            &values.clone().list("ROWS", numbers(rows)).set("FIRST", first),
        )
    };
    let values = values.clone().set("ALLROWS", some(rows, "0u")).set("ONEROW", some(1, "r"));
    let element = if aligned { "vec4<f32>" } else { "f32" };
    let read = |source: Source, name, prefix, place: Place| {
        source.place(prefix, place).read(name, element, place.buffer)
    };
    let source = source("scan", &expand(include_str!("scan.wgsl"), &values), step, layer)
        .snippet(include_str!("../../common/exp.wgsl"))
        .snippet(include_str!("../../common/softplus.wgsl"))
        .size("HEADS", op.heads)
        .size("GROUPS", op.groups)
        .size("DECAYS", decays / op.heads)
        .size("STAGES", stages)
        .size("PART", part)
        .size("ROWS", rows)
        .flag("BIASED", op.dt_bias.is_some())
        .read("decay", "f32", weights.vector(op.decay))
        .read("skip", "f32", skip)
        .read("dt_bias", "f32", op.dt_bias.map_or(skip, |bias| weights.vector(bias)));
    let source = read(source, "x", "X_", x);
    let source = read(source, "dt", "DT_", dt);
    let source = read(source, "b", "B_", b);
    let source = read(source, "c", "C_", c).write_place("out", "OUT_", out);
    let groups = layer.shape.columns.div_ceil(SCAN_LANES) as u32;
    kernels.dispatch(source.sharing_reads(), Grid::Sequences(groups))
}

/// x = the shares that are kept after the time steps x, in a part for each of `heads` decays.
pub(crate) fn keep(
    kernels: &mut Kernels,
    weights: &Weights,
    decay: Decay,
    heads: usize,
    x: Place,
) -> Dispatch {
    let source = Source::new("keep", include_str!("keep.wgsl"))
        .snippet(include_str!("../../common/exp.wgsl"))
        .snippet(include_str!("../../common/softplus.wgsl"))
        .size("WIDTH", x.width)
        .size("PART", x.width / heads)
        .read("decay", "f32", weights.vector(decay.decay))
        .read("dt_bias", "f32", weights.vector(decay.dt_bias))
        .write_place("x", "X_", x);
    kernels.dispatch(source, Grid::Rows(x.width.div_ceil(256) as u32))
}

/// out = what the gated delta rule reads from its state.
pub(crate) fn delta_rule(
    kernels: &mut Kernels,
    step: Buffer,
    weights: &Weights,
    layer: LayerState,
    op: DeltaRule,
    [query, key, value, alpha, beta, out]: [Place; 6],
) -> Dispatch {
    let text = with_own_state(include_str!("delta_rule.wgsl"), layer.shape.rows);
    let mut source = source("delta_rule", &text, step, layer)
        .snippet(include_str!("../../common/exp.wgsl"))
        .snippet(include_str!("../../common/softplus.wgsl"))
        .size("HEADS", op.heads)
        .size("KEY_HEADS", op.key_heads)
        .flag("IN_TURN", op.in_turn)
        .float("SCALE", op.scale);
    source = match op.decay {
        Some(Decay { decay, dt_bias }) => source
            .snippet(include_str!("kept_by_time.wgsl"))
            .read("decay", "f32", weights.vector(decay))
            .read("dt_bias", "f32", weights.vector(dt_bias)),
        None => source.snippet(include_str!("kept_by_row.wgsl")),
    };
    let source = source
        .read_place("query", "QUERY_", query)
        .read_place("key", "KEY_", key)
        .read_place("value", "VALUE_", value)
        .read_place("alpha", "ALPHA_", alpha)
        .read_place("beta", "BETA_", beta)
        .write_place("out", "OUT_", out);
    dispatch(kernels, source, layer)
}

/// out = what RWKV's rule reads from its state.
pub(crate) fn wkv(
    kernels: &mut Kernels,
    step: Buffer,
    layer: LayerState,
    op: Wkv,
    [query, kept, key, value, asked, removed, out]: [Place; 7],
) -> Dispatch {
    let text = with_own_state(include_str!("wkv.wgsl"), layer.shape.rows);
    let source = source("wkv", &text, step, layer)
        .size("HEADS", op.heads)
        .read_place("query", "QUERY_", query)
        .read_place("kept", "KEPT_", kept)
        .read_place("key", "KEY_", key)
        .read_place("value", "VALUE_", value)
        .read_place("asked", "ASKED_", asked)
        .read_place("removed", "REMOVED_", removed)
        .write_place("out", "OUT_", out);
    dispatch(kernels, source, layer)
}

/// Each head's pieces go to one output each: a dispatch for each of these.
pub(crate) fn unzip(kernels: &mut Kernels, heads: usize, input: Place, outs: &[Place]) -> Vec<Dispatch> {
    let mut offset = 0;
    let pieces = outs.iter().map(|out| {
        let piece = out.width / heads;
        let source = Source::new("unzip", include_str!("unzip.wgsl"))
            .size("WIDTH", out.width)
            .size("PIECE", piece)
            .size("HEAD", input.width / heads)
            .size("FIRST", offset)
            .read_place("source", "SOURCE_", input)
            .write_place("out", "OUT_", *out);
        offset += piece;
        kernels.dispatch(source, Grid::Rows(out.width.div_ceil(256) as u32))
    });
    pieces.collect()
}

/// Each head = a piece of the first input and one of the second, which all heads may share.
pub(crate) fn zip(kernels: &mut Kernels, heads: usize, [first, second]: [Place; 2], out: Place) -> Dispatch {
    let (head, piece) = (out.width / heads, first.width / heads);
    let source = Source::new("zip", include_str!("zip.wgsl"))
        .size("WIDTH", out.width)
        .size("HEAD", head)
        .size("PIECE", piece)
        .size("SECOND_STEP", if second.width == head - piece { 0 } else { head - piece })
        .read_place("first", "FIRST_", first)
        .read_place("second", "SECOND_", second)
        .write_place("out", "OUT_", out);
    kernels.dispatch(source, Grid::Rows(out.width.div_ceil(256) as u32))
}

/// Each of `heads` parts of a row is scaled to length one, or to the length of another.
pub(crate) fn unit_norm(
    kernels: &mut Kernels,
    heads: usize,
    epsilon: f32,
    like: Option<Place>,
    x: Place,
) -> Dispatch {
    let source = Source::new("unit_norm", include_str!("unit_norm.wgsl"))
        .size("HEADS", heads)
        .size("WIDTH", x.width / heads)
        .float("EPSILON", epsilon)
        .flag("LIKE", like.is_some())
        .read_place("like", "LIKE_", like.unwrap_or(x))
        .write_place("x", "X_", x);
    kernels.dispatch(source, Grid::Rows(heads.div_ceil(THREADS) as u32))
}

#[cfg(test)]
mod tests;
