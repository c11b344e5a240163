//! Everything that can go wrong between a prompt and its answer.

use gleed_model::StepError;

/// What the engine refuses, and why.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A setting outside its range.
    #[error("{name} is {value}, must be {expected}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: f32,
        /// What is allowed.
        expected: &'static str,
    },
    /// A setting names a token that the model does not have.
    #[error("{name}: token {token} is not in the vocabulary of {vocabulary}")]
    UnknownToken {
        /// The setting.
        name: &'static str,
        /// The token.
        token: u32,
        /// Entries of the vocabulary.
        vocabulary: usize,
    },
    /// A stop string without characters would end every answer before it starts.
    #[error("stop string {index} is empty; leave it out or give it at least one character")]
    EmptyStop {
        /// Its index in the list.
        index: usize,
    },
    /// Logits of another length than the vocabulary.
    #[error("{logits} logits for a vocabulary of {vocabulary}")]
    WrongLogits {
        /// How many came.
        logits: usize,
        /// How many were expected.
        vocabulary: usize,
    },
    /// Every token is masked, banned or not a number.
    #[error("no token can be chosen: every score is masked or not a number")]
    NoCandidate,
    /// What an answer may say could not be decided.
    #[error("the constraint of the answer: {0}")]
    Constraint(String),
    /// An answer that had not begun when its time was over.
    #[error("the answer had not begun when its time was over; give it more, or try again when fewer wait")]
    TooLate,
    /// A draft that would guess other tokens than the model has.
    #[error(
        "the draft has a vocabulary of {draft} tokens and the model one of {model}; use a draft of the same family"
    )]
    OtherVocabulary {
        /// Entries of the draft's vocabulary.
        draft: usize,
        /// Entries of the model's.
        model: usize,
    },
    /// Nothing to compute the first logits from.
    #[error("the prompt is empty; it needs at least one token")]
    EmptyPrompt,
    /// A prompt that does not fit.
    #[error(
        "the prompt has {prompt} tokens and the context holds {context}; shorten it or raise the context"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Positions that a sequence may have.
        context: usize,
    },
    /// A sequence in a step has no token that is not computed yet.
    #[error("sequence {index} of the step has nothing to compute")]
    NothingPending {
        /// Its index in the step.
        index: usize,
    },
    /// A sequence that holds pages of another engine, where other tokens lie.
    #[error(
        "sequence {index} of the step was computed with another engine; use it there, or begin a new one with its \
         tokens"
    )]
    OtherEngine {
        /// Its index in the step.
        index: usize,
    },
    /// Scales of other adapters than the model has.
    #[error("{scales} scales of adapters, where the model has {adapters} adapters")]
    Adapters {
        /// How many scales there are.
        scales: usize,
        /// How many adapters there are.
        adapters: usize,
    },
    /// A scale of an adapter that is infinite or not a number.
    #[error("an adapter cannot be scaled by {scale}")]
    AdapterScale {
        /// The scale.
        scale: f32,
    },
    /// The KV cache is full.
    #[error(
        "the KV cache is full: {needed} more pages needed, {free} of {total} are free; drop a sequence or \
         allocate more"
    )]
    NoPages {
        /// Pages that were asked for.
        needed: usize,
        /// Pages left.
        free: usize,
        /// Pages there are.
        total: usize,
    },
    /// Every state slot is held, and the sequence has none to give up.
    #[error("no state slot is free: sequences hold all {total}; drop one or allocate more")]
    NoSlots {
        /// Slots there are.
        total: usize,
    },
    /// A window of text that has nothing to measure or does not fit.
    #[error("a window of {window} tokens must be at least 3 and at most the context of {context}")]
    Window {
        /// The window asked for.
        window: usize,
        /// Positions that a sequence may have.
        context: usize,
    },
    /// A text shorter than one window.
    #[error("the text has {tokens} tokens, one window needs {window}; give more text or a smaller context")]
    TextTooShort {
        /// Tokens of the text.
        tokens: usize,
        /// Tokens of one window.
        window: usize,
    },
    /// Vectors were asked of a model that gives logits.
    #[error(
        "this model was made to generate text, and its file says nothing of how a text becomes one vector \
         (pooling_type); use an embedding model"
    )]
    NoEmbedding,
    /// Text was asked of a model that gives vectors.
    #[error(
        "this is an embedding model: it turns texts into vectors and has no words of its own; use `embed`"
    )]
    NoLogits,
    /// A text without tokens has no vector.
    #[error("text {index} has no tokens")]
    EmptyText {
        /// Its index in the list.
        index: usize,
    },
    /// A text that the model cannot read at once.
    #[error("text {index} has {tokens} tokens, and this model reads at most {limit} at once; shorten it")]
    TextTooLong {
        /// Its index in the list.
        index: usize,
        /// Its tokens.
        tokens: usize,
        /// The most tokens that fit into the context and into one step.
        limit: usize,
    },
    /// The executor refused or failed.
    #[error(transparent)]
    Step(#[from] StepError),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
