//! How the tiles of each format are laid out, and how their words and scales are read.

use gleed_model::arithmetic::LANES;

use super::Line;
use crate::kernels::integer::TILE;
use crate::kernels::simd::Simd;

/// What a format needs: where its integers and scales are in a tile.
pub(super) trait Layout {
    /// Lines of integers per cell.
    const LINES: usize;
    /// Bytes of scales per super-block.
    const SCALES: usize;
    /// Cells per super-block.
    const CELLS: usize;
    /// Groups per cell, each with a scale of its own.
    const GROUPS: usize;
    /// Whether groups have mins.
    const MINS: bool;
    /// Four columns of sixteen rows, ready to be multiplied.
    type Word<S: Simd>: Copy;
    /// What a super-block's scales share.
    type Head<S: Simd>: Copy;

    /// Calls `f` with each word of a cell and its number.
    fn words<S: Simd>(s: S, lines: &[Line], f: impl FnMut(usize, Self::Word<S>));
    /// Stores a word as plain signed integers.
    fn store<S: Simd>(s: S, word: Self::Word<S>, out: &mut [i32; TILE]);
    /// Where a group's sum starts, given the sum of its activations.
    fn start<S: Simd>(s: S, activation_sum: i32) -> S::I32;
    /// Adds four columns.
    fn dot<S: Simd>(s: S, acc: S::I32, word: Self::Word<S>, activations: i32) -> S::I32;
    /// Reads what a super-block's scales share.
    fn head<S: Simd>(s: S, scales: &[u8]) -> Self::Head<S>;
    /// The scales of one group of one cell of a super-block.
    fn scale<S: Simd>(s: S, head: Self::Head<S>, scales: &[u8], cell: usize, group: usize) -> S::F32;
    /// The mins of one cell of a super-block.
    fn min<S: Simd>(s: S, head: Self::Head<S>, scales: &[u8], cell: usize) -> S::F32;
}

/// Sixteen half-precision numbers at a byte.
#[inline(always)]
fn halves<S: Simd>(s: S, scales: &[u8], at: usize) -> S::F32 {
    s.load_half(bytemuck::from_bytes(&scales[at..at + 2 * LANES]))
}

/// Sixteen unsigned codes at a byte.
#[inline(always)]
fn codes<S: Simd>(s: S, scales: &[u8], at: usize) -> S::F32 {
    s.load_u8(scales[at..].first_chunk().expect("a cell's codes lie inside the tile"))
}

/// Four lines of nibbles: the low ones are words 0 to 3, the high ones words 4 to 7.
#[inline(always)]
fn nibbles<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::I32)) {
    for (i, line) in lines[..4].iter().enumerate() {
        let both = s.load_i32(&line.0);
        f(i, s.and_bytes(both, 0x0f));
        f(i + 4, s.and_bytes(s.shift_right::<4>(both), 0x0f));
    }
}

/// Four lines of nibbles, and one whose bit k is the fifth bit of word k.
#[inline(always)]
fn five_bits<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::I32)) {
    let bits = s.load_i32(&lines[4].0);
    nibbles(
        s,
        lines,
        #[inline(always)]
        |k, low| {
            let fifth = match k {
                0 => s.shift_left::<4>(bits),
                1 => s.shift_left::<3>(bits),
                2 => s.shift_left::<2>(bits),
                3 => s.shift_left::<1>(bits),
                4 => bits,
                5 => s.shift_right::<1>(bits),
                6 => s.shift_right::<2>(bits),
                _ => s.shift_right::<3>(bits),
            };
            f(k, s.or(low, s.and_bytes(fifth, 0x10)));
        },
    );
}

