//! How many rows of prompts a step may have while answers wait for its end.

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
    /// A pace for steps of at most so many rows that should not take longer than a time.
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
}
