//! The tests themselves: how long do these rows take?

use std::time::Instant;

use anyhow::Result;
use gleed_model::arithmetic::PAGE;
use gleed_model::executor::Observer;
use gleed_model::{Batch, Executor, KvType, Program, Row};

/// Rows per step: longer prompts are processed in chunks of this.
pub const MAX_ROWS: usize = 512;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Test {
    kind: Kind,
    /// Positions that the sequence holds already.
    pub depth: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Prompt(usize),
    Generate(usize),
}

impl Test {
    /// A prompt of so many tokens, of which the last wants logits.
    pub fn prompt(tokens: usize, depth: usize) -> Test {
        Test { kind: Kind::Prompt(tokens), depth }
    }

    /// So many tokens, one step each.
    pub fn generate(tokens: usize, depth: usize) -> Test {
        Test { kind: Kind::Generate(tokens), depth }
    }

    /// How many tokens it computes.
    pub fn tokens(&self) -> usize {
        match self.kind {
            Kind::Prompt(n) | Kind::Generate(n) => n,
        }
    }

    /// How many of them want logits: the last of a prompt, all that are generated.
    pub fn wanted(&self) -> usize {
        match self.kind {
            Kind::Prompt(_) => 1,
            Kind::Generate(n) => n,
        }
    }

    /// Whether it is a prompt.
    pub fn is_prompt(&self) -> bool {
        matches!(self.kind, Kind::Prompt(_))
    }

    /// A name as the peer would give it: pp512, tg128, tg64@d2048.
    pub fn name(&self) -> String {
        let kind = if self.is_prompt() { "pp" } else { "tg" };
        let depth = if self.depth > 0 { format!("@d{}", self.depth) } else { String::new() };
        format!("{kind}{}{depth}", self.tokens())
    }
}

/// The middle and the ends of some measurements.
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Spread { median, low: sorted[0], high: sorted[sorted.len() - 1] }
    }
}

/// Computes rows `start..end` of the one sequence, `chunk` rows a step; the last one wants logits.
fn compute(
    executor: &mut dyn Executor,
    start: usize,
    end: usize,
    chunk: usize,
    observer: &mut dyn Observer,
) -> Result<()> {
    let pages: Vec<u32> = (0..end.div_ceil(PAGE) as u32).collect();
    let vocabulary = executor.program().vocabulary;
    let mut batch = Batch::default();
    for from in (start..end).step_by(chunk) {
        batch.clear();
        let table = batch.add_table(&pages);
        let to = end.min(from + chunk);
        for position in from..to {
            // Any tokens will do; a fixed scatter over the vocabulary keeps runs alike.
            let token = (position * 7919 % vocabulary) as u32;
            let wants_logits = position + 1 == to && (to == end || chunk == 1);
            batch.push(Row { table, position: position as u32, token, wants_logits });
        }
        executor.step(&batch, observer)?;
    }
    Ok(())
}

/// Runs a test once and returns tokens per second. What comes before the depth is not timed.
pub fn run(executor: &mut dyn Executor, test: &Test) -> Result<f64> {
    run_observed(executor, test, &mut ())
}

/// The same under the eyes of an observer.
pub fn run_observed(executor: &mut dyn Executor, test: &Test, observer: &mut dyn Observer) -> Result<f64> {
    let max_rows = executor.max_rows();
    compute(executor, 0, test.depth, max_rows, &mut ())?;
    let chunk = if test.is_prompt() { max_rows } else { 1 };
    let start = Instant::now();
    compute(executor, test.depth, test.depth + test.tokens(), chunk, observer)?;
    Ok(test.tokens() as f64 / start.elapsed().as_secs_f64())
}

/// The tokens of a prompt test one row at a time, in tokens per second.
pub fn per_token(executor: &mut dyn Executor, test: &Test) -> Result<f64> {
    run(executor, &Test::generate(test.tokens(), test.depth))
}

/// Bytes that generating one token must read: all weights of linear layers once, and the KV cache at
/// the middle of the test.
pub fn bytes_per_token(program: &Program, kv: KvType, test: &Test) -> usize {
    let matrices = program.nodes.iter().flat_map(|n| n.op.matrices());
    let weights: usize = matrices.map(|w| program.weights[w].bytes()).sum();
    let positions = test.depth + test.tokens() / 2;
    let per_position: usize =
        program.caches.iter().map(|c| c.heads * (kv.bytes(c.key_dim) + kv.bytes(c.value_dim))).sum();
    weights + positions * per_position
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_peers() {
        assert_eq!(Test::prompt(512, 0).name(), "pp512");
        assert_eq!(Test::generate(64, 2048).name(), "tg64@d2048");
    }

    #[test]
    fn medians() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of(&[4.0, 1.0]).low, 1.0);
    }
}
