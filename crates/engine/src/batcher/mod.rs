//! Many answers at once: requests in, steps of all of them together, tokens out.
//!
//! A [`Batcher`] drives the [`Scheduler`](crate::Scheduler) over an engine. Which requests a step has together changes
//! when an answer comes and nothing else: neither company, nor a prefix that was found, nor room that was lost and
//! regained changes a bit of it.

mod ahead;
mod gain;
mod guesses;
mod handle;
mod job;
mod pace;
mod request;
mod room;
mod status;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub use handle::{EmbedReply, EngineHandle};
pub use pace::Pace;
pub use request::{Listener, Refusal, Request, Update};
pub use status::Status;

use gleed_model::StepError;

use crate::prefix::PrefixCache;
use crate::{Draft, Engine, Error, FinishReason, Next, Plan, RequestId, Result, Scheduler, Speculation};
use guesses::{Computed, Guessing};
use job::Job;
use pace::RowPace;
use room::JobRoom;

/// The most threads that choose tokens.
const MOST_THREADS: usize = 8;

/// How often a device that works by itself is interrupted, to look at how far it is and whether guesses would pay.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

/// All requests, in the order of arrival.
type Jobs = BTreeMap<RequestId, Job>;

/// How many requests are taken, and how they share the engine.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchSettings {
    /// The most requests that run at once.
    pub most_running: usize,
    /// The most requests that wait beside them.
    pub most_waiting: usize,
    /// Whether what requests leave is kept for others that begin alike.
    pub prefix_cache: bool,
    /// How long a step may take in which answers wait for the prompts of others.
    pub step_time: Duration,
    /// When the next tokens of answers are guessed.
    pub speculation: Speculation,
}

impl Default for BatchSettings {
    fn default() -> Self {
        BatchSettings {
            most_running: 16,
            most_waiting: 256,
            prefix_cache: true,
            step_time: Duration::from_millis(200),
            speculation: Speculation::Auto,
        }
    }
}

/// Answers many requests with one engine.
pub struct Batcher {
    engine: Engine,
    scheduler: Scheduler,
    jobs: Jobs,
    cache: Option<PrefixCache>,
    rows: RowPace,
    links: Pace,
    guessing: Guessing,
    next_id: RequestId,
    /// The most requests that run and wait.
    most: usize,
    /// Threads that choose tokens.
    threads: usize,
    /// What has been done so far.
    totals: Status,
}

