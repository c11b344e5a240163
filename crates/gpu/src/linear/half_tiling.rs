//! The tilings for inputs of halves: which there are for so many columns, and which takes least time.

use gleed_model::arithmetic::SEGMENT;

use super::layout::GROUP;
use super::tiling::Tiling;
use crate::units::fragments::{LITTLE, Room};

/// Groups of a segment of halves.
const SEGMENT_GROUPS: u32 = (SEGMENT / GROUP) as u32;

/// Subgroups that share the segments of a single row: as many as there are registers for.
const SINGLE_SPLIT: usize = 24;

impl Tiling {
    /// Those for inputs of halves of so many groups, of which the one that takes least time by an estimate is used. The
    /// segments of few rows are shared by as many subgroups as there may be.
    pub(crate) fn halves(groups: u32, room: Room) -> Vec<Tiling> {
        let shared = |rows: u32, most: u32| {
            // Sums of 32 outputs, but none for rows that are not there.
            let bytes = 128 * rows as usize;
            Tiling::shared(rows, groups, room.subgroups(most as usize, bytes, LITTLE) as u32)
        };
        vec![
            shared(8, 12),
            shared(16, 8),
            shared(32, 8),
            shared(64, 4),
            Tiling::Halves { rows: 64, split: 1, across: 2 },
        ]
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

    /// As many subgroups as share the segments evenly, up to so many.
    fn shared(rows: u32, groups: u32, most: u32) -> Tiling {
        let segments = groups.div_ceil(SEGMENT_GROUPS);
        let rounds = segments.div_ceil(most.max(1)).max(1);
        Tiling::Halves { rows, split: segments.div_ceil(rounds).max(1), across: 1 }
    }

    /// What so many workgroups of [`Tiling::Halves`] take, in hundredths of microseconds: as long as one subgroup takes for
    /// its segments alone, or as all of a multiprocessor take, four of which are there at a time.
    pub(super) fn half_cost(self, workgroups: u32, groups: u32, multiprocessors: u32) -> u32 {
        let Tiling::Halves { rows, split, across } = self else { return u32::MAX };
        let segment = match rows {
            ..=8 => 42,
            16 => 58,
            32 => 80,
            _ => 92,
        };
        let rounds = groups.div_ceil(SEGMENT_GROUPS).div_ceil(split);
        let all = workgroups * split * across * rounds;
        let adding_up = if split > 1 { 50 * rounds } else { 0 };
        300 + adding_up + segment * all.div_ceil(multiprocessors).max(4 * rounds)
    }

    /// Groups that kernels of [`Tiling::Halves`] load ahead, as far as there are registers for them.
    pub(super) fn ahead(self) -> usize {
        match self {
            // More subgroups make up for it.
            Tiling::Halves { rows: 1, .. } => 1,
            Tiling::Halves { rows: ..=16, .. } => 4,
            Tiling::Halves { rows: ..=32, .. } => 2,
            _ => 1,
        }
    }
}
