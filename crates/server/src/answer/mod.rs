//! From a question to a stream of parts: the core that all APIs translate to and from.
//!
//! A [`Conversation`] or a text becomes a [`Question`], a question one request to the engine for each choice, and what
//! the engine tells of them an [`Answer`]. Dropping the answer closes its channel, by which the engine knows that no
//! client listens and ends the requests. The channel has no bound, so that no reader can stall the engine; what is in
//! it is bounded by the tokens of the answers.

mod choice;
mod constraint;
mod conversation;
mod question;
mod reasoning;
mod whole;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use gleed_engine::{Constraint, Error, Listener, Refusal, Request, Text, Timings, TokenizerText, Update};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub use choice::{Ending, Part};
pub use constraint::constraints;
pub use conversation::{Call, Conversation, Form, Message, Tool, ToolChoice, Wishes};
pub use question::Question;
pub use whole::{Whole, WholeCall};

use crate::errors::Problem;
use crate::metrics::Metrics;
use crate::model::Model;
use choice::Choice;

/// The answers to one or more questions, as they come.
pub struct Answer {
    updates: UnboundedReceiver<(usize, Update)>,
    choices: Vec<Choice>,
    ready: VecDeque<(usize, Part)>,
    /// Choices that have not ended.
    open: usize,
    /// Choices of each question.
    per_question: usize,
    /// Tokens of all questions.
    prompt_tokens: usize,
    model: Arc<Model>,
}

/// What a request took, all choices together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompts, each counted once.
    pub prompt: usize,
    /// Of these, those that earlier requests had left.
    pub cached: usize,
    /// Tokens of all answers.
    pub completion: usize,
    /// Of these, those of reasoning.
    pub reasoning: usize,
}

/// Makes a constraint for each choice: they advance by themselves.
pub type Constraints = Vec<Option<Box<dyn Constraint>>>;

impl Answer {
    /// Asks a model. Choice `i` of question `q` is number `q * choices + i` of the answer; its seed is `i` more than
    /// the one that was wished for. `constraints` has one entry for each of them, or none at all.
    pub fn ask(
        model: Arc<Model>,
        questions: Vec<Question>,
        wishes: &Wishes,
        mut constraints: Constraints,
        metrics: &Metrics,
    ) -> Result<Answer, Problem> {
        let adapters = model.adapters.taken(wishes.adapters.as_deref())?;
        let (sender, updates) = unbounded_channel();
        let count = questions.len() * wishes.choices;
        constraints.resize_with(count, || None);
        let prompt_tokens = questions.iter().map(|question| question.tokens.len()).sum();
        let mut choices = Vec::with_capacity(count);
        let numbered = questions.iter().flat_map(|question| (0..wishes.choices).map(move |i| (question, i)));
        for ((question, number), constraint) in numbered.zip(constraints) {
            let prompt = question.tokens.len();
            if prompt > model.context {
                return Err(Error::PromptTooLong { prompt, context: model.context }.into());
            }
            let mut settings = wishes.settings.clone();
            // The last token of an answer needs no position of its own.
            let room = model.context - prompt + 1;
            settings.max_tokens = Some(settings.max_tokens.unwrap_or(room).min(room));
            settings.sampler.seed = settings.sampler.seed.map(|seed| seed.wrapping_add(number as u64));
            let text: Box<dyn Text + Send> = match &question.reading {
                Some(reading) => {
                    let format = reading.format.clone();
                    Box::new(TokenizerText::for_parser(model.tokenizer.clone(), format))
                }
                None => Box::new(TokenizerText::new(model.tokenizer.clone())),
            };
            let listener = Channel { choice: choices.len(), sender: sender.clone() };
            let meter = metrics.meter(&model.id, Instant::now());
            choices.push(Choice::new(question.reading.as_ref(), meter));
            model.engine.submit(Request {
                prompt: question.tokens.clone(),
                settings,
                text,
                constraint,
                adapters: adapters.clone(),
                uses_cache: wishes.uses_cache,
                deadline: wishes.deadline,
                listener: Box::new(listener),
            })?;
        }
        Ok(Answer {
            updates,
            open: choices.len(),
            choices,
            ready: VecDeque::new(),
            per_question: wishes.choices,
            prompt_tokens,
            model,
        })
    }

    /// The next part, and the choice that it belongs to; none when all are complete. After a problem nothing more
    /// comes.
    pub async fn next(&mut self) -> Option<Result<(usize, Part), Problem>> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Some(Ok(part));
            }
            if self.open == 0 {
                return None;
            }
            let Some((number, update)) = self.updates.recv().await else {
                self.open = 0;
                return Some(Err(Refusal::Stopped.into()));
            };
            let ends = matches!(update, Update::Finished(_));
            let (choice, ready) = (&mut self.choices[number], &mut self.ready);
            if let Err(problem) = choice.update(update, |part| ready.push_back((number, part))) {
                self.open = 0;
                self.ready.clear();
                return Some(Err(problem));
            }
            self.open -= usize::from(ends);
        }
    }

    /// The whole of every choice.
    pub async fn whole(&mut self) -> Result<Vec<Whole>, Problem> {
        let mut wholes: Vec<Whole> = self.choices.iter().map(|_| Whole::default()).collect();
        while let Some(part) = self.next().await {
            let (choice, part) = part?;
            wholes[choice].add(part);
        }
        Ok(wholes)
    }

    /// What it took so far.
    pub fn usage(&self) -> Usage {
        let generated = |choice: &Choice| choice.finish().map_or(0, |finish| finish.generated_tokens);
        Usage {
            prompt: self.prompt_tokens,
            // The first choice of a prompt computes it, the others share it.
            cached: self.choices.iter().step_by(self.per_question.max(1)).map(Choice::cached).sum(),
            completion: self.choices.iter().map(generated).sum(),
            reasoning: self.choices.iter().map(Choice::reasoning).sum(),
        }
    }

    /// Where the time of the first choice went, when it has ended.
    pub fn timings(&self) -> Option<&Timings> {
        self.choices.first()?.finish().map(|finish| &finish.timings)
    }

    /// The model that answers.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// How many choices there are.
    pub fn choices(&self) -> usize {
        self.choices.len()
    }
}

/// Takes what happens to one request from the engine's thread to the reader of the answer.
struct Channel {
    choice: usize,
    sender: UnboundedSender<(usize, Update)>,
}

impl Listener for Channel {
    fn update(&mut self, update: Update) {
        // No client listens any more: the engine asks for that itself.
        let _ = self.sender.send((self.choice, update));
    }

    fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }
}
