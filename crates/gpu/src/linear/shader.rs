//! Which kernel: the source of every variant of a linear layer.

use gleed_model::program::Activation;

use super::layer::Shape;
use super::layout::{Layout, Scales};
use super::tiling::Tiling;
use super::{decode, half_weights, integers};
use crate::common;
use crate::template::{Values, expand};
use crate::units::chains::{Chains, with_chains};
use crate::units::fragments::{FRAGMENTS, UNITS_ENABLED};

const COMMON: &str = include_str!("kernels/common.wgsl");
const MAIN: &str = include_str!("kernels/main.wgsl");
const FEW: &str = include_str!("kernels/few.wgsl");
const MANY: &str = include_str!("kernels/many.wgsl");
const INTEGERS_FEW: &str = include_str!("kernels/integers_few.wgsl");
const INTEGERS_MANY: &str = include_str!("kernels/integers_many.wgsl");
const TO_INTEGERS: &str = include_str!("../common/integers.wgsl");
const PUT_INTEGERS: &str = include_str!("../common/put_integers.wgsl");
const PUT_SQUARES: &str = include_str!("../common/put_squares.wgsl");
const SQUARES: &str = include_str!("../common/squares.wgsl");
const ROW_FACTOR: &str = include_str!("../common/row_factor.wgsl");
const QUANTIZE: &str = include_str!("kernels/quantize.wgsl");
const HALVES: &str = include_str!("kernels/halves.wgsl");
const PUT_GROUP: &str = include_str!("../common/put_group.wgsl");
/// What lanes of a subgroup tell each other.
pub(crate) const LANES: &str = include_str!("../common/lanes.wgsl");
const HALF_FACTOR: &str = include_str!("../common/half_factor.wgsl");
const ROUND_TWICE: &str = include_str!("../common/round_twice.wgsl");
const TO_HALVES: &str = include_str!("kernels/to_halves.wgsl");

/// What a linear layer computes, as far as its kernels differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearSpec {
    /// The layout of the first matrix, and whether it has a bias.
    pub first: (Layout, bool),
    /// The second matrix, where there is one.
    pub second: Option<((Layout, bool), Combination)>,
    /// What the input is.
    pub input: InputKind,
    /// Whether the input is that of an RMS norm but for the factors of its rows; it is integers then.
    pub normed: bool,
    /// Whether few rows of results are also written as integers, of a layer whose input are integers, or a single row as
    /// halves, of one for a single row of halves, whose outputs are whole groups: those of a gated one as they are; those
    /// of one with a single matrix are first added to what is in the output, and multiplied with the weights of the RMS
    /// norm that follows.
    pub requantizes: bool,
    /// What the kernel knows of its sizes without asking: that of a single row of halves.
    pub(crate) known: Option<Shape>,
}

/// What the rows of an input are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// Floats; rows start at multiples of four.
    Aligned,
    /// Floats; rows start anywhere.
    Unaligned,
    /// What [`super::Conversion`] makes of floats. All matrices are integers then.
    Integers,
    /// What it makes of them, in this many groups.
    Halves(u32),
    /// A single row of them, whose groups have factors of their own.
    Single(u32),
    /// The same of an RMS norm but for the row's factor.
    SingleNormed(u32),
}

/// What a second matrix is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combination {
    /// Its outputs are multiplied with the activations of the first one's.
    Gated(Activation),
    /// Its outputs follow those of the first.
    Joined,
}

impl InputKind {
    /// Groups, of what is multiplied in halves.
    pub(crate) fn half_groups(self) -> u32 {
        match self {
            InputKind::Halves(groups) | InputKind::Single(groups) | InputKind::SingleNormed(groups) => groups,
            InputKind::Aligned | InputKind::Unaligned | InputKind::Integers => 0,
        }
    }

    /// Whether it is a single row of halves.
    pub(crate) fn is_single(self) -> bool {
        matches!(self, InputKind::Single(_) | InputKind::SingleNormed(_))
    }
}

impl LinearSpec {
    /// Whether the layer is gated.
    pub(crate) fn is_gated(self) -> bool {
        matches!(self.second, Some((_, Combination::Gated(_))))
    }

    /// Groups of an input that is multiplied in halves.
    pub(crate) fn half_groups(self) -> u32 {
        self.input.half_groups()
    }

    /// Whether the layer is for a single row of halves.
    pub(crate) fn is_single(self) -> bool {
        self.input.is_single()
    }

