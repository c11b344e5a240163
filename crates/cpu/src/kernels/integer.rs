//! Linear layers in `q8` arithmetic: sixteen rows of integer weights at a time, packed so that a lane is
//! a row, times quantised activations.
//!
//! The integers of a block are exact, so their order does not matter; the f32 multiply-add per block goes
//! from block to block within its lane, as `arithmetic::dot_q8` has it.

use gleed_gguf::Groups;
use gleed_model::arithmetic::{BLOCK, LANES, SUPER_BLOCK};

use super::packed::{PanelRoom, Tiles};
use super::quantize::{Quantized, QuantizedRow};
use super::simd::{Kernel, Simd};
use super::tile::TILE;

/// Columns that are packed at once: four per lane and sixteen steps.
pub const PACK_COLUMNS: usize = 4 * LANES;

/// Turns sixteen rows of words into columns of sixteen: weights (four to a word), scales or mins.
#[derive(Debug)]
pub struct Pack<'a> {
    /// `[TILE][stride]`.
    pub rows: &'a [i32],
    /// Words from row to row, a multiple of sixteen.
    pub stride: usize,
    /// `[words][TILE]`, for a multiple of sixteen words, at most `stride`.
    pub out: &'a mut [[i32; TILE]],
}

impl Kernel for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Pack { rows, stride, out } = self;
        assert!(rows.len() >= TILE * stride && out.len().is_multiple_of(LANES) && out.len() <= stride);
        let mut chunks = [&[][..]; TILE];
        for (r, chunks) in chunks.iter_mut().enumerate() {
            *chunks = &rows[r * stride..][..out.len()].as_chunks::<LANES>().0[..out.len() / LANES];
        }
        for (c, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let mut block = [&[0; LANES]; TILE];
            for (block, chunks) in block.iter_mut().zip(&chunks) {
                *block = &chunks[c];
            }
            s.transpose(block, out);
        }
    }
}

/// The integers of a panel.
#[derive(Debug, Clone, Copy)]
pub enum Integers<'a> {
    /// Four columns to a word: `[columns / 4][TILE]`.
    Words(&'a [[i32; TILE]]),
    /// Still packed: a tile unit unpacks blocks of 256 columns as it comes to them.
    Packed(Tiles<'a>),
}

impl<'a> Integers<'a> {
    /// Those that were unpacked.
    #[inline(always)]
    pub(super) fn words(self) -> &'a [[i32; TILE]] {
        match self {
            Integers::Words(words) => words,
            Integers::Packed(_) => panic!("the integers are still packed"),
        }
    }
}

/// Sixteen rows of weights with a lane per row.
#[derive(Debug, Clone, Copy)]
pub struct Panel<'a> {
    /// How the columns split into blocks and groups.
    pub groups: Groups,
    /// The integers.
    pub integers: Integers<'a>,
    /// `[groups][TILE]`; empty for blocks of 32, whose factors are 1.
    pub factors: &'a [[i32; TILE]],
    /// `[blocks][TILE]`.
    pub scales: &'a [[f32; TILE]],
    /// The min factors of two groups in the halves of each lane: `[groups / 2][TILE]`; empty without mins
    /// and for blocks of 32.
    pub min_pairs: &'a [[i32; TILE]],
    /// `[blocks][TILE]`, or empty.
    pub mins: &'a [[f32; TILE]],
}

impl<'a> Panel<'a> {
    /// One whose parts are all unpacked.
    pub fn unpacked(groups: Groups, room: PanelRoom<'a>) -> Panel<'a> {
        let PanelRoom { integers, factors, scales, min_pairs, mins } = room;
        Panel { groups, integers: Integers::Words(integers), factors, scales, min_pairs, mins }
    }

    /// One of a tile that was unpacked to a room: its integers of blocks of 256 columns were not.
    pub fn of_tile(tile: Tiles<'a>, room: PanelRoom<'a>) -> Panel<'a> {
        let panel = Panel::unpacked(tile.packing.groups(), room);
        if panel.groups.block == BLOCK { panel } else { Panel { integers: Integers::Packed(tile), ..panel } }
    }

    /// One without columns.
    pub const EMPTY: Panel<'static> = Panel {
        groups: Groups { block: BLOCK, len: BLOCK, mins: false },
        integers: Integers::Words(&[]),
        factors: &[],
        scales: &[],
        min_pairs: &[],
        mins: &[],
    };

    /// How many columns it has.
    #[inline(always)]
    pub fn columns(&self) -> usize {
        match self.integers {
            Integers::Words(words) => 4 * words.len(),
            Integers::Packed(tile) => tile.columns(),
        }
    }

    /// Calls `f` with each word of four columns of a cell of 32, as plain signed integers, and its number.
    #[inline(always)]
    pub(super) fn each_word<S: Simd>(&self, s: S, cell: usize, mut f: impl FnMut(usize, S::I32)) {
        match self.integers {
            Integers::Words(words) => {
                let words = &words[cell * (BLOCK / 4)..][..BLOCK / 4];
                words.iter().enumerate().for_each(
                    #[inline(always)]
                    |(k, word)| f(k, s.load_i32(word)),
                );
            }
            Integers::Packed(tile) => tile.each_word(s, cell..cell + 1, f),
        }
    }

    /// Checks that all parts are as long as the columns ask for.
    #[inline(always)]
    pub fn check(&self) {
        let Groups { block, len, mins } = self.groups;
        let (blocks, groups) = (self.columns() / block, self.columns() / len);
        let two_levels = block != BLOCK;
        assert!(matches!((block, len), (BLOCK, 32) | (SUPER_BLOCK, 16 | 32)), "groups of known sizes");
        assert_eq!(self.scales.len(), blocks);
        assert_eq!(self.factors.len(), if two_levels { groups } else { 0 });
        assert_eq!(self.mins.len(), if mins { blocks } else { 0 });
        assert_eq!(self.min_pairs.len(), if mins && two_levels { groups / 2 } else { 0 });
    }
}

