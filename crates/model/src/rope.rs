//! Rotary position embeddings: every scaling reduced to one table of frequencies, so that no path can
//! ignore any of them.

use crate::{Config, Error, Result};

/// Which elements of a head form a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// (0, 1), (2, 3), …
    Interleaved,
    /// (0, n/2), (1, n/2 + 1), … over the rotated dimensions.
    SplitHalf,
}

/// How a model's context was extended beyond what its base frequencies were trained for.
#[derive(Debug, Clone, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// Positions divided by a factor.
    Linear {
        /// The extension.
        factor: f32,
    },
    /// High frequencies kept, low ones divided, a ramp between them, and a magnitude correction.
    Yarn {
        /// The extension.
        factor: f32,
        /// The context that the model was first trained on.
        original_context: usize,
        /// Rotations over the original context above which a frequency is kept.
        beta_fast: f32,
        /// Rotations over the original context below which a frequency is divided.
        beta_slow: f32,
        /// How much of the ramp applies: 1 unless the file says otherwise.
        extrapolation: f32,
        /// A factor on the magnitude: 1 unless the file says otherwise.
        attention: f32,
    },
}

/// How the queries of a model grow with their position, in steps, so that attention over many positions does not blur:
/// 1 + scale · ln(1 + ⌊(position + offset) / length⌋).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Temperature {
    /// The factor of the logarithm.
    pub scale: f32,
    /// Positions of a step.
    pub length: usize,
    /// Added to positions.
    pub offset: usize,
}

impl Temperature {
    /// Of a model whose heads are rotated whole, since it is part of the rotation.
    pub(crate) fn new(c: &Config, scale: f32, length: usize, offset: usize) -> Result<Temperature> {
        if length == 0 || c.rope_dimensions != c.key_dim {
            return Err(Error::Invalid(format!(
                "a temperature for every {length} positions, with {} of {} values of a head rotated: must be at \
                 least 1, and all",
                c.rope_dimensions, c.key_dim
            )));
        }
        Ok(Temperature { scale, length, offset })
    }

    /// The factor at a position, computed in f64 and rounded once.
    pub fn factor(&self, position: u32) -> f32 {
        let steps = (position as usize + self.offset) / self.length;
        (1.0 + f64::from(self.scale) * (1.0 + steps as f64).ln()) as f32
    }
}

/// What YaRN multiplies a head with, or where a model has learned without it, divides by: 1 + 0.1 · weight · ln(factor).
pub(crate) fn yarn_magnitude(factor: f32, weight: f32) -> f32 {
    (1.0 + 0.1 * f64::from(weight) * f64::from(factor).ln()) as f32
}

/// A rotary embedding, ready for use: an angle per pair and position, and a magnitude.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Which elements form a pair.
    pub pairing: Pairing,
    /// How many leading elements of a head are rotated; the rest pass through.
    pub dimensions: usize,
    /// Radians per position, one per pair.
    pub frequencies: Vec<f64>,
    /// Factor on cosine and sine.
    pub magnitude: f32,
    /// A further factor, by position.
    pub temperature: Option<Temperature>,
}

impl Rope {
    /// Builds the table. `divisors` is a model's own table of factors (such as llama3's), one per pair.
    pub fn new(
        pairing: Pairing,
        dimensions: usize,
        base: f32,
        scaling: &Scaling,
        divisors: Option<&[f32]>,
    ) -> Result<Rope> {
        let pairs = dimensions / 2;
        if dimensions == 0 || !dimensions.is_multiple_of(2) {
            return Err(Error::Invalid(format!(
                "{dimensions} rotary dimensions: must be even and at least 2"
            )));
        }
        if !(base.is_finite() && base > 0.0) {
            return Err(Error::Invalid(format!("rotary base {base}: must be positive")));
        }
        if let Some(divisors) = divisors
            && (divisors.len() != pairs || divisors.iter().any(|d| !d.is_finite() || *d == 0.0))
        {
            return Err(Error::Invalid(format!(
                "rotary factors: {} given, {pairs} finite non-zero ones needed",
                divisors.len()
            )));
        }
        let base = f64::from(base);
        let plain = (0..pairs).map(|i| {
            let divisor = divisors.map_or(1.0, |d| f64::from(d[i]));
            base.powf(-2.0 * i as f64 / dimensions as f64) / divisor
        });
        let (frequencies, magnitude) = match *scaling {
            Scaling::None => (plain.collect(), 1.0),
            Scaling::Linear { factor } => {
                let factor = positive(factor)?;
                (plain.map(|f| f / factor).collect(), 1.0)
            }
            Scaling::Yarn { factor, original_context, beta_fast, beta_slow, extrapolation, attention } => {
                let factor = positive(factor)?;
                // The pair whose wave turns `beta` times over the original context.
                let pair_of = |beta: f32| {
                    let turns = original_context as f64 / (f64::from(beta) * std::f64::consts::TAU);
                    dimensions as f64 * turns.ln() / (2.0 * base.ln())
                };
                let low = pair_of(beta_fast).floor().max(0.0);
                let high = pair_of(beta_slow).ceil().min(dimensions as f64 - 1.0);
                let frequencies = plain
                    .enumerate()
                    .map(|(i, f)| {
                        let ramp = ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                        let keep = (1.0 - ramp) * f64::from(extrapolation);
                        f / factor * (1.0 - keep) + f * keep
                    })
                    .collect();
                let magnitude = if extrapolation == 0.0 { 1.0 } else { yarn_magnitude(factor as f32, 1.0) };
                (frequencies, attention * magnitude)
            }
        };
        Ok(Rope { pairing, dimensions, frequencies, magnitude, temperature: None })
    }