    /// Whether all its weights have mins, of those that are multiplied in halves.
    pub(super) fn has_mins(self) -> bool {
        let second = self.second.map(|(second, _)| second);
        [Some(self.first), second].into_iter().flatten().all(|(layout, _)| layout.has_half_mins())
    }

    /// Whether the layer adds its results to the output, for the norm that follows.
    pub(crate) fn norms(self) -> bool {
        self.requantizes && self.second.is_none()
    }

    /// The scales of each matrix that has integers.
    fn scales(self) -> [Option<Scales>; 2] {
        let layouts = [Some(self.first), self.second.map(|(second, _)| second)];
        layouts.map(|matrix| matrix.and_then(|(layout, _)| layout.integers()).map(|i| i.scales))
    }

    /// Whether a kernel folds the factors of rows itself: only where a layer before may have done the norm's work.
    fn folds_in(self, tiling: Tiling) -> bool {
        self.normed && tiling.requantizes()
    }

    /// The kernel for few rows has 32 outputs in a workgroup then, and threads for them: of two matrices for two rows
    /// at most, as the chains of more would not fit in 32 KiB.
    pub(crate) fn requantizes_in(self, tiling: Tiling) -> bool {
        let matrices = if self.is_gated() { 2 } else { 1 };
        let few = tiling.requantizes() && tiling.rows() * matrices <= 4;
        self.requantizes && (few || self.is_single())
    }
}

/// The WGSL that makes integers of floats.
pub fn quantize_source(input: InputKind) -> String {
    let values = common(input)
        .list("LETTERS", [""; 0])
        .list("FIRSTHALF", 0..4)
        .list("LASTHALF", 4..8)
        .set("OUTPUT", "vec4<u32>");
    expand(COMMON, &values) + TO_INTEGERS + &expand(QUANTIZE, &values)
}

/// The WGSL that makes halves of floats.
pub fn to_halves_source(input: InputKind) -> String {
    let values = common(input).list("LETTERS", [""; 0]).set("OUTPUT", "vec4<u32>");
    "enable f16;\n".to_string() + &expand(COMMON, &values) + HALF_FACTOR + ROUND_TWICE + TO_HALVES
}

/// What all kernels are told: that there is nothing but an input and an output.
fn common(input: InputKind) -> Values {
    let off = ["BIASA", "NOBIASA", "BIASB", "NOBIASB", "GATED", "UNGATED", "JOINED", "TERMSDIFFER"];
    let values = off.iter().fold(Values::default(), |values, name| values.switch(name, false));
    values
        .switch("ASKED", true)
        .switch("KNOWN", false)
        .list("EIGHT", 0..8)
        .switch("ALIGNED", input == InputKind::Aligned)
        .switch("UNALIGNED", input == InputKind::Unaligned)
        .switch("FLOATS", matches!(input, InputKind::Aligned | InputKind::Unaligned))
        .switch("INTEGERS", input == InputKind::Integers)
        .switch("HALVES", input.half_groups() > 0)
        .switch("NORMED", false)
        .switch("UNNORMED", true)
}

/// The WGSL of a linear layer in one tiling.
pub fn source(spec: LinearSpec, tiling: Tiling) -> String {
    text_of(spec, tiling, true)
}

