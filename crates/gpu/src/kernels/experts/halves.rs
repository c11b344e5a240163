//! Products of experts on matrix units: rows that chose the same expert are multiplied together, so that a step reads the
//! weights of an expert once. How work is cut for `halves.wgsl`, and the kernels before it; what a single row has instead is
//! in `single.rs`.

use gleed_model::arithmetic::SEGMENT;
use gleed_model::program::Activation;

use super::Choosing;
use super::tiles::{ExpertRows, TILES, Tiles, list_at};
use crate::common;
use crate::kernels::{Dispatch, Grid, Place, Source};
use crate::launch::{Buffer, Kernels};
use crate::linear::{HalfRows, Matrix};
use crate::template::Values;
use crate::units::chains::{Chains, Loading, with_chains};
use crate::units::fragments::{LITTLE, Room};

mod single;
#[cfg(test)]
mod tests;

use single::summed_split;
pub(crate) use single::{NextNorm, Normed, Summed, can_choose, has_normed};

/// Groups of columns of a unit, to which rows are padded.
const UNIT_GROUPS: usize = 4;

/// Subgroups that share the segments of a pair that is alone.
const DIRECT_SPLIT: usize = 16;

/// Matrices of experts and what they are multiplied with.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a> {
    pub first: Matrix<'a>,
    /// Another of the same layout, whose outputs are after those of the first.
    pub second: Option<Matrix<'a>>,
    /// Experts, and outputs and columns of each.
    pub sizes: [usize; 3],
    /// Which experts rows use; without it all, in order.
    pub choice: Option<Place>,
    pub input: Place,
    pub out: Place,
    /// Where activation(first) · second goes too, where pairs are alone.
    pub activated: Option<(Activation, Place)>,
    /// What a single row reads instead of the input: the input is a norm of it.
    pub normed: Option<Normed>,
    /// What a single row that is normed here has not chosen yet.
    pub chooses: Option<Choosing>,
    /// What is made of the results of a single row.
    pub summed: Option<Summed>,
}

impl Product<'_> {
    /// Experts that a row uses.
    fn slots(&self) -> usize {
        self.choice.map_or(self.sizes[0], |choice| choice.width / 2)
    }

    /// How pairs are cut into tiles of `rows` rows.
    fn tiles(&self, rows: usize) -> Tiles {
        Tiles { rows, slots: self.slots(), experts: self.sizes[0], chosen: self.choice.is_some() }
    }

    /// Parts of an input row that have experts of their own.
    fn parts(&self) -> usize {
        if self.input.width == self.sizes[2] { 1 } else { self.slots() }
    }
}

/// The dispatches that compute products of experts in halves.
#[derive(Debug, PartialEq)]
pub(crate) struct ExpertHalves {
    /// Of few pairs, each by itself.
    direct: Vec<Dispatch>,
    /// Pairs up to which that is done.
    most_direct: usize,
    /// Of a single row whose norm is done here, or whose results are added up.
    single: Vec<Dispatch>,
    /// Whether it does the work of the sum after it, and of the norm after that.
    sums: [bool; 2],
    /// What sorts rows by experts, for each number of rows of a tile.
    sorts: Vec<(Tiles, Dispatch)>,
    /// What makes halves of the input.
    to_halves: Dispatch,
    products: Vec<(Tiles, Dispatch)>,
    /// The op before it that needs the same tiles has sorted them.
    sorted: bool,
    slots: usize,
    activates: bool,
}

