//! Which rows meet which expert: pairs of rows and slots, cut into tiles of one expert each, and room for them on the device.

use gleed_model::groups::most_that;
use gleed_model::program::{Op, Program, Projection, experts_used};

use crate::launch::{Buffer, Kernels};
use crate::linear::HalfRows;

/// Rows of the tiles that there are, and how many an expert has on average up to which they are best: larger tiles take
/// only a little more time each.
pub(super) const TILES: [(usize, usize); 3] = [(8, 5), (16, 10), (32, usize::MAX)];

/// How pairs of rows and slots are cut into tiles of one expert each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tiles {
    /// Rows of a tile.
    pub(super) rows: usize,
    pub(super) slots: usize,
    pub(super) experts: usize,
    /// Whether rows choose experts, or use all.
    pub(super) chosen: bool,
}

impl Tiles {
    /// The most that there can be of `rows` rows.
    pub fn most(self, rows: usize) -> usize {
        let pairs = rows * self.slots;
        if self.chosen {
            pairs / self.rows + pairs.min(self.experts)
        } else {
            self.experts * rows.div_ceil(self.rows)
        }
    }

    /// Rows up to which there are no more than `most`; of up to as many rows.
    fn most_rows(self, most: usize) -> usize {
        most_that(most, |rows| self.most(rows) <= most)
    }

    /// Whether they are those to use for `rows` rows.
    pub fn serve(self, rows: usize) -> bool {
        let mean = (rows * self.slots).div_ceil(self.experts);
        TILES.iter().find(|(_, most)| mean <= *most).is_some_and(|(rows, _)| *rows == self.rows)
    }

    /// Rows from which on they are used, about.
    pub fn rows_needed(self) -> usize {
        let before = TILES.iter().take_while(|(rows, _)| *rows != self.rows).last();
        before.map_or(1, |(_, most)| most * self.experts / self.slots.max(1))
    }
}

/// Where rows that experts read are as halves, and which rows meet which expert.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ExpertRows {
    pub(super) halves: Buffer,
    pub(super) tiles: Buffer,
    pub(super) most_rows: usize,
}

impl ExpertRows {
    /// Room for those of a program, if it has experts.
    pub fn new(kernels: &mut Kernels, program: &Program, most_rows: usize) -> Option<ExpertRows> {
        let sizes = sizes(program, most_rows);
        (sizes[0] > 0).then(|| ExpertRows::with(kernels, sizes, most_rows))
    }

    pub(super) fn with(kernels: &mut Kernels, [halves, tiles]: [u64; 2], most_rows: usize) -> ExpertRows {
        let halves = kernels.storage("experts' rows as halves", halves);
        ExpertRows { halves, tiles: kernels.storage("rows by experts", tiles), most_rows }
    }
}

/// Rows of a step whose tiles are no more than `most` workgroups, of up to as many rows. Many rows have large tiles.
pub(crate) fn most_rows(program: &Program, most: usize) -> usize {
    let tiles = program.nodes.iter().flat_map(|node| match &node.op {
        Op::ExpertLinear { parts, choice, .. } => {
            let tiles = |part: &Projection| {
                let experts = program.weights[part.weight].experts;
                let (rows, slots) = (TILES[TILES.len() - 1].0, experts_used(*choice, experts));
                Tiles { rows, slots, experts, chosen: choice.is_some() }
            };
            parts.iter().map(tiles).collect()
        }
        _ => vec![],
    });
    tiles.map(|tiles| tiles.most_rows(most)).min().unwrap_or(most)
}

/// Bytes of what [`ExpertRows`] has for a program.
pub(crate) fn bytes(program: &Program, most_rows: usize) -> u64 {
    sizes(program, most_rows).iter().sum()
}

fn sizes(program: &Program, most_rows: usize) -> [u64; 2] {
    let ops = program.nodes.iter().filter_map(|node| match &node.op {
        Op::ExpertLinear { parts, choice, input, .. } => Some((parts, *choice, *input)),
        _ => None,
    });
    let each = ops.flat_map(|(parts, choice, input)| {
        parts.iter().map(move |part| {
            let weight = &program.weights[part.weight];
            let slots = experts_used(choice, weight.experts);
            let rows = if input.width == weight.columns { most_rows } else { most_rows * slots };
            let pairs = most_rows * slots;
            [half_bytes(rows, weight.columns), 4 * (list_at(pairs, weight.experts) + pairs) as u64]
        })
    });
    each.fold([0; 2], |most, each| [most[0].max(each[0]), most[1].max(each[1])])
}

pub(super) fn half_bytes(rows: usize, columns: usize) -> u64 {
    16 * (rows * HalfRows::stride(columns) as usize + rows.div_ceil(4)) as u64
}

/// Where the list of pairs begins, after all tiles.
pub(super) fn list_at(most_pairs: usize, experts: usize) -> usize {
    4 * (most_pairs / TILES[0].0 + experts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_no_more_rows_than_there_may_be_tiles() {
        let of = |slots, experts, chosen| Tiles { rows: 64, slots, experts, chosen }.most_rows(65_535);
        assert_eq!(of(8, 128, true), 65_535);
        // 511 tiles of each expert.
        assert_eq!(of(128, 128, false), 511 * 64);
        let most = of(100, 128, true);
        let tiles = Tiles { rows: 64, slots: 100, experts: 128, chosen: true };
        assert!(tiles.most(most) <= 65_535 && tiles.most(most + 1) > 65_535);
    }
}