    /// Cosine and sine of every pair at a position, computed in f64 and rounded once.
    pub fn angles(&self, position: u32, cos: &mut [f32], sin: &mut [f32]) {
        let magnitude = self.temperature.map_or(self.magnitude, |by| self.magnitude * by.factor(position));
        for ((cos, sin), frequency) in cos.iter_mut().zip(sin).zip(&self.frequencies) {
            let (s, c) = (f64::from(position) * frequency).sin_cos();
            *cos = c as f32 * magnitude;
            *sin = s as f32 * magnitude;
        }
    }

    /// Rotates one head in place.
    pub fn apply(&self, head: &mut [f32], cos: &[f32], sin: &[f32]) {
        let pairs = self.dimensions / 2;
        for i in 0..pairs {
            let (a, b) = match self.pairing {
                Pairing::Interleaved => (2 * i, 2 * i + 1),
                Pairing::SplitHalf => (i, i + pairs),
            };
            (head[a], head[b]) = crate::arithmetic::rotate(head[a], head[b], cos[i], sin[i]);
        }
    }
}

fn positive(factor: f32) -> Result<f64> {
    if factor.is_finite() && factor > 0.0 {
        return Ok(f64::from(factor));
    }
    Err(Error::Invalid(format!("rotary scaling factor {factor}: must be positive")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn angles(rope: &Rope, position: u32) -> Vec<(f32, f32)> {
        let (mut cos, mut sin) = (vec![0.0; rope.frequencies.len()], vec![0.0; rope.frequencies.len()]);
        rope.angles(position, &mut cos, &mut sin);
        cos.into_iter().zip(sin).collect()
    }

    #[test]
    fn plain_angles_follow_the_definition() {
        let rope = Rope::new(Pairing::SplitHalf, 8, 10_000.0, &Scaling::None, None).unwrap();
        for (i, (cos, sin)) in angles(&rope, 1000).into_iter().enumerate() {
            let theta = 1000.0 / 10_000f64.powf(2.0 * i as f64 / 8.0);
            assert!(
                (f64::from(cos) - theta.cos()).abs() < 1e-6 && (f64::from(sin) - theta.sin()).abs() < 1e-6
            );
        }
    }

    #[test]
    fn linear_scaling_stretches_positions() {
        let plain = Rope::new(Pairing::SplitHalf, 64, 10_000.0, &Scaling::None, None).unwrap();
        let scaling = Scaling::Linear { factor: 4.0 };
        let scaled = Rope::new(Pairing::SplitHalf, 64, 10_000.0, &scaling, None).unwrap();
        for (a, b) in angles(&plain, 25).into_iter().zip(angles(&scaled, 100)) {
            assert!((a.0 - b.0).abs() < 1e-6 && (a.1 - b.1).abs() < 1e-6);
        }
    }

    #[test]
    fn temperatures_rise_in_steps() {
        let temperature = Temperature { scale: 0.1, length: 8192, offset: 1 };
        // By hand: 1 + ln(2) / 10 and 1 + ln(3) / 10.
        for (position, factor) in
            [(0, 1.0), (8190, 1.0), (8191, 1.069_314_7), (16382, 1.069_314_7), (16383, 1.109_861_2)]
        {
            assert_eq!(temperature.factor(position), factor, "{position}");
        }
        let plain = Rope::new(Pairing::SplitHalf, 8, 10_000.0, &Scaling::None, None).unwrap();
        let warm = Rope { temperature: Some(temperature), ..plain.clone() };
        assert_eq!(angles(&plain, 8190), angles(&warm, 8190));
        for (plain, warm) in angles(&plain, 9000).into_iter().zip(angles(&warm, 9000)) {
            assert_eq!(warm, (plain.0 * 1.069_314_7, plain.1 * 1.069_314_7));
        }
    }

    #[test]
    fn divisors_and_scaling_combine() {
        let divisors = vec![2.0; 4];
        let both =
            Rope::new(Pairing::Interleaved, 8, 500.0, &Scaling::Linear { factor: 3.0 }, Some(&divisors))
                .unwrap();
        let plain = Rope::new(Pairing::Interleaved, 8, 500.0, &Scaling::None, None).unwrap();
        for (a, b) in both.frequencies.iter().zip(&plain.frequencies) {
            assert!((a * 6.0 - b).abs() < 1e-12);
        }
    }

    #[test]
    fn only_the_rotary_dimensions_turn() {
        for pairing in [Pairing::Interleaved, Pairing::SplitHalf] {
            let rope = Rope::new(pairing, 4, 100.0, &Scaling::None, None).unwrap();
            let mut head = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
            let (mut cos, mut sin) = ([0.0; 2], [0.0; 2]);
            rope.angles(7, &mut cos, &mut sin);
            rope.apply(&mut head, &cos, &sin);
            assert_eq!(head[4..], [5.0, 6.0]);
            let length: f32 = head[..4].iter().map(|x| x * x).sum();
            assert!((length - 30.0).abs() < 1e-4, "a rotation keeps lengths");
            assert_ne!(head[..4], [1.0, 2.0, 3.0, 4.0]);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let new = |dimensions, base, scaling| Rope::new(Pairing::SplitHalf, dimensions, base, &scaling, None);
        assert!(new(7, 1e4, Scaling::None).is_err());
        assert!(new(0, 1e4, Scaling::None).is_err());
        assert!(new(8, 0.0, Scaling::None).is_err());
        assert!(new(8, 1e4, Scaling::Linear { factor: 0.0 }).is_err());
        assert!(Rope::new(Pairing::SplitHalf, 8, 1e4, &Scaling::None, Some(&[1.0])).is_err());
    }
}
