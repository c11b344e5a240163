//! Rows of block-quantised weights to integers, scales and mins, exactly as `Format::unpack`.
//!
//! The formats that most files use have their own code here, so that it is compiled for the vector
//! unit; all others go through `Format::unpack`.

use gleed_gguf::Format;

use super::simd::{Kernel, Simd};

/// Unpacks whole blocks.
#[derive(Debug)]
pub struct Unpack<'a> {
    /// How they are stored; must have groups.
    pub format: Format,
    /// The blocks.
    pub bytes: &'a [u8],
    /// One per value.
    pub integers: &'a mut [i8],
    /// One per group.
    pub scales: &'a mut [f32],
    /// One per group, or empty when the format has no mins.
    pub mins: &'a mut [f32],
}

/// Asks for bytes ahead of their use, so that memory works while the vector unit does.
#[derive(Debug)]
pub struct Prefetch<'a> {
    /// What will be used next.
    pub bytes: &'a [u8],
}

impl Kernel for Prefetch<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        const LINE: usize = 64;
        for byte in self.bytes.iter().step_by(LINE) {
            s.prefetch(byte);
        }
    }
}

impl Kernel for Unpack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Unpack { format, bytes, integers, scales, mins } = self;
        match format {
            Format::Q4_0 => blocks(
                bytes,
                integers,
                scales,
                mins,
                #[inline(always)]
                |block: &[u8; 18], out, scales, _| {
                    *scales = [half(s, block, 0)];
                    nibbles(block, 2, out, 8);
                },
            ),
            Format::Q4_1 => blocks(
                bytes,
                integers,
                scales,
                mins,
                #[inline(always)]
                |block: &[u8; 20], out, scales, mins| {
                    *scales = [half(s, block, 0)];
                    mins.copy_from_slice(&[half(s, block, 2)]);
                    nibbles(block, 4, out, 0);
                },
            ),
            Format::Q5_0 => blocks(
                bytes,
                integers,
                scales,
                mins,
                #[inline(always)]
                |block: &[u8; 22], out, scales, _| {
                    *scales = [half(s, block, 0)];
                    nibbles(block, 6, out, 16);
                    fifth_bits(block, 2, out);
                },
            ),
            Format::Q5_1 => blocks(
                bytes,
                integers,
                scales,
                mins,
                #[inline(always)]
                |block: &[u8; 24], out, scales, mins| {
                    *scales = [half(s, block, 0)];
                    mins.copy_from_slice(&[half(s, block, 2)]);
                    nibbles(block, 8, out, 0);
                    fifth_bits(block, 4, out);
                },
            ),
            Format::Q8_0 => blocks(
                bytes,
                integers,
                scales,
                mins,
                #[inline(always)]
                |block: &[u8; 34], out: &mut [i8; 32], scales, _| {
                    *scales = [half(s, block, 0)];
                    let q: &[u8; 32] = block.last_chunk().expect("a block of 34 bytes ends with 32");
                    *out = bytemuck::cast(*q);
                },
            ),
            Format::Q4_K => blocks(
                bytes,
                integers,
                scales,
                mins,
                #[inline(always)]
                |block, out, scales, mins| {
                    q4_k(s, block, out, scales, mins);
                },
            ),
            Format::Q6_K => blocks(
                bytes,
                integers,
                scales,
                mins,
                #[inline(always)]
                |block, out, scales, _| {
                    q6_k(s, block, out, scales);
                },
            ),
            _ => format.unpack(bytes, integers, scales, mins),
        }
    }
}

/// Walks over whole blocks of `BYTES` bytes, `LEN` values and `GROUPS` groups.
#[inline(always)]
fn blocks<const BYTES: usize, const LEN: usize, const GROUPS: usize>(
    bytes: &[u8],
    integers: &mut [i8],
    scales: &mut [f32],
    mins: &mut [f32],
    unpack: impl Fn(&[u8; BYTES], &mut [i8; LEN], &mut [f32; GROUPS], &mut [f32]),
) {
    let bytes = bytes.as_chunks().0;
    let count = bytes.len();
    let (integers, rest) = integers.as_chunks_mut();
    let scales = scales.as_chunks_mut().0;
    assert!(rest.is_empty() && integers.len() == count && scales.len() == count);
    let has_mins = !mins.is_empty();
    assert!(!has_mins || mins.len() == count * GROUPS);
    for (i, ((bytes, integers), scales)) in bytes.iter().zip(integers).zip(scales).enumerate() {
        let mins = if has_mins { &mut mins[i * GROUPS..][..GROUPS] } else { &mut [][..] };
        unpack(bytes, integers, scales, mins);
    }
}