/// Multiplies a panel with all rows of activations.
#[derive(Debug)]
pub struct Multiply<'a> {
    /// The weights.
    pub panel: Panel<'a>,
    /// The activations.
    pub x: Quantized<'a>,
    /// One result per row of activations and row of weights.
    pub out: &'a mut [[f32; TILE]],
}

impl Kernel for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Groups { block, len, .. } = self.panel.groups;
        self.panel.check();
        assert!(self.x.block == block && self.x.columns == self.panel.columns());
        assert_eq!(self.out.len(), self.x.rows);
        match (block, len) {
            (BLOCK, _) => self.rows::<S, BLOCK, 8>(s),
            (_, 32) => self.rows::<S, SUPER_BLOCK, 8>(s),
            _ => self.rows::<S, SUPER_BLOCK, 4>(s),
        }
    }
}

impl Multiply<'_> {
    /// All rows, as many at a time as there are registers for. `WORDS`: words per group.
    #[inline(always)]
    fn rows<S: Simd, const COLUMNS: usize, const WORDS: usize>(mut self, s: S) {
        let mut row = 0;
        let count = self.x.rows;
        if S::WIDE {
            while row + 8 <= count {
                self.block::<S, COLUMNS, WORDS, 8>(s, row);
                row += 8;
            }
            if row + 4 <= count {
                self.block::<S, COLUMNS, WORDS, 4>(s, row);
                row += 4;
            }
        }
        if S::SEVERAL {
            while row + 2 <= count {
                self.block::<S, COLUMNS, WORDS, 2>(s, row);
                row += 2;
            }
        }
        while row < count {
            self.block::<S, COLUMNS, WORDS, 1>(s, row);
            row += 1;
        }
    }

    /// Blocks of `COLUMNS`, groups of `WORDS` words, `R` rows.
    #[inline(always)]
    fn block<S: Simd, const COLUMNS: usize, const WORDS: usize, const R: usize>(&mut self, s: S, row: usize) {
        let Multiply { panel, x, ref mut out } = *self;
        let groups = COLUMNS / (4 * WORDS);
        let mut rows = [QuantizedRow { q: &[], scales: &[], sums: &[], scaled_sums: &[], pairs: &[] }; R];
        for (r, x_row) in rows.iter_mut().enumerate() {
            *x_row = x.row(row + r, 4 * WORDS);
        }
        let integers = panel.integers.words().as_chunks::<WORDS>().0;
        let mut results = [s.splat(0.0); R];
        for (b, scale) in panel.scales.iter().enumerate() {
            let mut totals = [s.to_i32(0); R];
            for (g, words) in integers.iter().enumerate().skip(b * groups).take(groups) {
                let mut acc = [s.to_i32(0); R];
                for r in 0..R {
                    acc[r] = s.dot_start(rows[r].sums[g]);
                }
                for (k, word) in words.iter().enumerate() {
                    let w = s.weights(s.load_i32(word));
                    for r in 0..R {
                        acc[r] = s.dot4(acc[r], w, rows[r].q[g * WORDS + k]);
                    }
                }
                for r in 0..R {
                    totals[r] = if COLUMNS == BLOCK {
                        acc[r]
                    } else {
                        s.mul_add_i32(acc[r], s.load_i32(&panel.factors[g]), totals[r])
                    };
                }
            }
            let scale = s.load(scale);
            for r in 0..R {
                let factor = s.mul(scale, s.splat(rows[r].scales[b]));
                results[r] = s.mul_add(factor, s.to_f32(totals[r]), results[r]);
            }
            if let Some(min) = panel.mins.get(b) {
                let min = s.load(min);
                for r in 0..R {
                    let sums = if COLUMNS == BLOCK {
                        s.splat(rows[r].scaled_sums[b])
                    } else {
                        let pairs = b * groups / 2..(b + 1) * groups / 2;
                        let mut sums = s.to_i32(0);
                        for (pair, x) in panel.min_pairs[pairs.clone()].iter().zip(&rows[r].pairs[pairs]) {
                            sums = s.dot2(sums, s.load_i32(pair), *x);
                        }
                        s.mul(s.splat(rows[r].scales[b]), s.to_f32(sums))
                    };
                    results[r] = s.mul_add(min, sums, results[r]);
                }
            }
        }
        for r in 0..R {
            s.store(results[r], &mut out[row + r]);
        }
    }
}