impl ExpertHalves {
    /// Dispatches for the product; `count` is the number of rows of a step, and `sorted` says that tiles are those of an op
    /// before this one which is alone in as many pairs.
    pub fn new(
        kernels: &mut Kernels,
        product: &Product,
        rows: ExpertRows,
        count: Buffer,
        sorted: Option<usize>,
    ) -> ExpertHalves {
        let [experts, _, columns] = product.sizes;
        let slots = product.slots();
        let split = direct_split(kernels.facts.room(), columns);
        // So few that hardly any expert has several rows.
        let few = if product.choice.is_some() { (experts / 2).max(slots) } else { slots };
        let most_direct = if split.is_some() { few } else { 0 };
        let (mut direct, mut single, mut products) = (vec![], vec![], vec![]);
        let summed = product.summed.zip(summed_split(kernels.facts.room(), product));
        let pieces = product.first.weight.pieces().len();
        for piece in 0..pieces {
            if let Some(split) = split {
                let (source, each) = product.source(piece, Way::Direct { split }, true);
                direct.push(kernels.dispatch(source.on_units(), Grid::Pairs { each, slots }));
                if product.normed.is_some() {
                    let (source, each) = product.source(piece, Way::Normed { split }, true);
                    single.push(kernels.dispatch(source.on_units(), Grid::Pairs { each, slots }));
                }
            }
            for (tile_rows, _) in TILES {
                let tiles = product.tiles(tile_rows);
                if tiles.rows_needed() <= rows.most_rows {
                    let subgroups = Subgroups::of(tile_rows, columns, kernels.facts.room());
                    let way = Way::Tiled { tiles, subgroups, rows, count };
                    let (source, each) = product.source(piece, way, true);
                    products.push((tiles, kernels.dispatch(source.on_units(), Grid::Tiles(each, tiles))));
                }
            }
        }
        if let Some((_, split)) = summed {
            let (source, each) = product.source(0, Way::Summed { split }, true);
            single.push(kernels.dispatch(source.on_units(), Grid::Rows(each)));
        }
        let sums = [summed.is_some(), summed.is_some_and(|(summed, _)| summed.next.is_some())];
        let mut sorts = vec![];
        for (tile_rows, _) in TILES.iter().filter(|_| product.choice.is_some()) {
            let tiles = product.tiles(*tile_rows);
            if tiles.rows_needed() <= rows.most_rows {
                sorts.push((tiles, kernels.dispatch(product.sort(tiles, rows, count), Grid::Once)));
            }
        }
        let to_halves = kernels.dispatch(product.halving(rows), Grid::Rows(product.parts() as u32));
        let activates = product.activated.is_some();
        let sorted = sorted == Some(most_direct);
        ExpertHalves {
            direct,
            most_direct,
            single,
            sums,
            sorts,
            to_halves,
            products,
            sorted,
            slots,
            activates,
        }
    }

    /// Pairs up to which each is computed by itself.
    pub fn most_direct(&self) -> usize {
        self.most_direct
    }

    fn is_direct(&self, rows: usize) -> bool {
        rows * self.slots <= self.most_direct
    }

    /// Rows up to which the work of the next two ops is done too: of an activation, or of a sum and a norm.
    pub fn done_too(&self) -> [Option<usize>; 2] {
        let [sums, norms] = self.sums.map(|does| does.then_some(1));
        [self.activates.then_some(self.most_direct / self.slots).or(sums), norms]
    }

    /// What is dispatched for `rows` rows; `apart` from the ops before and after.
    pub fn dispatches(&self, rows: usize, apart: bool) -> impl Iterator<Item = &Dispatch> {
        let is_single = rows == 1 && !apart && !self.single.is_empty();
        let is_direct = self.is_direct(rows) && !is_single;
        let is_tiled = !is_direct && !is_single;
        let serves = move |(tiles, _): &&(Tiles, Dispatch)| is_tiled && tiles.serve(rows);
        let sorts = self.sorts.iter().filter(move |_| apart || !self.sorted).filter(serves);
        let products = self.products.iter().filter(serves).map(|(_, product)| product);
        let direct = self.direct.iter().filter(move |_| is_direct);
        let single = self.single.iter().filter(move |_| is_single);
        let to_halves = is_tiled.then_some(&self.to_halves);
        direct.chain(single).chain(sorts.map(|(_, sort)| sort)).chain(to_halves).chain(products)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Dispatch> {
        let tiled = self.sorts.iter().chain(&self.products).map(|(_, dispatch)| dispatch);
        self.direct.iter().chain(&self.single).chain([&self.to_halves]).chain(tiled)
    }
}

/// How rows come to a workgroup.
#[derive(Clone, Copy)]
enum Way {
    /// Each pair by itself, with `split` subgroups that share the segments.
    Direct { split: usize },
    /// The same of a single row whose norm is done on the way.
    Normed { split: usize },
    /// All pairs of a single row together, each with `split` subgroups.
    Summed { split: usize },
    /// Those of a tile.
    Tiled { tiles: Tiles, subgroups: Subgroups, rows: ExpertRows, count: Buffer },
}

/// Subgroups of a workgroup: `split` that share the segments of each of `across` blocks of outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Subgroups {
    split: usize,
    across: usize,
}

impl Subgroups {
    /// Those for tiles of `rows` rows: of few, segments are shared, of many there is work enough.
    fn of(rows: usize, columns: usize, room: Room) -> Subgroups {
        let split = |most| shared(columns, room.subgroups(most, 128 * rows, LITTLE));
        match rows {
            ..=8 => Subgroups { split: split(12), across: 1 },
            9..=16 => Subgroups { split: split(8), across: 1 },
            _ => Subgroups { split: 1, across: 4 },
        }
    }
}

