//! Guesses of the next tokens: which are made, and what becomes of them.

use std::time::Duration;

use super::job::Job;
use super::{Batcher, Ended, Jobs, go_on};
use crate::speculation::{Draft, MOST_GUESSES, Worth};
use crate::{Plan, RequestId, Result, Speculation, Status};

/// Where guesses come from and whether they are made.
pub(super) struct Guessing {
    pub when: Speculation,
    pub draft: Option<Draft>,
    worth: Worth,
}

impl Guessing {
    /// Guesses from the text, and from a draft where there is one.
    pub fn new(when: Speculation, draft: Option<Draft>) -> Self {
        Guessing { when, draft, worth: Worth::default() }
    }

    /// Takes in how long a step took in which answers went on and no prompt was computed.
    pub fn stepped(&mut self, jobs: usize, rows: usize, took: Duration) {
        match rows > jobs {
            true => self.worth.guessed(rows, took),
            false => self.worth.plain(jobs, took),
        }
    }
}

impl Batcher {
    /// Guesses for the answers under way, if that pays. Returns how long a draft took to read what it had not read
    /// before, which says nothing of the next step.
    pub(super) fn guess(&mut self) -> Duration {
        let Guessing { when, draft, worth } = &mut self.guessing;
        self.jobs.values_mut().for_each(|job| job.guesses.clear());
        if *when == Speculation::Off {
            return Duration::ZERO;
        }
        let context = self.engine.context();
        let (mut answering, mut guesses, mut right) = (0, 0, 0.0);
        // How many tokens each is guessed, and whether the draft does it.
        let mut lengths: Vec<(RequestId, usize, bool)> = vec![];
        for (id, job) in &mut self.jobs {
            if !job.is_answering() {
                continue;
            }
            answering += 1;
            let most = MOST_GUESSES
                .min(job.generation.remaining().saturating_sub(1))
                .min(context.saturating_sub(job.tokens.len() + 1));
            let in_text = job.lookup.next(&job.tokens).map_or(0, |_| job.hope.length(most));
            let drafted = draft.as_ref().map_or(0, |_| job.draft_hope.length(most));
            if drafted == 0 {
                job.draft_hope.rested();
            }
            let (length, hope, is_draft) =
                match in_text > 0 && job.hope.right(in_text) >= job.draft_hope.right(drafted) {
                    true => (in_text, job.hope, false),
                    false => (drafted, job.draft_hope, true),
                };
            guesses += length;
            right += hope.right(length);
            lengths.push((*id, length, is_draft));
        }
        let pays = *when == Speculation::Always || worth.pays(answering, guesses, right);
        if guesses == 0 || !pays {
            return Duration::ZERO;
        }
        for (id, length, _) in lengths.iter().filter(|length| !length.2) {
            if let Some(job) = self.jobs.get_mut(id) {
                job.guesses = job.lookup.guess(&job.tokens, *length);
                job.is_drafted = false;
            }
        }
        let Some(draft) = draft else { return Duration::ZERO };
        let asked: Vec<_> = lengths
            .iter()
            .filter(|(_, length, is_draft)| *is_draft && *length > 0)
            .filter_map(|(id, length, _)| Some((*id, self.jobs.get(id)?.tokens.as_slice(), *length)))
            .collect();
        let ids: Vec<RequestId> = asked.iter().map(|question| question.0).collect();
        draft.keep(|id| self.jobs.contains_key(&id));
        let (drafted, reading) = draft.guess(&asked);
        for (id, guess) in ids.into_iter().zip(drafted) {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.guesses = guess;
                job.is_drafted = true;
            }
        }
        reading
    }
}

/// How many requests of a plan there are, if all of them are answers.
pub(super) fn answering(jobs: &Jobs, plan: &Plan) -> Option<usize> {
    let all = plan.turns.iter().all(|turn| jobs.get(&turn.0).is_some_and(Job::is_answering));
    all.then_some(plan.turns.len())
}

/// A request whose tokens are all computed, and some guesses with them; and the logits after the last token and after
/// each guess.
pub(super) struct Computed<'a> {
    pub id: RequestId,
    pub job: &'a mut Job,
    pub logits: Vec<&'a [f32]>,
}

/// Logits from which on tokens are chosen on several threads: fewer take less time than a thread takes to start.
const MANY: usize = 1 << 20;

/// Goes on with all of them, several at once where that is much work. Returns those that are over.
pub(super) fn choose_all(
    mut computed: Vec<Computed<'_>>,
    context: usize,
    threads: usize,
    totals: &mut Status,
) -> Vec<Ended> {
    let work: usize = computed.iter().flat_map(|computed| &computed.logits).map(|row| row.len()).sum();
    let threads = if work < MANY { 1 } else { threads.clamp(1, computed.len().max(1)) };
    let share = computed.len().div_ceil(threads).max(1);
    let choose = |some: &mut [Computed]| {
        let mut done = Status::default();
        let ended: Vec<Ended> = some.iter_mut().filter_map(|one| one.go_on(context, &mut done)).collect();
        (ended, done)
    };
    let results: Vec<(Vec<Ended>, Status)> = std::thread::scope(|scope| {
        let mut shares = computed.chunks_mut(share);
        let own = shares.next();
        let others: Vec<_> = shares.map(|some| scope.spawn(|| choose(some))).collect();
        let own = own.map(choose);
        let others = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        own.into_iter().chain(others).collect()
    });
    let mut ended = vec![];
    for (over, done) in results {
        ended.extend(over);
        totals.generated_tokens += done.generated_tokens;
        totals.guessed_tokens += done.guessed_tokens;
        totals.accepted_tokens += done.accepted_tokens;
    }
    ended
}

impl Computed<'_> {
    /// Goes on as long as guesses are right, one token after the other, each from its own logits. Returns the request if
    /// it is over.
    fn go_on(&mut self, context: usize, totals: &mut Status) -> Option<Ended> {
        let Computed { id, job, logits } = self;
        let guesses = std::mem::take(&mut job.guesses);
        let (before, mut ended) = (job.tokens.len(), None);
        for (row, logits) in logits.iter().enumerate() {
            let last = job.tokens.len() >= context;
            let next: Result<_> = job.generation.advance(logits, last);
            ended = go_on(*id, job, next, totals);
            let Some(guess) = guesses.get(row).filter(|_| ended.is_none()) else { break };
            let right = job.tokens.last() == Some(guess);
            if job.is_drafted {
                job.draft_hope.scored(right);
            }
            job.gain.scored(right);
            totals.guessed_tokens += 1;
            totals.accepted_tokens += u64::from(right);
            if !right {
                break;
            }
        }
        // What is held of wrong guesses is taken back; the token that was chosen last is computed next.
        let chosen = &job.tokens[before..];
        let right = guesses.iter().zip(chosen).take_while(|(guess, token)| guess == token).count();
        if right < guesses.len() {
            job.sequence.truncate(before + right);
        }
        job.sequence.extend(&chosen[right..]);
        ended
    }
}
