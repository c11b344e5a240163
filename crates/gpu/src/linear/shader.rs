//! Which kernel: the source of every variant of a linear layer.

use gleed_model::program::Activation;

use super::decode;
use super::layout::Layout;
use super::template::{Values, expand};
use crate::AdapterInfo;
use crate::kernels::activate;

const COMMON: &str = include_str!("../kernels/linear_common.wgsl");
const FEW: &str = include_str!("../kernels/linear_few.wgsl");
const MANY: &str = include_str!("../kernels/linear_many.wgsl");
const COOPERATIVE: &str = include_str!("../kernels/linear_cooperative.wgsl");

/// What a linear layer computes, as far as its kernels differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearSpec {
    /// The layout of the first matrix, and whether it has a bias.
    pub first: (Layout, bool),
    /// The second matrix, where there is one.
    pub second: Option<((Layout, bool), Combination)>,
    /// Whether the input's rows start at multiples of four floats.
    pub aligned: bool,
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
}

/// How a kernel covers its outputs and rows. The results of all but the cooperative ones are the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tiling {
    /// Weights are read once for 1, 2, 4 or 8 rows.
    Few {
        /// Rows of a workgroup.
        rows: u32,
        /// Outputs of a slot of eight lanes: 1 or 2; 1 for gated layers, which have two sums already.
        outputs: u32,
    },
    /// Tiles of 64 outputs and 16, 32 or 64 rows.
    Many {
        /// Rows of a workgroup.
        rows: u32,
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

    /// Outputs of a workgroup of a plain or gated layer.
    pub(crate) fn outputs(self, gated: bool) -> u32 {
        match self {
            Tiling::Few { outputs, .. } => 16 * outputs,
            Tiling::Many { .. } => 64,
            Tiling::Cooperative { sums, .. } => sums / if gated { 2 } else { 1 },
        }
    }

    /// Rows of a workgroup.
    pub fn rows(self) -> u32 {
        match self {
            Tiling::Few { rows, .. } | Tiling::Many { rows } | Tiling::Cooperative { rows, .. } => rows,
        }
    }
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
    let values = Values::default()
        .list("LETTERS", if joined { "ab" } else { "a" }.chars())
        .list("EIGHT", 0..8)
        .switch("ALIGNED", spec.aligned)
        .switch("UNALIGNED", !spec.aligned)
        .switch("BIASA", first_bias)
        .switch("NOBIASA", !first_bias)
        .switch("BIASB", second_bias == Some(true))
        .switch("NOBIASB", second_bias == Some(false))
        .switch("GATED", gated)
        .switch("UNGATED", !gated)
        .switch("JOINED", joined)
        .switch("SINGLE", !joined);
    let values = tiled(values, spec, tiling);
    let (enable, kernel) = match tiling {
        Tiling::Few { .. } => ("", FEW),
        Tiling::Many { .. } => ("", MANY),
        Tiling::Cooperative { .. } => ("enable f16;\nenable wgpu_cooperative_matrix;\n", COOPERATIVE),
    };
    let mut text = enable.to_string() + &expand(COMMON, &values);
    text.push_str(&activation.map(activate::snippet).unwrap_or_default());
    text.push_str(&decode::snippet(spec.first.0, 'a', 0));
    if let Some(((layout, _), _)) = spec.second {
        text.push_str(&decode::snippet(layout, 'b', 2));
    }
    // Joined layers have a body for each matrix, others one for all.
    let bodies: &[(char, &str)] = match (gated, joined) {
        (true, _) => &[('a', "ab")],
        (_, true) => &[('a', "a"), ('b', "b")],
        _ => &[('a', "a")],
    };
    for (i, (body, matrices)) in bodies.iter().enumerate() {
        let values = values
            .clone()
            .set("BODY", body)
            .list("MATRICES", matrices.chars())
            .switch("FIRST", i == 0)
            .switch("LAST", i + 1 == bodies.len());
        let values = match tiling {
            Tiling::Cooperative { sums, .. } => {
                values.set("STOREBODY", store_part(*body, sums)).set("STOREB", store_part('b', sums))
            }
            _ => values,
        };
        text.push_str(&expand(kernel, &values));
    }
    text
}

/// The sizes of a tiling.
fn tiled(values: Values, spec: LinearSpec, tiling: Tiling) -> Values {
    let gated = spec.is_gated();
    let values = values.set("OUTPUTS", format!("{}u", tiling.outputs(gated)));
    match tiling {
        Tiling::Few { rows, outputs } => {
            let (steps, matrices) = (steps(spec, rows, outputs), if gated { 2 } else { 1 });
            let quads = steps * 64;
            values
                .list("ROWS", 0..rows)
                .list("SLOTS", 0..outputs)
                .list("STEPLIST", 0..steps)
                .list("STAGELOADS", 0..(rows * quads).div_ceil(128))
                .set("ROWCOUNT", rows)
                .set("SLOTCOUNT", outputs)
                .set("MATRIXCOUNT", matrices)
                .set("STEPS", steps)
                .set("QUADS", quads)
                .set("STAGE", rows * steps * 8 * 9)
                .set("CHAINS", rows * outputs * matrices * 128)
        }
        Tiling::Many { rows } => values
            .list("ROWS", 0..rows / 16)
            .set("ROWCOUNT", rows / 16)
            .set("TILEROWS", rows)
            .set("INPUTS", rows * 8),
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
