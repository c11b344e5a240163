//! How a linear layer is cut into workgroups: the tilings that there are, which of them a device can have, and which
//! one so many rows get.

use std::fmt;

use super::shader::{Combination, InputKind, LinearSpec};
use crate::matrices::{Element, MatrixShape};
use crate::{AdapterInfo, Gpu};

/// How a kernel covers its outputs and rows. The results of all for the same kind of input are the same bits.
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
    /// The same for fewer rows: tiles of 32 sums, whose chains the subgroups share.
    Chains {
        /// Rows of a workgroup: 16 or 32.
        rows: u32,
        /// Subgroups of a workgroup: 4 or 8.
        subgroups: u32,
    },
    /// Halves on the device's matrix units, for inputs of halves and any number of rows. Where [`half_units`](super::half_units) says so.
    Halves {
        /// Rows of a workgroup: 16, 32 or 64.
        rows: u32,
        /// Subgroups that share the columns of their outputs.
        split: u32,
        /// Subgroups for outputs beside each other, each of 32 sums.
        across: u32,
    },
}

/// The kind of kernel and its tile of outputs, or sums, and rows.
impl fmt::Display for Tiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tiling::Few { rows, outputs } => write!(f, "few {outputs}x{rows}"),
            Tiling::Many { rows } => write!(f, "many 64x{rows}"),
            Tiling::Units { tile: (sums, rows), .. } => write!(f, "units {sums}x{rows}"),
            Tiling::Chains { rows, subgroups } => write!(f, "chains 32x{rows} by {subgroups}"),
            Tiling::Halves { rows, split, across } => write!(f, "halves {}x{rows} by {split}", 32 * across),
        }
    }
}

/// The products that [`Tiling::Units`] needs.
pub(crate) const BYTE_MATRICES: MatrixShape =
    MatrixShape { m: 16, n: 16, k: 32, operands: Element::I8, sums: Element::I32 };