/// Subgroups that share the segments evenly, up to `most`.
fn shared(columns: usize, most: usize) -> usize {
    let segments = columns.div_ceil(SEGMENT);
    segments.div_ceil(segments.div_ceil(most.max(1)))
}

/// The same of a pair that is alone; nothing where a device has no workgroups for that.
fn direct_split(room: Room, columns: usize) -> Option<usize> {
    split_beside(room, columns, 0)
}

/// The same where a workgroup needs `bytes` bytes more.
fn split_beside(room: Room, columns: usize, bytes: usize) -> Option<usize> {
    let most = room.subgroups(DIRECT_SPLIT, 640, 2 * columns.next_multiple_of(128) + LITTLE + bytes);
    (most > 0).then(|| shared(columns, most))
}

impl Product<'_> {
    /// The kernel for a piece of the matrices, and workgroups for each tile.
    fn source(&self, piece: usize, way: Way, written_out: bool) -> (Source, u32) {
        let [experts, outputs, columns] = self.sizes;
        let weight = self.first.weight;
        let rows_of_piece = &weight.pieces()[piece].rows;
        let groups = weight.packing().groups();
        let (tile_rows, Subgroups { split, across }) = match way {
            Way::Direct { split } | Way::Normed { split } => (1, Subgroups { split, across: 1 }),
            Way::Summed { split } => (1, Subgroups { split, across: self.slots() }),
            Way::Tiled { tiles, subgroups, .. } => (tiles.rows, subgroups),
        };
        let loading = match way {
            // More subgroups make up for what is not loaded ahead, if they have registers.
            Way::Summed { .. } => Loading { ahead: 1, written_out },
            _ => Loading::of(tile_rows, split).written_out_if(written_out),
        };
        let paired = self.second.is_some();
        let own_outputs = if paired { 16 } else { 32 };
        // Where experts do not begin at tiles of packed rows, outputs may begin in the midst of one.
        let span = if outputs.is_multiple_of(16) { outputs } else { outputs + 15 };
        let (normed, summed) = (matches!(way, Way::Normed { .. }), matches!(way, Way::Summed { .. }));
        let block_outputs = if summed { own_outputs } else { own_outputs * across };
        let each = span.div_ceil(block_outputs) as u32;
        let input = self.normed.filter(|_| normed).map_or(self.input, |normed| normed.x);
        let aligned = (input.offset | input.stride | columns).is_multiple_of(4)
            && input.buffer != self.out.buffer
            && self.activated.is_none_or(|(_, hidden)| hidden.buffer != input.buffer)
            && self.summed.is_none_or(|summed| !summed.writes(input.buffer))
            && self.choice.is_none_or(|choice| choice.buffer != input.buffer);
        let direct = !matches!(way, Way::Tiled { .. });
        let activated = self.activated.filter(|_| direct);
        let chains = Chains { rows: tile_rows, split, across, rows_apart: summed, paired, loading };
        let chooses = self.chooses.filter(|_| normed);
        let values = single::values(Values::default(), self.summed.filter(|_| summed), normed)
            .switch("CHOOSES", chooses.is_some());
        let values = chains
            .sizes(values)
            .set("UNITCOUNT", if tile_rows <= 16 { "UNITS" } else { "min(UNITS, tile.w)" })
            .list("PIECES", 0..(8 * groups).div_ceil(32 * split))
            .set("TEAMTHREADS", format!("{}u", 32 * split))
            .switch("PUTS", (split > 1 || tile_rows == 1) && !summed)
            .list("GROUPBITS", ["1u", "2u", "4u"])
            .list("OTHERBITS", ["8u", "16u"])
            .set("ROOM", format!("{}u", 4 * groups))
            .set("SUBGROUPS", format!("{}u", split * across))
            .set("BLOCKOUTPUTS", format!("{block_outputs}u"))
            .switch("LISTED", !direct && self.choice.is_some())
            .switch("INORDER", !direct && self.choice.is_none())
            .switch("CHOSEN", self.choice.is_some() && chooses.is_none())
            .switch("NOTCHOSEN", self.choice.is_none())
            .switch("ALIGNED", aligned)
            .switch("PAIRED", paired)
            .switch("ACTIVATES", activated.is_some())
            .switch("BIASA", self.first.bias.is_some())
            .switch("BIASB", self.second.is_some_and(|second| second.bias.is_some()));
        let matrices = ['a', if paired { 'b' } else { 'a' }];
        let text = with_chains(include_str!("halves.wgsl"), values, matrices);
        let source = Source::new("experts in halves", &text)
            .size("GROUPS", groups)
            .size("UNITS", groups / UNIT_GROUPS)
            .size("SUBGROUPS", split * across)
            .size("EXPERTS", experts)
            .size("OUTPUTS", outputs)
            .size("COLUMNS", columns)
            .size("SLOTS", self.slots())
            .size("FIRST", rows_of_piece.start)
            .size("COUNT", rows_of_piece.len())
            .half_matrix(weight, &weight.pieces()[piece], 'a', loading.ahead)
            .snippet(include_str!("../../common/half_factor.wgsl"));
        let source = match self.second {
            Some(Matrix { weight, bias }) => {
                let source = source.half_matrix(weight, &weight.pieces()[piece], 'b', loading.ahead);
                bias.into_iter().fold(source, |source, bias| source.read("bias_b", "f32", bias))
            }
            None => source,
        };
        let source =
            self.first.bias.into_iter().fold(source, |source, bias| source.read("bias_a", "f32", bias));
        let source = match way {
            Way::Direct { .. } | Way::Normed { .. } | Way::Summed { .. } => {
                let source = source
                    .snippet(include_str!("../../common/lanes.wgsl"))
                    .snippet(include_str!("../../common/round_twice.wgsl"))
                    .size("SLOT_STRIDE", if self.parts() == 1 { 0 } else { columns })
                    .place("X_", input)
                    .read("x", if aligned { "vec4<f32>" } else { "f32" }, input.buffer);
                let source = match self.normed.filter(|_| normed) {
                    Some(norm) => norm.read(source, aligned),
                    None => source,
                };
                match (self.choice, chooses) {
                    (Some(choice), Some(chooses)) => chooses
                        .with_choose(source, chains.threads())
                        .snippet(if activated.is_none() { include_str!("../../common/exp.wgsl") } else { "" })
                        .write_place("choice", "CHOICE_", choice),
                    (Some(choice), None) => source.read_place("choice", "CHOICE_", choice),
                    (None, _) => source,
                }
            }
            Way::Tiled { rows, count, .. } => {
                let source = source
                    .size("PAIRS_OF_ROW", if self.parts() == 1 { self.slots() } else { 1 })
                    .size("INPUT_STRIDE", HalfRows::stride(columns) as usize)
                    .size("FACTORS", self.factors_at(rows))
                    .read("input", "vec4<u32>", rows.halves);
                match self.choice {
                    Some(_) => source.size("LIST", self.list_at(rows)).read("tiles", "u32", rows.tiles),
                    None => source.number("counted", count),
                }
            }
        };
        let source = match self.summed.filter(|_| summed) {
            Some(summed) => return (summed.write(source), each),
            None => source.write_place("out", "OUT_", self.out),
        };
        let source = match activated {
            Some((activation, hidden)) => {
                source.snippet(&common::activation(activation)).write_place("hidden", "HIDDEN_", hidden)
            }
            None => source,
        };
        (source, each)
    }

    /// The kernel that sorts rows by experts.
    fn sort(&self, tiles: Tiles, rows: ExpertRows, count: Buffer) -> Source {
        let choice = self.choice.expect("only rows that choose experts are sorted by them");
        Source::new("rows by experts", include_str!("tiles.wgsl"))
            .size("TILE_ROWS", tiles.rows)
            .size("EXPERTS", tiles.experts)
            .size("SLOTS", tiles.slots)
            .size("LIST", self.list_at(rows))
            .number("counted", count)
            .read_place("choice", "CHOICE_", choice)
            .write("tiles", "u32", rows.tiles)
    }

    /// The kernel that makes halves of the input.
    fn halving(&self, rows: ExpertRows) -> Source {
        let columns = self.sizes[2];
        Source::new("experts' rows to halves", include_str!("rows.wgsl"))
            .with_f16()
            .snippet(include_str!("../../common/half_factor.wgsl"))
            .snippet(include_str!("../../common/round_twice.wgsl"))
            .size("COLUMNS", columns)
            .size("PARTS", self.parts())
            .size("QUADS", 2 * HalfRows::stride(columns) as usize)
            .size("FACTORS", self.factors_at(rows))
            .read_place("x", "X_", self.input)
            .write("halves", "vec2<u32>", rows.halves)
    }

    /// Where the factors of rows begin, in vectors of four words.
    fn factors_at(&self, rows: ExpertRows) -> usize {
        rows.most_rows * self.parts() * HalfRows::stride(self.sizes[2]) as usize
    }

    fn list_at(&self, rows: ExpertRows) -> usize {
        list_at(rows.most_rows * self.slots(), self.sizes[0])
    }
}
