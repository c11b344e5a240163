//! An engine on a thread of its own, for those who must not wait for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::job::Job;
use super::{BatchSettings, Batcher, LOOK, Refusal, Request, Status};
use crate::{AdapterInfo, Engine, Error, Result};

/// An engine that answers many requests, on a thread of its own. All clones are the same one; dropping the last waits
/// until the thread has ended, and the engine with it: a device must be let go before the process is.
#[derive(Clone)]
pub struct EngineHandle {
    thread: Arc<Thread>,
    shared: Arc<Shared>,
}

/// The thread, and the way to it.
struct Thread {
    commands: Option<Sender<Command>>,
    handle: Option<JoinHandle<()>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        // Without it the thread ends when it has nothing to do.
        self.commands = None;
        // What it has done to those who waited, it has told them.
        let _ = self.handle.take().map(JoinHandle::join);
    }
}

/// Who is told the vectors of some texts.
pub type EmbedReply = Box<dyn FnOnce(Result<Vec<Vec<f32>>>) + Send>;

enum Command {
    Answer(Box<Job>),
    Embed(Vec<Vec<u32>>, EmbedReply),
}

struct Shared {
    context: usize,
    vocabulary: usize,
    adapters: Vec<AdapterInfo>,
    longest_text: usize,
    gives_embeddings: bool,
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    status: Status,
    /// Commands that the thread has not taken in yet.
    queued: usize,
    /// Texts that wait to become vectors, or do.
    embedding: usize,
    is_closed: bool,
    has_stopped: bool,
}

impl EngineHandle {
    /// Starts the thread.
    pub fn start(engine: Engine, settings: BatchSettings) -> EngineHandle {
        EngineHandle::of(Batcher::new(engine, &settings))
    }

    /// Starts the thread with a batcher that has no requests yet.
    pub fn of(batcher: Batcher) -> EngineHandle {
        let (commands, received) = channel();
        let engine = &batcher.engine;
        let shared = Arc::new(Shared {
            context: engine.context(),
            vocabulary: engine.vocabulary(),
            adapters: engine.adapters().to_vec(),
            longest_text: engine.longest_text(),
            gives_embeddings: engine.must_give_logits().is_err(),
            most: batcher.most,
            state: Mutex::new(State { status: batcher.status(), ..State::default() }),
        });
        let own = shared.clone();
        let handle = std::thread::spawn(move || {
            // A waiting caller hears of a panic by losing its listener.
            let ended = catch_unwind(AssertUnwindSafe(|| work(batcher, &received, &own)));
            own.state().has_stopped = true;
            drop(ended);
        });
        let thread = Thread { commands: Some(commands), handle: Some(handle) };
        EngineHandle { thread: Arc::new(thread), shared }
    }

    /// Has a request answered. What can never be answered is refused at once, and so is what there are too many before.
    pub fn submit(&self, request: Request) -> Result<(), Refusal> {
        if self.shared.gives_embeddings {
            return Err(Error::NoLogits.into());
        }
        let shared = &self.shared;
        let job = Job::new(request, shared.vocabulary, shared.context, shared.adapters.len())?;
        let mut state = self.open()?;
        let Status { waiting, running, .. } = state.status;
        let waiting = waiting + state.queued;
        if running + waiting >= self.shared.most {
            return Err(Refusal::QueueFull { waiting });
        }
        self.send(&mut state, Command::Answer(Box::new(job)))
    }

    /// Has texts become vectors; each is the tokens of a text with all that the tokenizer puts around them.
    pub fn embed(&self, texts: Vec<Vec<u32>>, reply: EmbedReply) -> Result<(), Refusal> {
        if !self.shared.gives_embeddings {
            return Err(Error::NoEmbedding.into());
        }
        let mut state = self.open()?;
        if state.queued + state.embedding >= self.shared.most {
            return Err(Refusal::QueueFull { waiting: state.queued + state.embedding });
        }
        self.send(&mut state, Command::Embed(texts, reply))
    }