/// Whether an adapter can run [`Tiling::Units`]: products of 16x32 and 32x16 matrices of signed bytes by subgroups
/// of 32. An open device does not list them if it has their elements elsewhere than its kernels expect.
pub fn exact_units(adapter: &AdapterInfo) -> bool {
    adapter.backend == wgpu::Backend::Vulkan
        && adapter.f16
        && adapter.subgroups == Some((32, 32))
        && adapter.cooperative_matrices.contains(&BYTE_MATRICES)
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
        Tiling::Few { rows: 1, outputs: 1 },
        Tiling::Few { rows: 2, outputs: 1 },
        Tiling::Few { rows: 4, outputs: 1 },
        Tiling::Few { rows: 8, outputs: 2 },
        Tiling::Many { rows: 64 },
    ];

    /// Those for inputs of integers on matrix units, for more than [`Tiling::FEW_BESIDE_UNITS`] rows: for up to 16 and 32
    /// rows, and for more, of which the one is used that takes least time by an estimate.
    pub const UNITS: [Tiling; 5] = [
        Tiling::Chains { rows: 16, subgroups: 8 },
        Tiling::Chains { rows: 32, subgroups: 8 },
        Tiling::Chains { rows: 32, subgroups: 4 },
        Tiling::Units { tile: (64, 64), own: (32, 32) },
        Tiling::Units { tile: (128, 128), own: (64, 32) },
    ];

    /// Rows up to which kernels for few rows are faster than matrix units.
    pub const FEW_BESIDE_UNITS: u32 = 4;

    /// The tilings for inputs of floats that a device has.
    pub fn floats(gpu: &Gpu) -> Vec<Tiling> {
        Tiling::ALL.into_iter().filter(|tiling| tiling.pays(gpu)).collect()
    }

    /// Whether it is worth its compilation: a software adapter takes a second for a kernel, and is slow with all of them.
    fn pays(self, gpu: &Gpu) -> bool {
        let seldom = matches!(self, Tiling::Few { rows: 2 | 8, .. } | Tiling::Many { rows: 16 | 32 });
        !(seldom && gpu.info.is_software())
    }

    /// The tilings for inputs of integers that a device can have: those for few rows need 512 threads, those for
    /// four and eight rows 17 and 18 KiB of workgroup memory, and those on matrix units 20 to 44 KiB.
    pub fn integers(gpu: &Gpu) -> Vec<Tiling> {
        let limits = gpu.device.limits();
        let bytes = |tiling: &Tiling| match *tiling {
            // One chain of every slot at least, of all outputs and rows; a gated layer has two sums of each output.
            Tiling::Few { rows, outputs } => {
                let sums = 32 * outputs.max(2);
                MOST_KEPT_BYTES.max(4 * rows * sums * (tiling.few_threads() / 32 + 1))
            }
            Tiling::Many { .. } | Tiling::Halves { .. } => 0,
            // Chains, or weights and padding, which may be there twice; and inputs.
            Tiling::Chains { rows, subgroups } => 16 * subgroups * ((8 * rows).max(2 * 3 * 32) + 3 * rows),
            // Two stages of weights and their scales, which may be there twice, and of inputs.
            Tiling::Units { tile: (sums, rows), .. } => 2 * (2 * (48 + 8) * sums + 48 * rows),
        };
        let units = if exact_units(&gpu.info) { &Tiling::UNITS[..] } else { &[] };
        let all = Tiling::INTEGERS.iter().chain(units).copied();
        let fits = |tiling: &Tiling| {
            if !tiling.pays(gpu) {
                return false;
            }
            let threads = if let Tiling::Few { .. } = tiling { tiling.few_threads() } else { 256 };
            bytes(tiling) <= limits.max_compute_workgroup_storage_size
                && threads <= limits.max_compute_invocations_per_workgroup
        };
        all.filter(fits).collect()
    }

    /// Those that steps of up to so many rows need.
    pub(crate) fn needed(mut all: Vec<Tiling>, max_rows: usize) -> Vec<Tiling> {
        let enough = |tiling: &&Tiling| !tiling.on_units() && tiling.rows() as usize >= max_rows;
        let most = all.iter().find(enough).map_or(u32::MAX, |tiling| tiling.rows());
        let few = max_rows <= Tiling::FEW_BESIDE_UNITS as usize;
        all.retain(|tiling| if tiling.on_units() { !few } else { tiling.rows() <= most });
        all
    }

    /// Those of these that a layer has kernels of: where there are matrix units for it, they take all but few rows.
    pub(crate) fn of_layer(all: &[Tiling], spec: LinearSpec) -> Vec<Tiling> {
        let on_units = all.iter().any(|tiling| tiling.on_units() && tiling.takes(spec));
        let needed = |tiling: &Tiling| {
            if spec.norms() {
                tiling.requantizes()
            } else if tiling.on_units() {
                tiling.takes(spec)
            } else {
                !on_units || tiling.rows() <= Tiling::FEW_BESIDE_UNITS
            }
        };
        all.iter().copied().filter(needed).collect()
    }

    /// What so many workgroups on matrix units take, in tenths of microseconds for 4,096 columns, measured on a GPU of
    /// [`MEASURED`] multiprocessors with Q4_K, and Q6_K where halves of groups have scales of their own. Small workgroups
    /// share the time; those of tiles come in rounds, and one that is begun counts whole. What one multiprocessor takes
    /// is believed to be in the same proportions on every GPU: only how many there are is not.
    pub(super) fn cost(self, workgroups: u32, halves: bool, multiprocessors: u32) -> u32 {
        let shared = |workgroups: u32| workgroups * MEASURED / multiprocessors;
        let rounds = |at_once: u32| workgroups.div_ceil(at_once * multiprocessors);
        match (self, halves) {
            (Tiling::Units { tile: (128.., _), .. }, false) => 1110 * rounds(1),
            (Tiling::Units { tile: (128.., _), .. }, true) => 1650 * rounds(1),
            (Tiling::Units { .. }, false) => 930 * rounds(3),
            (Tiling::Units { .. }, true) => 880 * rounds(2),
            (Tiling::Chains { subgroups: 8.., .. }, _) => shared(workgroups + workgroups / 7),
            (_, true) => shared(workgroups + workgroups / 10),
            (_, false) => shared(workgroups),
        }
    }

    /// Whether workgroups for the same outputs and other rows come one after the other.
    pub(super) fn rows_first(self) -> bool {
        matches!(self, Tiling::Halves { .. })
    }

    /// Whether it multiplies bytes on matrix units.
    pub(crate) fn on_units(self) -> bool {
        matches!(self, Tiling::Units { .. } | Tiling::Chains { .. })
    }

    /// Whether it has a kernel for a layer: on matrix units, gates and ups are packed alike.
    pub(crate) fn takes(self, spec: LinearSpec) -> bool {
        match spec.second {
            Some(((second, _), Combination::Gated(_))) if self.on_units() => spec.first.0 == second,
            _ => true,
        }
    }

    /// Threads of a workgroup that writes its results as integers too, and bytes of memory that it may need.
    pub(crate) const REQUANTIZING_THREADS: u32 = 1024;
    pub(crate) const REQUANTIZING_BYTES: u32 = 20 << 10;

    /// Whether a layer that can write its results as integers does in this tiling.
    pub(crate) fn requantizes(self) -> bool {
        matches!(self, Tiling::Few { rows: ..=4, .. })
    }

    /// Threads of a workgroup.
    pub(super) fn threads(self, spec: LinearSpec) -> u32 {
        match self {
            // Layers whose results are normed have few workgroups, gated ones many, which had better be there at once.
            Tiling::Few { .. } if spec.requantizes_in(self) && spec.norms() => Tiling::REQUANTIZING_THREADS,
            Tiling::Few { .. } if spec.requantizes_in(self) => 256,
            Tiling::Few { .. } if spec.input == InputKind::Integers => self.few_threads(),
            Tiling::Few { .. } | Tiling::Many { .. } => 128,
            Tiling::Halves { split, across, .. } => 32 * split * across,
            Tiling::Chains { subgroups, .. } => 32 * subgroups,
            Tiling::Units { tile, own } => tile.0 * tile.1 / (own.0 * own.1) * 32,
        }
    }

    /// Threads of a workgroup for few rows of integers.
    fn few_threads(self) -> u32 {
        if self.rows() > 4 { 256 } else { 512 }
    }

    /// Chains that the kernel for few rows of integers keeps at a time, of 32: at least one of each 32 of its threads.
    pub(super) fn kept_chains(self, spec: LinearSpec) -> u32 {
        let matrices = if spec.is_gated() { 2 } else { 1 };
        let each = 4 * self.rows() * matrices * self.outputs(spec);
        let fits = |kept: &u32| each * (kept + 1) <= MOST_KEPT_BYTES;
        [32, 16].into_iter().find(fits).unwrap_or(0).max(self.threads(spec) / 32)
    }

    /// Outputs of a workgroup of a layer.
    pub(crate) fn outputs(self, spec: LinearSpec) -> u32 {
        match self {
            Tiling::Few { .. } if spec.input == InputKind::Integers => 32 * self.slot_outputs(spec),
            Tiling::Few { outputs, .. } => 16 * outputs,
            Tiling::Many { .. } => 64,
            Tiling::Halves { across, .. } => across * if spec.is_gated() { 16 } else { 32 },
            Tiling::Chains { .. } if spec.is_gated() => 16,
            Tiling::Chains { .. } => 32,
            Tiling::Units { tile: (sums, _), .. } => sums / if spec.is_gated() { 2 } else { 1 },
        }
    }

    /// Outputs of a slot of the kernels for few rows; gated layers of integers have half as many, as each has
    /// two sums.
    pub(super) fn slot_outputs(self, spec: LinearSpec) -> u32 {
        match self {
            Tiling::Few { outputs, .. } if spec.input == InputKind::Integers && spec.is_gated() => {
                outputs.div_ceil(2)
            }
            Tiling::Few { outputs, .. } => outputs,
            Tiling::Many { .. } | Tiling::Halves { .. } | Tiling::Units { .. } | Tiling::Chains { .. } => 1,
        }
    }

    /// Rows of a workgroup.
    pub fn rows(self) -> u32 {
        match self {
            Tiling::Few { rows, .. }
            | Tiling::Many { rows }
            | Tiling::Chains { rows, .. }
            | Tiling::Halves { rows, .. }
            | Tiling::Units { tile: (_, rows), .. } => rows,
        }
    }
}

