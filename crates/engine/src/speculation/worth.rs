//! Whether guesses are worth their rows: steps with and without them, timed.

use std::time::Duration;

/// Kinds of steps by their rows: 1, 2 to 3, 4 to 7, and so on. Steps of nearly as many rows take nearly as long.
const KINDS: usize = 16;
/// What a new time weighs.
const WEIGHT: f64 = 0.2;
/// Steps without guesses after which those with guesses are tried again: this many at first, twice as many each time
/// that they did not pay, up to a most.
const FORGET: usize = 200;
const MOST_PATIENCE: usize = 16 * FORGET;
/// Steps with guesses, one after the other, after which they do pay.
const STREAK: usize = 8;
/// How much faster guesses must be: they also make text come in bursts.
const MARGIN: f64 = 1.03;

/// How long steps take.
#[derive(Debug)]
pub(crate) struct Worth {
    /// Seconds of steps without guesses, by how many requests they have.
    plain: [Option<f64>; KINDS],
    /// Seconds of steps with guesses, and of making them, by how many rows they have.
    guessed: [Option<f64>; KINDS],
    /// Steps without guesses since the last one with them, and after how many they are tried again.
    since: usize,
    patience: usize,
    /// Steps with guesses since the last one without.
    streak: usize,
}

impl Default for Worth {
    fn default() -> Self {
        Worth { plain: [None; KINDS], guessed: [None; KINDS], since: 0, patience: FORGET, streak: 0 }
    }
}

fn kind(rows: usize) -> usize {
    (rows.max(1).ilog2() as usize).min(KINDS - 1)
}

fn take_in(entry: &mut Option<f64>, took: Duration) {
    let seconds = took.as_secs_f64();
    *entry = Some(entry.map_or(seconds, |before| before + WEIGHT * (seconds - before)));
}

impl Worth {
    /// Takes in how long a step of `requests` requests took without guesses.
    pub fn plain(&mut self, requests: usize, took: Duration) {
        take_in(&mut self.plain[kind(requests)], took);
        (self.since, self.streak) = (self.since + 1, 0);
        if self.since >= self.patience {
            (self.guessed, self.since) = ([None; KINDS], 0);
            self.patience = (2 * self.patience).min(MOST_PATIENCE);
        }
    }

    /// Takes in how long a step of `rows` rows took, some of them guesses.
    pub fn guessed(&mut self, rows: usize, took: Duration) {
        take_in(&mut self.guessed[kind(rows)], took);
        (self.since, self.streak) = (0, self.streak + 1);
        if self.streak >= STREAK {
            self.patience = FORGET;
        }
    }

    /// Whether `guesses` guesses for `requests` requests pay, of which `right` will be right. What was never timed is
    /// tried.
    pub fn pays(&self, requests: usize, guesses: usize, right: f32) -> bool {
        let Some(plain) = self.plain[kind(requests)] else { return false };
        let Some(guessed) = self.guessed[kind(requests + guesses)] else { return true };
        (requests as f64 + f64::from(right)) * plain > MARGIN * requests as f64 * guessed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is decided where a step of n rows takes `seconds(n)` and a share `right` of all guesses is right.
    fn share_of_guesses(requests: usize, right: f32, seconds: impl Fn(usize) -> f64) -> f64 {
        let mut worth = Worth::default();
        guesses(&mut worth, requests, right, seconds) as f64 / 1000.0
    }

    /// How many of the next thousand steps have guesses.
    fn guesses(worth: &mut Worth, requests: usize, right: f32, seconds: impl Fn(usize) -> f64) -> usize {
        let mut guessed = 0;
        for _ in 0..1000 {
            let guesses = 4 * requests;
            let pays = worth.pays(requests, guesses, right * guesses as f32);
            let rows = if pays { requests + guesses } else { requests };
            let took = Duration::from_secs_f64(seconds(rows));
            match pays {
                true => worth.guessed(rows, took),
                false => worth.plain(requests, took),
            }
            guessed += usize::from(pays);
        }
        guessed
    }

    #[test]
    fn what_never_pays_is_tried_less_and_less() {
        let (mut worth, dear) = (Worth::default(), |rows: usize| rows as f64);
        let tries: Vec<usize> = (0..10).map(|_| guesses(&mut worth, 1, 0.5, dear)).collect();
        assert!(tries[0] >= 2 && tries.iter().skip(4).all(|tries| *tries <= 1), "{tries:?}");
        assert!(tries.iter().skip(4).sum::<usize>() >= 1, "{tries:?}");
        // When it pays again, that is found, and what is paid for is not given up.
        let cheap = |rows: usize| 1.0 + 0.001 * rows as f64;
        (0..4).for_each(|_| _ = guesses(&mut worth, 1, 0.5, cheap));
        assert_eq!(guesses(&mut worth, 1, 0.5, cheap), 1000);
        assert!(guesses(&mut worth, 1, 0.5, dear) >= 2);
    }

    #[test]
    fn guesses_are_made_where_they_pay() {
        // Rows are nearly free, as where weights are read from memory.
        assert!(share_of_guesses(1, 0.5, |rows| 1.0 + 0.01 * rows as f64) > 0.99);
        assert!(share_of_guesses(8, 0.3, |rows| 1.0 + 0.01 * rows as f64) > 0.99);
        // Every row costs as much as any other.
        assert!(share_of_guesses(1, 0.5, |rows| rows as f64) < 0.01);
        assert!(share_of_guesses(64, 0.9, |rows| rows as f64) < 0.01);
        // None is right.
        assert!(share_of_guesses(1, 0.0, |_| 1.0) < 0.01);
    }
}