    /// The most tokens that a prompt and its answer have together.
    pub fn context(&self) -> usize {
        self.shared.context
    }

    /// The adapters that requests may take.
    pub fn adapters(&self) -> &[AdapterInfo] {
        &self.shared.adapters
    }

    /// Entries of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.shared.vocabulary
    }

    /// The most tokens that a text may have to become a vector.
    pub fn longest_text(&self) -> usize {
        self.shared.longest_text
    }

    /// Whether it turns texts into vectors, and answers nothing.
    pub fn gives_embeddings(&self) -> bool {
        self.shared.gives_embeddings
    }

    /// What it does at the moment and has done so far.
    pub fn status(&self) -> Status {
        let state = self.shared.state();
        Status { waiting: state.status.waiting + state.queued, ..state.status }
    }

    /// Takes no more requests; those that it has are answered.
    pub fn close(&self) {
        self.shared.state().is_closed = true;
    }

    /// Whether it has nothing to do.
    pub fn is_idle(&self) -> bool {
        let state = self.shared.state();
        let Status { waiting, running, .. } = state.status;
        state.has_stopped || state.queued + state.embedding + waiting + running == 0
    }

    /// Whether its thread has ended: the device failed, or something panicked.
    pub fn has_stopped(&self) -> bool {
        self.shared.state().has_stopped
    }

    fn open(&self) -> Result<MutexGuard<'_, State>, Refusal> {
        let state = self.shared.state();
        match () {
            () if state.has_stopped => Err(Refusal::Stopped),
            () if state.is_closed => Err(Refusal::Closing),
            () => Ok(state),
        }
    }

    fn send(&self, state: &mut State, command: Command) -> Result<(), Refusal> {
        let commands = self.thread.commands.as_ref().ok_or(Refusal::Stopped)?;
        commands.send(command).map_err(|_| Refusal::Stopped)?;
        state.queued += 1;
        Ok(())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No change of the state can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's work, until no caller can ask for more or the device fails.
fn work(mut batcher: Batcher, received: &Receiver<Command>, shared: &Shared) {
    loop {
        // The first command is waited for if there is nothing else to do.
        let mut texts = vec![];
        let mut next = if batcher.is_idle() { received.recv().ok() } else { received.try_recv().ok() };
        if next.is_none() && batcher.is_idle() {
            return;
        }
        let mut taken = 0;
        while let Some(command) = next {
            match command {
                Command::Answer(job) => batcher.add(*job),
                Command::Embed(more, reply) => texts.push((more, reply)),
            }
            taken += 1;
            next = received.try_recv().ok();
        }
        let publish = |batcher: &Batcher, taken: usize, embedding: usize| {
            let status = batcher.status();
            let mut state = shared.state();
            state.queued -= taken;
            (state.status, state.embedding) = (status, embedding);
        };
        publish(&batcher, taken, texts.len());
        embed(&mut batcher, texts);
        let start = Instant::now();
        let interrupted = || start.elapsed() > LOOK || shared.state().queued > 0;
        let done = batcher.step(&interrupted);
        publish(&batcher, 0, 0);
        if done.is_err() {
            return;
        }
    }
}

/// Turns the texts of several requests into vectors together.
fn embed(batcher: &mut Batcher, requests: Vec<(Vec<Vec<u32>>, EmbedReply)>) {
    let all: Vec<&[u32]> = requests.iter().flat_map(|(texts, _)| texts).map(Vec::as_slice).collect();
    if requests.is_empty() {
        return;
    }
    match batcher.engine_mut().embed(&all) {
        Ok(vectors) => {
            let mut vectors = vectors.into_iter();
            for (texts, reply) in requests {
                reply(Ok(vectors.by_ref().take(texts.len()).collect()));
            }
        }
        // One of them may be to blame, which each hears for itself.
        Err(_) => requests.into_iter().for_each(|(texts, reply)| {
            let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
            reply(batcher.engine_mut().embed(&texts));
        }),
    }
}
