//! Which kernel: the source of every variant of a linear layer.

use gleed_model::program::Activation;

use super::decode;
use super::layout::Layout;
use super::template::{Values, expand};
use crate::AdapterInfo;

const COMMON: &str = include_str!("../kernels/linear_common.wgsl");
const FEW: &str = include_str!("../kernels/linear_few.wgsl");
const MANY: &str = include_str!("../kernels/linear_many.wgsl");
const COOPERATIVE: &str = include_str!("../kernels/linear_cooperative.wgsl");

/// What a linear layer computes, as far as its kernels differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearSpec {
    /// The layout of the matrix, or of the gate.
    pub layout: Layout,
    /// The layout of the second matrix and the activation of the gate: `activation(gate) · up`.
    pub gated: Option<(Layout, Activation)>,
    /// Whether biases are added.
    pub bias: bool,
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
    let matrices = if spec.gated.is_some() { "ab" } else { "a" };
    let activation = spec.gated.map(|(_, activation)| activation);
    let values = Values::default()
        .list("MATRICES", matrices.chars())
        .list("EIGHT", 0..8)
        .switch("BIAS", spec.bias)
        .switch("UNBIASED", !spec.bias)
        .switch("GATED", spec.gated.is_some())
        .switch("PLAIN", spec.gated.is_none())
        .switch("SILU", activation == Some(Activation::Silu))
        .switch("GELU", activation == Some(Activation::Gelu));
    let mut decoders = decode::snippet(spec.layout, 'a', 0);
    if let Some((layout, _)) = spec.gated {
        decoders.push_str(&decode::snippet(layout, 'b', 2));
    }
    match tiling {
        Tiling::Few { rows, outputs } => {
            let steps = steps(spec, rows, outputs);
            let (quads, slots) = (steps * 64, outputs);
            let values = values
                .list("ROWS", 0..rows)
                .list("SLOTS", 0..slots)
                .list("STEPLIST", 0..steps)
                .list("STAGELOADS", 0..(rows * quads).div_ceil(128))
                .set("ROWCOUNT", rows)
                .set("SLOTCOUNT", slots)
                .set("MATRIXCOUNT", matrices.len())
                .set("STEPS", steps)
                .set("QUADS", quads)
                .set("STAGE", rows * steps * 8 * 9)
                .set("CHAINS", rows * slots * matrices.len() as u32 * 128)
                .set("OUTPUTS", tiling.outputs(false));
            expand(COMMON, &values) + &decoders + &expand(FEW, &values)
        }
        Tiling::Many { rows } => {
            let values = values
                .list("ROWS", 0..rows / 16)
                .set("ROWCOUNT", rows / 16)
                .set("TILEROWS", rows)
                .set("INPUTS", rows * 8);
            expand(COMMON, &values) + &decoders + &expand(MANY, &values)
        }
        Tiling::Cooperative { sums, rows } => {
            let values = values
                .list("TWO", 0..2)
                .list("FETCHES", 0..rows / 32)
                .list("OUTFRAGMENTS", 0..sums / 32)
                .list("ROWFRAGMENTS", 0..rows / 64)
                .set("FRAGMENTSOUT", sums / 32)
                .set("FRAGMENTSROW", rows / 64)
                .set("TILEOUTPUTS", sums)
                .set("TILEROWS", rows)
                .set("OUTPUTS", tiling.outputs(spec.gated.is_some()))
                .set("WEIGHTS", sums * 10)
                .set("INPUTS", rows * 10)
                .set("STOREA", store_part('a', sums))
                .set("STOREB", store_part('b', sums));
            let enable = "enable f16;\nenable wgpu_cooperative_matrix;\n";
            enable.to_string() + &expand(COMMON, &values) + &decoders + &expand(COOPERATIVE, &values)
        }
    }
}

/// Groups that a lane of the kernel for few rows has loaded ahead for each of its outputs: about 64 bytes of
/// weights in all, and no more columns than workgroup memory has room for (9 KiB).
fn steps(spec: LinearSpec, rows: u32, outputs: u32) -> u32 {
    let up = spec.gated.map_or(0, |(layout, _)| layout.low_words());
    let words = (spec.layout.low_words() + up) as u32 * outputs;
    (16 / words).min(8 / rows).clamp(1, 4)
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
