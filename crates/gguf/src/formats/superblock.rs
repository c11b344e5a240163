//! Encoding a block of groups whose scales are themselves quantised: Q2_K to Q6_K, IQ4_XS. Each group's best
//! scale (and min) is searched for alone, then written as a small code times the block's `d` (and
//! `dmin`), then the codes are tried against their neighbours with the numbers that will be read back, and `d` (and `dmin`)
//! fitted to them.

use half::f16;

use super::search::{self, Affine, quantise, reciprocal, square_error};
use super::{TooLarge, groups_of, half};

/// A block of `value = (d * scale) * q - (dmin * min)`.
pub(super) struct AffineBlock<const GROUPS: usize, const N: usize> {
    pub(super) d: [u8; 2],
    pub(super) dmin: [u8; 2],
    pub(super) scales: [u8; GROUPS],
    pub(super) mins: [u8; GROUPS],
    pub(super) q: [[u8; N]; GROUPS],
}

/// Encodes groups of values as q in `0..=top` with scales and mins in `0..=code_top`.
pub(super) fn affine<const GROUPS: usize, const N: usize>(
    values: &[[f32; N]; GROUPS],
    importance: Option<&[[f32; N]; GROUPS]>,
    top: f32,
    code_top: f32,
) -> Result<AffineBlock<GROUPS, N>, TooLarge> {
    let weights = weights(values, importance);
    let mut groups = [Affine::default(); GROUPS];
    for ((group, values), weights) in groups.iter_mut().zip(values).zip(&weights) {
        *group = search::affine(values, weights, top, 0.0);
    }
    let mut units = AffineUnits::new(
        unit(groups.iter().fold(0.0, |most: f32, group| most.max(group.scale)), code_top)?,
        unit(groups.iter().fold(0.0, |most: f32, group| most.max(-group.min)), code_top)?,
    );
    let (mut scales, mut mins) = ([0.0; GROUPS], [0.0; GROUPS]);
    for g in 0..GROUPS {
        let scale_code = code(groups[g].scale, units.d, 0.0, code_top);
        let min_code = code(-groups[g].min, units.dmin, 0.0, code_top);
        let mut best = (f32::INFINITY, scale_code, min_code);
        for scale_step in [0.0, -1.0, 1.0] {
            for min_step in [0.0, -1.0, 1.0] {
                let scale_code = (scale_code + scale_step).clamp(0.0, code_top);
                let min_code = (min_code + min_step).clamp(0.0, code_top);
                let error = units.error(&values[g], &weights[g], [scale_code, min_code], top);
                if error < best.0 {
                    best = (error, scale_code, min_code);
                }
            }
        }
        (_, scales[g], mins[g]) = best;
    }
    let errors = |units: &AffineUnits| -> f32 {
        (0..GROUPS).map(|g| units.error(&values[g], &weights[g], [scales[g], mins[g]], top)).sum()
    };
    if let Some(fitted) = units.fitted(values, &weights, &scales, &mins, top)?
        && errors(&fitted) < errors(&units)
    {
        units = fitted;
    }
    let q = |g: usize| values[g].map(|value| units.quantise(value, [scales[g], mins[g]], top) as u8);
    Ok(AffineBlock {
        d: units.d_bytes,
        dmin: units.dmin_bytes,
        scales: scales.map(|code| code as u8),
        mins: mins.map(|code| code as u8),
        q: std::array::from_fn(q),
    })
}

/// What the codes of scales and mins are multiplied with, as it is stored and as it is read.
struct AffineUnits {
    d_bytes: [u8; 2],
    d: f32,
    dmin_bytes: [u8; 2],
    dmin: f32,
}

impl AffineUnits {
    fn new((d_bytes, d): ([u8; 2], f32), (dmin_bytes, dmin): ([u8; 2], f32)) -> AffineUnits {
        AffineUnits { d_bytes, d, dmin_bytes, dmin }
    }

    #[inline(always)]
    fn quantise(&self, value: f32, [scale, min]: [f32; 2], top: f32) -> f32 {
        quantise(reciprocal(self.d * scale) * (value + self.dmin * min), 0.0, top)
    }

    /// The weighted squared error of a group with these codes.
    #[inline(always)]
    fn error<const N: usize>(&self, values: &[f32; N], weights: &[f32; N], codes: [f32; 2], top: f32) -> f32 {
        let (scale, min) = (self.d * codes[0], self.dmin * codes[1]);
        let inverse = reciprocal(scale);
        square_error(values, weights, |value| scale * quantise(inverse * (value + min), 0.0, top) - min)
    }

