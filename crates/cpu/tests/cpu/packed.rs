//! Packed tiles, several at once, on every instruction set that this machine has: every format that is packed,
//! against `arithmetic::dot_q8` of the file's own blocks, bit for bit.

use crate::common::{Random, comparable, in_blocks, plain_quantized, random_blocks, without_numbers};
use gleed_cpu::Isa;
use gleed_cpu::kernels::Kernels;
use gleed_cpu::kernels::blocked::{BLOCK_ROWS, Blocked};
use gleed_cpu::kernels::integer::{Pack, Panel};
use gleed_cpu::kernels::packed::{
    MultiplyPacked, Packing, PanelRoom, STREAMS, Tiles, UnpackTile, pack_integers, pack_scales,
};
use gleed_cpu::kernels::quantize::{Quantize, Quantized, row_words};
use gleed_cpu::kernels::tile::{Line, TILE};
use gleed_gguf::{Format, Unpacked};
use gleed_model::arithmetic::{IntegerRow, dot_q8};

/// What a row of a file unpacks to.
struct Row {
    integers: Vec<i8>,
    factors: Vec<i8>,
    scales: Vec<f32>,
    min_factors: Vec<i8>,
    mins: Vec<f32>,
}

fn unpack(format: Format, bytes: &[u8], columns: usize) -> Row {
    let groups = format.groups().unwrap();
    let (count, blocks) = (columns / groups.len, columns / groups.block);
    let with_mins = |n: usize| if groups.mins { n } else { 0 };
    let mut row = Row {
        integers: vec![0; columns],
        factors: vec![0; count],
        scales: vec![0.0; blocks],
        min_factors: vec![0; with_mins(count)],
        mins: vec![0.0; with_mins(blocks)],
    };
    format.unpack(bytes, row.parts());
    row
}

impl Row {
    fn parts(&mut self) -> Unpacked<'_> {
        let Row { integers, factors, scales, min_factors, mins } = self;
        Unpacked { integers, factors, scales, min_factors, mins }
    }

    fn dot(&self, format: Format, x: &[f32]) -> f32 {
        let groups = format.groups().unwrap();
        let (q, scales) = plain_quantized(x, groups.block);
        let Row { integers, factors, scales: w_scales, min_factors, mins } = self;
        let (block, group) = (groups.block, groups.len);
        let row = IntegerRow { integers, factors, scales: w_scales, min_factors, mins, block, group };
        dot_q8(row, &q, &scales)
    }
}

/// Sixteen rows as a tile.
fn pack(kernels: Kernels, packing: Packing, rows: &mut [Row], columns: usize) -> Vec<Line> {
    let stride = (columns / 4).next_multiple_of(16);
    let (mut words, mut lanes) = (vec![0; TILE * stride], vec![[0; TILE]; stride]);
    let mut tile = vec![Line([0; 16]); packing.lines()];
    for (lane, row) in rows.iter_mut().enumerate() {
        for (word, q) in words[lane * stride..].iter_mut().zip(row.integers.as_chunks::<4>().0) {
            *word = i32::from_ne_bytes(q.map(|q| q as u8));
        }
        pack_scales(packing, lane, &row.parts(), &mut tile);
    }
    kernels.run(Pack { rows: &words, stride, out: &mut lanes });
    pack_integers(packing, &lanes[..columns / 4], &mut tile);
    tile
}

/// More random tiles than are ever multiplied at once.
struct Case {
    kernels: Kernels,
    format: Format,
    /// Columns per scale.
    block: usize,
    packing: Packing,
    columns: usize,
    /// What the tiles' rows are.
    weights: Vec<Row>,
    tiles: Vec<Line>,
}

