//! When requests are sent: at a rate whatever becomes of them (an open loop), by a number of clients each of which
//! waits for its answer (a closed loop), or when a trace says.

use gleed_engine::sampler::Random;
use serde::Serialize;

use super::error::{Error, Result};

/// The most clients, and the most requests that are open at a time.
pub const MOST_OPEN: usize = 1024;

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// This many a second on average, at random moments that know nothing of each other.
    Poisson(f64),
    /// This many a second, in equal steps.
    Constant(f64),
    /// This many clients; each sends its next request when it has its answer.
    Clients(usize),
    /// When the trace says.
    Trace,
}

impl Arrivals {
    /// Refuses what cannot be kept.
    pub fn check(&self) -> Result<()> {
        let wrong = match self {
            Arrivals::Poisson(rate) | Arrivals::Constant(rate) if !(*rate > 0.0 && *rate <= 1e5) => {
                format!("{rate} requests a second: give a rate above 0, up to 100000")
            }
            Arrivals::Clients(clients) if !(1..=MOST_OPEN).contains(clients) => {
                format!("{clients} clients: give 1 to {MOST_OPEN}")
            }
            _ => return Ok(()),
        };
        Err(Error::Arrivals(wrong))
    }

    /// A few words for tables and pictures.
    pub fn name(&self) -> String {
        match self {
            Arrivals::Poisson(rate) => format!("{rate}/s"),
            Arrivals::Constant(rate) => format!("{rate}/s even"),
            Arrivals::Clients(1) => "1 client".to_string(),
            Arrivals::Clients(clients) => format!("{clients} clients"),
            Arrivals::Trace => "trace".to_string(),
        }
    }

    /// The rate or the number of clients, for an axis.
    pub fn amount(&self) -> Option<f64> {
        match self {
            Arrivals::Poisson(rate) | Arrivals::Constant(rate) => Some(*rate),
            Arrivals::Clients(clients) => Some(*clients as f64),
            Arrivals::Trace => None,
        }
    }

    /// The moments of a rate, in seconds from the start, without an end; of anything else none.
    pub fn moments(self, seed: u64) -> impl Iterator<Item = f64> {
        let mut random = Random::new(seed);
        let mut at = 0.0;
        std::iter::from_fn(move || {
            let now = at;
            at += match self {
                Arrivals::Poisson(rate) => {
                    // 53 random bits: a number of [0, 1), so that the logarithm is finite.
                    let share = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                    -(1.0 - share).ln() / rate
                }
                Arrivals::Constant(rate) => 1.0 / rate,
                Arrivals::Clients(_) | Arrivals::Trace => return None,
            };
            Some(now)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poisson_arrivals_have_exponential_gaps() {
        const COUNT: usize = 20_000;
        let rate = 25.0;
        let moments: Vec<f64> = Arrivals::Poisson(rate).moments(11).take(COUNT + 1).collect();
        let mut gaps: Vec<f64> = moments.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / COUNT as f64;
        // The mean of `COUNT` gaps has a standard deviation of 1 / sqrt(COUNT) of itself.
        assert!((mean * rate - 1.0).abs() < 4.0 / (COUNT as f64).sqrt(), "{mean}");
        gaps.sort_by(f64::total_cmp);
        // Kolmogorov and Smirnov: the largest distance from 1 - exp(-rate * gap) passes 1.95 / sqrt(n) once in
        // 1,000 seeds.
        let distance = gaps.iter().enumerate().map(|(index, gap)| {
            let (seen, expected) = (index as f64 / COUNT as f64, 1.0 - (-rate * gap).exp());
            (seen - expected).abs()
        });
        let distance = distance.fold(0.0, f64::max);
        assert!(distance < 1.95 / (COUNT as f64).sqrt(), "{distance}");
        // Numbers in neighbouring intervals know nothing of each other: how many fall into a second varies as
        // much as their mean.
        let seconds = 790;
        let mut counts = vec![0f64; seconds];
        moments.iter().filter(|at| **at < seconds as f64).for_each(|at| counts[*at as usize] += 1.0);
        let mean = counts.iter().sum::<f64>() / seconds as f64;
        let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / seconds as f64;
        assert!((0.8..1.2).contains(&(variance / mean)), "{variance} {mean}");
    }

    #[test]
    fn constant_arrivals_are_even_and_seeds_repeat() {
        let even: Vec<f64> = Arrivals::Constant(4.0).moments(1).take(5).collect();
        assert_eq!(even, [0.0, 0.25, 0.5, 0.75, 1.0]);
        let poisson = |seed| Arrivals::Poisson(3.0).moments(seed).take(50).collect::<Vec<_>>();
        assert_eq!(poisson(5), poisson(5));
        assert_ne!(poisson(5), poisson(6));
        assert_eq!(Arrivals::Clients(3).moments(1).next(), None);
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(Arrivals::Poisson(wrong).check().is_err() && Arrivals::Constant(wrong).check().is_err());
        }
        assert!(Arrivals::Clients(0).check().is_err() && Arrivals::Clients(MOST_OPEN + 1).check().is_err());
        assert!(Arrivals::Clients(MOST_OPEN).check().is_ok() && Arrivals::Poisson(0.5).check().is_ok());
    }
}
