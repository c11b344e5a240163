//! How the integers of each packed format lie in their lines, and how they become words to multiply.

use gleed_gguf::Format;
use gleed_model::arithmetic::{BLOCK, SUPER_BLOCK};

use crate::kernels::simd::Simd;
use crate::kernels::tile::Line;

/// A packed format. Its scales lie the same way for all formats: see [`super::UnitSizes`].
pub(super) trait Layout {
    /// Lines of integers per cell of 32 columns.
    const LINES: usize;
    /// Columns per scale.
    const BLOCK: usize;
    /// Columns per factor.
    const GROUP: usize;
    /// Whether there are mins.
    const MINS: bool;
    /// Whether a scale is a power of two of which only the exponent is stored.
    const EXPONENTS: bool = false;
    /// What scales are multiplied with, a power of two: those that are stored have to be halves.
    const SHARE: f32 = 1.0;
    /// Four columns of sixteen rows, ready to be multiplied.
    type Word<S: Simd>: Copy;

    /// Calls `f` with each of the eight words of a cell and its number.
    fn words<S: Simd>(s: S, lines: &[Line], f: impl FnMut(usize, Self::Word<S>));
    /// A word as plain signed integers.
    fn signed<S: Simd>(s: S, word: Self::Word<S>) -> S::I32;
    /// Where a group's sum starts, given the sum of its activations.
    fn start<S: Simd>(s: S, activation_sum: i32) -> S::I32;
    /// Adds four columns.
    fn dot<S: Simd>(s: S, acc: S::I32, word: Self::Word<S>, activations: i32) -> S::I32;
}

/// How much higher than they are the integers of a format are stored, so that none is negative.
pub(super) const fn raised_by(format: Format) -> u8 {
    match format {
        Format::Q3_K => 4,
        Format::Q4_0 => 8,
        Format::Q5_0 => 16,
        Format::Q6_K => 32,
        Format::MXFP4 => 12,
        Format::IQ1_S | Format::IQ1_M => 9,
        Format::IQ2_XXS | Format::IQ2_XS | Format::IQ2_S => 43,
        Format::IQ3_XXS => 62,
        Format::IQ3_S => 15,
        _ => 0,
    }
}

/// What of the number in a file a scale is.
pub(super) const fn share(format: Format) -> f32 {
    match format {
        Format::IQ1_S | Format::IQ1_M | Format::IQ2_XXS | Format::IQ2_XS | Format::IQ2_S => 0.125,
        Format::IQ3_XXS => 0.25,
        _ => 1.0,
    }
}

/// Four lines of nibbles: the low ones are words 0 to 3, the high ones words 4 to 7.
#[inline(always)]
fn nibbles<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::I32)) {
    each_line::<4>(
        lines,
        #[inline(always)]
        |i, line| {
            let both = s.load_i32(&line.0);
            f(i, s.and_bytes(both, 0x0f));
            f(i + 4, s.high_nibbles(both));
        },
    );
}

/// Calls `f` with each of `N` lines, at most eight, and its number: a constant, whatever a compiler thinks of unrolling a
/// loop, so that the sums which it chooses stay in registers.
#[inline(always)]
fn each_line<const N: usize>(lines: &[Line], mut f: impl FnMut(usize, &Line)) {
    let lines = &lines[..N];
    macro_rules! call {
        ($($i:literal)*) => {$(if $i < N { f($i, &lines[$i]) })*};
    }
    const { assert!(N <= 8) };
    call!(0 1 2 3 4 5 6 7);
}

/// Words of places in a list of levels, which are raised.
macro_rules! raised_levels {
    ($name:ident, $format:ident, $places:ident) => {
        #[inline(always)]
        fn $name<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::I32)) {
            const RAISED: [i8; 16] = raised(Format::$format);
            $places(
                s,
                lines,
                #[inline(always)]
                |k, places| f(k, s.look_up(&RAISED, places)),
            );
        }
    };
}

raised_levels!(doubled_floats, MXFP4, nibbles);
raised_levels!(iq1_levels, IQ1_S, three_bits);
raised_levels!(iq2_levels, IQ2_S, three_bits);
raised_levels!(iq3_xxs_levels, IQ3_XXS, nibbles);
raised_levels!(iq3_s_levels, IQ3_S, nibbles);

/// The levels of a format, raised.
const fn raised(format: Format) -> [i8; 16] {
    let mut levels = levels(format);
    let mut place = 0;
    while place < levels.len() {
        levels[place] = levels[place].saturating_add(raised_by(format) as i8);
        place += 1;
    }
    levels
}

/// The levels of a format that has them.
const fn levels(format: Format) -> [i8; 16] {
    match format.levels() {
        Some(levels) => levels,
        None => panic!("the format has levels"),
    }
}

/// Two lines of bit pairs: pair t of line j is word 4j + t.
#[inline(always)]
fn pairs<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::I32)) {
    each_line::<2>(
        lines,
        #[inline(always)]
        |j, line| {
            let four = s.load_i32(&line.0);
            f(4 * j, s.and_bytes(four, 3));
            f(4 * j + 1, s.and_bytes(s.shift_right::<2>(four), 3));
            f(4 * j + 2, s.and_bytes(s.shift_right::<4>(four), 3));
            f(4 * j + 3, s.and_bytes(s.shift_right::<6>(four), 3));
        },
    );
}

