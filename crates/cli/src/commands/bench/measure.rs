//! The tests themselves: what is measured, and how long do these rows take?

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Context, Result};
use gleed_engine::Pace;
use gleed_model::arithmetic::PAGE;
use gleed_model::chain::{Chain, IN_FLIGHT, Link};
use gleed_model::choice::Rule;
use gleed_model::{Batch, Executor, Row};

use crate::device::Placed;

/// Rows per step: longer prompts are processed in chunks of this.
pub const MAX_ROWS: usize = 512;

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    kind: Kind,
    /// Tokens that each sequence computes.
    pub tokens: usize,
    /// Sequences that compute together.
    pub sequences: usize,
    /// Positions that each sequence holds already.
    pub depth: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Prompt,
    Generate,
}

impl Test {
    /// A prompt of so many tokens, of which the last wants logits.
    pub fn prompt(tokens: usize, depth: usize) -> Test {
        Test { kind: Kind::Prompt, tokens, sequences: 1, depth }
    }

    /// So many tokens of each sequence, one of each a step.
    pub fn generate(tokens: usize, sequences: usize, depth: usize) -> Test {
        Test { kind: Kind::Generate, tokens, sequences, depth }
    }

    /// The tokens of all sequences.
    pub fn all_tokens(&self) -> usize {
        self.tokens * self.sequences
    }

    /// Whether it is a prompt.
    pub fn is_prompt(&self) -> bool {
        self.kind == Kind::Prompt
    }

    /// Positions that each sequence needs.
    pub fn positions(&self) -> usize {
        self.depth + self.tokens
    }

    /// The same tokens of one sequence only.
    pub fn alone(&self) -> Test {
        Test { sequences: 1, ..self.clone() }
    }

    /// A name as llama-bench gives it: `pp512`, `tg64 @ d2048`; `tg64 x8` for eight sequences.
    pub fn name(&self) -> String {
        let kind = if self.is_prompt() { "pp" } else { "tg" };
        let sequences = if self.sequences > 1 { format!(" x{}", self.sequences) } else { String::new() };
        let depth = if self.depth > 0 { format!(" @ d{}", self.depth) } else { String::new() };
        format!("{kind}{}{sequences}{depth}", self.tokens)
    }

    /// Tokens of a sequence that one step computes, where a step takes so many rows.
    pub fn chunk(&self, max_rows: usize) -> usize {
        if self.is_prompt() { max_rows } else { 1 }
    }
}

/// An executor whose KV pages are shared out to sequences, and what each sequence holds.
///
/// Position `p` gets the same token in every test, so what one test has left behind is what the next
/// would compute: a depth is filled once. Only where the device chooses tokens itself, as it does for users,
/// the generated ones are its own, and do not count as filled.
pub struct Runner {
    /// The executor.
    pub executor: Placed,
    /// Pages of each sequence.
    pages: usize,
    /// Positions that each sequence holds.
    filled: Vec<usize>,
    batch: Batch,
}

/// Positions that an executor needs to be made with for these tests.
pub fn positions_of(tests: &[Test]) -> usize {
    let sequences = tests.iter().map(|t| t.sequences).max().unwrap_or(1);
    sequences * pages_of(tests) * PAGE
}

/// Pages of the longest sequence.
fn pages_of(tests: &[Test]) -> usize {
    tests.iter().map(|t| t.positions().div_ceil(PAGE)).max().unwrap_or(1)
}

impl Runner {
    /// Takes an executor that was made with [`positions_of`] these tests.
    pub fn new(executor: Placed, tests: &[Test]) -> Runner {
        let pages = pages_of(tests);
        let filled = vec![0; executor.page_count() / pages];
        Runner { executor, pages, filled, batch: Batch::default() }
    }

