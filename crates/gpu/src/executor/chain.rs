//! Chains of steps: the device chooses a token and the next step embeds it, without waiting for the host.
//!
//! All steps of a link are one submission: what they bring is uploaded together, and the device copies each step's
//! share to where its kernels read it. The tokens are copied to one of two buffers, so that the host reads one
//! link's while the device works on the next.

use std::collections::VecDeque;

use gleed_model::batch::check;
use gleed_model::chain::{Chain, IN_FLIGHT, Link};
use gleed_model::choice::Rule;
use gleed_model::{Batch, StepError};

use super::GpuExecutor;
use super::run::write_count;
use crate::kernels::{List, choose};
use crate::plan::Recorded;
use crate::{Gpu, Result};

/// Tokens of a link that there is room for, at least.
const CHOSEN: usize = 4096;

/// Where links leave their tokens.
pub(super) struct Links {
    /// Where the tokens of links are read from, in turn, and for how many each has room.
    readable: [wgpu::Buffer; IN_FLIGHT],
    room: usize,
    next: usize,
    waiting: VecDeque<Waiting>,
    /// The rows of one step.
    batch: Batch,
    /// What the steps of a submission bring, on the device and here, in words.
    brought: wgpu::Buffer,
    words: Vec<u32>,
}

/// A link that has not been collected.
struct Waiting {
    readable: usize,
    tokens: usize,
    /// Its last submission; none when it has no tokens.
    submission: Option<wgpu::SubmissionIndex>,
}

impl Links {
    pub fn new(gpu: &Gpu, max_rows: usize, brought: wgpu::Buffer) -> Result<Links> {
        let room = CHOSEN.max(max_rows);
        let readable = || gpu.readable("the chosen tokens", 4 * room as u64);
        Ok(Links {
            readable: [readable()?, readable()?],
            room,
            next: 0,
            waiting: VecDeque::new(),
            batch: Batch::default(),
            brought,
            words: Vec::new(),
        })
    }

    /// Takes down words for the device, and records that it copies them to a buffer.
    fn bring(&mut self, encoder: &mut wgpu::CommandEncoder, words: &[u32], to: &wgpu::Buffer) {
        let from = 4 * self.words.len() as u64;
        self.words.extend_from_slice(words);
        encoder.copy_buffer_to_buffer(&self.brought, from, to, 0, 4 * words.len() as u64);
    }

    /// Submits what was recorded, after what it brings.
    fn submit(&mut self, gpu: &Gpu, encoder: wgpu::CommandEncoder) -> wgpu::SubmissionIndex {
        gpu.queue.write_buffer(&self.brought, 0, bytemuck::cast_slice(&self.words));
        self.words.clear();
        gpu.queue.submit([encoder.finish()])
    }
}

impl GpuExecutor {
    fn check_link(&self, link: Link) -> std::result::Result<(), StepError> {
        link.check()?;
        let limit = self.most_rows();
        check(link.batch, &self.program, limit, &self.resources.page_groups)?;
        if link.steps > 0 {
            let mut last = Batch::default();
            link.step(link.steps - 1, &mut last);
            check(&last, &self.program, limit, &self.resources.page_groups)?;
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
        self.logits.clear();
        let mut batch = std::mem::take(&mut self.links.batch);
        let rows = link.batch.rows().len();
        write_count(&self.gpu, &self.buffers[self.resources.row_counts.logits], rows);
        let drawn = !link.rules.iter().all(Rule::is_greedy);
        let rule_words = if drawn { rows * choose::RULE_WORDS } else { 0 };
        let mut encoder = self.encoder();
        let mut last = None;
        for step in 0..link.steps {
            link.step(step, &mut batch);
            self.step.fill(&self.program, &batch, link.continues || step > 0);
            self.upload_counts();
            self.prepare(Recorded::Together)?;
            let brings = 4 * (self.links.words.len() + self.step.words.len() + rule_words) as u64;
            if brings > self.links.brought.size() {
                let full = std::mem::replace(&mut encoder, self.encoder());
                last = Some(self.links.submit(&self.gpu, full));
            }
            let step_buffer = &self.buffers[self.resources.step];
            self.links.bring(&mut encoder, &self.step.words, step_buffer);
            if drawn {
                let both = link.rules.iter().zip(&link.randoms[step * rows..]);
                let words: Vec<u32> = both.flat_map(|(rule, random)| choose::words(rule, *random)).collect();
                self.links.bring(&mut encoder, &words, &self.buffers[self.choosers.rules]);
            }
            self.record_step(&mut encoder, drawn)?;
            let (bytes, Links { readable, next, .. }) = (4 * rows as u64, &self.links);
            let chosen = &self.buffers[self.resources.chosen];
            encoder.copy_buffer_to_buffer(chosen, 0, &readable[*next], step as u64 * bytes, bytes);
        }
        if link.steps > 0 {
            last = Some(self.links.submit(&self.gpu, encoder));
        }
        self.links.batch = batch;
        self.gpu.check().map(|()| last)
    }

    /// Records a step and the choice of its tokens.
    fn record_step(&self, encoder: &mut wgpu::CommandEncoder, drawn: bool) -> Result<()> {
        let choosing = if drawn { &self.choosers.drawn } else { &self.choosers.greedy };
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for node in &self.nodes {
            self.record_node(&mut pass, node, self.counts(node.list), Recorded::Together)?;
        }
        choosing
            .iter()
            .filter_map(|dispatch| dispatch.run(self.counts(List::All)))
            .try_for_each(|run| self.bound.record(&mut pass, run))
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
