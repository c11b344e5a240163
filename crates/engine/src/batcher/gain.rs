//! What guesses gain an answer: its steps with them and without, timed.

use std::time::Duration;

use crate::Guesses;

/// The tokens of an answer and the time that they took.
#[derive(Debug, Default)]
pub(super) struct Gain {
    /// Guesses that were computed, and those that were right.
    guessed: usize,
    accepted: usize,
    /// Tokens since the last step was timed.
    untimed: usize,
    /// Tokens and seconds of steps without guesses, and of those with them.
    plain: (usize, f64),
    with_guesses: (usize, f64),
}

impl Gain {
    /// Takes in that there is one more token.
    pub fn said(&mut self) {
        self.untimed += 1;
    }

    /// Takes in whether a guess was right.
    pub fn scored(&mut self, right: bool) {
        self.guessed += 1;
        self.accepted += usize::from(right);
    }

    /// Takes in how long the steps took in which the last tokens came, and whether they had guesses; a step that computed
    /// prompts too says nothing. What a draft took to read the text is a price of guesses wherever it is paid.
    pub fn stepped(&mut self, has_guesses: Option<bool>, took: Duration, reading: Duration) {
        let tokens = std::mem::take(&mut self.untimed);
        self.with_guesses.1 += reading.as_secs_f64();
        let Some(has_guesses) = has_guesses else { return };
        let kind = if has_guesses { &mut self.with_guesses } else { &mut self.plain };
        *kind = (kind.0 + tokens, kind.1 + took.as_secs_f64());
    }

    /// What it came to.
    pub fn total(&self) -> Guesses {
        let (plain, guessed) = (self.plain, self.with_guesses);
        let rate = |(tokens, seconds): (usize, f64)| tokens as f64 / seconds;
        let both = (plain.0 + guessed.0, plain.1 + guessed.1);
        let speedup = (plain.0 > 0 && guessed.0 > 0).then(|| rate(both) / rate(plain));
        Guesses {
            guessed: self.guessed,
            accepted: self.accepted,
            speedup: speedup.filter(|speedup| speedup.is_finite()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_with_guesses_are_held_against_those_without() {
        let mut gain = Gain::default();
        let mut step = |tokens: usize, has_guesses: Option<bool>, seconds: u64, reading: u64| {
            (0..tokens).for_each(|_| gain.said());
            gain.stepped(has_guesses, Duration::from_secs(seconds), Duration::from_secs(reading));
            gain.total().speedup
        };
        // A token a second without guesses; the first one came with the prompt.
        assert_eq!(step(1, None, 100, 0), None);
        (0..2).for_each(|_| assert_eq!(step(1, Some(false), 1, 0), None));
        // Eight in two seconds: ten in four in all.
        assert_eq!(step(8, Some(true), 2, 0), Some(2.5));
        // Some that did not pay: eleven in seven, and twelve in twelve.
        assert_eq!(step(1, Some(true), 3, 0), Some(11.0 / 7.0));
        assert_eq!(step(1, Some(false), 1, 4), Some(1.0));
        [true, true, false].into_iter().for_each(|right| gain.scored(right));
        assert_eq!((gain.total().guessed, gain.total().accepted), (3, 2));
    }
}
