//! Which kernel: the source of every variant of a linear layer.

use gleed_model::program::Activation;

use super::layout::Layout;
use super::template::{Values, expand};
use super::{decode, integers};
use crate::kernels::activate;
use crate::spirv;
use crate::{AdapterInfo, Gpu};

/// What kernels on matrix units begin with.
pub(crate) const UNITS_ENABLED: &str = "enable f16;\nenable wgpu_cooperative_matrix;\n";

const COMMON: &str = include_str!("../kernels/linear_common.wgsl");
const MAIN: &str = include_str!("../kernels/linear_main.wgsl");
const FEW: &str = include_str!("../kernels/linear_few.wgsl");
const MANY: &str = include_str!("../kernels/linear_many.wgsl");
const INTEGERS_FEW: &str = include_str!("../kernels/linear_integers_few.wgsl");
const INTEGERS_MANY: &str = include_str!("../kernels/linear_integers_many.wgsl");
const TO_INTEGERS: &str = include_str!("../kernels/integers.wgsl");
const PUT_INTEGERS: &str = include_str!("../kernels/put_integers.wgsl");
const PUT_SQUARES: &str = include_str!("../kernels/put_squares.wgsl");
const ROW_FACTOR: &str = include_str!("../kernels/row_factor.wgsl");
const QUANTIZE: &str = include_str!("../kernels/quantize.wgsl");
const INTEGERS_UNITS: &str = include_str!("../kernels/linear_integers_units.wgsl");
const COOPERATIVE: &str = include_str!("../kernels/linear_cooperative.wgsl");

/// What a linear layer computes, as far as its kernels differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearSpec {
    /// The layout of the first matrix, and whether it has a bias.
    pub first: (Layout, bool),
    /// The second matrix, where there is one.
    pub second: Option<((Layout, bool), Combination)>,
    /// What the input is.
    pub input: InputKind,
    /// Whether the input is that of an RMS norm but for the factors of its rows; it is integers then.
    pub normed: bool,
    /// Whether few rows of results are also written as integers, of a layer whose input are integers and whose
    /// outputs are whole groups: those of a gated one as they are; those of one with a single matrix are first
    /// added to what is in the output, and multiplied with the weights of the RMS norm that follows.
    pub requantizes: bool,
}

/// What the rows of an input are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// Floats; rows start at multiples of four.
    Aligned,
    /// Floats; rows start anywhere.
    Unaligned,
    /// What [`super::Quantize`] makes of floats. All matrices are integers then.
    Integers,
}

/// What a second matrix is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combination {
    /// Its outputs are multiplied with the activations of the first one's.
    Gated(Activation),
    /// Its outputs follow those of the first.
    Joined,
}

impl LinearSpec {
    /// Whether the layer is gated.
    pub(crate) fn is_gated(self) -> bool {
        matches!(self.second, Some((_, Combination::Gated(_))))
    }

    /// Whether the layer adds its results to the output, for the norm that follows.
    pub(crate) fn norms(self) -> bool {
        self.requantizes && self.second.is_none()
    }

    /// Whether a kernel folds the factors of rows itself: only where a layer before may have done the norm's work.
    fn folds_in(self, tiling: Tiling) -> bool {
        self.normed && tiling.requantizes()
    }

    /// The kernel for few rows has 32 outputs in a workgroup then, and threads for them: of two matrices for two rows
    /// at most, as the chains of more would not fit in 32 KiB.
    pub(crate) fn requantizes_in(self, tiling: Tiling) -> bool {
        let matrices = if self.is_gated() { 2 } else { 1 };
        self.requantizes && tiling.requantizes() && tiling.rows() * matrices <= 4
    }
}

/// How a kernel covers its outputs and rows. The results of all but the cooperative ones are the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tiling {
    /// Weights are read once for 1, 2, 4 or 8 rows.
    Few {
        /// Rows of a workgroup.
        rows: u32,
        /// Outputs of a slot of lanes: 1 or 2, or up to 4 for inputs of integers.
        outputs: u32,
    },
    /// Tiles of 64 outputs and 16, 32 or 64 rows.
    Many {
        /// Rows of a workgroup.
        rows: u32,
    },
    /// Exact products of bytes on the device's matrix units, for inputs of integers. Where [`exact_units`] says so.
    Units {
        /// Sums of a workgroup, its outputs or twice as many as its gated outputs; and rows.
        tile: (u32, u32),
        /// Those of each of its subgroups.
        own: (u32, u32),
    },
    /// Products of half-precision matrices on the device's matrix units: weights and activations are rounded,
    /// sums are not. Where [`cooperative`] says so.
    Cooperative {
        /// Sums of a workgroup, 32, 64 or 128: its outputs, or twice as many as its gated outputs.
        sums: u32,
        /// Rows of a workgroup: 64 or 128.
        rows: u32,
    },
}

