//! Packed tiles, several at once, on every instruction set that this machine has: every format that is packed,
//! against `arithmetic::dot_q8` of the file's own blocks, bit for bit.

mod common;

use common::{Random, bits, plain_quantized, random_blocks};
use gleed_cpu::Isa;
use gleed_cpu::kernels::Kernels;
use gleed_cpu::kernels::integer::{Pack, Quantized, TILE};
use gleed_cpu::kernels::packed::{Line, MultiplyPacked, Packing, STREAMS, Tiles, pack_integers, pack_scales};
use gleed_cpu::kernels::quantize::{Quantize, row_words};
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

#[test]
fn several_tiles_at_once() {
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
                        unpack(format, &random_blocks(random, format, columns / format.block_len()), columns)
                    })
                    .collect();
                let tiles: Vec<Line> =
                    weights.chunks_mut(TILE).flat_map(|rows| pack(kernels, packing, rows, columns)).collect();
                for (count, rows) in [(1, 1), (2, 3), (3, 2), (4, 1), (4, 9), (4, 0)] {
                    let x = random.floats(rows * columns);
                    let size = row_words(columns, block);
                    let mut words = vec![0; rows * size];
                    for (x, words) in x.chunks(columns).zip(words.chunks_mut(size)) {
                        kernels.run(Quantize { x, block, words });
                    }
                    let (tiles, next) = tiles.split_at(count * packing.lines());
                    let (tiles, next) = (Tiles { packing, lines: tiles }, Tiles { packing, lines: next });
                    let stride = rows + 2;
                    let mut out = vec![[f32::NAN; TILE]; count * stride];
                    let x_rows = Quantized { words: &words, columns, block, rows };
                    kernels.run(MultiplyPacked { tiles, next: Some(next), x: x_rows, out: &mut out, stride });
                    for (t, out) in out.chunks(stride).enumerate() {
                        for (r, x) in x.chunks(columns).enumerate() {
                            let rows = &weights[t * TILE..][..TILE];
                            let truth: Vec<f32> = rows.iter().map(|row| row.dot(format, x)).collect();
                            assert_eq!(
                                bits(&out[r]),
                                bits(&truth),
                                "{format} {isa} tile {t} of {count} row {r}"
                            );
                        }
                        assert!(out[rows..].as_flattened().iter().all(|x| x.is_nan()), "only its rows");
                    }
                }
            }
        }
    }
    assert_eq!(formats, 3 * 10);
}