    /// Runs a test once and returns its seconds. As with llama-bench, the depth is not timed, and an
    /// untimed run comes first: of the same prompt, or of one step.
    pub fn run(&mut self, test: &Test) -> Result<f64> {
        self.prepare(test)?;
        let start = Instant::now();
        self.compute(test, test.positions(), None)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// The same, and returns the seconds of each node.
    pub fn time_nodes(&mut self, test: &Test) -> Result<Vec<f64>> {
        self.prepare(test)?;
        let mut nodes = vec![0.0; self.executor.program().nodes.len()];
        self.compute(test, test.positions(), Some(&mut nodes))?;
        Ok(nodes)
    }

    fn prepare(&mut self, test: &Test) -> Result<()> {
        self.fill(test)?;
        let first = if test.is_prompt() { test.tokens } else { 1 };
        self.compute(test, test.depth + first, None)
    }

    /// Sees to it that all sequences of a test hold its depth.
    fn fill(&mut self, test: &Test) -> Result<()> {
        if self.filled[0] < test.depth {
            let rest = Test::prompt(test.depth - self.filled[0], self.filled[0]);
            self.compute(&rest, test.depth, None)?;
        }
        for sequence in 1..test.sequences {
            if self.filled[sequence] < test.depth {
                for page in 0..test.depth.div_ceil(PAGE) {
                    self.executor.copy_page(page as u32, (sequence * self.pages + page) as u32);
                }
                self.filled[sequence] = test.depth;
            }
        }
        Ok(())
    }

    /// Computes positions from the test's depth up to `end` of all its sequences, and adds up the seconds of
    /// each node where they are wanted.
    fn compute(&mut self, test: &Test, end: usize, mut nodes: Option<&mut [f64]>) -> Result<()> {
        if nodes.is_none() && !test.is_prompt() && self.generate_ahead(test, end)? {
            return Ok(());
        }
        let vocabulary = self.executor.program().vocabulary;
        let chunk = test.chunk(self.executor.max_rows());
        for from in (test.depth..end).step_by(chunk) {
            self.batch.clear();
            let to = end.min(from + chunk);
            for sequence in 0..test.sequences {
                let table = self.add_table(sequence, to);
                for position in from..to {
                    // Any tokens will do; a fixed scatter over the vocabulary keeps runs alike.
                    let token = (position * 7919 % vocabulary) as u32;
                    let wants_logits = !test.is_prompt() || position + 1 == end;
                    self.batch.push(Row { table, position: position as u32, token, wants_logits });
                }
            }
            match &mut nodes {
                None => self.executor.step(&self.batch, &mut ())?,
                Some(nodes) => self.executor.time_step(&self.batch, nodes)?,
            }
        }
        for filled in &mut self.filled[..test.sequences] {
            *filled = end.max(*filled);
        }
        Ok(())
    }

    /// The same for tokens that are generated, each chosen by the device, in links of a chain as the engine
    /// makes them. Returns whether the device does that.
    fn generate_ahead(&mut self, test: &Test, end: usize) -> Result<bool> {
        let can = |chain: &mut dyn Chain| chain.most_rows() >= test.sequences && chain.follows(&Rule::GREEDY);
        if !self.executor.chain().is_some_and(can) {
            return Ok(false);
        }
        let (mut pace, mut clock) = (Pace::default(), Instant::now());
        let (rules, randoms) = (vec![Rule::GREEDY; test.sequences], vec![0; test.sequences * Pace::MOST]);
        let (mut links, mut tokens) = (VecDeque::new(), Vec::new());
        let mut next = test.depth;
        while next < end || !links.is_empty() {
            while next < end && links.len() < IN_FLIGHT {
                let steps = pace.steps().min(end - next);
                self.batch.clear();
                for sequence in 0..test.sequences {
                    let table = self.add_table(sequence, next + steps);
                    self.batch.push(Row { table, position: next as u32, token: 0, wants_logits: true });
                }
                let link = Link {
                    batch: &self.batch,
                    continues: next > test.depth,
                    steps,
                    rules: &rules,
                    randoms: &randoms[..test.sequences * steps],
                };
                self.executor.chain().context("no chain")?.submit(link)?;
                links.push_back(steps);
                next += steps;
            }
            tokens.clear();
            self.executor.chain().context("no chain")?.collect(&mut tokens)?;
            let steps = links.pop_front().unwrap_or(1);
            pace.collected(steps, std::mem::replace(&mut clock, Instant::now()).elapsed());
        }
        self.filled[..test.sequences].fill(test.depth);
        Ok(true)
    }

    /// Adds the pages of a sequence up to a position to the batch.
    fn add_table(&mut self, sequence: usize, end: usize) -> u32 {
        let first = (sequence * self.pages) as u32;
        let pages: Vec<u32> = (first..first + end.div_ceil(PAGE) as u32).collect();
        self.batch.add_table(&pages)
    }
}

/// The middle and the ends of some measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_peers() {
        assert_eq!(Test::prompt(512, 0).name(), "pp512");
        assert_eq!(Test::prompt(512, 2048).name(), "pp512 @ d2048");
        assert_eq!(Test::generate(64, 1, 2048).name(), "tg64 @ d2048");
        assert_eq!(Test::generate(64, 8, 0).name(), "tg64 x8");
        assert_eq!(Test::generate(64, 8, 128).name(), "tg64 x8 @ d128");
    }

    #[test]
    fn every_sequence_gets_whole_pages() {
        let tests = [Test::generate(1, 3, PAGE), Test::prompt(2 * PAGE + 1, 0)];
        assert_eq!(positions_of(&tests), 3 * 3 * PAGE);
    }

    #[test]
    fn a_depth_is_the_same_however_it_was_filled() {
        let loaded = crate::load::open(gleed_hub::EMBEDDED_NAME).unwrap();
        let options = crate::load::Options {
            device: crate::device::Device::Cpu,
            gpu_layers: None,
            arithmetic: None,
            matrix_units: false,
            kv: Default::default(),
            threads: Some(2),
            isa: None,
        };
        let deep = Test::generate(3, 4, PAGE + 9);
        let tests = [Test::prompt(20, 0), Test::generate(5, 2, 30), deep.clone()];
        let runner = || {
            let executor = loaded.executor(&options, positions_of(&tests), 64).unwrap();
            Runner::new(executor, &tests)
        };
        let logits = |runner: &Runner| (0..4).map(|i| runner.executor.logits(i).to_vec()).collect::<Vec<_>>();
        // At once; and after tests that have left parts of it behind, in some sequences.
        let mut fresh = runner();
        assert!(fresh.run(&deep).unwrap() > 0.0);
        let mut used = runner();
        for test in &tests {
            used.run(test).unwrap();
        }
        assert_eq!(logits(&fresh), logits(&used));
        // All sequences compute the same tokens, and so does a prompt of all of them.
        let prompt = Test::prompt(deep.positions(), 0);
        let mut whole = runner();
        whole.run(&prompt).unwrap();
        for sequence in logits(&fresh) {
            assert_eq!(sequence, whole.executor.logits(0));
        }
    }

    #[test]
    fn medians() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of(&[4.0, 1.0]).low, 1.0);
        assert_eq!(Spread::of(&[4.0, 1.0]).high, 4.0);
    }
}