/// Whether an adapter can run [`Tiling::Cooperative`]: products of 16x16 matrices of f16, summed in f32,
/// by subgroups of 32.
pub fn cooperative(adapter: &AdapterInfo) -> bool {
    adapter.f16
        && adapter.subgroups == Some((32, 32))
        && adapter.cooperative_matrices.iter().any(|shape| shape == "16x16x16 F16 to F32")
}

/// Whether an adapter can run [`Tiling::Units`]: products of 16x32 and 32x16 matrices of signed bytes by subgroups
/// of 32.
pub fn exact_units(adapter: &AdapterInfo) -> bool {
    adapter.backend == "vulkan"
        && adapter.f16
        && adapter.subgroups == Some((32, 32))
        && adapter.cooperative_matrices.iter().any(|shape| shape == "16x16x32 I8 to I32")
}

impl Tiling {
    /// The tilings to have for any number of rows, fewest rows first.
    pub const ALL: [Tiling; 7] = [
        Tiling::Few { rows: 1, outputs: 1 },
        Tiling::Few { rows: 2, outputs: 1 },
        Tiling::Few { rows: 4, outputs: 1 },
        Tiling::Few { rows: 8, outputs: 1 },
        Tiling::Many { rows: 16 },
        Tiling::Many { rows: 32 },
        Tiling::Many { rows: 64 },
    ];

    /// The same for inputs of integers.
    pub const INTEGERS: [Tiling; 5] = [
        Tiling::Few { rows: 1, outputs: 4 },
        Tiling::Few { rows: 2, outputs: 4 },
        Tiling::Few { rows: 4, outputs: 4 },
        Tiling::Few { rows: 8, outputs: 4 },
        Tiling::Many { rows: 64 },
    ];

    /// Those for inputs of integers on matrix units, which [`Tiling::Many`] is left out for: tiles for too few
    /// outputs and rows to fill a large GPU with larger ones, and larger ones.
    pub const UNITS: [Tiling; 2] =
        [Tiling::Units { tile: (64, 64), own: (32, 32) }, Tiling::Units { tile: (128, 128), own: (64, 32) }];

    /// The tilings for inputs of integers that a device can have: the one for eight rows needs 17 KiB of workgroup
    /// memory, larger tiles on matrix units 48 KiB.
    pub fn integers(gpu: &Gpu) -> Vec<Tiling> {
        let room = gpu.device.limits().max_compute_workgroup_storage_size;
        let bytes = |tiling: &Tiling| match *tiling {
            // The chains of all outputs and rows.
            Tiling::Few { rows, outputs } => 4 * 33 * 4 * outputs * rows,
            Tiling::Many { .. } | Tiling::Cooperative { .. } => 0,
            // Two stages of weights, which may be there twice, and of inputs; and of floats.
            Tiling::Units { tile: (sums, rows), .. } => 2 * 48 * (2 * sums + rows) + 4 * tiling.unit_floats(),
        };
        let units = if exact_units(&gpu.info) { &Tiling::UNITS[..] } else { &[] };
        let all = Tiling::INTEGERS.iter().chain(units).copied();
        all.filter(|tiling| bytes(tiling) <= room).collect()
    }

    /// Floats in workgroup memory of a kernel on matrix units: two stages of scales, or a fragment of each subgroup.
    fn unit_floats(self) -> u32 {
        match self {
            Tiling::Units { tile: (sums, rows), own } => {
                (2 * (4 * sums + 3 * rows)).max(256 * sums * rows / (own.0 * own.1))
            }
            _ => 0,
        }
    }

    /// Whether it has a kernel for a layer: on matrix units, gates and ups are scaled alike.
    pub(crate) fn takes(self, spec: LinearSpec) -> bool {
        let kind = |layout: Layout| layout.integers().map(|i| (i.scales.halves(), i.scales.mins()));
        match (self, spec.second) {
            (Tiling::Units { .. }, Some(((second, _), Combination::Gated(_)))) => {
                kind(spec.first.0) == kind(second)
            }
            _ => true,
        }
    }

    /// Threads of a workgroup that writes its results as integers too, and bytes of memory that it may need.
    pub(crate) const REQUANTIZING_THREADS: u32 = 512;
    pub(crate) const REQUANTIZING_BYTES: u32 = 20 << 10;

    /// Whether a layer that can write its results as integers does in this tiling.
    pub(crate) fn requantizes(self) -> bool {
        matches!(self, Tiling::Few { rows: ..=4, .. })
    }