/// Calls `check` for every format that is packed, a few lengths of rows and every instruction set.
fn each_packing(check: impl Fn(Case, &mut Random)) {
    let mut formats = 0;
    for format in Format::all() {
        let Some(block) = format.groups().map(|groups| groups.block) else { continue };
        for columns in [block, 3 * block, 1280] {
            let Some(packing) = Packing::new(format, columns) else { continue };
            formats += 1;
            for isa in Isa::available() {
                let kernels = Kernels::new(isa).unwrap();
                let random = &mut Random::new(columns as u64);
                let mut weights: Vec<Row> = (0..(STREAMS + 1) * TILE)
                    .map(|_| {
                        let blocks = random_blocks(random, format, columns / format.block_len());
                        unpack(format, &blocks, columns)
                    })
                    .collect();
                let tiles: Vec<Line> =
                    weights.chunks_mut(TILE).flat_map(|rows| pack(kernels, packing, rows, columns)).collect();
                check(Case { kernels, format, block, packing, columns, weights, tiles }, random);
            }
        }
    }
    assert_eq!(formats, 3 * 20);
}

impl Case {
    /// Random activations, and the same quantised.
    fn activations(&self, random: &mut Random, rows: usize) -> (Vec<f32>, Vec<i32>) {
        let mut x = random.floats(rows * self.columns);
        without_numbers(random, &mut x, self.columns);
        let size = row_words(self.columns, self.block);
        let mut words = vec![0; rows * size];
        for (x, words) in x.chunks(self.columns).zip(words.chunks_mut(size)) {
            self.kernels.run(Quantize { x, block: self.block, words });
        }
        (x, words)
    }

    /// Compares the results of the first tiles, `[tile][stride]`, with the definition.
    fn check(&self, x: &[f32], out: &[[f32; TILE]], stride: usize) {
        let count = out.len() / stride;
        for (t, (out, weights)) in out.chunks(stride).zip(self.weights.chunks(TILE)).enumerate() {
            for (r, x) in x.chunks(self.columns).enumerate() {
                let truth: Vec<f32> = weights.iter().map(|row| row.dot(self.format, x)).collect();
                assert_eq!(
                    comparable(&out[r]),
                    comparable(&truth),
                    "{} {} tile {t} of {count} row {r}",
                    self.format,
                    self.kernels.isa()
                );
            }
        }
    }
}

#[test]
fn several_tiles_at_once() {
    each_packing(|case, random| {
        let Case { kernels, packing, columns, block, ref tiles, .. } = case;
        for (count, rows) in [(1, 1), (2, 3), (3, 2), (4, 1), (4, 9), (4, 0)] {
            let (x, words) = case.activations(random, rows);
            let (tiles, next) = tiles.split_at(count * packing.lines());
            let (tiles, next) = (Tiles { packing, lines: tiles }, Tiles { packing, lines: next });
            let stride = rows + 2;
            let mut out = vec![[f32::NAN; TILE]; count * stride];
            let x_rows = Quantized { words: &words, columns, block, rows };
            kernels.run(MultiplyPacked { tiles, next: Some(next), x: x_rows, out: &mut out, stride });
            case.check(&x, &out, stride);
            let others = out.chunks(stride).flat_map(|out| out[rows..].as_flattened());
            assert!(others.into_iter().all(|x| x.is_nan()), "only its rows");
        }
    });
}

#[test]
fn on_the_tile_unit() {
    each_packing(|case, random| {
        let Case { kernels, packing, columns, block, ref tiles, .. } = case;
        if kernels.tile_scratch() == 0 {
            return;
        }
        for (count, rows) in [(1, 5), (1, 32), (2, 16), (2, 40), (3, 16), (3, 33), (4, 1), (4, 64)] {
            let (x, words) = case.activations(random, rows);
            let lines = in_blocks(kernels, Quantized { words: &words, columns, block, rows });
            let row_blocks = rows.div_ceil(BLOCK_ROWS);
            let x_rows = Blocked { lines: &lines, row_blocks, stride: row_blocks, columns, block };
            let mut rooms: Vec<Room> = (0..count).map(|_| Room::new(columns)).collect();
            let panels: Vec<Panel> = rooms
                .iter_mut()
                .zip(tiles.chunks(packing.lines()))
                .map(|(room, tile)| {
                    let room = kernels.run(UnpackTile { packing, tile, room: room.all() });
                    Panel::of_tile(Tiles { packing, lines: tile }, room)
                })
                .collect();
            let stride = rows.next_multiple_of(BLOCK_ROWS);
            let mut out = vec![[f32::NAN; TILE]; count * stride];
            let mut scratch = vec![Line([-1; 16]); kernels.tile_scratch()];
            kernels.multiply_blocks(&panels, x_rows, tiles, &mut out, stride, &mut scratch);
            case.check(&x, &out, stride);
        }
    });
}

