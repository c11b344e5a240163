//! How much is done at once: rows of prompts in a step while answers wait for its end, and steps of a chain before the
//! host sees their tokens.

use std::time::Duration;

use crate::Budget;

/// Follows how long a row of a prompt takes, and keeps steps short enough that answers flow.
#[derive(Debug)]
pub(super) struct RowPace {
    most: usize,
    goal: Duration,
    seconds_per_row: Option<f64>,
}

/// The fewest rows that make use of a matrix once it is read.
const LEAST: usize = 64;

impl RowPace {
    /// A pace for steps of at most `most` rows that should not take longer than `goal`.
    pub fn new(most: usize, goal: Duration) -> Self {
        RowPace { most, goal, seconds_per_row: None }
    }

    /// What the next step may have.
    pub fn budget(&self) -> Budget {
        let fitting = |seconds: f64| (self.goal.as_secs_f64() / seconds) as usize;
        let rows = self.seconds_per_row.map_or(self.most, fitting) / LEAST * LEAST;
        Budget { rows: self.most, prompt_rows: rows.clamp(LEAST.min(self.most), self.most) }
    }

    /// Takes in how long a step took. One of few rows says nothing of what a row more would cost.
    pub fn stepped(&mut self, rows: usize, took: Duration) {
        if rows >= LEAST {
            let each = took.as_secs_f64() / rows as f64;
            self.seconds_per_row = Some(self.seconds_per_row.map_or(each, |before| 0.5 * (before + each)));
        }
    }
}

/// How long the links of a chain are: short enough that text comes smoothly, long enough that the host's part
/// of a link does not matter.
#[derive(Debug, Clone)]
pub struct Pace {
    steps: usize,
}

impl Pace {
    /// The most steps of a link.
    pub const MOST: usize = 8;

    /// How long the tokens of a link may take, all of which are seen at once: a frame of a film.
    const BURST: Duration = Duration::from_millis(40);

    /// Steps of the next link.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Takes in how long a link of `steps` steps took. Links at most double, because the first ones may
    /// have been lucky.
    pub fn collected(&mut self, steps: usize, took: Duration) {
        let each = took.as_secs_f64() / steps.max(1) as f64;
        // Too fast for the clock is infinitely many, which the most bounds.
        let fitting = (Pace::BURST.as_secs_f64() / each) as usize;
        self.steps = fitting.min(2 * self.steps).clamp(1, Pace::MOST);
    }
}

impl Default for Pace {
    fn default() -> Self {
        Pace { steps: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_machines_get_short_steps() {
        let mut pace = RowPace::new(512, Duration::from_millis(200));
        assert_eq!(pace.budget(), Budget { rows: 512, prompt_rows: 512 });
        pace.stepped(1, Duration::from_millis(90));
        assert_eq!(pace.budget().prompt_rows, 512);
        // 1 ms a row: 200 rows would fit, and steps are made of whole tiles.
        pace.stepped(100, Duration::from_millis(100));
        assert_eq!(pace.budget().prompt_rows, 192);
        pace.stepped(512, Duration::from_secs(50));
        assert_eq!(pace.budget(), Budget { rows: 512, prompt_rows: 64 });
        (0..60).for_each(|_| pace.stepped(512, Duration::ZERO));
        assert_eq!(pace.budget().prompt_rows, 512);
        assert_eq!(RowPace::new(20, Duration::ZERO).budget(), Budget { rows: 20, prompt_rows: 20 });
    }

    #[test]
    fn links_grow_while_they_are_short() {
        let mut pace = Pace::default();
        let mut all = vec![];
        for _ in 0..5 {
            all.push(pace.steps());
            pace.collected(pace.steps(), Duration::from_micros(900) * pace.steps() as u32);
        }
        assert_eq!(all, [1, 2, 4, 8, 8]);
        pace.collected(8, Duration::ZERO);
        assert_eq!(pace.steps(), 8);
        // 10 ms a token: four of them are a burst. 100 ms: one at a time.
        pace.collected(8, Duration::from_millis(80));
        assert_eq!(pace.steps(), 4);
        pace.collected(4, Duration::from_millis(400));
        assert_eq!(pace.steps(), 1);
    }
}
