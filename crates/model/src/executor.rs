//! What every backend offers: run one [`Batch`] of rows through a program.

use crate::batch::Batch;
use crate::chain::Chain;
use crate::groups::PageGroup;
use crate::program::{Program, View};

/// Why a step has no result.
///
/// One that was *refused* ([`StepError::is_refusal`]) has changed nothing: neither the KV cache nor the logits of the
/// step before. One that *failed* may have left anything at the positions of its rows, in some layers or in all, and
/// has no logits; what the cache holds at all other positions is as it was. Both can be tried again with the same rows,
/// which write those positions anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// More rows than the executor has buffers for.
    #[error("a batch of {rows} rows is larger than the limit of {limit}")]
    TooManyRows {
        /// Rows in the batch.
        rows: usize,
        /// What the executor was made for.
        limit: usize,
    },
    /// A token that is not in the vocabulary.
    #[error("token {token} is not in the vocabulary of {vocabulary}")]
    UnknownToken {
        /// The token.
        token: u32,
        /// The size of the vocabulary.
        vocabulary: usize,
    },
    /// A position at or past the model's context.
    #[error("position {position} is past the context of {context}")]
    PastContext {
        /// The position.
        position: u32,
        /// The context the program was built for.
        context: usize,
    },
    /// A position whose page, or that of another position that it sees, is not in its table or does not exist.
    #[error("row {row}: position {position}, or what it sees, has no page in its table")]
    NoPage {
        /// The index of the row.
        row: usize,
        /// Its position.
        position: u32,
    },
    /// A position at or before that of an earlier row of the same sequence.
    #[error("row {row}: position {position} does not come after the row before it in its sequence")]
    NotAscending {
        /// The index of the row.
        row: usize,
        /// Its position.
        position: u32,
    },
    /// A position that does not follow right after that of the row before it, in a program with recurrent layers.
    #[error(
        "row {row}: position {position} does not come right after the row before it in its sequence, as recurrent \
         layers need it"
    )]
    Gap {
        /// The index of the row.
        row: usize,
        /// Its position.
        position: u32,
    },
    /// A program whose rows see later ones got a row without all rows of its sequence before it: they must be in one
    /// step, from the first on and one after the other.
    #[error(
        "row {row}: position {position} does not follow the one before it in its sequence, and this model needs all \
         of a text in one step"
    )]
    NotWhole {
        /// The index of the row.
        row: usize,
        /// Its position.
        position: u32,
    },
    /// Rows of a program with recurrent layers that begin after position 0 without a state, or at it with one.
    #[error("table {table}: its rows begin with position {position}, with {} state to begin with", if *found { "a" } else { "no" })]
    State {
        /// The number of the table.
        table: usize,
        /// The position of its first row.
        position: u32,
        /// Whether the table reads a slot.
        found: bool,
    },
    /// A state slot that cannot be used so.
    #[error("state slot {slot} {why}")]
    Slot {
        /// The slot.
        slot: u32,
        /// What is wrong.
        why: &'static str,
    },
    /// A program that begins in the middle of a model got other values than it needs, or one that does not
    /// got any.
    #[error("the batch brings {found} values, {expected} are needed")]
    Inputs {
        /// Values in the batch.
        found: usize,
        /// Rows times columns of the program's inputs.
        expected: usize,
    },
    /// A table that has scales for other adapters than there are, or one that is not a number.
    #[error("table {table} has {found} scales of adapters, where {expected} numbers are needed")]
    Adapters {
        /// The number of the table.
        table: usize,
        /// How many there are.
        found: usize,
        /// How many adapters the program has.
        expected: usize,
    },
    /// A result that is not a number. The keys and values that were written are not to be used.
    #[error(
        "{op} gave NaN at position {position}: its weights are damaged, or values grew past what their type \
         holds; check the file, or try f32 for the arithmetic and the KV cache"
    )]
    NotANumber {
        /// The first op that gave it, such as `blk.3.ffn_down`.
        op: String,
        /// The position of the token that it was computed for.
        position: u32,
    },
    /// A chain of steps that cannot be one.
    #[error("a chain of steps: {0}")]
    Chain(&'static str),
    /// The device failed, at any time during the step.
    #[error("device: {0}")]
    Device(String),
}

impl StepError {
    /// Whether the step was refused before anything was computed.
    pub fn is_refusal(&self) -> bool {
        match self {
            StepError::TooManyRows { .. }
            | StepError::UnknownToken { .. }
            | StepError::PastContext { .. }
            | StepError::NoPage { .. }
            | StepError::NotAscending { .. }
            | StepError::Gap { .. }
            | StepError::State { .. }
            | StepError::Slot { .. }
            | StepError::NotWhole { .. }
            | StepError::Inputs { .. }
            | StepError::Adapters { .. }
            | StepError::Chain(_) => true,
            StepError::NotANumber { .. } | StepError::Device(_) => false,
        }
    }

    /// What it is to a caller for whom something was computed already: no refusal.
    pub fn half_way(self) -> StepError {
        if self.is_refusal() {
            StepError::Device(format!("refused half-way through a step: {self}"))
        } else {
            self
        }
    }
}

/// Sees the buffers after each node of a step: for validation and timing.
pub trait Observer {
    /// Whether it looks at all. When it does, an executor that queues work on a device must finish each
    /// node before it goes on to the next, which is slow.
    fn looks(&self) -> bool {
        true
    }

    /// Called before the first node, so that a clock can start.
    fn start(&mut self) {}

    /// Called after each node, in order.
    fn after(&mut self, node: usize, buffers: &dyn Buffers);
}

/// Observes nothing.
impl Observer for () {
    fn looks(&self) -> bool {
        false
    }

    fn after(&mut self, _node: usize, _buffers: &dyn Buffers) {}
}

/// The activations of a step in progress.
pub trait Buffers {
    /// Appends the rows of a view, row by row: all rows of the batch, or the wanted ones once the
    /// program has gathered them.
    fn read(&self, view: View, out: &mut Vec<f32>);
}

/// Runs a program, batch by batch.
pub trait Executor: Send {
    /// The program it runs.
    fn program(&self) -> &Program;

    /// The most rows one step takes.
    fn max_rows(&self) -> usize;

    /// The KV pages that there are of each of the program's [page groups](crate::groups::PageGroups).
    fn page_groups(&self) -> &[PageGroup];

    /// How many KV pages every group has: page numbers below this are there in all of them.
    fn page_count(&self) -> usize {
        self.page_groups().iter().map(|group| group.pages).min().unwrap_or(0)
    }

    /// How many state slots there are; slot numbers are below this. Each holds what all recurrent layers keep of one
    /// sequence.
    fn slot_count(&self) -> usize {
        0
    }

    /// Computes all rows of a batch, writes their keys and values, and keeps the logits of wanted rows. What holds
    /// after an error is said with [`StepError`].
    fn step(&mut self, batch: &Batch, observer: &mut dyn Observer) -> Result<(), StepError>;

    /// The logits of the `index`-th wanted row of the last step that was computed, one per vocabulary entry;
    /// empty when it had no such row.
    fn logits(&self, index: usize) -> &[f32];

    /// Copies the keys and values of a page of a group, so that two sequences can part inside it.
    fn copy_page(&mut self, group: usize, from: u32, to: u32);

    /// Chains of steps, where the device can choose tokens itself.
    fn chain(&mut self) -> Option<&mut dyn Chain> {
        None
    }
}