    /// Outputs of a workgroup of a layer.
    pub(crate) fn outputs(self, spec: LinearSpec) -> u32 {
        match self {
            Tiling::Few { .. } if spec.requantizes_in(self) => 32,
            Tiling::Few { .. } if spec.input == InputKind::Integers => 4 * self.slot_outputs(spec),
            Tiling::Few { outputs, .. } => 16 * outputs,
            Tiling::Many { .. } => 64,
            Tiling::Cooperative { sums, .. } | Tiling::Units { tile: (sums, _), .. } => {
                sums / if spec.is_gated() { 2 } else { 1 }
            }
        }
    }

    /// Outputs of a slot of the kernels for few rows; gated layers of integers have half as many, as each has
    /// two sums.
    fn slot_outputs(self, spec: LinearSpec) -> u32 {
        match self {
            Tiling::Few { .. } if spec.requantizes_in(self) => 32 * 32 / Tiling::REQUANTIZING_THREADS,
            Tiling::Few { outputs, .. } if spec.input == InputKind::Integers && spec.is_gated() => {
                outputs.div_ceil(2)
            }
            Tiling::Few { outputs, .. } => outputs,
            Tiling::Many { .. } | Tiling::Cooperative { .. } | Tiling::Units { .. } => 1,
        }
    }