    /// The units of least squares for the codes that were chosen with these, where there are any.
    fn fitted<const GROUPS: usize, const N: usize>(
        &self,
        values: &[[f32; N]; GROUPS],
        weights: &[[f32; N]; GROUPS],
        scales: &[f32; GROUPS],
        mins: &[f32; GROUPS],
        top: f32,
    ) -> Result<Option<AffineUnits>, TooLarge> {
        // value ≈ d * a - dmin * b with a = scale * q and b = min.
        let [mut aa, mut ab, mut bb, mut ax, mut bx] = [0.0; 5];
        for g in 0..GROUPS {
            let sums = search::sums::<N, 5>(|i| {
                let (w, x, b) = (weights[g][i], values[g][i], mins[g]);
                let a = scales[g] * self.quantise(x, [scales[g], b], top);
                [w * a * a, w * a * b, w * b * b, w * a * x, w * b * x]
            });
            for (total, sum) in [&mut aa, &mut ab, &mut bb, &mut ax, &mut bx].into_iter().zip(sums) {
                *total += f64::from(sum);
            }
        }
        let determinant = aa * bb - ab * ab;
        if determinant <= 1e-6 * aa * bb {
            return Ok(None);
        }
        let d = (ax * bb - bx * ab) / determinant;
        let dmin = (ax * ab - bx * aa) / determinant;
        if !(d > 0.0 && dmin > 0.0) {
            return Ok(None);
        }
        Ok(Some(AffineUnits::new(half(d as f32)?, half(dmin as f32)?)))
    }
}

/// A block of `value = (d * scale) * q`, q stored with `top` added.
pub(super) struct SymmetricBlock<const GROUPS: usize, const N: usize> {
    pub(super) d: [u8; 2],
    pub(super) scales: [i8; GROUPS],
    pub(super) q: [[u8; N]; GROUPS],
}

/// Encodes groups of values as q in `-top..top` with scales in `-code_top..code_top`.
pub(super) fn symmetric<const GROUPS: usize, const N: usize>(
    values: &[[f32; N]; GROUPS],
    importance: Option<&[[f32; N]; GROUPS]>,
    top: f32,
    code_top: f32,
) -> Result<SymmetricBlock<GROUPS, N>, TooLarge> {
    let weights = weights(values, importance);
    let mut scales = [0.0; GROUPS];
    for ((scale, values), weights) in scales.iter_mut().zip(values).zip(&weights) {
        *scale = search::symmetric(values, weights, top, importance.is_some());
    }
    let (mut d_bytes, mut d) = unit(search::largest(&scales), -code_top)?;
    let mut codes = [0.0; GROUPS];
    let quantised = |d: f32, code: f32, value: f32| quantise(reciprocal(d * code) * value, -top, top - 1.0);
    let error = |d: f32, code: f32, g: usize| {
        let (scale, inverse) = (d * code, reciprocal(d * code));
        square_error(&values[g], &weights[g], |value| scale * quantise(inverse * value, -top, top - 1.0))
    };
    for g in 0..GROUPS {
        let middle = code(scales[g], d, -code_top, code_top - 1.0);
        let mut best = (f32::INFINITY, middle);
        for step in [0.0, -1.0, 1.0] {
            let code = (middle + step).clamp(-code_top, code_top - 1.0);
            let error = error(d, code, g);
            if error < best.0 {
                best = (error, code);
            }
        }
        codes[g] = best.1;
    }
    // The unit of least squares for these codes.
    let [mut sum_qx, mut sum_qq] = [0.0; 2];
    for g in 0..GROUPS {
        let [qx, qq] = search::sums::<N, 2>(|i| {
            let q = codes[g] * quantised(d, codes[g], values[g][i]);
            [weights[g][i] * q * values[g][i], weights[g][i] * q * q]
        });
        sum_qx += qx;
        sum_qq += qq;
    }
    if sum_qq > 0.0 {
        let (bytes, fitted) = half(sum_qx / sum_qq)?;
        let errors = |d: f32| -> f32 { (0..GROUPS).map(|g| error(d, codes[g], g)).sum() };
        if errors(fitted) < errors(d) {
            (d_bytes, d) = (bytes, fitted);
        }
    }
    Ok(SymmetricBlock {
        d: d_bytes,
        scales: codes.map(|code| code as i8),
        q: std::array::from_fn(|g| values[g].map(|value| (quantised(d, codes[g], value) + top) as u8)),
    })
}

/// How much an error in each value matters, group by group.
pub(super) fn weights<const GROUPS: usize, const N: usize>(
    values: &[[f32; N]; GROUPS],
    importance: Option<&[[f32; N]; GROUPS]>,
) -> [[f32; N]; GROUPS] {
    let Some(importance) = importance else { return values.each_ref().map(search::magnitude_weights) };
    // Groups must be comparable where they share a unit.
    *groups_of(&search::weights::<256>(block_of(values), Some(block_of(importance))))
}

/// The groups of a block as one.
fn block_of<const GROUPS: usize, const N: usize>(groups: &[[f32; N]; GROUPS]) -> &[f32; 256] {
    groups.as_flattened().try_into().expect("groups fill a block")
}

/// The half-precision unit in which `number` has the code `code`, as it is stored and as it is read. Very
/// small units are far apart: where the nearest is so small that the code would not reach the number,
/// the next larger one.
pub(super) fn unit(number: f32, code: f32) -> Result<([u8; 2], f32), TooLarge> {
    let exact = number / code;
    let (bytes, nearest) = half(exact)?;
    if exact.abs() <= nearest.abs() * (1.0 + 0.5 / code.abs()) {
        return Ok((bytes, nearest));
    }
    let next = f16::from_bits(f16::from_f32(exact).to_bits() + 1);
    Ok((next.to_le_bytes(), next.to_f32()))
}

/// The code that comes nearest to `number = unit * code`.
pub(super) fn code(number: f32, unit: f32, low: f32, high: f32) -> f32 {
    quantise(number * reciprocal(unit), low, high)
}
