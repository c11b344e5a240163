//! One request on its way to an answer.

use std::collections::BTreeSet;
use std::time::Instant;

use super::gain::Gain;
use crate::engine::Turn;
use crate::generation::{Last, Next};
use crate::speculation::{Hope, Lookup, MOST_GUESSES};
use crate::{
    Adapters, Error, Event, Finish, FinishReason, Generation, Listener, Need, Request, Result, Sequence,
    Text, Timings, Update,
};

/// A request, what is computed of it and what it has said so far.
pub(super) struct Job {
    pub sequence: Sequence,
    /// The prompt and the answer so far.
    pub tokens: Vec<u32>,
    pub generation: Generation<Box<dyn Text + Send>>,
    pub listener: Box<dyn Listener>,
    /// What its sequence is computed with.
    pub adapters: Adapters,
    pub uses_cache: bool,
    pub deadline: Option<Instant>,
    /// What may come next, computed with the next step.
    pub guesses: Vec<u32>,
    /// Whether a draft made them.
    pub is_drafted: bool,
    /// Where guesses come from, and how often those from the text and those of a draft were right.
    pub lookup: Lookup,
    pub hope: Hope,
    pub draft_hope: Hope,
    /// What guesses come to.
    pub gain: Gain,
    /// Lengths after which others want to go on too, so that a step ends there.
    pub stops: BTreeSet<usize>,
    prompt: usize,
    /// Tokens of the prompt that were there when it began; none before that.
    cached: Option<usize>,
    submitted: Instant,
    began: Option<Instant>,
    prompt_done: Option<Instant>,
}

impl Job {
    /// A job that waits. What can never be answered is refused.
    pub fn new(request: Request, vocabulary: usize, context: usize, known_adapters: usize) -> Result<Job> {
        let Request { prompt, settings, text, constraint, adapters, uses_cache, deadline, listener } =
            request;
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if prompt.len() > context {
            return Err(Error::PromptTooLong { prompt: prompt.len(), context });
        }
        if let Some(&token) = prompt.iter().find(|token| **token as usize >= vocabulary) {
            return Err(Error::UnknownToken { name: "prompt", token, vocabulary });
        }
        adapters.must_fit(known_adapters)?;
        let generation = Generation::new(settings, vocabulary, &prompt, text)?;
        let generation = match constraint {
            Some(constraint) => generation.constrained(constraint),
            None => generation,
        };
        Ok(Job {
            sequence: Sequence::default(),
            generation,
            listener,
            adapters,
            uses_cache,
            deadline,
            guesses: vec![],
            is_drafted: false,
            lookup: Lookup::default(),
            hope: Hope::default(),
            draft_hope: Hope::default(),
            gain: Gain::default(),
            stops: BTreeSet::new(),
            prompt: prompt.len(),
            tokens: prompt,
            cached: None,
            submitted: Instant::now(),
            began: None,
            prompt_done: None,
        })
    }

    /// Begins, or begins again, with a sequence that holds some of its tokens. Returns how many tokens were looked for
    /// and found, if it is the first time.
    pub fn begin(&mut self, mut sequence: Sequence) -> Option<(usize, usize)> {
        let computed = sequence.computed();
        sequence.extend(&self.tokens[computed..]);
        self.sequence = sequence;
        if self.cached.is_some() {
            return None;
        }
        self.cached = Some(computed);
        self.began = Some(Instant::now());
        self.listener.update(Update::Started { cached_tokens: computed });
        Some((self.prompt, computed))
    }

    /// What it could use in the next step.
    pub fn need(&self) -> Need {
        let (computed, pending) = (self.sequence.computed(), self.sequence.pending().len());
        if self.is_answering() {
            return Need::Answer { rows: pending, guesses: self.guesses.len() };
        }
        let stop = self.stops.range(computed + 1..).next();
        Need::Prompt(stop.map_or(pending, |stop| pending.min(stop - computed)))
    }

    /// Whether all but the last few of its tokens are computed, and the last ones are of its answer: the one that was
    /// chosen last, and those that a state had to be taken back for.
    pub fn is_answering(&self) -> bool {
        let pending = self.sequence.pending().len();
        self.tokens.len() > self.prompt && (1..=MOST_GUESSES + 1).contains(&pending)
    }

    /// Its part of a step, `rows` rows of which some may be guesses, and what chooses the tokens after it.
    pub fn turn(&mut self, rows: usize) -> (Turn<'_>, &mut Generation<Box<dyn Text + Send>>) {
        let pending = self.sequence.pending().len();
        let guesses = rows.saturating_sub(pending).min(self.guesses.len());
        self.guesses.truncate(guesses);
        self.sequence.extend(&self.guesses);
        let length = self.sequence.tokens().len();
        let turn = Turn { rows, logits: length - guesses - 1..length, guesses, sequence: &mut self.sequence };
        (turn, &mut self.generation)
    }

    /// Takes back what a step that failed was to compute.
    pub fn discard_guesses(&mut self) {
        self.guesses.clear();
        self.sequence.truncate(self.tokens.len());
    }

    /// Goes on with what the logits after its last token led to. Returns whether that is the end.
    pub fn go_on(&mut self, next: Next) -> bool {
        self.prompt_done.get_or_insert_with(Instant::now);
        match next {
            Next::Token(token) => {
                if let Some(guess) = self.lookup.next(&self.tokens) {
                    self.hope.scored(guess == token.id);
                }
                self.tokens.push(token.id);
                self.gain.said();
                self.listener.update(Update::Event(Event::Token(token)));
                false
            }
            Next::Last(last) => {
                self.finish(last);
                true
            }
        }
    }

    /// Ends it for a reason of the caller's.
    pub fn end(&mut self, reason: FinishReason) {
        let last = self.generation.end(reason);
        self.finish(last);
    }

    /// Ends it without an answer.
    pub fn fail(&mut self, error: Error) {
        self.listener.update(Update::Failed(error));
    }

    fn finish(&mut self, Last { token, rest, reason }: Last) {
        let now = Instant::now();
        let events =
            token.map(Event::Token).into_iter().chain((!rest.is_empty()).then_some(Event::Rest(rest)));
        events.for_each(|event| self.listener.update(Update::Event(event)));
        let began = self.began.unwrap_or(now);
        let prompt_done = self.prompt_done.unwrap_or(now);
        let first_token = self.prompt_done.filter(|_| self.generation.generated() > 0);
        let timings = Timings {
            queue_seconds: (began - self.submitted).as_secs_f64(),
            prompt_seconds: (prompt_done - began).as_secs_f64(),
            generation_seconds: (now - prompt_done).as_secs_f64(),
            time_to_first_token: first_token.map(|done| (done - self.submitted).as_secs_f64()),
        };
        self.listener.update(Update::Finished(Finish {
            reason,
            prompt_tokens: self.prompt,
            cached_tokens: self.cached.unwrap_or(0),
            generated_tokens: self.generation.generated(),
            seed: self.generation.seed(),
            timings,
            guesses: self.gain.total(),
        }));
    }
}
