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

/// Whether the format has its own code here.
pub fn is_direct(format: Format) -> bool {
    matches!(format, Format::Q4_0 | Format::Q4_1 | Format::Q8_0 | Format::Q4_K | Format::Q6_K)
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

/// 32 values from 16 bytes: the low nibbles, then the high ones, each less `offset`.
#[inline(always)]
fn nibbles(block: &[u8], at: usize, out: &mut [i8; 32], offset: i8) {
    let bytes = &block[at..at + 16];
    let (low, high) = out.split_at_mut(16);
    for i in 0..16 {
        low[i] = (bytes[i] & 15) as i8 - offset;
        high[i] = (bytes[i] >> 4) as i8 - offset;
    }
}

/// `d` and `dmin` (f16), eight scales and mins of six bits, four times 32 low and 32 high nibbles.
#[inline(always)]
fn q4_k<S: Simd>(s: S, block: &[u8; 144], out: &mut [i8; 256], scales: &mut [f32; 8], mins: &mut [f32]) {
    let (d, dmin) = (half(s, block, 0), half(s, block, 2));
    let codes = &block[4..16];
    let mut scale_codes = [0; 8];
    let mut min_codes = [0; 8];
    for i in 0..4 {
        scale_codes[i] = codes[i] & 63;
        min_codes[i] = codes[4 + i] & 63;
        scale_codes[4 + i] = codes[8 + i] & 15 | codes[i] >> 6 << 4;
        min_codes[4 + i] = codes[8 + i] >> 4 | codes[4 + i] >> 6 << 4;
    }
    *scales = scale_codes.map(|code| d * f32::from(code));
    mins.copy_from_slice(&min_codes.map(|code| -(dmin * f32::from(code))));
    for (bytes, out) in block[16..].as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<64>().0) {
        let (low, high) = out.split_at_mut(32);
        for i in 0..32 {
            low[i] = (bytes[i] & 15) as i8;
            high[i] = (bytes[i] >> 4) as i8;
        }
    }
}

/// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 scales, `d` (f16), in halves of 128 values.
#[inline(always)]
fn q6_k<S: Simd>(s: S, block: &[u8; 210], out: &mut [i8; 256], scales: &mut [f32; 16]) {
    let d = half(s, block, 208);
    for (scale, code) in scales.iter_mut().zip(&block[192..208]) {
        *scale = d * f32::from(*code as i8);
    }
    for (h, out) in out.as_chunks_mut::<128>().0.iter_mut().enumerate() {
        let (low, high) = (&block[64 * h..][..64], &block[128 + 32 * h..][..32]);
        let (first, second) = out.split_at_mut(64);
        let ((first, second), (third, fourth)) = (first.split_at_mut(32), second.split_at_mut(32));
        for i in 0..32 {
            first[i] = (low[i] & 15 | (high[i] & 3) << 4) as i8 - 32;
            second[i] = (low[32 + i] & 15 | (high[i] >> 2 & 3) << 4) as i8 - 32;
            third[i] = (low[i] >> 4 | (high[i] >> 4 & 3) << 4) as i8 - 32;
            fourth[i] = (low[32 + i] >> 4 | (high[i] >> 6) << 4) as i8 - 32;
        }
    }
}
