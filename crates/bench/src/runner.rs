//! Runs tests: how long do these rows take?

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use gleed_engine::Pace;
use gleed_model::arithmetic::PAGE;
use gleed_model::chain::{Chain, IN_FLIGHT, Link};
use gleed_model::choice::Rule;
use gleed_model::numbers::{find_nan, row_without_numbers};
use gleed_model::{Batch, Executor, Row, StepError};

use crate::measurable::Measurable;
use crate::test::Test;
use crate::{Error, Result};

/// Rows per step: longer prompts are processed in chunks of this.
pub const MAX_ROWS: usize = 512;

/// A device that had chains when it was asked for them has them still.
const NO_CHAIN: StepError = StepError::Chain("the device offers none any more");

/// An executor whose KV pages are shared out to sequences, and what each sequence holds.
///
/// Position `p` gets the same token in every test, so what one test has left behind is what the next
/// would compute: a depth is filled once. Only where the device chooses tokens itself, as it does for users,
/// the generated ones are its own, and do not count as filled.
pub struct Runner<E> {
    /// The executor.
    pub executor: E,
    /// Pages of each sequence.
    pages: usize,
    /// Positions that each sequence holds.
    filled: Vec<usize>,
    batch: Batch,
    states: States,
}

/// Where the states of recurrent layers are: slot 0 holds that at a depth, from which all sequences begin, and each
/// sequence has two more in turn.
#[derive(Default)]
struct States {
    /// The depth of slot 0.
    depth: usize,
    /// Which of its two slots each sequence has written last.
    second: Vec<bool>,
}

impl States {
    /// The slot that a sequence has written last.
    fn of(&self, sequence: usize) -> u32 {
        (1 + 2 * sequence + usize::from(self.second[sequence])) as u32
    }
}

/// State slots that an executor needs to be made with for these tests, where the model has recurrent layers.
pub fn slots_of(tests: &[Test]) -> usize {
    1 + 2 * tests.iter().map(|t| t.sequences).max().unwrap_or(1)
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

impl<E: Executor> Runner<E> {
    /// Takes an executor that was made with [`positions_of`] these tests.
    pub fn new(executor: E, tests: &[Test]) -> Runner<E> {
        let pages = pages_of(tests).max(1);
        let filled = vec![0; executor.page_count() / pages];
        let states = States { depth: 0, second: vec![false; filled.len()] };
        Runner { executor, pages, filled, batch: Batch::default(), states }
    }

    /// Runs a test once and returns its seconds. As with llama-bench, the depth is not timed, and an
    /// untimed run comes first: of the same prompt, or of one step.
    pub fn run(&mut self, test: &Test) -> Result<f64> {
        self.prepare(test)?;
        let start = Instant::now();
        self.compute(test, test.positions())?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn prepare(&mut self, test: &Test) -> Result<()> {
        if test.sequences > self.filled.len() || test.positions() > self.pages * PAGE {
            return Err(Error::NoRoom { test: test.name() });
        }
        self.fill(test)?;
        let first = if test.is_prompt() { test.tokens } else { 1 };
        self.compute(test, test.depth + first)?;
        self.check_numbers()
    }

    /// Refuses a model whose last step gave NaN: its speed is that of a damaged file.
    fn check_numbers(&mut self) -> Result<()> {
        let Some(row) = row_without_numbers(&self.executor, &self.batch) else { return Ok(()) };
        let position = self.batch.rows()[row].position;
        let unknown = || StepError::NotANumber { op: "the program".to_string(), position };
        Err(find_nan(&mut self.executor, &self.batch)?.unwrap_or_else(unknown).into())
    }

    /// Sees to it that all sequences of a test hold its depth.
    fn fill(&mut self, test: &Test) -> Result<()> {
        let is_recurrent = !self.executor.program().states.is_empty();
        if is_recurrent && test.depth > 0 && self.states.depth != test.depth {
            // The state at a depth is kept only of the last one.
            self.compute(&Test::prompt(test.depth, 0), test.depth)?;
        }
        if self.filled[0] < test.depth {
            let rest = Test::prompt(test.depth - self.filled[0], self.filled[0]);
            self.compute(&rest, test.depth)?;
        }
        for sequence in 1..test.sequences {
            if self.filled[sequence] < test.depth {
                for group in 0..self.executor.page_groups().len() {
                    for page in 0..test.depth.div_ceil(PAGE) {
                        let to = (sequence * self.pages + page) as u32;
                        self.executor.copy_page(group, page as u32, to);
                    }
                }
                self.filled[sequence] = test.depth;
            }
        }
        Ok(())
    }

    /// Computes positions from the test's depth up to `end` of all its sequences, as users would have it: tokens
    /// that are generated are chosen by the device where it does that.
    fn compute(&mut self, test: &Test, end: usize) -> Result<()> {
        match test.is_prompt() || !self.generate_ahead(test, end)? {
            true => self.steps(test, end, |executor, batch| executor.step(batch, &mut ())),
            false => Ok(()),
        }
    }

    /// Computes the same positions in single steps.
    fn steps(
        &mut self,
        test: &Test,
        end: usize,
        mut step: impl FnMut(&mut E, &Batch) -> std::result::Result<(), StepError>,
    ) -> Result<()> {
        let vocabulary = self.executor.program().vocabulary;
        let chunk = test.chunk(self.executor.max_rows());
        for from in (test.depth..end).step_by(chunk) {
            self.batch.clear();
            let to = end.min(from + chunk);
            for sequence in 0..test.sequences {
                let table = self.add_table(sequence, to);
                self.take_states(test, table, from..to);
                for position in from..to {
                    // Any tokens will do; a fixed scatter over the vocabulary keeps runs alike.
                    let token = (position * 7919 % vocabulary) as u32;
                    let wants_logits = !test.is_prompt() || position + 1 == end;
                    self.batch.push(Row { table, position: position as u32, token, wants_logits });
                }
            }
            step(&mut self.executor, &self.batch)?;
        }
        for filled in &mut self.filled[..test.sequences] {
            *filled = end.max(*filled);
        }
        Ok(())
    }

    /// Generates the tokens up to `end`, each chosen by the device, in links of a chain as the engine makes
    /// them. Returns whether the device does that.
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
                self.executor.chain().ok_or(NO_CHAIN)?.submit(link)?;
                links.push_back(steps);
                next += steps;
            }
            tokens.clear();
            self.executor.chain().ok_or(NO_CHAIN)?.collect(&mut tokens)?;
            let steps = links.pop_front().unwrap_or(1);
            pace.collected(steps, std::mem::replace(&mut clock, Instant::now()).elapsed());
        }
        self.filled[..test.sequences].fill(test.depth);
        Ok(true)
    }

    /// Says which states of recurrent layers a table of the batch reads and writes; its number is the sequence's.
    fn take_states(&mut self, test: &Test, table: u32, positions: Range<usize>) {
        if self.executor.program().states.is_empty() {
            return;
        }
        let sequence = table as usize;
        if positions.start > 0 {
            let slot = if positions.start == test.depth { 0 } else { self.states.of(sequence) };
            self.batch.read_state(table, slot);
        }
        self.states.second[sequence] = !self.states.second[sequence];
        self.batch.save_state(table, positions.end as u32 - 1, self.states.of(sequence));
        // A prompt from the beginning may be what fills a depth.
        if test.depth == 0 && test.is_prompt() && positions.end == test.positions() {
            self.states.depth = positions.end;
            self.batch.save_state(table, positions.end as u32 - 1, 0);
        }
    }

    /// Adds the pages of a sequence up to a position to the batch.
    fn add_table(&mut self, sequence: usize, end: usize) -> u32 {
        let first = (sequence * self.pages) as u32;
        let pages: Vec<u32> = (first..first + end.div_ceil(PAGE) as u32).collect();
        self.batch.add_table(&pages)
    }
}