    /// Rows of a workgroup.
    pub fn rows(self) -> u32 {
        match self {
            Tiling::Few { rows, .. }
            | Tiling::Many { rows }
            | Tiling::Cooperative { rows, .. }
            | Tiling::Units { tile: (_, rows), .. } => rows,
        }
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

/// What all kernels are told: that there is nothing but an input and an output.
fn common(input: InputKind) -> Values {
    let off = ["BIASA", "NOBIASA", "BIASB", "NOBIASB", "GATED", "UNGATED", "JOINED", "TERMSDIFFER"];
    let values = off.iter().fold(Values::default(), |values, name| values.switch(name, false));
    values
        .list("EIGHT", 0..8)
        .switch("ALIGNED", input == InputKind::Aligned)
        .switch("UNALIGNED", input == InputKind::Unaligned)
        .switch("FLOATS", input != InputKind::Integers)
        .switch("INTEGERS", input == InputKind::Integers)
        .switch("NORMED", false)
        .switch("UNNORMED", true)
}

/// The WGSL of a linear layer in one tiling.
pub fn source(spec: LinearSpec, tiling: Tiling) -> String {
    let gated = spec.is_gated();
    let joined = spec.second.is_some() && !gated;
    let activation = match spec.second {
        Some((_, Combination::Gated(activation))) => Some(activation),
        _ => None,
    };
    let (first_bias, second_bias) = (spec.first.1, spec.second.map(|((_, bias), _)| bias));
    let kinds = [Some(spec.first), spec.second.map(|(second, _)| second)].map(|matrix| {
        matrix.and_then(|(layout, _)| layout.integers()).map(|i| (i.scales.halves(), i.scales.mins()))
    });
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
        .switch("UNNORMED", !spec.normed);
    let values = tiled(values, spec, tiling);
    let (enable, kernel) = match tiling {
        Tiling::Few { .. } if spec.input == InputKind::Integers => ("", INTEGERS_FEW),
        Tiling::Many { .. } if spec.input == InputKind::Integers => ("", INTEGERS_MANY),
        Tiling::Few { .. } => ("", FEW),
        Tiling::Many { .. } => ("", MANY),
        Tiling::Cooperative { .. } => (UNITS_ENABLED, COOPERATIVE),
        Tiling::Units { .. } => (UNITS_ENABLED, INTEGERS_UNITS),
    };
    let mut text = enable.to_string() + &expand(COMMON, &values);
    if let Tiling::Units { .. } = tiling {
        text.push_str(spirv::STUBS);
    }
    text.push_str(&activation.map(activate::snippet).unwrap_or_default());
    let mut matrix = |layout: Layout, m, binding| {
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
    if spec.requantizes_in(tiling) {
        text.push_str(TO_INTEGERS);
        text.push_str(PUT_INTEGERS);
        if spec.norms() {
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
        let values = match tiling {
            Tiling::Cooperative { sums, .. } => {
                values.set("STOREBODY", store_part(*body, sums)).set("STOREB", store_part('b', sums))
            }
            Tiling::Units { .. } => {
                let (halves, mins) = kinds[i].unwrap_or_default();
                values
                    .switch("HALVES", halves)
                    .switch("WHOLES", !halves)
                    .switch("MINS", mins)
                    .switch("WHOLEMINS", mins && !halves)
                    .switch("HALFMINS", mins && halves)
            }
            _ => values,
        };
        text.push_str(&expand(kernel, &values));
    }
    text + &expand(MAIN, &values)
}

/// Threads of a workgroup.
fn threads(spec: LinearSpec, tiling: Tiling) -> u32 {
    match tiling {
        Tiling::Few { .. } if spec.requantizes_in(tiling) => Tiling::REQUANTIZING_THREADS,
        Tiling::Few { .. } | Tiling::Many { .. } => 128,
        Tiling::Cooperative { .. } => 256,
        Tiling::Units { tile, own } => tile.0 * tile.1 / (own.0 * own.1) * 32,
    }
}

/// The sizes of a tiling.
fn tiled(values: Values, spec: LinearSpec, tiling: Tiling) -> Values {
    let subgroups = matches!(tiling, Tiling::Cooperative { .. } | Tiling::Units { .. });
    let threads = threads(spec, tiling);
    let values = values
        .set("OUTPUTS", format!("{}u", tiling.outputs(spec)))
        .set("THREADS", threads)
        .set("LANES", if subgroups { "thread, subgroup, lane" } else { "thread" })
        .switch("SUBGROUPS", subgroups);
    let matrices = if spec.is_gated() { 2 } else { 1 };
    let halves = |layout: Layout| layout.integers().is_some_and(|integers| integers.scales.halves());
    let copies =
        1 + u32::from(halves(spec.first.0) || spec.second.is_some_and(|((second, _), _)| halves(second)));
    let integers = spec.input == InputKind::Integers;
    match tiling {
        Tiling::Few { rows, .. } => {
            let (outputs, requantizes) = (tiling.slot_outputs(spec), spec.requantizes_in(tiling));
            let steps = if integers { integer_steps(spec, outputs) } else { steps(spec, rows, outputs) };
            let quads = steps * 64;
            let chains = if integers { 33 * tiling.outputs(spec) } else { outputs * 128 };
            values
                .list("ROWS", 0..rows)
                .list("CHAINLIST", 0..32)
                .list("LATERCHAINS", 1..32)
                .list("SLOTS", 0..outputs)
                .list("STEPLIST", 0..steps)
                .list("STAGELOADS", 0..(rows * quads).div_ceil(128))
                .set("ROWCOUNT", rows)
                .set("SLOTCOUNT", outputs)
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
        Tiling::Units { tile: (sums, rows), own } => values
            .list("FETCHES", 0..rows.div_ceil(threads - sums))
            .set("FETCHERS", format!("{}u", threads - sums))
            .list("OUTFRAGMENTS", 0..own.0 / 16)
            .list("ROWFRAGMENTS", 0..own.1 / 16)
            .set("FRAGMENTSOUT", format!("{}u", own.0 / 16))
            .set("FRAGMENTSROW", format!("{}u", own.1 / 16))
            .set("GRIDOUT", format!("{}u", sums / own.0))
            .set("TILEOUTPUTS", format!("{sums}u"))
            .set("TILEROWS", format!("{rows}u"))
            .set("STAGEWEIGHTS", format!("{}u", sums * 3 * copies))
            .set("WEIGHTS", 2 * sums * 3 * copies)
            .set("INPUTS", 2 * rows * 3)
            .set("ROOM", tiling.unit_floats()),
        Tiling::Cooperative { sums, rows } => values
            .list("TWO", 0..2)
            .list("FETCHES", 0..rows / 32)
            .list("OUTFRAGMENTS", 0..sums / 32)
            .list("ROWFRAGMENTS", 0..rows / 64)
            .set("FRAGMENTSOUT", sums / 32)
            .set("FRAGMENTSROW", rows / 64)
            .set("TILEOUTPUTS", sums)
            .set("TILEROWS", rows)
            .set("WEIGHTS", sums * 10)
            .set("INPUTS", rows * 10),
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

/// The same of the kernel for inputs of integers, which has no room to think of.
fn integer_steps(spec: LinearSpec, outputs: u32) -> u32 {
    let words = match spec.second {
        Some(((second, _), Combination::Gated(_))) => spec.first.0.low_words() + second.low_words(),
        _ => spec.first.0.low_words(),
    };
    (32 / (words as u32 * outputs)).clamp(1, 2)
}

/// Stores a thread's part of a group, as halves: 256 threads share the eight quads of each of the sums.
fn store_part(m: char, sums: u32) -> String {
    let quads = sums / 32;
    let mut wgsl = "            switch (part) {\n".to_string();
    for part in 0..8 / quads {
        let last = part + 1 == 8 / quads;
        wgsl += &if last {
            "                default: {\n".to_string()
        } else {
            format!("                case {part}u: {{\n")
        };
        for quad in part * quads..(part + 1) * quads {
            wgsl += &format!(
                "                    weights[staged_sum * 10u + {quad}u] = vec4<f16>(quad_{m}_{quad}(now));\n"
            );
        }
        wgsl += "                }\n";
    }
    wgsl + "            }"
}
