//! How a linear layer is cut into workgroups: the tilings that there are, which of them a device can have, and which
//! one a number of rows gets.

use std::fmt;

use super::shader::{InputKind, LinearSpec};
use crate::facts::Facts;

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
    /// Halves on the device's matrix units, for inputs of halves and any number of rows. Where [`half_units`](super::half_units) says so.
    Halves {
        /// Rows of a workgroup: 1, 8, 16, 32 or 64.
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
            Tiling::Halves { rows, split, across } => write!(f, "halves {}x{rows} by {split}", 32 * across),
        }
    }
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

    /// The tilings for inputs of floats that a device has.
    pub fn floats(facts: &Facts) -> Vec<Tiling> {
        Tiling::ALL.into_iter().filter(|tiling| tiling.pays(facts)).collect()
    }

    /// Whether it is worth its compilation: a software adapter takes a second for a kernel, and is slow with all of them.
    fn pays(self, facts: &Facts) -> bool {
        let seldom = matches!(self, Tiling::Few { rows: 2 | 8, .. } | Tiling::Many { rows: 16 | 32 });
        !(seldom && facts.software)
    }

    /// The tilings for inputs of integers that a device can have: those for few rows need 512 threads, those for
    /// four and eight rows 17 and 18 KiB of workgroup memory.
    pub fn integers(facts: &Facts) -> Vec<Tiling> {
        let fits = |tiling: &Tiling| {
            let Tiling::Few { rows, outputs } = *tiling else { return true };
            // One chain of every slot at least, of all outputs and rows; a gated layer has two sums of each output.
            let sums = 32 * outputs.max(2);
            let bytes = MOST_KEPT_BYTES.max(4 * rows * sums * (tiling.few_threads() / 32 + 1));
            bytes <= facts.workgroup_memory && tiling.few_threads() <= facts.workgroup_threads
        };
        Tiling::INTEGERS.into_iter().filter(|tiling| tiling.pays(facts) && fits(tiling)).collect()
    }

    /// Those that steps of up to `max_rows` rows need.
    pub(crate) fn needed(mut all: Vec<Tiling>, max_rows: usize) -> Vec<Tiling> {
        let enough = all.iter().find(|tiling| tiling.rows() as usize >= max_rows);
        let most = enough.map_or(u32::MAX, |tiling| tiling.rows());
        all.retain(|tiling| tiling.rows() <= most);
        all
    }

    /// Those of these that a layer has kernels of.
    pub(crate) fn of_layer(all: &[Tiling], spec: LinearSpec) -> Vec<Tiling> {
        all.iter().copied().filter(|tiling| !spec.norms() || tiling.requantizes()).collect()
    }

    /// Whether workgroups for the same outputs and other rows come one after the other.
    pub(super) fn rows_first(self) -> bool {
        matches!(self, Tiling::Halves { .. })
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
            Tiling::Many { .. } | Tiling::Halves { .. } => 1,
        }
    }

    /// Rows of a workgroup.
    pub fn rows(self) -> u32 {
        match self {
            Tiling::Few { rows, .. } | Tiling::Many { rows } | Tiling::Halves { rows, .. } => rows,
        }
    }
}

/// Multiprocessors that a GPU is believed to have whose driver does not say: those of an H200.
pub(super) const MULTIPROCESSORS: u32 = 132;

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

/// The pipeline for `rows` rows: of halves that of the least cost; of others, those for few rows are used several
/// times.
pub(super) fn fitting<T>(
    pipelines: &[(Tiling, T)],
    rows: u32,
    input: InputKind,
    cost: impl Fn(Tiling) -> u32,
) -> Option<&(Tiling, T)> {
    if input.half_groups() > 0 {
        return pipelines.iter().min_by_key(|(tiling, _)| cost(*tiling));
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
    use super::*;

    #[test]
    fn small_steps_need_no_large_tilings() {
        let all = Tiling::INTEGERS.to_vec();
        assert_eq!(Tiling::needed(all.clone(), 1), all[..1]);
        assert_eq!(Tiling::needed(all.clone(), 3), all[..3]);
        assert_eq!(Tiling::needed(all.clone(), 5), all[..4]);
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
        assert_eq!(rows_of(&all[..1], 9), Some(1));
        assert_eq!(rows_of(&all[6..], 1), Some(64));
        assert_eq!(rows_of(&[], 1), None);
    }
}
