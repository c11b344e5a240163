//! How a linear layer is cut into workgroups: the tilings that there are, which of them a device can have, and which
//! one so many rows get.

use super::shader::{Combination, InputKind, LinearSpec};
use crate::{AdapterInfo, Gpu};

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

/// The shape of products that [`Tiling::Units`] needs, as adapters list it.
pub(crate) const BYTE_MATRICES: &str = "16x16x32 I8 to I32";

/// Whether an adapter can run [`Tiling::Units`]: products of 16x32 and 32x16 matrices of signed bytes by subgroups
/// of 32. An open device does not list them if it has their elements elsewhere than its kernels expect.
pub fn exact_units(adapter: &AdapterInfo) -> bool {
    adapter.backend == "vulkan"
        && adapter.f16
        && adapter.subgroups == Some((32, 32))
        && adapter.cooperative_matrices.iter().any(|shape| shape == BYTE_MATRICES)
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
    /// memory, larger tiles on matrix units 40 KiB.
    pub fn integers(gpu: &Gpu) -> Vec<Tiling> {
        let room = gpu.device.limits().max_compute_workgroup_storage_size;
        let bytes = |tiling: &Tiling| match *tiling {
            // The chains of all outputs and rows.
            Tiling::Few { rows, outputs } => 4 * 33 * 4 * outputs * rows,
            Tiling::Many { .. } | Tiling::Cooperative { .. } => 0,
            // Two stages of weights and their scales, which may be there twice, and of inputs.
            Tiling::Units { tile: (sums, rows), .. } => 2 * (2 * (48 + 8) * sums + 48 * rows),
        };
        let units = if exact_units(&gpu.info) { &Tiling::UNITS[..] } else { &[] };
        let all = Tiling::INTEGERS.iter().chain(units).copied();
        all.filter(|tiling| bytes(tiling) <= room).collect()
    }

    /// Whether it has a kernel for a layer: on matrix units, gates and ups are packed alike.
    pub(crate) fn takes(self, spec: LinearSpec) -> bool {
        match (self, spec.second) {
            (Tiling::Units { .. }, Some(((second, _), Combination::Gated(_)))) => spec.first.0 == second,
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

    /// Threads of a workgroup.
    pub(super) fn threads(self, spec: LinearSpec) -> u32 {
        match self {
            Tiling::Few { .. } if spec.requantizes_in(self) => Tiling::REQUANTIZING_THREADS,
            Tiling::Few { .. } | Tiling::Many { .. } => 128,
            Tiling::Cooperative { .. } => 256,
            Tiling::Units { tile, own } => tile.0 * tile.1 / (own.0 * own.1) * 32,
        }
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
    pub(super) fn slot_outputs(self, spec: LinearSpec) -> u32 {
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

/// Workgroups that keep a large GPU busy.
const MANY_WORKGROUPS: u32 = 96;

/// Rows up to which several workgroups for few rows, which read the weights again, are faster than one for
/// many, of which there are too few to fill a large GPU.
fn few_in_turn(input: InputKind, on_units: bool) -> u32 {
    match input {
        InputKind::Integers if on_units => 80,
        InputKind::Integers => 112,
        InputKind::Aligned | InputKind::Unaligned => 24,
    }
}

/// The pipeline for so many rows, given the workgroups that a tiling would have. Those for few rows are used several
/// times; of those on matrix units it is the largest that has many workgroups.
pub(super) fn fitting<T>(
    pipelines: &[(Tiling, T)],
    rows: u32,
    input: InputKind,
    workgroups: impl Fn(Tiling) -> u32,
) -> Option<&(Tiling, T)> {
    let is_few = |(tiling, _): &&(Tiling, T)| matches!(tiling, Tiling::Few { .. });
    let is_units = |(tiling, _): &&(Tiling, T)| matches!(tiling, Tiling::Units { .. });
    let mut on_units = pipelines.iter().filter(is_units);
    let smallest = on_units.next();
    let most_of_few = pipelines.iter().rfind(is_few);
    let most_of_few = most_of_few.filter(|_| rows <= few_in_turn(input, smallest.is_some()));
    if most_of_few.is_none() && smallest.is_some() {
        return on_units.rfind(|(tiling, _)| workgroups(*tiling) >= MANY_WORKGROUPS).or(smallest);
    }
    let enough = pipelines.iter().find(|(tiling, _)| tiling.rows() >= rows).or(pipelines.last());
    match (most_of_few, enough) {
        (Some(few), Some((tiling, _))) if few.0.rows() < tiling.rows() => Some(few),
        _ => enough,
    }
}

#[cfg(test)]
mod tests {
    use gleed_gguf::Format;
    use gleed_model::program::Activation;

    use super::super::layout::Layout;
    use super::*;

    #[test]
    fn gates_and_ups_on_matrix_units_are_packed_alike() {
        let first = (Layout::of(Format::Q4_K).0, false);
        let plain =
            LinearSpec { first, second: None, input: InputKind::Integers, normed: false, requantizes: false };
        let with = |format, combination| {
            let second = Some(((Layout::of(format).0, false), combination));
            LinearSpec { second, ..plain }
        };
        let gated = |format| with(format, Combination::Gated(Activation::Silu));
        let units = Tiling::UNITS[0];
        assert!(units.takes(plain) && units.takes(gated(Format::Q4_K)));
        assert!(!units.takes(gated(Format::Q5_K)) && Tiling::INTEGERS[4].takes(gated(Format::Q5_K)));
        assert!(units.takes(with(Format::Q6_K, Combination::Joined)));
    }

    #[test]
    fn rows_choose_their_tiling() {
        let all = Tiling::ALL.map(|tiling| (tiling, ()));
        let rows_of = |pipelines: &[(Tiling, ())], rows| {
            fitting(pipelines, rows, InputKind::Aligned, |_| 0).map(|(tiling, ())| tiling.rows())
        };
        for (rows, chosen) in [(1, 1), (2, 2), (3, 4), (8, 8), (9, 8), (24, 8), (25, 32), (33, 64), (500, 64)]
        {
            assert_eq!(rows_of(&all, rows), Some(chosen), "{rows} rows");
        }
        let integers = Tiling::INTEGERS.map(|tiling| (tiling, ()));
        for (rows, chosen) in [(1, 1), (3, 4), (5, 8), (32, 8), (112, 8), (113, 64), (500, 64)] {
            let found =
                fitting(&integers, rows, InputKind::Integers, |_| 0).map(|(tiling, ())| tiling.rows());
            assert_eq!(found, Some(chosen), "{rows} rows of integers");
        }
        // On matrix units, of 4096 outputs.
        let on_units = [&integers[..4], &Tiling::UNITS.map(|tiling| (tiling, ()))].concat();
        for (rows, chosen) in [(1u32, 1), (3, 4), (80, 8), (81, 64), (183, 64), (384, 128), (512, 128)] {
            let workgroups = |tiling: Tiling| 4096 / tiling.rows() * rows.div_ceil(tiling.rows());
            let found = fitting(&on_units, rows, InputKind::Integers, workgroups).map(|(t, ())| t.rows());
            assert_eq!(found, Some(chosen), "{rows} rows on matrix units");
        }
        assert_eq!(rows_of(&all[..1], 9), Some(1));
        assert_eq!(rows_of(&all[6..], 1), Some(64));
        assert_eq!(rows_of(&[], 1), None);
    }
}
