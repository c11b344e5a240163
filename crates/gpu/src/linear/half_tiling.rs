//! The tilings for inputs of halves: which there are for a number of columns, and which takes least time.

use gleed_model::arithmetic::SEGMENT;

use super::layout::GROUP;
use super::tiling::Tiling;
use crate::units::chains::Loading;
use crate::units::fragments::{LITTLE, Room};

/// Groups of a segment of halves.
const SEGMENT_GROUPS: u32 = (SEGMENT / GROUP) as u32;

/// Subgroups that share the segments of a single row: as many as there are registers for.
const SINGLE_SPLIT: usize = 24;

impl Tiling {
    /// Those for inputs of halves of `groups` groups, of which the one that takes least time by an estimate is used.
    /// The segments of few rows are shared by as many subgroups as there may be.
    pub(crate) fn halves(groups: u32, room: Room) -> Vec<Tiling> {
        let shared = |rows: u32, most: u32| {
            // Sums of 32 outputs, but none for rows that are not there.
            let bytes = 128 * rows as usize;
            Tiling::shared(rows, groups, room.subgroups(most as usize, bytes, LITTLE) as u32)
        };
        let mut all = vec![
            shared(8, 12),
            shared(16, 8),
            shared(32, 8),
            shared(32, 4),
            Tiling::Halves { rows: 32, split: 1, across: 4 },
            Tiling::Halves { rows: 64, split: 1, across: 2 },
        ];
        // Of few columns some are the same.
        all.dedup();
        all
    }

    /// That for a single row. A workgroup of a gated layer has 32 outputs as others have, a group of columns for the layer
    /// after it.
    pub(super) fn single(groups: u32, gated: bool, room: Room) -> Tiling {
        let most = Tiling::single_subgroups(groups, room);
        match Tiling::shared(1, groups, most) {
            Tiling::Halves { rows, split, .. } if gated => {
                let split = if split < 8 { split.min(most / 2) } else { split.div_ceil(2) };
                Tiling::Halves { rows, split, across: 2 }
            }
            tiling => tiling,
        }
    }

    /// Whether a device has workgroups for that: memory for a half of each column and for what is added up, and threads.
    pub(crate) fn has_single(columns: usize, room: Room) -> bool {
        // A gated layer takes two at least.
        Tiling::single_subgroups(columns.div_ceil(GROUP) as u32, room) >= 2
    }

    /// Subgroups that there may be for a single row.
    fn single_subgroups(groups: u32, room: Room) -> u32 {
        let row = 2 * (groups as usize * GROUP).next_multiple_of(SEGMENT);
        room.subgroups(SINGLE_SPLIT, 640, row + LITTLE) as u32
    }

    /// As many subgroups as share the segments evenly, up to `most`.
    fn shared(rows: u32, groups: u32, most: u32) -> Tiling {
        let segments = groups.div_ceil(SEGMENT_GROUPS);
        let rounds = segments.div_ceil(most.max(1)).max(1);
        Tiling::Halves { rows, split: segments.div_ceil(rounds).max(1), across: 1 }
    }

    /// What `workgroups` workgroups of [`Tiling::Halves`] take, in hundredths of microseconds, as it was measured on an
    /// H200: they come in waves, of as many as a multiprocessor has registers for, and the last wave takes a little
    /// less if it is not full. Weights with mins are `quick` to unpack and need fewer registers.
    pub(super) fn half_cost(self, workgroups: u32, groups: u32, multiprocessors: u32, quick: bool) -> u32 {
        let Tiling::Halves { rows, split, across } = self else { return u32::MAX };
        let is_shared = split > 1;
        // A segment, and subgroups of a multiprocessor.
        let (segment, subgroups) = match (rows, is_shared, quick) {
            (..=8, _, true) => (560, 16),
            (..=8, _, false) => (750, 16),
            (16, _, true) => (870, 24),
            (16, _, false) => (1300, 24),
            (32, true, true) => (750, 12),
            (32, true, false) => (780, 8),
            (32, false, true) => (550, 12),
            (32, false, false) => (760, 12),
            (_, _, true) => (750, 8),
            (_, _, false) => (940, 8),
        };
        let rounds = groups.div_ceil(SEGMENT_GROUPS).div_ceil(split);
        let at_once = (subgroups / (split * across)).max(1);
        let (full, rest) =
            (workgroups / (at_once * multiprocessors), workgroups % (at_once * multiprocessors));
        let fifths = if rest > 0 { 4 * at_once + rest.div_ceil(multiprocessors) } else { 0 };
        let wave = segment * rounds;
        300 + wave * full + wave * fifths / (5 * at_once)
    }