#[test]
fn every_exponent() {
    let (format, columns) = (Format::MXFP4, 32 * 16);
    let packing = Packing::new(format, columns).unwrap();
    for isa in Isa::available() {
        let (kernels, random) = (Kernels::new(isa).unwrap(), &mut Random::new(3));
        let mut weights: Vec<Row> = (0..TILE)
            .map(|row| {
                let mut bytes = random_blocks(random, format, columns / 32);
                let blocks = bytes.chunks_exact_mut(format.block_bytes());
                blocks.enumerate().for_each(|(b, bytes)| bytes[0] = (16 * row + b) as u8);
                unpack(format, &bytes, columns)
            })
            .collect();
        let tiles = pack(kernels, packing, &mut weights, columns);
        let case = Case { kernels, format, block: 32, packing, columns, weights, tiles };
        // One block at a time, so that the largest scales do not hide the smallest.
        for block in 0..columns / 32 {
            let mut x = vec![0.0; columns];
            x[32 * block..][..32].copy_from_slice(&random.units(32));
            let mut words = vec![0; row_words(columns, 32)];
            kernels.run(Quantize { x: &x, block: 32, words: &mut words });
            let mut out = [[f32::NAN; TILE]];
            let tiles = Tiles { packing, lines: &case.tiles };
            let rows = Quantized { words: &words, columns, block: 32, rows: 1 };
            kernels.run(MultiplyPacked { tiles, next: None, x: rows, out: &mut out, stride: 1 });
            case.check(&x, &out, 1);
            assert!(out[0].iter().all(|x| *x != 0.0), "{isa}: every scale is there");
        }
    }
}

/// Scales that are a part of the number in a file, and the smallest number that it can be.
#[test]
fn smallest_scales() {
    use Format::*;
    for format in [IQ1_S, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S] {
        let columns = 256;
        let packing = Packing::new(format, columns).unwrap();
        for isa in Isa::available() {
            let (kernels, random) = (Kernels::new(isa).unwrap(), &mut Random::new(4));
            let mut weights: Vec<Row> = (0..TILE)
                .map(|_| {
                    let mut bytes = random_blocks(random, format, 1);
                    bytes[..2].copy_from_slice(&1u16.to_le_bytes());
                    unpack(format, &bytes, columns)
                })
                .collect();
            let tiles = pack(kernels, packing, &mut weights, columns);
            let case = Case { kernels, format, block: 256, packing, columns, weights, tiles };
            let (x, words) = case.activations(random, 1);
            let mut out = [[f32::NAN; TILE]];
            let tiles = Tiles { packing, lines: &case.tiles };
            let rows = Quantized { words: &words, columns, block: 256, rows: 1 };
            kernels.run(MultiplyPacked { tiles, next: None, x: rows, out: &mut out, stride: 1 });
            case.check(&x, &out, 1);
        }
    }
}

/// Where a tile is unpacked.
struct Room {
    integers: Vec<[i32; TILE]>,
    factors: Vec<[i32; TILE]>,
    scales: Vec<[f32; TILE]>,
    min_pairs: Vec<[i32; TILE]>,
    mins: Vec<[f32; TILE]>,
}

impl Room {
    fn new(columns: usize) -> Room {
        Room {
            integers: vec![[-1; TILE]; columns / 4],
            factors: vec![[-1; TILE]; columns / 16],
            scales: vec![[f32::NAN; TILE]; columns / 32],
            min_pairs: vec![[-1; TILE]; columns / 32],
            mins: vec![[f32::NAN; TILE]; columns / 32],
        }
    }

    fn all(&mut self) -> PanelRoom<'_> {
        let Room { integers, factors, scales, min_pairs, mins } = self;
        PanelRoom { integers, factors, scales, min_pairs, mins }
    }
}