#[inline(always)]
fn half<S: Simd>(s: S, block: &[u8], at: usize) -> f32 {
    s.half(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// The `N` bytes of a block from `at` on.
#[inline(always)]
fn bytes_at<const N: usize>(block: &[u8], at: usize) -> [u8; N] {
    *block[at..].first_chunk().expect("a field lies inside its block")
}

/// 32 values from 16 bytes: the low nibbles, then the high ones, each less `offset`.
#[inline(always)]
fn nibbles(block: &[u8], at: usize, out: &mut [i8; 32], offset: i8) {
    // Into a local array first: the compiler need not prove that `out` and `block` are apart.
    let bytes: [u8; 16] = bytes_at(block, at);
    let mut values = [0; 32];
    for i in 0..16 {
        values[i] = (bytes[i] & 15) as i8 - offset;
        values[16 + i] = (bytes[i] >> 4) as i8 - offset;
    }
    *out = values;
}

/// Adds 16 to the values whose bit is set in the four bytes at `at`.
#[inline(always)]
fn fifth_bits(block: &[u8], at: usize, out: &mut [i8; 32]) {
    const MASKS: [u8; 32] = {
        let mut masks = [0; 32];
        let mut i = 0;
        while i < 32 {
            masks[i] = 1 << (i % 8);
            i += 1;
        }
        masks
    };
    let bits: [u8; 4] = bytes_at(block, at);
    let mut spread = [0; 32];
    for (spread, bits) in spread.as_chunks_mut::<8>().0.iter_mut().zip(bits) {
        *spread = [bits; 8];
    }
    let mut values = *out;
    for i in 0..32 {
        values[i] += if spread[i] & MASKS[i] != 0 { 16 } else { 0 };
    }
    *out = values;
}

/// `d` and `dmin` (f16), eight scales and mins of six bits, four times 32 low and 32 high nibbles.
#[inline(always)]
fn q4_k<S: Simd>(s: S, block: &[u8; 144], out: &mut [i8; 256], scales: &mut [f32; 8], mins: &mut [f32]) {
    let (d, dmin) = (half(s, block, 0), half(s, block, 2));
    // Twelve bytes as three words of four codes: scales and mins 0..4 are the low six bits of the first
    // two words; 4..8 have their low four bits in the third and two bits on top of the first two.
    let word = |i: usize| u32::from_le_bytes(bytes_at(block, 4 + 4 * i));
    let (first, second, third) = (word(0), word(1), word(2));
    let six = 0x3f3f_3f3f;
    let top = |word: u32| (word >> 2) & 0x3030_3030;
    let fours = 0x0f0f_0f0f;
    let codes = |low: u32, high: u32| (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
    let scale_codes = codes(first & six, third & fours | top(first));
    let min_codes = codes(second & six, third >> 4 & fours | top(second));
    let (mut new_scales, mut new_mins) = ([0.0; 8], [0.0; 8]);
    for i in 0..8 {
        new_scales[i] = d * f32::from(scale_codes[i]);
        new_mins[i] = -(dmin * f32::from(min_codes[i]));
    }
    *scales = new_scales;
    mins.copy_from_slice(&new_mins);
    for (i, out) in out.as_chunks_mut::<64>().0.iter_mut().enumerate() {
        let bytes: [u8; 32] = bytes_at(block, 16 + 32 * i);
        let mut values = [0; 64];
        for i in 0..32 {
            values[i] = (bytes[i] & 15) as i8;
            values[32 + i] = (bytes[i] >> 4) as i8;
        }
        *out = values;
    }
}

/// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 scales, `d` (f16), in halves of 128 values.
#[inline(always)]
fn q6_k<S: Simd>(s: S, block: &[u8; 210], out: &mut [i8; 256], scales: &mut [f32; 16]) {
    let d = half(s, block, 208);
    let codes: [u8; 16] = bytes_at(block, 192);
    let mut new_scales = [0.0; 16];
    for i in 0..16 {
        new_scales[i] = d * f32::from(codes[i] as i8);
    }
    *scales = new_scales;
    for (h, out) in out.as_chunks_mut::<128>().0.iter_mut().enumerate() {
        let low: [u8; 32] = bytes_at(block, 64 * h);
        let next: [u8; 32] = bytes_at(block, 64 * h + 32);
        let high: [u8; 32] = bytes_at(block, 128 + 32 * h);
        let mut values = [0; 128];
        for i in 0..32 {
            values[i] = (low[i] & 15 | (high[i] & 3) << 4) as i8 - 32;
            values[32 + i] = (next[i] & 15 | (high[i] >> 2 & 3) << 4) as i8 - 32;
            values[64 + i] = (low[i] >> 4 | (high[i] >> 4 & 3) << 4) as i8 - 32;
            values[96 + i] = (next[i] >> 4 | (high[i] >> 6) << 4) as i8 - 32;
        }
        *out = values;
    }
}