impl<E: Measurable> Runner<E> {
    /// Runs a test once, after an untimed run, and returns the seconds of each node.
    pub fn time_nodes(&mut self, test: &Test) -> Result<Vec<f64>> {
        self.prepare(test)?;
        let mut nodes = vec![0.0; self.executor.program().nodes.len()];
        self.steps(test, test.positions(), |executor, batch| executor.time_step(batch, &mut nodes))?;
        Ok(nodes)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use gleed_cpu::Cpu;
    use gleed_gguf::Gguf;
    use gleed_model::fuse::{Rules, fuse};
    use gleed_model::{Arithmetic, KvType, Model};

    use super::*;

    /// The model of the repository on the CPU.
    fn runner(tests: &[Test]) -> Runner<Cpu> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/stories15M-q8_0.gguf");
        runner_of(&Arc::new(Gguf::open(&path).unwrap()), tests)
    }

    /// A model with recurrent layers.
    fn recurrent(tests: &[Test]) -> Runner<Cpu> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let data =
            std::env::var_os("GLEED_TEST_DATA").map_or_else(|| root.join(".cache/test-data"), PathBuf::from);
        let path = data.join("tiny/tiny-lfm2.F32.gguf");
        assert!(path.exists(), "{} is missing: run ./test, which makes it", path.display());
        runner_of(&Arc::new(Gguf::open(&path).unwrap()), tests)
    }

    fn runner_of(file: &Arc<Gguf>, tests: &[Test]) -> Runner<Cpu> {
        let program = fuse(&Model::load(file).unwrap().program, Rules::ALL);
        let options = gleed_cpu::Options {
            arithmetic: Arithmetic::default(),
            kv: KvType::default(),
            threads: 2,
            isa: None,
            max_rows: 64,
            pages: positions_of(tests) / PAGE,
            window_sequences: None,
            memory: None,
        };
        let cpu = Cpu::new(Arc::clone(file), program, options).unwrap();
        Runner::new(cpu.with_slots(slots_of(tests)).unwrap(), tests)
    }

    #[test]
    fn every_sequence_gets_whole_pages() {
        let tests = [Test::generate(1, 3, PAGE), Test::prompt(2 * PAGE + 1, 0)];
        assert_eq!(positions_of(&tests), 3 * 3 * PAGE);
    }

    #[test]
    fn a_depth_is_the_same_however_it_was_filled() {
        same_depth(runner);
        same_depth(recurrent);
    }

    fn same_depth(make: fn(&[Test]) -> Runner<Cpu>) {
        let deep = Test::generate(3, 4, PAGE + 9);
        let tests = [Test::prompt(20, 0), Test::generate(5, 2, 30), deep.clone()];
        let runner = || make(&tests);
        let logits =
            |runner: &Runner<Cpu>| (0..4).map(|i| runner.executor.logits(i).to_vec()).collect::<Vec<_>>();
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
    fn a_test_that_there_is_no_room_for_is_refused() {
        let tests = [Test::generate(2, 2, 0)];
        let mut runner = runner(&tests);
        for test in [Test::generate(2, 3, 0), Test::prompt(PAGE + 1, 0), Test::generate(1, 1, PAGE)] {
            assert!(matches!(runner.run(&test), Err(Error::NoRoom { .. })), "{}", test.name());
        }
    }
}
