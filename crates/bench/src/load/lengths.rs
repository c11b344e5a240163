//! How long prompts and answers are: a number of tokens, or any number of a range, each as likely as the other.

use std::fmt::{self, Display};
use std::str::FromStr;

use gleed_engine::sampler::Random;

use super::error::Error;

/// The longest prompt or answer, in tokens.
pub const MOST_TOKENS: usize = 1 << 20;

/// A range of numbers of tokens, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    low: usize,
    high: usize,
}

impl Lengths {
    /// Always the same length.
    pub fn fixed(tokens: usize) -> Lengths {
        let tokens = tokens.min(MOST_TOKENS);
        Lengths { low: tokens, high: tokens }
    }

    /// The longest of them.
    pub fn longest(&self) -> usize {
        self.high
    }

    /// The next length.
    pub fn draw(&self, random: &mut Random) -> usize {
        self.low + random.below((self.high - self.low + 1) as u64) as usize
    }
}

impl FromStr for Lengths {
    type Err = Error;

    fn from_str(given: &str) -> Result<Lengths, Error> {
        let wrong = |what: &str| Error::Lengths { given: given.to_string(), what: what.to_string() };
        let number =
            |text: &str| text.trim().parse::<usize>().map_err(|_| wrong("this is no number of tokens"));
        let (low, high) = given.split_once('-').unwrap_or((given, given));
        let (low, high) = (number(low)?, number(high)?);
        if low == 0 {
            return Err(wrong("a length is at least 1"));
        }
        if low > high {
            return Err(wrong("the range ends before it begins"));
        }
        if high > MOST_TOKENS {
            return Err(wrong(&format!("the most is {MOST_TOKENS}")));
        }
        Ok(Lengths { low, high })
    }
}

impl Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.low == self.high {
            true => write!(f, "{}", self.low),
            false => write!(f, "{}-{}", self.low, self.high),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_as_people_write_them() {
        for text in ["1", "128", "64-256", "1048576"] {
            assert_eq!(text.parse::<Lengths>().unwrap().to_string(), text);
        }
        for text in ["", "0", "0-4", "-3", "5-", "9-8", "x", "1.5", "1048577", "99999999999999999999"] {
            assert!(text.parse::<Lengths>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_length_of_a_range_is_as_likely() {
        let (lengths, mut random) = ("3-7".parse::<Lengths>().unwrap(), Random::new(1));
        let mut counts = [0u32; 10];
        for _ in 0..10_000 {
            counts[lengths.draw(&mut random)] += 1;
        }
        assert_eq!(counts.iter().filter(|count| **count > 0).count(), 5, "{counts:?}");
        // 4 degrees of freedom: 23.5 is passed once in 10,000 seeds.
        let chi: f64 = counts[3..=7].iter().map(|&c| (f64::from(c) - 2e3).powi(2) / 2e3).sum();
        assert!(chi < 23.5, "{counts:?}");
        assert_eq!(Lengths::fixed(5).draw(&mut random), 5);
    }
}
