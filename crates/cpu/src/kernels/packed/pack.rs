//! From the unpacked rows of a file to packed tiles, once, when a model is loaded.

use gleed_gguf::{Format, Unpacked};
use half::f16;

use super::Packing;
use super::layouts::{raised_by, share};
use crate::kernels::tile::{Line, TILE};

/// Packs the integers of a tile: from words of signed bytes with a lane per row, `[columns / 4][TILE]`.
pub fn pack_integers(packing: Packing, words: &[[i32; TILE]], tile: &mut [Line]) {
    let (levels, raised_by) = (packing.format.levels(), raised_by(packing.format));
    let sizes = packing.sizes();
    for (cell, words) in words.as_chunks::<8>().0.iter().enumerate() {
        let lines = &mut tile[sizes.integers_at(cell)..][..sizes.lines];
        let words = match levels {
            Some(levels) => words.map(|lanes| places(&levels, lanes)),
            None => words.map(|lanes| lanes.map(|word| raise(word, raised_by))),
        };
        match packing.format {
            Format::Q8_0 => lines.iter_mut().zip(words).for_each(|(line, word)| line.0 = word),
            Format::Q2_K => pack_pairs(&words, 0, lines),
            _ if sizes.lines == 3 => {
                pack_pairs(&words, 0, &mut lines[..2]);
                pack_bits(&words, 2, &mut lines[2]);
            }
            _ => {
                let (nibbles, more) = lines.split_at_mut(4);
                pack_nibbles(&words, nibbles);
                match more {
                    [] => {}
                    [line] => pack_bits(&words, 4, line),
                    lines => pack_pairs(&words, 4, lines),
                }
            }
        }
    }
}

/// A cell: eight words of sixteen lanes.
type Words = [[i32; TILE]; 8];

/// The low four bits of words i and i + 4 to line i.
fn pack_nibbles(words: &Words, lines: &mut [Line]) {
    for (i, line) in lines.iter_mut().enumerate() {
        let nibble = |k: usize, lane: usize| words[k][lane] & 0x0f0f_0f0f;
        line.0 = std::array::from_fn(|lane| nibble(i, lane) | nibble(i + 4, lane) << 4);
    }
}

/// Two bits from `shift` on, of four words to a line.
fn pack_pairs(words: &Words, shift: u32, lines: &mut [Line]) {
    for (line, words) in lines.iter_mut().zip(words.as_chunks::<4>().0) {
        let pair = |t: usize, lane: usize| (words[t][lane] >> shift & 0x0303_0303) << (2 * t);
        line.0 = std::array::from_fn(|lane| (0..4).fold(0, |bits, t| bits | pair(t, lane)));
    }
}

/// Bit `shift` of word k to bit k of the line.
fn pack_bits(words: &Words, shift: u32, line: &mut Line) {
    let bit = |k: usize, lane: usize| (words[k][lane] >> shift & 0x0101_0101) << k;
    line.0 = std::array::from_fn(|lane| (0..8).fold(0, |bits, k| bits | bit(k, lane)));
}

/// For each byte its place in an ascending list: how many from the second on are not above it.
fn places(levels: &[i8; 16], lanes: [i32; TILE]) -> [i32; TILE] {
    let bytes: [i8; 4 * TILE] = bytemuck::cast(lanes);
    let mut places = [0u8; 4 * TILE];
    for level in &levels[1..] {
        places.iter_mut().zip(&bytes).for_each(|(place, byte)| *place += u8::from(byte >= level));
    }
    bytemuck::cast(places)
}

/// Adds to each byte of a word.
fn raise(word: i32, by: u8) -> i32 {
    i32::from_ne_bytes(word.to_ne_bytes().map(|byte| byte.wrapping_add(by)))
}

/// Packs the scales and factors of one row of a tile.
pub fn pack_scales(packing: Packing, lane: usize, row: &Unpacked, tile: &mut [Line]) {
    let sizes = packing.sizes();
    let groups = sizes.block / sizes.group;
    let tile = bytemuck::cast_slice_mut::<Line, u8>(tile);
    for b in 0..row.scales.len() {
        let bytes = &mut tile[sizes.scales_at(b)..][..sizes.bytes];
        // Scales are half-precision numbers in the file, a share of such a number, or exponents, so nothing is lost.
        let half = |scale: f32| f16::from_f32(scale).to_le_bytes();
        if sizes.scale == 1 {
            bytes[lane] = exponent(row.scales[b]);
        } else {
            bytes[2 * lane..][..2].copy_from_slice(&half(row.scales[b] / share(packing.format)));
        }
        if sizes.mins {
            bytes[sizes.mins_at() + 2 * lane..][..2].copy_from_slice(&half(row.mins[b]));
        }
        if sizes.has_factors() {
            for (g, factor) in row.factors[b * groups..][..groups].iter().enumerate() {
                bytes[sizes.factors_at() + g * TILE + lane] = *factor as u8;
            }
            if sizes.mins {
                for (g, factor) in row.min_factors[b * groups..][..groups].iter().enumerate() {
                    bytes[sizes.min_factors_at() + g / 2 * 2 * TILE + 2 * lane + g % 2] = *factor as u8;
                }
            }
        }
    }
}

/// The byte `e` of a scale that is 2^(e - 128).
fn exponent(scale: f32) -> u8 {
    match scale.to_bits() >> 23 {
        // No normal number: bit 21 is e = 0, bit 22 is e = 1.
        0 => (scale.to_bits() >> 22) as u8,
        exponent => (exponent + 1) as u8,
    }
}
