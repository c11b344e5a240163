//! An executor without a model.
//!
//! Its logits are a pure function of the (position, token) pairs that it reads back through the page table
//! from a real paged store. A wrong page, a wrong position, a page written while shared or a token left over
//! from another sequence therefore gives other logits, and a test that compares tokens sees it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gleed_model::arithmetic::PAGE;
use gleed_model::batch::{Save, check, check_states};
use gleed_model::chain::{Chain, IN_FLIGHT, Link};
use gleed_model::choice::{Rule, choose};
use gleed_model::executor::Observer;
use gleed_model::groups::PageGroup;
use gleed_model::program::{AdapterInfo, Attention, KvLayer, Node, Op, Output, StateLayer, View};
use gleed_model::{Batch, Executor, Program, Row, StepError};

/// What a mock has done, and what it shall do; shared with the test that made it.
#[derive(Debug, Default)]
pub struct Log {
    /// Steps that were computed.
    pub steps: AtomicUsize,
    /// Rows that were computed.
    pub rows: AtomicUsize,
    /// Rows that wanted logits.
    pub wanted: AtomicUsize,
    /// Pages that were copied.
    pub copies: AtomicUsize,
    /// Links of chains that were computed.
    pub links: AtomicUsize,
    /// Tokens that were chosen in them.
    pub chosen: AtomicUsize,
    /// Fails in the next step, when it has written as much of it as a failing device may have: anything at all into
    /// the positions of its rows.
    pub fail: AtomicBool,
    /// Fails so in every step.
    pub broken: AtomicBool,
}

/// An executor whose logits are a hash of what its KV pages hold.
#[derive(Debug)]
pub struct Mock {
    program: Program,
    max_rows: usize,
    groups: Vec<PageGroup>,
    /// What each slot of each page of each group holds: (position, token).
    stores: Vec<Vec<Option<(u32, u32)>>>,
    /// What each state slot holds: the hash of all tokens that went into it.
    states: Vec<u64>,
    logits: Vec<f32>,
    log: Arc<Log>,
    /// Whether it chooses tokens itself.
    chains: bool,
    /// The tokens that it chose last, one per row.
    chosen: Vec<u32>,
    /// The tokens of links that were not collected yet.
    waiting: VecDeque<Vec<u32>>,
}

impl Mock {
    /// A mock with this vocabulary, context, rows per step and number of KV pages.
    pub fn new(vocabulary: usize, context: usize, max_rows: usize, pages: usize) -> Self {
        let program = Program {
            buffers: vec![],
            weights: vec![],
            nodes: vec![],
            caches: vec![],
            states: vec![],
            ropes: vec![],
            adapters: vec![],
            output: Output::Logits,
            logits: View { buffer: 0, offset: 0, width: vocabulary },
            vocabulary,
            context,
        };
        Mock {
            program,
            max_rows,
            groups: vec![PageGroup { window: None, pages }],
            stores: vec![vec![None; pages * PAGE]],
            states: vec![],
            logits: vec![],
            log: Arc::default(),
            chains: false,
            chosen: vec![],
            waiting: VecDeque::new(),
        }
    }

    /// The same with chains of steps, as a device has them that chooses tokens itself.
    pub fn with_chains(self) -> Self {
        Mock { chains: true, ..self }
    }

    /// The same with a recurrent layer and `slots` state slots. Its logits are wrong where slots and pages do not hold
    /// the same tokens.
    pub fn with_states(mut self, slots: usize) -> Self {
        self.program.states = vec![StateLayer { rows: 1, columns: 1 }];
        Mock { states: vec![u64::MAX; slots], ..self }
    }

    /// The same with a layer that sees a window, and `pages` pages for it. Its logits are wrong where they do not hold
    /// the tokens of the window.
    pub fn with_window(mut self, window: usize, pages: usize) -> Self {
        let view = View { buffer: 0, offset: 0, width: 1 };
        let attention = Attention { window: Some(window), ..Attention::over_all(0, 1, 1.0) };
        let op = Op::Attention { attention, query: view, out: view };
        self.program.nodes = vec![Node { op, labels: vec![], layer: None }];
        self.program.caches = vec![KvLayer { heads: 1, key_dim: 1, value_dim: 1 }];
        self.groups.push(PageGroup { window: Some(window), pages });
        self.stores.push(vec![None; pages * PAGE]);
        self
    }