/// Multiprocessors of the GPU that costs were measured on, an H200; and those that a GPU is believed to have whose
/// driver does not say.
pub(super) const MEASURED: u32 = 132;

/// Bytes that the kernels for few rows of integers keep chains in, if that is room enough for one of each slot.
const MOST_KEPT_BYTES: u32 = 16 << 10;

/// Rows up to which several workgroups for few rows, which read the weights again, are faster than one for
/// many, of which there are too few to fill a large GPU.
fn few_in_turn(input: InputKind) -> u32 {
    match input {
        InputKind::Integers => 112,
        _ => 24,
    }
}

/// The pipeline for so many rows. Those for few rows are used several times, unless there are matrix units; of those,
/// the first one of chains that has room for all rows, or else that of the least cost.
pub(super) fn fitting<T>(
    pipelines: &[(Tiling, T)],
    rows: u32,
    input: InputKind,
    cost: impl Fn(Tiling) -> u32,
) -> Option<&(Tiling, T)> {
    if input.half_groups() > 0 {
        return pipelines.iter().min_by_key(|(tiling, _)| cost(*tiling));
    }
    let on_units = || pipelines.iter().filter(|(tiling, _)| tiling.on_units());
    if rows > Tiling::FEW_BESIDE_UNITS && on_units().next().is_some() {
        let has_room =
            |(tiling, _): &&(Tiling, T)| matches!(tiling, Tiling::Chains { .. }) && tiling.rows() >= rows;
        return on_units().find(has_room).or(on_units().min_by_key(|(tiling, _)| cost(*tiling)));
    }
    let is_few = |(tiling, _): &&(Tiling, T)| matches!(tiling, Tiling::Few { .. });
    let most_of_few = pipelines.iter().rfind(is_few);
    let few_in_turn = most_of_few.filter(|_| rows <= few_in_turn(input));
    let enough = pipelines.iter().find(|(tiling, _)| tiling.rows() >= rows).or(pipelines.last());
    match (few_in_turn, enough) {
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
        let plain = LinearSpec {
            first,
            second: None,
            input: InputKind::Integers,
            normed: false,
            requantizes: false,
            known: None,
        };
        let with = |format, combination| {
            let second = Some(((Layout::of(format).0, false), combination));
            LinearSpec { second, ..plain }
        };
        let gated = |format| with(format, Combination::Gated(Activation::Silu));
        for units in Tiling::UNITS {
            assert!(units.takes(plain) && units.takes(gated(Format::Q4_K)));
            assert!(!units.takes(gated(Format::Q5_K)) && Tiling::INTEGERS[4].takes(gated(Format::Q5_K)));
            assert!(units.takes(with(Format::Q6_K, Combination::Joined)));
        }
    }

    #[test]
    fn small_steps_need_no_large_tilings() {
        let all = [&Tiling::INTEGERS[..], &Tiling::UNITS].concat();
        assert_eq!(Tiling::needed(all.clone(), 1), all[..1]);
        assert_eq!(Tiling::needed(all.clone(), 3), all[..3]);
        // Where there are matrix units, even for five rows.
        assert_eq!(Tiling::needed(all.clone(), 5), [&all[..4], &all[5..]].concat());
        assert_eq!(Tiling::needed(all.clone(), 9), all);
        assert_eq!(Tiling::needed(all.clone(), 512), all);
        assert_eq!(Tiling::needed(Tiling::ALL.to_vec(), 16), Tiling::ALL[..5]);
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
        // On matrix units, of 4096 and 24576 outputs, and of 6144 that have halves.
        let [half, shared, in_fours, small, large] = Tiling::UNITS;
        let on_units = [&integers[..4], &Tiling::UNITS.map(|tiling| (tiling, ()))].concat();
        let few = |i: usize| Tiling::INTEGERS[i];
        for (rows, narrow, wide, with_halves) in [
            (1u32, few(0), few(0), few(0)),
            (3, few(2), few(2), few(2)),
            (4, few(2), few(2), few(2)),
            (5, half, half, half),
            (16, half, half, half),
            (17, shared, shared, shared),
            (32, shared, shared, shared),
            (33, in_fours, small, in_fours),
            (103, in_fours, small, in_fours),
            (183, in_fours, small, in_fours),
            (385, large, small, small),
            (512, large, large, small),
            (2048, large, large, large),
        ] {
            let layers = [(4096u32, false, narrow), (24576, false, wide), (6144, true, with_halves)];
            for (outputs, halves, chosen) in layers {
                let cost = |tiling: Tiling| {
                    let sums = if let Tiling::Units { tile, .. } = tiling { tile.0 } else { 32 };
                    tiling.cost(outputs / sums * rows.div_ceil(tiling.rows()), halves, MEASURED)
                };
                let found = fitting(&on_units, rows, InputKind::Integers, cost).map(|(t, ())| *t);
                assert_eq!(found, Some(chosen), "{rows} rows of {outputs} on matrix units");
            }
        }
        assert_eq!(rows_of(&all[..1], 9), Some(1));
        assert_eq!(rows_of(&all[6..], 1), Some(64));
        assert_eq!(rows_of(&[], 1), None);
    }

    #[test]
    fn fewer_multiprocessors_take_longer() {
        for tiling in Tiling::UNITS {
            for halves in [false, true] {
                // As many as 22 multiprocessors have at once in whole rounds, whatever the tiling.
                let cost = |multiprocessors| tiling.cost(6 * 132, halves, multiprocessors);
                assert_eq!([132, 66, 22].map(cost), [1, 2, 6].map(|times| times * cost(132)), "{tiling:?}");
            }
        }
        // Rounds that are not full count whole, and more so the more are there at once.
        let large = Tiling::UNITS[4];
        assert_eq!([1, 20, 21].map(|workgroups| large.cost(workgroups, false, 20)), [1110, 1110, 2220]);
    }
}
