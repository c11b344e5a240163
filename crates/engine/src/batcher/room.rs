//! The scheduler's room: KV pages, state slots and what earlier requests left in them.

use std::collections::BTreeMap;

use gleed_model::arithmetic::PAGE;

use super::Jobs;
use super::job::Job;
use crate::prefix::{Found, PrefixCache, shared};
use crate::{Begun, Engine, Need, RequestId, Room, Sequence, Status};

/// Tokens in common with a running request that are worth waiting for.
const WORTH_WAITING: usize = PAGE;

/// State slots that a sequence needs at least: one that a step reads, and one that it writes.
const LEAST_SLOTS: usize = 2;

/// What a batcher has, lent to its scheduler.
pub(super) struct JobRoom<'a> {
    pub engine: &'a mut Engine,
    pub jobs: &'a mut Jobs,
    pub cache: &'a mut Option<PrefixCache>,
    pub totals: &'a mut Status,
}

impl Room for JobRoom<'_> {
    fn need(&self, id: RequestId) -> Need {
        self.jobs[&id].need()
    }

    fn begin(&mut self, id: RequestId) -> Begun {
        let Some(mut job) = self.jobs.remove(&id) else { return Begun::Later };
        let begun = self.try_begin(&mut job);
        self.jobs.insert(id, job);
        begun
    }

    fn take(&mut self, id: RequestId, rows: usize) -> bool {
        loop {
            let Some(job) = self.jobs.get_mut(&id) else { return false };
            if self.engine.reserve(&mut job.sequence, rows).is_ok() {
                return true;
            }
            if !shrink(self.cache) {
                break;
            }
        }
        // What others only keep to go back to.
        self.jobs.values_mut().for_each(|job| job.sequence.keep_least());
        self.jobs.get_mut(&id).is_some_and(|job| self.engine.reserve(&mut job.sequence, rows).is_ok())
    }

    fn give_up(&mut self, id: RequestId) {
        self.totals.preemptions += 1;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let mut sequence = std::mem::take(&mut job.sequence);
        sequence.revert();
        if let Some(cache) = self.cache {
            cache.insert(sequence);
        }
    }
}

impl JobRoom<'_> {
    fn try_begin(&mut self, job: &mut Job) -> Begun {
        let cache = self.cache.as_mut().filter(|_| job.uses_cache);
        let Found { mut sequence, common } = cache
            .map_or_else(|| Found::nothing(&job.adapters), |cache| cache.find(&job.adapters, &job.tokens));
        let usable = &job.tokens[..job.tokens.len() - 1];
        let alike = |other: &&mut Job| job.uses_cache && *other.sequence.adapters() == job.adapters;
        for other in running(self.jobs).filter(alike) {
            let shared = shared(&other.tokens, usable);
            let reachable = other.sequence.reachable(shared);
            if reachable > sequence.computed() {
                sequence = other.sequence.fork();
                sequence.truncate(reachable);
            }
            if other.sequence.computed() < shared && shared >= sequence.computed() + WORTH_WAITING {
                other.stops.insert(shared);
                return Begun::Later;
            }
        }
        if !self.has_room(&sequence, job.tokens.len()) {
            return Begun::NoRoom;
        }
        // Requests part here. Where sequences cannot be cut anywhere, the next one will find something to go on from.
        if common >= sequence.computed() + WORTH_WAITING {
            job.stops.insert(common);
        }
        if let Some((prompt, cached)) = job.begin(sequence) {
            self.totals.prompt_tokens += prompt as u64;
            self.totals.cached_tokens += cached as u64;
        }
        Begun::Yes
    }

    /// Whether there are pages for all tokens of a sequence, for all that the running ones still have to compute, and
    /// for each of them to go on a little. What only the cache holds is given up for it.
    fn has_room(&mut self, sequence: &Sequence, tokens: usize) -> bool {
        loop {
            let has_slots =
                |own: usize| self.engine.slots().is_none_or(|slots| own + slots.free() >= LEAST_SLOTS);
            // Counted anew each time: a page that no other sequence shares any more need not be copied.
            let others = running(self.jobs).map(|job| &job.sequence);
            let others = others.map(|other| 1 + other.missing_pages(other.pending().len()));
            let needed = sequence.missing_pages(tokens - sequence.computed()) + others.sum::<usize>();
            let has_pages = needed <= self.engine.pages().free();
            if has_pages && has_slots(0) {
                return true;
            }
            if !shrink(self.cache) {
                // At last it gives up what it could go back to itself.
                return has_pages && has_slots(sequence.states().len());
            }
        }
    }
}

/// Jobs that have begun.
fn running(jobs: &mut BTreeMap<RequestId, Job>) -> impl Iterator<Item = &mut Job> {
    jobs.values_mut().filter(|job| !job.sequence.tokens().is_empty())
}

/// Gives up some of what earlier requests left.
pub(super) fn shrink(cache: &mut Option<PrefixCache>) -> bool {
    cache.as_mut().is_some_and(PrefixCache::shrink)
}
