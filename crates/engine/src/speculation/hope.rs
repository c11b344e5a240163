//! How likely a request's next guess is right, from those before it.

/// The share of right guesses, recent ones weighing most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hope(f32);

/// What a new guess weighs.
const WEIGHT: f32 = 0.15;
/// How much of what went wrong is forgotten where nothing is guessed.
const FORGETTING: f32 = 0.02;
/// The least probability with which the last of some guesses must be reached.
const LEAST: f32 = 0.25;

impl Hope {
    /// Takes in whether a guess was right.
    pub fn scored(&mut self, right: bool) {
        self.0 += WEIGHT * (f32::from(u8::from(right)) - self.0);
    }

    /// Takes in that there was no guess: what went wrong is forgotten little by little, so that guesses are tried again.
    pub fn rested(&mut self) {
        self.0 += FORGETTING * (Hope::default().0 - self.0).max(0.0);
    }

    /// How many tokens to guess, at most `most`.
    pub fn length(&self, most: usize) -> usize {
        let reached = std::iter::successors(Some(self.0), |reached| Some(reached * self.0));
        reached.take(most).take_while(|reached| *reached >= LEAST).count()
    }

    /// How many of `guesses` guesses will be right.
    pub fn right(&self, guesses: usize) -> f32 {
        (1..=guesses).map(|length| self.0.powi(length as i32)).sum()
    }
}

impl Default for Hope {
    fn default() -> Self {
        Hope(0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_makes_guesses_longer() {
        let mut hope = Hope::default();
        assert_eq!((hope.length(8), hope.right(2)), (2, 0.75));
        (0..30).for_each(|_| hope.scored(true));
        assert_eq!(hope.length(8), 8);
        assert!(hope.right(8) > 7.0);
        (0..30).for_each(|_| hope.scored(false));
        assert_eq!((hope.length(8), hope.right(0)), (0, 0.0));
        // It takes some right ones to be believed again.
        let again = (1..).find(|_| {
            hope.scored(true);
            hope.length(8) > 0
        });
        assert_eq!(again, Some(2));
    }

    #[test]
    fn who_was_wrong_is_asked_again_later() {
        let mut hope = Hope::default();
        (0..30).for_each(|_| hope.scored(false));
        let steps = (1..).find(|_| {
            hope.rested();
            hope.length(8) > 0
        });
        assert!(steps.is_some_and(|steps| (10..100).contains(&steps)), "{steps:?}");
        // Rest is no success: it does not make guesses longer than a new one's.
        (0..30).for_each(|_| hope.scored(true));
        let before = hope.right(8);
        hope.rested();
        assert_eq!(hope.right(8), before);
    }
}
