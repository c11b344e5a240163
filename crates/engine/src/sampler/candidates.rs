//! The tokens still in the race, and the filters that thin them out.
//!
//! No filter sorts the vocabulary: each finds its border by selection, in time linear in the candidates.
//! Probabilities are the whole numbers of [`gleed_model::choice`], so that sums are exact in any order, and
//! what is kept and drawn depends on the scores alone, not on how the selection moved them.

use std::cmp::Ordering;

use gleed_model::choice;

/// One token that can still be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    token: u32,
    /// The logit after bias and penalties; never NaN or negative infinity.
    score: f32,
    /// Its probability, in units of 2^-40 of the best one's.
    weight: u64,
}

/// The tokens that can still be chosen, in no particular order.
#[derive(Debug, Clone)]
pub(super) struct Candidates {
    list: Vec<Candidate>,
}

impl Candidates {
    /// Room for a whole vocabulary.
    pub fn new(vocabulary: usize) -> Self {
        Candidates { list: Vec::with_capacity(vocabulary) }
    }

    /// Starts over with the tokens that score at least `lowest`, without NaN and negative infinity; with a
    /// `k` above 0, with the `k` best of them. They are in ascending order unless `k` thinned them out.
    pub fn fill(&mut self, scores: &[f32], mut lowest: f32, k: usize) {
        self.list.clear();
        let room = if k == 0 { usize::MAX } else { 2 * k.min(1 << 30) + 256 };
        for (&score, token) in scores.iter().zip(0u32..) {
            if score >= lowest && score > f32::NEG_INFINITY {
                self.list.push(Candidate { token, score, weight: 0 });
                // Now and then only the k best so far are kept, and the bar rises to the last of them.
                if self.list.len() == room {
                    self.keep_best(k);
                    lowest = self.list[k - 1].score;
                }
            }
        }
        if k > 0 {
            self.keep_best(k);
        }
    }

    /// Keeps the `k` best; the last of the list is the last of them.
    fn keep_best(&mut self, k: usize) {
        if k < self.list.len() {
            self.list.select_nth_unstable_by(k - 1, by_score);
            self.list.truncate(k);
        }
    }

    /// The candidates as (token, score), best first.
    pub fn ranked(&mut self) -> impl Iterator<Item = (u32, f32)> {
        self.list.sort_unstable_by(by_score);
        self.list.iter().map(|c| (c.token, c.score))
    }

    /// Keeps the fewest best whose probabilities reach `p` of the sum; at least one.
    pub fn top_p(&mut self, p: f32) {
        let total = self.weigh(1.0);
        let Some(units) = choice::share_units(p) else { return };
        let target = choice::share(total, units);
        // All that weigh at most this weigh together no more than what is left out, and come last: dropping
        // them first changes nothing, and usually leaves few.
        let light = total.saturating_sub(target) / self.list.len().max(1) as u64;
        self.list.retain(|c| c.weight > light);
        self.keep_mass(target, by_score);
    }

    /// Keeps the fewest whose surprise is nearest the expected surprise and whose probabilities reach `p`
    /// of the sum; at least one.
    pub fn typical(&mut self, p: f32) {
        let total = self.weigh(1.0);
        let Some(units) = choice::share_units(p) else { return };
        let best = self.best_score();
        // Surprise is -ln p = c - score with the same c for all, so the expected surprise lies at the
        // expected score, and no logarithm is needed. Scores are taken relative to the best.
        let relative = |score: f32| if score == best { 0.0 } else { f64::from(score) - f64::from(best) };
        // The mean is summed in whole numbers, 2^-32 of a score each, for the same reason as the weights.
        const FINE: f64 = (1u64 << 32) as f64;
        let weighted = self.list.iter().filter(|c| c.weight > 0);
        let sum: i128 = weighted.map(|c| i128::from(c.weight) * (relative(c.score) * FINE) as i128).sum();
        let expected = sum as f64 / FINE / total as f64;
        let distance = |c: &Candidate| (relative(c.score) - expected).abs();
        self.keep_mass(choice::share(total, units), |a, b| {
            distance(a).partial_cmp(&distance(b)).unwrap_or(Ordering::Equal).then(by_score(a, b))
        });
    }

    /// Draws one by its probability at this temperature; `random` maps a sum to a number below it.
    /// None when there is no candidate.
    pub fn draw(&mut self, temperature: f32, random: impl FnOnce(u64) -> u64) -> Option<u32> {
        let total = self.weigh(temperature);
        if self.list.is_empty() {
            return None;
        }
        // The drawn one is where the running sum, by token, passes the random number. Without a filter the
        // candidates still are in that order.
        let mut target = random(total) + 1;
        if !self.list.is_sorted_by_key(|c| c.token) {
            self.keep_mass(target, |a, b| a.token.cmp(&b.token));
            return self.list.last().map(|c| c.token);
        }
        let drawn = self.list.iter().find(|c| {
            let found = c.weight >= target;
            target = target.saturating_sub(c.weight);
            found
        });
        drawn.map(|c| c.token)
    }

    /// The tokens left, ascending.
    #[cfg(test)]
    pub fn tokens(&self) -> Vec<u32> {
        let mut tokens: Vec<u32> = self.list.iter().map(|c| c.token).collect();
        tokens.sort_unstable();
        tokens
    }

    fn best_score(&self) -> f32 {
        self.list.iter().fold(f32::NEG_INFINITY, |m, c| m.max(c.score))
    }

    /// Sets all weights at a temperature and returns their sum: below 2^63 with up to 2^23 candidates.
    fn weigh(&mut self, temperature: f32) -> u64 {
        let best = self.best_score();
        let factor = choice::factor(temperature);
        let mut total = 0;
        for c in &mut self.list {
            c.weight = choice::weight(c.score, best, factor);
            total += c.weight;
        }
        total
    }

    /// Keeps the shortest run of candidates, first in `order` first, whose weights reach `target`, at
    /// least one; the last of the list is then the last of that run in order. Each round halves the part that the border is in.
    fn keep_mass(&mut self, target: u64, order: impl Fn(&Candidate, &Candidate) -> Ordering) {
        // The first `low` are kept and weigh `mass`, less than the target; those from `high` on are not.
        let (mut low, mut high, mut mass) = (0, self.list.len(), 0);
        while high - low > 1 {
            let half = (high - low) / 2;
            self.list[low..high].select_nth_unstable_by(half, &order);
            let more: u64 = self.list[low..low + half].iter().map(|c| c.weight).sum();
            if mass + more >= target {
                high = low + half;
            } else {
                low += half;
                mass += more;
            }
        }
        self.list.truncate(high);
    }
}

/// Best score first, the lower token first among equals.
fn by_score(a: &Candidate, b: &Candidate) -> Ordering {
    b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal).then(a.token.cmp(&b.token))
}