    /// How the kernels of [`Tiling::Halves`] load what they multiply.
    pub(super) fn loading(self) -> Loading {
        match self {
            // More subgroups make up for it.
            Tiling::Halves { rows: 1, .. } => Loading { ahead: 1, written_out: true },
            Tiling::Halves { rows, split, .. } => Loading::of(rows as usize, split as usize),
            Tiling::Few { .. } | Tiling::Many { .. } => Loading { ahead: 1, written_out: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::tiling::MULTIPROCESSORS;
    use crate::units::fragments::Fragments;

    /// What [`Tiling::halves`] took in turn on an H200, in microseconds: (outputs, columns), whether weights have mins, whether
    /// the layer is gated, rows, and the times in the order of tilings, as far as they were measured.
    type Measured = ((u32, u32), bool, bool, u32, [f32; 6]);
    const NONE: f32 = f32::INFINITY;
    const MEASURED: [Measured; 16] = [
        ((4096, 4096), true, false, 8, [8.2, 9.2, 9.0, 15.7, NONE, NONE]),
        ((4096, 4096), true, false, 32, [14.5, 10.0, 10.4, 16.8, NONE, NONE]),
        ((6144, 4096), true, false, 16, [14.2, 10.2, 14.9, 16.2, NONE, NONE]),
        ((6144, 4096), true, false, 32, [20.0, 11.7, 16.8, 17.4, NONE, NONE]),
        ((6144, 4096), true, false, 64, [36.3, 20.1, 23.6, 19.0, 37.6, 52.0]),
        ((6144, 4096), true, false, 192, [98.1, 52.4, 63.2, 51.0, 50.6, 61.8]),
        ((6144, 4096), true, false, 512, [248.4, 131.5, 151.7, 130.5, 95.4, 122.2]),
        ((4096, 12288), true, false, 32, [40.3, 25.7, 22.0, 41.0, NONE, NONE]),
        ((4096, 12288), true, false, 64, [66.6, 45.9, 38.7, 42.6, 105.4, 143.0]),
        ((4096, 12288), true, false, 192, [185.4, 122.9, 106.3, 91.3, 124.3, 158.9]),
        ((4096, 12288), true, false, 512, [473.0, 302.6, 260.9, 250.9, 239.6, 182.0]),
        ((4096, 12288), false, false, 64, [140.7, 64.6, 52.3, 53.8, 171.6, 206.0]),
        ((4096, 12288), false, false, 192, [403.0, 179.9, 142.2, 147.2, 172.6, 209.5]),
        ((4096, 12288), false, false, 512, [1026.2, 463.2, 356.2, 370.8, 370.9, 232.6]),
        ((12288, 4096), true, true, 192, [NONE, NONE, NONE, 186.6, 142.4, 194.7]),
        ((12288, 4096), true, true, 2048, [NONE, NONE, NONE, 1879.8, 1351.4, 1435.2]),
    ];

    #[test]
    fn the_tiling_of_least_cost_is_about_the_quickest() {
        let lanes = Fragments::Lanes.room(48 << 10, 1024);
        for ((outputs, columns), quick, gated, rows, times) in MEASURED {
            let groups = columns / GROUP as u32;
            let all = Tiling::halves(groups, lanes);
            assert_eq!(all.len(), times.len());
            let cost = |tiling: &Tiling| {
                let Tiling::Halves { rows: own, across, .. } = *tiling else {
                    unreachable!("all are in halves")
                };
                let blocks = outputs.div_ceil(across * if gated { 16 } else { 32 });
                tiling.half_cost(blocks * rows.div_ceil(own), groups, MULTIPROCESSORS, quick)
            };
            let (_, time) = all.iter().zip(times).min_by_key(|(tiling, _)| cost(tiling)).unwrap();
            let least = times.into_iter().fold(NONE, f32::min);
            assert!(
                time < 1.17 * least,
                "{rows} rows of {outputs} x {columns}: {time} us, {least} is possible"
            );
        }
    }

    #[test]
    fn few_columns_have_no_tiling_twice() {
        for groups in [1, 16, 32, 48, 64] {
            let all = Tiling::halves(groups, Fragments::Lanes.room(48 << 10, 1024));
            let twice = |tiling: &Tiling| all.iter().filter(|other| *other == tiling).count() > 1;
            assert!(!all.iter().any(twice), "{groups} groups: {all:?}");
        }
    }
}
