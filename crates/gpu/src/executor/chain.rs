//! Chains of steps: the device chooses a token and the next step embeds it, without waiting for the host.
//!
//! The tokens of a link are copied to one of two buffers, so that the host reads one link's while the device
//! works on the next.

use std::collections::VecDeque;

use gleed_model::chain::{Chain, IN_FLIGHT, Link};
use gleed_model::choice::Rule;
use gleed_model::executor::check;
use gleed_model::{Batch, StepError};

use super::{GpuExecutor, record_command, record_dispatch, write_count};
use crate::kernels::{Dispatch, Kernels, Place, choose};
use crate::{Gpu, Result};

/// Tokens of a link that there is room for, at least.
const CHOSEN: usize = 4096;

/// Where links leave their tokens.
pub(super) struct Links {
    /// The tokens chosen last, one per row.
    pub chosen: wgpu::Buffer,
    /// Where the tokens of links are read from, in turn, and for how many each has room.
    readable: [wgpu::Buffer; IN_FLIGHT],
    room: usize,
    next: usize,
    waiting: VecDeque<Waiting>,
    /// The rows of one step.
    batch: Batch,
}

/// A link that has not been collected.
struct Waiting {
    readable: usize,
    tokens: usize,
    /// Its last submission; none when it has no tokens.
    submission: Option<wgpu::SubmissionIndex>,
}

impl Links {
    pub fn new(gpu: &Gpu, max_rows: usize) -> Result<Links> {
        let room = CHOSEN.max(max_rows);
        let readable = || gpu.readable("the chosen tokens", 4 * room as u64);
        Ok(Links {
            chosen: gpu.storage("the chosen tokens", 4 * max_rows as u64)?,
            readable: [readable()?, readable()?],
            room,
            next: 0,
            waiting: VecDeque::new(),
            batch: Batch::default(),
        })
    }
}

/// The kernels that choose tokens from the logits.
pub(super) struct Choosers {
    /// The likeliest.
    greedy: Vec<Dispatch>,
    /// By the rules.
    drawn: Vec<Dispatch>,
    /// The rules of the rows and their random bits.
    rules: wgpu::Buffer,
    /// The same in words.
    words: Vec<u32>,
}

impl Choosers {
    /// For so many rows of logits at once.
    pub fn new(kernels: &mut Kernels, logits: Place, rows: usize, chosen: &wgpu::Buffer) -> Result<Choosers> {
        let rules = kernels.gpu.storage("rules", 4 * (rows * choose::RULE_WORDS) as u64)?;
        let greedy = choose::argmax(kernels, logits, rows, chosen)?;
        let (mut drawn, candidates) = choose::top(kernels, logits, rows)?;
        drawn.push(choose::draw(kernels, &candidates, &rules, chosen)?);
        Ok(Choosers { greedy, drawn, rules, words: Vec::new() })
    }

    /// Uploads the rules of one step where a row needs them, and returns the kernels that follow them.
    fn ready(&mut self, gpu: &Gpu, rules: &[Rule], randoms: &[u64]) -> &[Dispatch] {
        if rules.iter().all(Rule::is_greedy) {
            return &self.greedy;
        }
        self.words.clear();
        let words = rules.iter().zip(randoms).flat_map(|(rule, random)| choose::words(rule, *random));
        self.words.extend(words);
        gpu.queue.write_buffer(&self.rules, 0, bytemuck::cast_slice(&self.words));
        &self.drawn
    }
}

impl GpuExecutor {
    fn check_link(&self, link: Link) -> std::result::Result<(), StepError> {
        link.check()?;
        let limit = self.most_rows();
        check(link.batch, &self.program, limit, self.options.pages)?;
        if link.steps > 0 {
            let mut last = Batch::default();
            link.step(link.steps - 1, &mut last);
            check(&last, &self.program, limit, self.options.pages)?;
        }
        if link.batch.rows().len() * link.steps > self.links.room {
            return Err(StepError::Chain("it chooses more tokens than there is room for"));
        }
        if !link.rules.iter().all(|rule| self.follows(rule)) {
            return Err(StepError::Chain("the device cannot choose by this rule"));
        }
        if link.continues && self.links.waiting.len() == IN_FLIGHT {
            return Err(StepError::Chain("links that were submitted must be collected first"));
        }
        Ok(())
    }

    fn submit_steps(&mut self, link: Link) -> Result<Option<wgpu::SubmissionIndex>> {
        let mut batch = std::mem::take(&mut self.links.batch);
        let mut last = None;
        for step in 0..link.steps {
            link.step(step, &mut batch);
            last = Some(self.submit_step(link, &batch, step));
        }
        self.links.batch = batch;
        self.gpu.check().map(|()| last)
    }

    /// Submits one step of a link and the choice of its tokens.
    fn submit_step(&mut self, link: Link, batch: &Batch, index: usize) -> wgpu::SubmissionIndex {
        self.begin(batch, link.continues || index > 0);
        let rows = batch.rows().len();
        let counts = self.step.counts;
        let choosing = self.choosers.ready(&self.gpu, link.rules, &link.randoms[index * rows..]);
        write_count(&self.gpu, &self.row_counts.logits, rows);
        let mut encoder =
            self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("link") });
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for node in &self.nodes {
                let counts = counts[node.list as usize];
                node.commands.iter().for_each(|command| record_command(&mut pass, command, counts));
            }
            choosing.iter().for_each(|dispatch| record_dispatch(&mut pass, dispatch, counts[0]));
        }
        let bytes = 4 * rows as u64;
        let Links { chosen, readable, next, .. } = &self.links;
        encoder.copy_buffer_to_buffer(chosen, 0, &readable[*next], index as u64 * bytes, bytes);
        self.gpu.queue.submit([encoder.finish()])
    }
}

impl Chain for GpuExecutor {
    fn most_rows(&self) -> usize {
        self.logits_rows.min(self.options.max_rows)
    }

    fn follows(&self, rule: &Rule) -> bool {
        choose::follows(rule)
    }

    fn submit(&mut self, link: Link<'_>) -> std::result::Result<(), StepError> {
        self.check_link(link)?;
        if !link.continues {
            self.links.waiting.clear();
        }
        let rows = link.batch.rows().len();
        let submission = match rows {
            0 => Ok(None),
            _ => self.submit_steps(link),
        };
        let submission = submission.map_err(|error| StepError::Device(error.to_string()))?;
        let Links { waiting, next, .. } = &mut self.links;
        waiting.push_back(Waiting { readable: *next, tokens: rows * link.steps, submission });
        *next = (*next + 1) % IN_FLIGHT;
        Ok(())
    }

    fn collect(&mut self, tokens: &mut Vec<u32>) -> std::result::Result<(), StepError> {
        let Waiting { readable, tokens: count, submission } =
            self.links.waiting.pop_front().ok_or(StepError::Chain("no link was submitted"))?;
        let Some(submission) = submission else { return Ok(()) };
        self.gpu
            .read_after(submission, &self.links.readable[readable], count, tokens)
            .map_err(|error| StepError::Device(error.to_string()))
    }
}
