//! Answers that the device goes on with by itself: it chooses the tokens of many requests, and computes some before the
//! host has looked at the first.

use std::collections::VecDeque;
use std::time::Instant;

use gleed_model::chain::{Chain, IN_FLIGHT, Link};
use gleed_model::choice::{NO_TOKEN, Rule};
use gleed_model::{Executor, Row, StepError};

use super::job::Job;
use super::room::shrink;
use super::{Batcher, Ended, go_on, in_turn};
use crate::{Need, Plan, RequestId, Result};

/// Steps of the first link, at most.
const FIRST: usize = 2;

impl Batcher {
    /// How each request of a plan chooses its tokens, if all are answers and the device can choose for them.
    pub(super) fn rules(&mut self, plan: &Plan) -> Option<Vec<Rule>> {
        let chain = self.engine.executor.chain()?;
        let rule = |job: &Job| match job.need() {
            Need::Answer { rows: 1, guesses: 0 } => job.generation.rule().filter(|rule| chain.follows(rule)),
            _ => None,
        };
        let rules: Option<Vec<Rule>> = in_turn(&mut self.jobs, plan).map(|(job, _)| rule(job)).collect();
        rules.filter(|rules| rules.len() <= chain.most_rows())
    }

    /// Goes on with the answers of a plan until one of them ends, is not wanted any more or something interrupts.
    pub(super) fn decode_ahead(
        &mut self,
        plan: &Plan,
        rules: &[Rule],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<()> {
        // The steps of each link under way.
        let mut links: VecDeque<usize> = VecDeque::with_capacity(IN_FLIGHT);
        let mut has_begun = false;
        let (mut ended, mut tokens, mut clock): (Vec<Ended>, _, _) = (vec![], vec![], Instant::now());
        loop {
            while links.len() < IN_FLIGHT && ended.is_empty() {
                let ahead: usize = links.iter().sum();
                if has_begun && (interrupted() || self.jobs.values().any(|job| job.listener.is_gone())) {
                    break;
                }
                // The device has nothing to do until it has the first one, which is short for that reason.
                let most = if has_begun { self.links.steps() } else { self.links.steps().min(FIRST) };
                has_begun = true;
                match self.submit_link(plan, rules, ahead, most)? {
                    0 => break,
                    steps => links.push_back(steps),
                }
            }
            let Some(steps) = links.pop_front() else { break };
            tokens.clear();
            chain(&mut *self.engine.executor)?.collect(&mut tokens)?;
            self.links.collected(steps, std::mem::replace(&mut clock, Instant::now()).elapsed());
            self.totals.steps += steps as u64;
            self.totals.rows += (steps * rules.len()) as u64;
            tokens.chunks(rules.len()).for_each(|step| self.take_tokens(plan, step, &mut ended));
        }
        ended.into_iter().for_each(|end| self.close(end));
        Ok(())
    }

    /// Goes on with the tokens that a step chose, one for each request.
    fn take_tokens(&mut self, plan: &Plan, tokens: &[u32], ended: &mut Vec<Ended>) {
        let context = self.engine.context();
        for ((&(id, _), &token), (job, _)) in plan.turns.iter().zip(tokens).zip(in_turn(&mut self.jobs, plan))
        {
            if ended.iter().any(|end| end.0 == id) {
                continue;
            }
            if token == NO_TOKEN {
                ended.push((id, Some(self.engine.why_no_token(&job.sequence))));
                continue;
            }
            job.sequence.advance(1);
            let last = job.sequence.computed() >= context;
            let next = job.generation.advance_with(token, last);
            let before = job.tokens.len();
            ended.extend(go_on(id, job, next, &mut self.totals));
            job.sequence.extend(&job.tokens[before..]);
        }
    }

    /// Hands over a link of at most `most` steps, `ahead` positions after the pending tokens. Returns how many it has:
    /// none where there is nothing to gain or no room.
    fn submit_link(&mut self, plan: &Plan, rules: &[Rule], ahead: usize, most: usize) -> Result<usize> {
        let context = self.engine.context();
        let left =
            |job: &Job| (context - job.sequence.computed().min(context)).min(job.generation.remaining());
        let left = in_turn(&mut self.jobs, plan).map(|(job, _)| left(job)).min().unwrap_or(0);
        let mut steps = most.min(left.saturating_sub(ahead));
        if ahead == 0 {
            // The plan has room for this one.
            steps = steps.max(1);
        }
        while steps > 0 && !self.reserve_all(plan, ahead + steps) {
            steps = if ahead == 0 { steps / 2 } else { 0 };
        }
        if steps == 0 {
            return Ok(0);
        }
        self.engine.batch.clear();
        let (mut generations, batch) = (vec![], &mut self.engine.batch);
        for (job, _) in in_turn(&mut self.jobs, plan) {
            let table = job.sequence.add_to(batch);
            let position = (job.sequence.computed() + ahead) as u32;
            batch.push(Row { table, position, token: job.sequence.pending()[0], wants_logits: true });
            generations.push(&mut job.generation);
        }
        let randoms: Vec<u64> = (0..steps)
            .flat_map(|_| {
                generations.iter_mut().map(|generation| generation.random_bits()).collect::<Vec<_>>()
            })
            .collect();
        let link = Link { batch: &self.engine.batch, continues: ahead > 0, steps, rules, randoms: &randoms };
        chain(&mut *self.engine.executor)?.submit(link)?;
        Ok(steps)
    }

    /// Takes room for the next rows of all requests of a plan, at the cost of what earlier ones left.
    fn reserve_all(&mut self, plan: &Plan, rows: usize) -> bool {
        let ids: Vec<RequestId> = plan.turns.iter().map(|turn| turn.0).collect();
        ids.iter().all(|id| {
            let Some(job) = self.jobs.get_mut(id) else { return false };
            loop {
                if self.engine.reserve(&mut job.sequence, rows).is_ok() {
                    return true;
                }
                if !shrink(&mut self.cache) {
                    return false;
                }
            }
        })
    }
}

/// The chain of an executor; those without one are not asked.
fn chain(executor: &mut dyn Executor) -> Result<&mut dyn Chain> {
    Ok(executor.chain().ok_or(StepError::Chain("the executor has none"))?)
}
