//! From the blocks of a file to packed tiles, once, when a model is loaded.

use gleed_gguf::Format;
use gleed_model::arithmetic::LANES;

use super::{Line, Packing};
use crate::kernels::integer::TILE;

/// Packs the integers of a tile: from words of signed bytes with a lane per row, `[columns / 4][TILE]`.
pub fn pack_integers(packing: Packing, words: &[[i32; TILE]], tile: &mut [Line]) {
    let (lines, _, _) = packing.sizes();
    let raised_by = match packing.format {
        Format::Q4_0 => 8,
        Format::Q5_0 => 16,
        Format::Q6_K => 32,
        _ => 0,
    };
    for (words, lines) in words.as_chunks::<8>().0.iter().zip(tile.chunks_exact_mut(lines)) {
        let words = words.map(|lanes| lanes.map(|word| raise(word, raised_by)));
        if packing.format == Format::Q8_0 {
            lines.iter_mut().zip(words).for_each(|(line, word)| line.0 = word);
            continue;
        }
        // Six bits at most: the low four make nibbles, the others single bits or pairs.
        let (nibble_lines, more_lines) = lines.split_at_mut(4);
        for (i, line) in nibble_lines.iter_mut().enumerate() {
            let nibble = |k: usize, lane: usize| words[k][lane] & 0x0f0f_0f0f;
            line.0 = std::array::from_fn(|lane| nibble(i, lane) | nibble(i + 4, lane) << 4);
        }
        if let [line] = more_lines {
            let bit = |k: usize, lane: usize| (words[k][lane] >> 4 & 0x0101_0101) << k;
            line.0 = std::array::from_fn(|lane| (0..8).fold(0, |bits, k| bits | bit(k, lane)));
            continue;
        }
        for (line, words) in more_lines.iter_mut().zip(words.as_chunks::<4>().0) {
            let pair = |t: usize, lane: usize| (words[t][lane] >> 4 & 0x0303_0303) << (2 * t);
            line.0 =
                std::array::from_fn(|lane| pair(0, lane) | pair(1, lane) | pair(2, lane) | pair(3, lane));
        }
    }
}

/// Adds to each byte of a word.
fn raise(word: i32, by: u8) -> i32 {
    i32::from_ne_bytes(word.to_ne_bytes().map(|byte| byte.wrapping_add(by)))
}

/// Packs the scales of one row of a tile, from the row's bytes in the file.
pub fn pack_scales(packing: Packing, lane: usize, bytes: &[u8], tile: &mut [Line]) {
    let (lines, size, _) = packing.sizes();
    let scales: &mut [u8] = bytemuck::cast_slice_mut(&mut tile[packing.cells() * lines..]);
    let blocks = bytes.chunks_exact(packing.format.block_bytes());
    for (block, scales) in blocks.zip(scales.chunks_exact_mut(size)) {
        // Two bytes of the block go to place `at` of halves.
        let mut half = |at: usize, from: usize| {
            scales[at + 2 * lane..][..2].copy_from_slice(&block[from..from + 2]);
        };
        match packing.format {
            Format::Q4_1 | Format::Q5_1 => {
                half(0, 0);
                half(2 * LANES, 2);
            }
            Format::Q4_K | Format::Q5_K => {
                half(0, 0);
                half(2 * LANES, 2);
                // The mins are subtracted: the sign goes with `dmin`.
                scales[2 * LANES + 2 * lane + 1] ^= 0x80;
                let (codes, min_codes) = six_bits(&block[4..16]);
                for cell in 0..8 {
                    scales[4 * LANES + cell * 2 * LANES + lane] = codes[cell];
                    scales[5 * LANES + cell * 2 * LANES + lane] = min_codes[cell];
                }
            }
            Format::Q6_K => {
                half(0, 208);
                for (group, &code) in block[192..208].iter().enumerate() {
                    scales[2 * LANES + group * LANES + lane] = code;
                }
            }
            _ => half(0, 0),
        }
    }
}

/// The eight scales and mins of six bits that Q4_K and Q5_K keep in twelve bytes.
fn six_bits(bytes: &[u8]) -> ([u8; 8], [u8; 8]) {
    let scale = |i: usize| match i {
        0..4 => bytes[i] & 63,
        _ => bytes[i + 4] & 15 | bytes[i - 4] >> 6 << 4,
    };
    let min = |i: usize| match i {
        0..4 => bytes[i + 4] & 63,
        _ => bytes[i + 4] >> 4 | bytes[i] >> 6 << 4,
    };
    (std::array::from_fn(scale), std::array::from_fn(min))
}