/// The same, with loops that are written out for a device's compiler, or left as loops for a slow one.
pub(super) fn text_of(spec: LinearSpec, tiling: Tiling, written_out: bool) -> String {
    let gated = spec.is_gated();
    let joined = spec.second.is_some() && !gated;
    let activation = match spec.second {
        Some((_, Combination::Gated(activation))) => Some(activation),
        _ => None,
    };
    let (first_bias, second_bias) = (spec.first.1, spec.second.map(|((_, bias), _)| bias));
    let kinds = spec.scales().map(|scales| scales.map(|scales| (scales.halves(), scales.mins())));
    let values = common(spec.input)
        .list("LETTERS", if joined { "ab" } else { "a" }.chars())
        .set("OUTPUT", "f32")
        .switch("BIASA", first_bias)
        .switch("NOBIASA", !first_bias)
        .switch("BIASB", second_bias == Some(true))
        .switch("NOBIASB", second_bias == Some(false))
        .switch("GATED", gated)
        .switch("UNGATED", !gated)
        .switch("JOINED", joined)
        .switch("TERMSDIFFER", gated && kinds[0] != kinds[1])
        .switch("NORMED", spec.normed)
        .switch("UNNORMED", !spec.normed)
        .switch("ASKED", spec.known.is_none())
        .switch("KNOWN", spec.known.is_some())
        .set("SHAPE", spec.known.map(Shape::values).unwrap_or_default());
    let values = tiled(values, spec, tiling, written_out);
    let (enable, kernel) = match tiling {
        Tiling::Few { .. } if spec.input == InputKind::Integers => ("", INTEGERS_FEW),
        Tiling::Many { .. } if spec.input == InputKind::Integers => ("", INTEGERS_MANY),
        Tiling::Few { .. } => ("", FEW),
        Tiling::Many { .. } => ("", MANY),
        Tiling::Halves { .. } => (UNITS_ENABLED, HALVES),
    };
    let mut text = enable.to_string();
    text.push_str(&expand(COMMON, &values));
    let halves = matches!(tiling, Tiling::Halves { .. });
    let groups = spec.half_groups();
    if halves {
        text.push_str(&format!("const GROUPS = {groups}u;\n"));
        text.push_str(FRAGMENTS);
        text.push_str(HALF_FACTOR);
        if spec.is_single() {
            text.push_str(LANES);
        }
        if let InputKind::SingleNormed(_) = spec.input {
            text.push_str(ROW_FACTOR);
        }
        if spec.norms() {
            text.push_str(SQUARES);
        }
    }
    text.push_str(&activation.map(common::activation).unwrap_or_default());
    let mut matrix = |layout: Layout, m, binding| {
        if let Layout::Halves(layout) = layout {
            let ahead = tiling.loading().ahead;
            text.push_str(&half_weights::snippet(layout, m, binding, groups as usize, ahead));
            return;
        }
        text.push_str(&decode::snippet(layout, m, binding));
        if let (InputKind::Integers, Some(integers)) = (spec.input, layout.integers()) {
            text.push_str(&integers::snippet(integers, m));
        }
    };
    matrix(spec.first.0, 'a', 0);
    if let Some(((layout, _), _)) = spec.second {
        matrix(layout, 'b', 2);
    }
    if spec.input == InputKind::Integers {
        text.push_str(integers::COMMON);
    }
    if spec.requantizes_in(tiling) && !halves {
        text.push_str(TO_INTEGERS);
        text.push_str(PUT_INTEGERS);
        if spec.norms() {
            text.push_str(SQUARES);
            text.push_str(PUT_SQUARES);
        }
    }
    if spec.folds_in(tiling) {
        text.push_str(ROW_FACTOR);
    }
    // Joined layers have a body for each matrix, others one for all.
    let bodies: &[(char, &str)] = match (gated, joined) {
        (true, _) => &[('a', "ab")],
        (_, true) => &[('a', "a"), ('b', "b")],
        _ => &[('a', "a")],
    };
    for (i, (body, matrices)) in bodies.iter().enumerate() {
        let values =
            values.clone().set("BODY", body).list("MATRICES", matrices.chars()).switch("FIRST", i == 0);
        text.push_str(&match tiling {
            Tiling::Halves { .. } => with_chains(kernel, values, [*body, if gated { 'b' } else { *body }]),
            _ => expand(kernel, &values),
        });
    }
    text + &expand(MAIN, &values)
}

