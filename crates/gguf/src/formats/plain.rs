//! Numbers stored one by one: floats of four widths and integers of four widths.

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

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

/// Encodes numbers of `N` bytes each; where one does not fit, says which.
#[inline(always)]
pub(crate) fn encode<const N: usize>(
    values: &[f32],
    out: &mut [u8],
    number: impl Fn(f32) -> Option<[u8; N]>,
) -> Result<(), usize> {
    for (i, (value, out)) in values.iter().zip(out.as_chunks_mut().0).enumerate() {
        *out = number(*value).ok_or(i)?;
    }
    Ok(())
}

/// Rounds to the nearest half-precision number, ties to even; `None` where that turns a number into an
/// infinity.
#[inline(always)]
pub(crate) fn f16_bytes(value: f32) -> Option<[u8; 2]> {
    let half = f16::from_f32(value);
    (half.is_finite() || !value.is_finite()).then(|| half.to_le_bytes())
}