    /// The same with `count` adapters, of which rows take everything unless they say otherwise. Its logits are wrong
    /// where pages were computed with others.
    pub fn with_adapters(mut self, count: usize) -> Self {
        let adapter = |number| AdapterInfo { name: format!("adapter {number}"), scale: 1.0 };
        self.program.adapters = (0..count).map(adapter).collect();
        self
    }

    /// What a row is to the store: its token, and the adapters that it takes if there are any.
    fn entry(&self, batch: &Batch, row: &Row) -> u32 {
        let adapters = 0..self.program.adapters.len();
        let scale = |adapter| u64::from(batch.adapter_scale(&self.program, row.table, adapter).to_bits());
        let taken = adapters
            .map(scale)
            .fold(0, |taken, scale| if taken | scale == 0 { 0 } else { mix(taken) ^ mix(scale) });
        row.token ^ taken as u32
    }

    /// The same with a program of these nodes, none of which it runs.
    pub fn with_nodes(mut self, nodes: Vec<Node>) -> Self {
        self.program.nodes = nodes;
        self
    }

    /// The log, to keep when the mock is given away.
    pub fn log(&self) -> Arc<Log> {
        self.log.clone()
    }

    /// The logits after these tokens, as any right use of a mock gives them.
    pub fn expected(tokens: &[u32], vocabulary: usize) -> Vec<f32> {
        let entries = tokens.iter().zip(0u32..).map(|(&token, position)| Some((position, token)));
        scores(entries.fold(0, absorb), vocabulary).collect()
    }
}

/// Takes the content of one slot into the state.
fn absorb(state: u64, slot: Option<(u32, u32)>) -> u64 {
    let entry = slot.map_or(u64::MAX, |(position, token)| u64::from(position) << 32 | u64::from(token));
    mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ mix(entry))
}

/// splitmix64's finalizer: every input bit reaches every output bit.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Scores from -8 to 8.
fn scores(state: u64, vocabulary: usize) -> impl Iterator<Item = f32> {
    (0..vocabulary as u64).map(move |token| (mix(state ^ mix(token + 1)) >> 44) as f32 / 65536.0 - 8.0)
}

impl Executor for Mock {
    fn program(&self) -> &Program {
        &self.program
    }

    fn max_rows(&self) -> usize {
        self.max_rows
    }

    fn page_groups(&self) -> &[PageGroup] {
        &self.groups
    }

    fn slot_count(&self) -> usize {
        self.states.len()
    }