impl Batcher {
    /// A batcher without requests.
    pub fn new(engine: Engine, settings: &BatchSettings) -> Self {
        let rows = RowPace::new(engine.max_rows().max(1), settings.step_time);
        // Every running answer has a row in every step.
        let most_running = settings.most_running.clamp(1, engine.max_rows().max(1));
        Batcher {
            scheduler: Scheduler::new(most_running),
            engine,
            jobs: BTreeMap::new(),
            cache: settings.prefix_cache.then(PrefixCache::default),
            rows,
            links: Pace::default(),
            guessing: Guessing::new(settings.speculation, None),
            next_id: 0,
            most: settings.most_running.saturating_add(settings.most_waiting),
            threads: std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_THREADS)),
            totals: Status::default(),
        }
    }

    /// The same with a smaller model that guesses what this one will say.
    pub fn with_draft(mut self, draft: Draft) -> Result<Self> {
        draft.must_fit(self.engine.vocabulary())?;
        self.guessing.draft = Some(draft);
        Ok(self)
    }

    /// Decides anew when the next tokens of answers are guessed.
    pub fn set_speculation(&mut self, when: Speculation) {
        self.guessing.when = when;
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The engine. What is computed with it must leave room for the requests.
    pub fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Takes in a request, unless it can never be answered.
    pub fn submit(&mut self, request: Request) -> Result<()> {
        self.engine.must_give_logits()?;
        let engine = &self.engine;
        self.add(Job::new(request, engine.vocabulary(), engine.context(), engine.adapters().len())?);
        Ok(())
    }

    fn add(&mut self, job: Job) {
        self.jobs.insert(self.next_id, job);
        self.scheduler.add(self.next_id);
        self.next_id += 1;
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Does the next step, or some steps while nothing interrupts them: where a device chooses tokens itself, it is not
    /// kept waiting. An error means that the device has failed; all requests have heard of it.
    pub fn step(&mut self, interrupted: &dyn Fn() -> bool) -> Result<()> {
        self.end_unwanted();
        let start = Instant::now();
        let reading = self.guess();
        let mut room = JobRoom {
            engine: &mut self.engine,
            jobs: &mut self.jobs,
            cache: &mut self.cache,
            totals: &mut self.totals,
        };
        let mut plan = self.scheduler.plan(&mut room, self.rows.budget());
        if let Some(id) = plan.stuck {
            let (free, total) = (self.engine.pages().free(), self.engine.pages().total());
            self.fail(id, Error::NoPages { needed: free + 1, free, total });
        }
        if plan.turns.is_empty() {
            return Ok(());
        }
        plan.turns.sort_unstable();
        let (answering, before) = (guesses::answering(&self.jobs, &plan), self.totals.steps);
        let done = match self.rules(&plan) {
            Some(rules) => self.decode_ahead(&plan, &rules, interrupted),
            None => {
                let done = self.compute(&plan);
                self.rows.stepped(plan.rows(), start.elapsed());
                self.totals.steps += 1;
                self.totals.rows += plan.rows() as u64;
                done
            }
        };
        let (steps, took) = ((self.totals.steps - before).max(1), start.elapsed().saturating_sub(reading));
        if let Some(answering) = answering {
            self.guessing.stepped(answering, plan.rows(), took / steps as u32);
        }
        let has_guesses = answering.map(|answering| plan.rows() > answering);
        for (id, _) in &plan.turns {
            if let Some(job) = self.jobs.get_mut(id) {
                job.gain.stepped(has_guesses, took, reading);
            }
        }
        self.totals.last_rows = plan.rows();
        self.totals.step_seconds += start.elapsed().as_secs_f64();
        if let Err(error) = &done {
            let all: Vec<RequestId> = self.jobs.keys().copied().collect();
            all.into_iter().for_each(|id| self.fail(id, error.clone()));
        }
        done
    }

    /// What it does at the moment and has done so far.
    pub fn status(&self) -> Status {
        let scarcest = self.engine.page_pools().iter().min_by_key(|pool| pool.free());
        let (free, total) = scarcest.map_or((0, 0), |pool| (pool.free(), pool.total()));
        let pages = self.engine.pages();
        let mut is_held = vec![false; pages.total()];
        for page in self.jobs.values().flat_map(|job| job.sequence.pages()) {
            // One that a window has left is none.
            if let Some(is_held) = is_held.get_mut(*page as usize) {
                *is_held = true;
            }
        }
        let held = is_held.into_iter().filter(|held| *held).count();
        Status {
            waiting: self.scheduler.waiting(),
            running: self.scheduler.running().count(),
            pages_used: total - free,
            pages_total: total,
            pages_cached: (pages.total() - pages.free()).saturating_sub(held),
            cached_sequences: self.cache.as_ref().map_or(0, PrefixCache::len),
            ..self.totals
        }
    }

    /// Ends what no caller waits for any more, and what took too long: with what it has said so far, if anything.
    fn end_unwanted(&mut self) {
        let now = Instant::now();
        let gone = |job: &Job| job.listener.is_gone() || job.deadline.is_some_and(|deadline| now >= deadline);
        let ids: Vec<RequestId> = self.jobs.iter().filter(|(_, job)| gone(job)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let reason = match job.listener.is_gone() {
                true => FinishReason::Cancelled,
                false if job.generation.generated() > 0 => FinishReason::Length,
                false => {
                    self.fail(id, Error::TooLate);
                    continue;
                }
            };
            job.end(reason);
            self.remove(id);
        }
    }

    /// Computes a plan's rows and chooses a token for each request whose tokens are all computed.
    fn compute(&mut self, plan: &Plan) -> Result<()> {
        if self.try_compute(plan).is_ok() {
            return Ok(());
        }
        // All are as they were. One of them may be to blame, which shows when each is computed alone; or it was the
        // device, which may do better this time.
        plan.turns.iter().try_for_each(|turn| {
            // Without guesses, which were part of what failed.
            let pending = self.jobs.get(&turn.0).map_or(0, |job| job.sequence.pending().len());
            let alone = Plan { turns: vec![(turn.0, turn.1.min(pending))], ..Plan::default() };
            self.try_compute(&alone).or_else(|error| self.fail_alone(turn.0, error))
        })
    }

    /// Ends a request that cannot be computed, or all of them if that is the device's fault.
    fn fail_alone(&mut self, id: RequestId, error: Error) -> Result<()> {
        if matches!(error, Error::Step(StepError::Device(_))) {
            return Err(error);
        }
        self.fail(id, error);
        Ok(())
    }

    fn try_compute(&mut self, plan: &Plan) -> Result<()> {
        let (mut turns, mut constrained) = (vec![], vec![]);
        for (job, rows) in in_turn(&mut self.jobs, plan) {
            let has_logits = rows >= job.sequence.pending().len();
            let (turn, generation) = job.turn(rows);
            turns.push(turn);
            if has_logits && generation.wants_preparation() {
                constrained.push(generation);
            }
        }
        let engine = &mut self.engine;
        let done = std::thread::scope(|scope| {
            if !constrained.is_empty() {
                scope.spawn(|| constrained.into_iter().for_each(|generation| generation.prepare()));
            }
            engine.step(&mut turns)
        });
        if let Err(error) = done {
            in_turn(&mut self.jobs, plan).for_each(|(job, _)| job.discard_guesses());
            return Err(error);
        }
        let (mut computed, mut index) = (vec![], 0);
        for ((id, _), (job, _)) in plan.turns.iter().zip(in_turn(&mut self.jobs, plan)) {
            if job.stops.remove(&job.sequence.computed())
                && !job.sequence.can_be_cut_anywhere()
                && let Some(cache) = &mut self.cache
            {
                cache.insert(job.sequence.fork());
            }
            if job.sequence.pending().is_empty() {
                let rows = index..index + 1 + job.guesses.len();
                index = rows.end;
                let logits = rows.map(|row| self.engine.logits(row)).collect();
                computed.push(Computed { id: *id, job, logits });
            }
        }
        let context = self.engine.context();
        let ended = guesses::choose_all(computed, context, self.threads, &mut self.totals);
        ended.into_iter().for_each(|end| self.close(end));
        Ok(())
    }

    /// Forgets a request that has ended, or has it fail.
    fn close(&mut self, (id, error): Ended) {
        match error {
            None => self.remove(id),
            Some(error) => self.fail(id, error),
        }
    }

    /// Ends a request without an answer.
    fn fail(&mut self, id: RequestId, error: Error) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.fail(error);
        }
        self.remove(id);
    }

    /// Forgets a request; what was computed of it stays for others.
    fn remove(&mut self, id: RequestId) {
        self.scheduler.remove(id);
        let Some(Job { mut sequence, .. }) = self.jobs.remove(&id) else { return };
        sequence.revert();
        if let Some(cache) = &mut self.cache {
            cache.insert(sequence);
        }
    }
}

/// A request that is over, and why if it failed.
type Ended = (RequestId, Option<Error>);

/// Goes on with a request's next token. Returns it if it is over.
fn go_on(id: RequestId, job: &mut Job, next: Result<Next>, totals: &mut Status) -> Option<Ended> {
    match next {
        Ok(next) => {
            let is_token =
                matches!(&next, Next::Token(_)) || matches!(&next, Next::Last(last) if last.token.is_some());
            totals.generated_tokens += u64::from(is_token);
            job.go_on(next).then_some((id, None))
        }
        Err(error) => Some((id, Some(error))),
    }
}

/// The requests of a plan whose turns are in the order of arrival, and the rows of each.
fn in_turn<'a>(jobs: &'a mut Jobs, plan: &'a Plan) -> impl Iterator<Item = (&'a mut Job, usize)> {
    let mut turns = plan.turns.iter().peekable();
    jobs.iter_mut().filter_map(move |(id, job)| {
        let (_, rows) = turns.next_if(|turn| turn.0 == *id)?;
        Some((job, *rows))
    })
}