/// A layout of one scale per cell: how its words are read, from how many lines, its bytes of scales,
/// whether it has mins, and how much too high its integers are.
macro_rules! single_scale {
    ($name:ident, $words:ident, $lines:expr, $scales:expr, $mins:expr, $offset:expr, $doc:literal) => {
        #[doc = $doc]
        pub(super) struct $name;

        impl Layout for $name {
            const LINES: usize = $lines;
            const SCALES: usize = $scales;
            const CELLS: usize = 1;
            const GROUPS: usize = 1;
            const MINS: bool = $mins;
            type Word<S: Simd> = S::I32;
            type Head<S: Simd> = ();

            #[inline(always)]
            fn words<S: Simd>(s: S, lines: &[Line], f: impl FnMut(usize, S::I32)) {
                $words(s, lines, f);
            }

            #[inline(always)]
            fn store<S: Simd>(s: S, word: S::I32, out: &mut [i32; TILE]) {
                s.store_i32(s.sub_bytes(word, $offset), out);
            }

            #[inline(always)]
            fn start<S: Simd>(s: S, activation_sum: i32) -> S::I32 {
                s.to_i32(-$offset * activation_sum)
            }

            #[inline(always)]
            fn dot<S: Simd>(s: S, acc: S::I32, word: S::I32, activations: i32) -> S::I32 {
                s.dot4_unsigned(acc, word, activations)
            }

            #[inline(always)]
            fn head<S: Simd>(_s: S, _scales: &[u8]) {}

            #[inline(always)]
            fn scale<S: Simd>(s: S, _head: (), scales: &[u8], _cell: usize, _group: usize) -> S::F32 {
                halves(s, scales, 0)
            }

            #[inline(always)]
            fn min<S: Simd>(s: S, _head: (), scales: &[u8], _cell: usize) -> S::F32 {
                halves(s, scales, $scales - 2 * LANES)
            }
        }
    };
}

single_scale!(Q4_0, nibbles, 4, 2 * LANES, false, 8, "Per cell sixteen scales.");
single_scale!(Q4_1, nibbles, 4, 4 * LANES, true, 0, "Per cell sixteen scales and sixteen mins.");
single_scale!(Q5_0, five_bits, 5, 2 * LANES, false, 16, "Per cell sixteen scales.");
single_scale!(Q5_1, five_bits, 5, 4 * LANES, true, 0, "Per cell sixteen scales and sixteen mins.");

/// Signed bytes, and per cell sixteen scales.
pub(super) struct Q8_0;

impl Layout for Q8_0 {
    const LINES: usize = 8;
    const SCALES: usize = 2 * LANES;
    const CELLS: usize = 1;
    const GROUPS: usize = 1;
    const MINS: bool = false;
    type Word<S: Simd> = S::Weights;
    type Head<S: Simd> = ();

    #[inline(always)]
    fn words<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::Weights)) {
        for (k, line) in lines[..8].iter().enumerate() {
            f(k, s.weights(&line.0));
        }
    }

    #[inline(always)]
    fn store<S: Simd>(s: S, word: S::Weights, out: &mut [i32; TILE]) {
        s.store_weights(word, out);
    }

    #[inline(always)]
    fn start<S: Simd>(s: S, activation_sum: i32) -> S::I32 {
        s.dot_start(activation_sum)
    }

    #[inline(always)]
    fn dot<S: Simd>(s: S, acc: S::I32, word: S::Weights, activations: i32) -> S::I32 {
        s.dot4(acc, word, activations)
    }

    #[inline(always)]
    fn head<S: Simd>(_s: S, _scales: &[u8]) {}

    #[inline(always)]
    fn scale<S: Simd>(s: S, _head: (), scales: &[u8], _cell: usize, _group: usize) -> S::F32 {
        halves(s, scales, 0)
    }

    #[inline(always)]
    fn min<S: Simd>(s: S, _head: (), _scales: &[u8], _cell: usize) -> S::F32 {
        s.splat(0.0)
    }
}