/// Two lines of bit pairs, and one whose bit k is the third bit of word k.
#[inline(always)]
fn three_bits<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::I32)) {
    let bits = s.load_i32(&lines[2].0);
    pairs(
        s,
        lines,
        #[inline(always)]
        |k, low| {
            let third = match k {
                0 => s.shift_left::<2>(bits),
                1 => s.shift_left::<1>(bits),
                2 => bits,
                3 => s.shift_right::<1>(bits),
                4 => s.shift_right::<2>(bits),
                5 => s.shift_right::<3>(bits),
                6 => s.shift_right::<4>(bits),
                _ => s.shift_right::<5>(bits),
            };
            f(k, s.or(low, s.and_bytes(third, 4)));
        },
    );
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

/// Four lines of nibbles and two of bit pairs, which become bits 4 and 5: pair t of line j is of word 4j + t.
#[inline(always)]
fn six_bits<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::I32)) {
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

/// A layout of unsigned words: how they are read, from how many lines, and how scales go with them.
macro_rules! unsigned {
    ($name:ident, $format:ident, $words:ident, $lines:expr, $block:expr, $group:expr, $mins:expr) => {
        pub(super) struct $name;

        impl Layout for $name {
            const LINES: usize = $lines;
            const BLOCK: usize = $block;
            const GROUP: usize = $group;
            const MINS: bool = $mins;
            const EXPONENTS: bool = matches!(Format::$format, Format::MXFP4);
            const SHARE: f32 = share(Format::$format);
            type Word<S: Simd> = S::I32;

            #[inline(always)]
            fn words<S: Simd>(s: S, lines: &[Line], f: impl FnMut(usize, S::I32)) {
                $words(s, lines, f);
            }

            #[inline(always)]
            fn signed<S: Simd>(s: S, word: S::I32) -> S::I32 {
                s.sub_bytes(word, raised_by(Format::$format))
            }

            #[inline(always)]
            fn start<S: Simd>(s: S, activation_sum: i32) -> S::I32 {
                s.to_i32(-i32::from(raised_by(Format::$format)) * activation_sum)
            }

            #[inline(always)]
            fn dot<S: Simd>(s: S, acc: S::I32, word: S::I32, activations: i32) -> S::I32 {
                s.dot4_unsigned(acc, word, activations)
            }
        }
    };
}

unsigned!(Q4_0, Q4_0, nibbles, 4, BLOCK, 32, false);
unsigned!(Q4_1, Q4_1, nibbles, 4, BLOCK, 32, true);
unsigned!(Q5_0, Q5_0, five_bits, 5, BLOCK, 32, false);
unsigned!(Q5_1, Q5_1, five_bits, 5, BLOCK, 32, true);
unsigned!(Q2K, Q2_K, pairs, 2, SUPER_BLOCK, 16, true);
unsigned!(Q3K, Q3_K, three_bits, 3, SUPER_BLOCK, 16, false);
unsigned!(Q4K, Q4_K, nibbles, 4, SUPER_BLOCK, 32, true);
unsigned!(Q5K, Q5_K, five_bits, 5, SUPER_BLOCK, 32, true);
unsigned!(Q6K, Q6_K, six_bits, 6, SUPER_BLOCK, 16, false);
unsigned!(Mxfp4, MXFP4, doubled_floats, 4, BLOCK, 32, false);
unsigned!(Iq1S, IQ1_S, iq1_levels, 3, SUPER_BLOCK, 32, false);
unsigned!(Iq1M, IQ1_M, iq1_levels, 3, SUPER_BLOCK, 16, false);
unsigned!(Iq2Xxs, IQ2_XXS, iq2_levels, 3, SUPER_BLOCK, 32, false);
unsigned!(Iq2S, IQ2_S, iq2_levels, 3, SUPER_BLOCK, 16, false);
unsigned!(Iq3Xxs, IQ3_XXS, iq3_xxs_levels, 4, SUPER_BLOCK, 32, false);
unsigned!(Iq3S, IQ3_S, iq3_s_levels, 4, SUPER_BLOCK, 32, false);

/// Eight lines of signed bytes.
#[inline(always)]
fn bytes<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::I32)) {
    each_line::<8>(
        lines,
        #[inline(always)]
        |k, line| f(k, s.load_i32(&line.0)),
    );
}

/// Four lines of nibbles, each a place in a list of levels.
#[inline(always)]
fn uneven_steps<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::I32)) {
    const LEVELS: [i8; 16] = levels(Format::IQ4_NL);
    nibbles(
        s,
        lines,
        #[inline(always)]
        |k, places| f(k, s.look_up(&LEVELS, places)),
    );
}

/// A layout of signed words of eight bits, without mins.
macro_rules! signed {
    ($name:ident, $words:ident, $lines:expr, $block:expr) => {
        pub(super) struct $name;

        impl Layout for $name {
            const LINES: usize = $lines;
            const BLOCK: usize = $block;
            const GROUP: usize = 32;
            const MINS: bool = false;
            type Word<S: Simd> = S::Weights;

            #[inline(always)]
            fn words<S: Simd>(s: S, lines: &[Line], mut f: impl FnMut(usize, S::Weights)) {
                $words(
                    s,
                    lines,
                    #[inline(always)]
                    |k, word| f(k, s.weights(word)),
                );
            }

            #[inline(always)]
            fn signed<S: Simd>(s: S, word: S::Weights) -> S::I32 {
                s.plain(word)
            }

            #[inline(always)]
            fn start<S: Simd>(s: S, activation_sum: i32) -> S::I32 {
                s.dot_start(activation_sum)
            }

            #[inline(always)]
            fn dot<S: Simd>(s: S, acc: S::I32, word: S::Weights, activations: i32) -> S::I32 {
                s.dot4(acc, word, activations)
            }
        }
    };
}

signed!(Q8_0, bytes, 8, BLOCK);
signed!(Iq4Nl, uneven_steps, 4, BLOCK);
signed!(Iq4Xs, uneven_steps, 4, SUPER_BLOCK);