/// The sizes of a tiling.
fn tiled(values: Values, spec: LinearSpec, tiling: Tiling, written_out: bool) -> Values {
    let subgroups = matches!(tiling, Tiling::Halves { .. });
    let threads = tiling.threads(spec);
    let values = values
        .set("OUTPUTS", format!("{}u", tiling.outputs(spec)))
        .set("THREADS", threads)
        .set("LANES", if subgroups { "thread, subgroup, lane" } else { "thread" })
        .switch("SUBGROUPS", subgroups)
        .switch("ROWSFIRST", tiling.rows_first())
        .switch("OUTPUTSFIRST", !tiling.rows_first());
    let matrices = if spec.is_gated() { 2 } else { 1 };
    let integers = spec.input == InputKind::Integers;
    match tiling {
        Tiling::Few { rows, .. } => {
            let (outputs, requantizes) = (tiling.slot_outputs(spec), spec.requantizes_in(tiling));
            let steps =
                if integers { integer_steps(spec, rows, outputs) } else { steps(spec, rows, outputs) };
            let quads = steps * 64;
            let kept = tiling.kept_chains(spec);
            let chains = if integers { (kept + 1) * tiling.outputs(spec) } else { outputs * 128 };
            // Outputs that lie together are loaded together.
            let (lane, slot) = match spec.first.0 {
                Layout::Integers(_) => ("thread / 16u", "thread % 16u"),
                _ => ("thread % 8u", "thread / 8u"),
            };
            values
                .list("ROWS", 0..rows)
                .list("CHAINLIST", 0..kept)
                .set("CHAINSTRIDE", format!("{}u", kept + 1))
                .set("KEPT", format!("{kept}u"))
                .switch("SEVERALTIMES", kept < 32)
                .set("LANE", lane)
                .set("SLOT", slot)
                .list("FOLDED", 0..(rows * tiling.outputs(spec)).div_ceil(threads))
                .list("SLOTS", 0..outputs)
                .list("STEPLIST", 0..steps)
                .list("STAGELOADS", 0..(rows * quads).div_ceil(128))
                .set("ROWCOUNT", rows)
                .set("SLOTCOUNT", outputs)
                .set("ALLSLOTS", format!("{}u", threads / 32))
                .set("MATRIXCOUNT", matrices)
                .set("STEPS", steps)
                .set("QUADS", quads)
                .set("STAGE", rows * steps * 8 * 9)
                .set("CHAINS", rows * matrices * chains)
                .set("RESULTS", format!("{}u", rows * 8))
                .set("LANESQUARES", rows * 8)
                .switch("FOLDS", spec.folds_in(tiling))
                .switch("READS", spec.normed && !spec.folds_in(tiling))
                .switch("REQUANTIZE", requantizes)
                .switch("NORMS", requantizes && spec.norms())
                .switch("WRITES", !(spec.is_gated() || requantizes && spec.norms()))
        }
        Tiling::Many { rows } => values
            .list("ROWS", 0..rows / 16)
            .list("FETCHES", 0..(3 * rows).div_ceil(64))
            .set("ROWCOUNT", rows / 16)
            .set("TILEROWS", format!("{rows}u"))
            .set("INPUTS", if integers { 3 * rows } else { 8 * rows }),
        Tiling::Halves { rows, split, across } => {
            let [rows, split, across] = [rows, split, across].map(|n| n as usize);
            let paired = spec.is_gated();
            let loading = tiling.loading().written_out_if(written_out);
            let chains = Chains { rows, split, across, rows_apart: false, paired, loading };
            let room = 4 * spec.half_groups();
            let values = values
                .switch("WRITES", spec.requantizes)
                .switch("ADDS", spec.norms())
                .switch("GATEDWRITES", spec.requantizes && spec.is_gated());
            let put_group = if spec.requantizes { expand(PUT_GROUP, &values) } else { String::new() };
            chains
                .sizes(values)
                .set("PUTGROUP", put_group.trim_end())
                .set("ROOM", room)
                .set("UNITCOUNT", if rows <= 16 { "GROUPS / 4u" } else { "shape.groups / 4u" })
                .list("PIECES", 0..room.div_ceil(threads))
                .list("BITS", [1, 2, 4, 8, 16].map(|bit| format!("{bit}u")))
                .switch("NORMS", matches!(spec.input, InputKind::SingleNormed(_)))
                .switch("UNNORMEDSINGLE", matches!(spec.input, InputKind::Single(_)))
        }
    }
}

/// Groups that a lane of the kernel for few rows has loaded ahead for each of its outputs: about 64 bytes of
/// weights in all, and no more columns than workgroup memory has room for (9 KiB).
fn steps(spec: LinearSpec, rows: u32, outputs: u32) -> u32 {
    let first = spec.first.0.low_words();
    let words = match spec.second {
        Some(((second, _), Combination::Gated(_))) => first + second.low_words(),
        Some(((second, _), Combination::Joined)) => first.max(second.low_words()),
        None => first,
    };
    (16 / (words as u32 * outputs)).min(8 / rows).clamp(1, 4)
}

/// The same of the kernel for inputs of integers: where there are several rows, other threads make up for loads that
/// take long.
fn integer_steps(spec: LinearSpec, rows: u32, outputs: u32) -> u32 {
    let words = match spec.second {
        Some(((second, _), Combination::Gated(_))) => spec.first.0.low_words() + second.low_words(),
        _ => spec.first.0.low_words(),
    };
    if rows > 2 { 1 } else { (16 / (words as u32 * outputs)).clamp(1, 2) }
}