/// A layout with per super-block sixteen `d`, sixteen `-dmin`, then per cell sixteen scale codes and
/// sixteen min codes.
macro_rules! two_levels {
    ($name:ident, $words:ident, $lines:expr, $doc:literal) => {
        #[doc = $doc]
        pub(super) struct $name;

        impl Layout for $name {
            const LINES: usize = $lines;
            const SCALES: usize = 4 * LANES + 8 * 2 * LANES;
            const CELLS: usize = 8;
            const GROUPS: usize = 1;
            const MINS: bool = true;
            type Word<S: Simd> = S::I32;
            type Head<S: Simd> = (S::F32, S::F32);

            #[inline(always)]
            fn words<S: Simd>(s: S, lines: &[Line], f: impl FnMut(usize, S::I32)) {
                $words(s, lines, f);
            }

            #[inline(always)]
            fn store<S: Simd>(s: S, word: S::I32, out: &mut [i32; TILE]) {
                s.store_i32(word, out);
            }

            #[inline(always)]
            fn start<S: Simd>(s: S, _activation_sum: i32) -> S::I32 {
                s.to_i32(0)
            }

            #[inline(always)]
            fn dot<S: Simd>(s: S, acc: S::I32, word: S::I32, activations: i32) -> S::I32 {
                s.dot4_unsigned(acc, word, activations)
            }

            #[inline(always)]
            fn head<S: Simd>(s: S, scales: &[u8]) -> (S::F32, S::F32) {
                (halves(s, scales, 0), halves(s, scales, 2 * LANES))
            }

            #[inline(always)]
            fn scale<S: Simd>(
                s: S,
                head: (S::F32, S::F32),
                scales: &[u8],
                cell: usize,
                _group: usize,
            ) -> S::F32 {
                s.mul(head.0, codes(s, scales, 4 * LANES + cell * 2 * LANES))
            }

            #[inline(always)]
            fn min<S: Simd>(s: S, head: (S::F32, S::F32), scales: &[u8], cell: usize) -> S::F32 {
                s.mul(head.1, codes(s, scales, 5 * LANES + cell * 2 * LANES))
            }
        }
    };
}

two_levels!(Q4K, nibbles, 4, "Nibbles.");
two_levels!(Q5K, five_bits, 5, "Five bits.");

/// Four lines of nibbles and two of bit pairs, 32 too high; per super-block sixteen `d`, then per cell
/// twice sixteen signed scale codes.
pub(super) struct Q6K;

impl Layout for Q6K {
    const LINES: usize = 6;
    const SCALES: usize = 2 * LANES + 8 * 2 * LANES;
    const CELLS: usize = 8;
    const GROUPS: usize = 2;
    const MINS: bool = false;
    type Word<S: Simd> = S::I32;
    type Head<S: Simd> = S::F32;

    #[inline(always)]
    fn words<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::I32)) {
        // Pair t of line j belongs to word 4j + t; it becomes bits 4 and 5.
        let (first, second) = (s.load_i32(&lines[4].0), s.load_i32(&lines[5].0));
        nibbles(
            s,
            lines,
            #[inline(always)]
            |k, low| {
                let pairs = if k < 4 { first } else { second };
                let high = match k % 4 {
                    0 => s.shift_left::<4>(pairs),
                    1 => s.shift_left::<2>(pairs),
                    2 => pairs,
                    _ => s.shift_right::<2>(pairs),
                };
                f(k, s.or(low, s.and_bytes(high, 0x30)));
            },
        );
    }

    #[inline(always)]
    fn store<S: Simd>(s: S, word: S::I32, out: &mut [i32; TILE]) {
        s.store_i32(s.sub_bytes(word, 32), out);
    }

    #[inline(always)]
    fn start<S: Simd>(s: S, activation_sum: i32) -> S::I32 {
        s.to_i32(-32 * activation_sum)
    }

    #[inline(always)]
    fn dot<S: Simd>(s: S, acc: S::I32, word: S::I32, activations: i32) -> S::I32 {
        s.dot4_unsigned(acc, word, activations)
    }

    #[inline(always)]
    fn head<S: Simd>(s: S, scales: &[u8]) -> S::F32 {
        halves(s, scales, 0)
    }

    #[inline(always)]
    fn scale<S: Simd>(s: S, d: S::F32, scales: &[u8], cell: usize, group: usize) -> S::F32 {
        let at = 2 * LANES + (2 * cell + group) * LANES;
        s.mul(d, s.load_i8(bytemuck::from_bytes(&scales[at..at + LANES])))
    }

    #[inline(always)]
    fn min<S: Simd>(s: S, _d: S::F32, _scales: &[u8], _cell: usize) -> S::F32 {
        s.splat(0.0)
    }
}
