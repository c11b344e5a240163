//! What experts do of a single row besides their products: the norm before them, where it is left to them, and after them the
//! sum of what they give, with the norm that follows it. A step has as many dispatches less, whose workgroups would be few
//! and wait for each other.

use super::{Product, direct_split, shared, split_beside};
use crate::kernels::experts::Choosing;
use crate::kernels::{Place, Source};
use crate::launch::Buffer;
use crate::linear::HalfRows;
use crate::template::{Values, expand};
use crate::units::fragments::{LITTLE, Room};

/// Subgroups of a workgroup that has all experts of a row, at most.
const SUMMED_SUBGROUPS: usize = 16;

/// Outputs of a workgroup: a group of columns of the norm that follows.
const OUTPUTS: usize = 32;

/// An RMS norm of a single row, whose sums of squares are known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Normed {
    /// What is normed.
    pub x: Place,
    pub weight: Buffer,
    pub epsilon: f32,
    /// Where the sums of squares of its groups are.
    pub halves: HalfRows,
}

/// The sum of what the experts of a row give, by rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summed {
    /// Whether what they give is multiplied with their weights.
    pub weighted: bool,
    pub out: Place,
    /// The norm that follows, whose sum is written instead of `out`.
    pub next: Option<NextNorm>,
}

/// The RMS norm of the sum of a residual and of what experts give, but for the row's factor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NextNorm {
    pub residual: Place,
    pub weight: Buffer,
    /// Where the sum times the weights goes.
    pub halves: HalfRows,
}

/// Whether a single row's norm can be left to experts with `columns` columns.
pub(crate) fn has_normed(room: Room, columns: usize) -> bool {
    direct_split(room, columns).is_some() && columns.is_multiple_of(32)
}

/// Whether workgroups that have it have room for its choice, too.
pub(crate) fn can_choose(room: Room, columns: usize, choosing: Choosing) -> bool {
    let split = split_beside(room, columns, choosing.bytes());
    split.is_some() && split == direct_split(room, columns)
}

/// Subgroups for each expert of a row that share its segments, where all of them are one workgroup; nothing where they have no
/// room in it, or where its outputs would not be whole tiles of one piece.
pub(super) fn summed_split(room: Room, product: &Product) -> Option<usize> {
    let [_, outputs, columns] = product.sizes;
    let slots = product.slots();
    let whole = outputs.is_multiple_of(OUTPUTS)
        && product.second.is_none()
        && product.normed.is_none()
        && product.choice.is_some()
        && product.first.weight.pieces().len() == 1;
    // Halves of all rows, and what is given.
    let together = slots * (2 * columns.next_multiple_of(128) + 4 * OUTPUTS + 4) + LITTLE;
    let each = room.subgroups(SUMMED_SUBGROUPS, 640, together) / slots;
    (whole && each > 0).then(|| shared(columns, each))
}

/// Which parts the kernels have.
pub(super) fn values(values: Values, summed: Option<Summed>, normed: bool) -> Values {
    let adds = summed.is_some_and(|summed| summed.next.is_some());
    let values = values.list("EIGHT", 0..8).switch("ADDS", adds);
    let put_group =
        if adds { expand(include_str!("../../../common/put_group.wgsl"), &values) } else { String::new() };
    values
        .set("PUTGROUP", put_group.trim_end())
        .switch("NORMED", normed)
        .switch("SUMMED", summed.is_some())
        .switch("WEIGHTED", summed.is_some_and(|summed| summed.weighted))
}

impl Normed {
    /// What the kernel needs of it.
    pub(super) fn read(self, source: Source, aligned: bool) -> Source {
        source
            .snippet(include_str!("../../../common/row_factor.wgsl"))
            .size("SQUARES", self.halves.squares())
            .float("INVERSE_WIDTH", 1.0 / self.x.width as f32)
            .float("EPSILON", self.epsilon)
            .read("norm_weights", if aligned { "vec4<f32>" } else { "f32" }, self.weight)
            .read("squares", "vec4<u32>", self.halves.buffer())
    }
}

impl Summed {
    /// Whether it writes to a buffer.
    pub(super) fn writes(self, buffer: Buffer) -> bool {
        self.next.map_or(self.out, |next| next.residual).buffer == buffer
    }

    /// What the kernel needs of it.
    pub(super) fn write(self, source: Source) -> Source {
        let Some(next) = self.next else { return source.write_place("out", "OUT_", self.out) };
        source
            .snippet(include_str!("../../../common/squares.wgsl"))
            .size("WRITTEN_FACTORS", 4 * next.halves.group_factors())
            .size("WRITTEN_SQUARES", 4 * next.halves.squares())
            .read("norm_weights", "f32", next.weight)
            .write_place("residual", "RESIDUAL_", next.residual)
            .write("written", "u32", next.halves.buffer())
    }
}