    fn step(&mut self, batch: &Batch, _observer: &mut dyn Observer) -> Result<(), StepError> {
        check(batch, &self.program, self.max_rows, &self.groups)?;
        check_states(batch, &self.program, self.states.len())?;
        let slot = |group: usize, table: u32, position: u32| {
            batch.pages(table, group)[position as usize / PAGE] as usize * PAGE + position as usize % PAGE
        };
        if self.log.fail.swap(false, Ordering::Relaxed) || self.log.broken.load(Ordering::Relaxed) {
            for (group, store) in self.stores.iter_mut().enumerate() {
                for row in batch.rows() {
                    store[slot(group, row.table, row.position)] = Some((row.position, !row.token));
                }
            }
            batch.saves().iter().for_each(|save| self.states[save.slot as usize] = u64::MAX);
            self.logits.clear();
            return Err(StepError::Device("the mock was told to fail".into()));
        }
        // All writes come first, as on a device that computes the rows side by side.
        let entries: Vec<u32> = batch.rows().iter().map(|row| self.entry(batch, row)).collect();
        for (group, store) in self.stores.iter_mut().enumerate() {
            for (row, entry) in batch.rows().iter().zip(&entries) {
                store[slot(group, row.table, row.position)] = Some((row.position, *entry));
            }
        }
        self.logits.clear();
        let before = |table| batch.state(table).map_or(0, |slot| self.states[slot as usize]);
        let mut running: Vec<u64> = (0..batch.tables() as u32).map(before).collect();
        for (row, entry) in batch.rows().iter().zip(&entries) {
            let held = |group: usize, position: u32| self.stores[group][slot(group, row.table, position)];
            let seen = (0..=row.position).map(|position| held(0, position)).fold(0, absorb);
            let windows_agree = self.groups.iter().enumerate().all(|(number, group)| {
                let first = group.window.map_or(0, |window| (row.position + 1).saturating_sub(window as u32));
                (first..=row.position).all(|position| held(number, position) == held(0, position))
            });
            if !self.program.states.is_empty() {
                let state = &mut running[row.table as usize];
                *state = absorb(*state, Some((row.position, *entry)));
                let here = |save: &&Save| save.table == row.table && save.position == row.position;
                batch.saves().iter().filter(here).for_each(|save| self.states[save.slot as usize] = *state);
            }
            if row.wants_logits {
                let is_one = self.program.states.is_empty() || running[row.table as usize] == seen;
                let seen = if is_one && windows_agree { seen } else { !seen };
                self.logits.extend(scores(seen, self.program.vocabulary));
            }
        }
        self.log.steps.fetch_add(1, Ordering::Relaxed);
        self.log.rows.fetch_add(batch.rows().len(), Ordering::Relaxed);
        self.log.wanted.fetch_add(batch.wanted().count(), Ordering::Relaxed);
        Ok(())
    }

    fn logits(&self, index: usize) -> &[f32] {
        self.logits.chunks(self.program.vocabulary.max(1)).nth(index).unwrap_or_default()
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) {
        let start = from as usize * PAGE;
        self.stores[group].copy_within(start..start + PAGE, to as usize * PAGE);
        self.log.copies.fetch_add(1, Ordering::Relaxed);
    }

    fn chain(&mut self) -> Option<&mut dyn Chain> {
        if self.chains { Some(self) } else { None }
    }
}

impl Chain for Mock {
    fn most_rows(&self) -> usize {
        self.max_rows
    }

    fn follows(&self, rule: &Rule) -> bool {
        // As on a device, that keeps few candidates.
        rule.is_greedy() || (1..=64).contains(&rule.top_k)
    }

    fn submit(&mut self, link: Link<'_>) -> Result<(), StepError> {
        link.check()?;
        if !link.continues {
            self.waiting.clear();
        }
        if self.waiting.len() == IN_FLIGHT {
            return Err(StepError::Chain("too many links"));
        }
        let (mut batch, mut tokens) = (Batch::default(), vec![]);
        for step in 0..link.steps {
            link.step(step, &mut batch);
            if link.continues || step > 0 {
                let rows: Vec<Row> = batch.rows().to_vec();
                batch.clear();
                let tables = rows.iter().map(|row| row.table + 1).max().unwrap_or(0);
                (0..tables).for_each(|table| _ = batch.copy_table(link.batch, table));
                rows.iter().zip(&self.chosen).for_each(|(row, &token)| batch.push(Row { token, ..*row }));
            }
            self.step(&batch, &mut ())?;
            let randoms = &link.randoms[step * link.rules.len()..];
            let choices = link.rules.iter().zip(randoms).enumerate();
            self.chosen =
                choices.map(|(row, (rule, random))| choose(self.logits(row), rule, *random)).collect();
            tokens.extend_from_slice(&self.chosen);
        }
        // A chain leaves no logits behind.
        self.logits.clear();
        self.log.links.fetch_add(1, Ordering::Relaxed);
        self.log.chosen.fetch_add(tokens.len(), Ordering::Relaxed);
        self.waiting.push_back(tokens);
        Ok(())
    }

    fn collect(&mut self, tokens: &mut Vec<u32>) -> Result<(), StepError> {
        let link = self.waiting.pop_front().ok_or(StepError::Chain("no link was submitted"))?;
        tokens.extend(link);
        Ok(())
    }
}
