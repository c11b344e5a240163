//! Numbers stored one by one: floats of four widths and integers of four widths.

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};

/// Decodes numbers of `N` bytes each.
#[inline(always)]
pub(crate) fn decode<const N: usize>(bytes: &[u8], out: &mut [f32], number: impl Fn([u8; N]) -> f32) {
    for (bytes, out) in bytes.as_chunks().0.iter().zip(out) {
        *out = number(*bytes);
    }
}

/// Decodes half-precision numbers, many at a time where the machine can.
pub(crate) fn decode_f16(bytes: &[u8], out: &mut [f32]) {
    let mut halves = [0u16; 64];
    for (bytes, out) in bytes.chunks(128).zip(out.chunks_mut(64)) {
        for (bytes, half) in bytes.as_chunks().0.iter().zip(&mut halves) {
            *half = u16::from_le_bytes(*bytes);
        }
        halves[..out.len()].reinterpret_cast::<f16>().convert_to_f32_slice(out);
    }
}

/// Encodes numbers of `N` bytes each.
#[inline(always)]
pub(crate) fn encode<const N: usize>(values: &[f32], out: &mut [u8], number: impl Fn(f32) -> [u8; N]) {
    for (value, out) in values.iter().zip(out.as_chunks_mut().0) {
        *out = number(*value);
    }
}

/// Rounds to the nearest bfloat16, ties to even.
pub(crate) fn bf16_bytes(value: f32) -> [u8; 2] {
    bf16::from_f32(value).to_le_bytes()
}

/// Rounds to the nearest half-precision number, ties to even.
pub(crate) fn f16_bytes(value: f32) -> [u8; 2] {
    f16::from_f32(value).to_le_bytes()
}
