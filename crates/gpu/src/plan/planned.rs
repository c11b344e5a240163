//! A node that is ready to run: its commands, and which of them a step records.

use super::layers::Layers;
use crate::Result;
use crate::kernels::experts::halves::ExpertHalves;
use crate::kernels::{Dispatch, List};
use crate::launch::{KernelId, Run};
use crate::linear::Linear;
use crate::step::Counts;

/// One node, ready to run.
#[derive(Debug, PartialEq)]
pub(crate) struct Planned {
    /// The rows that it sees; a gather already sees the wanted ones.
    pub list: List,
    pub commands: Vec<Command>,
    /// What is before it, if that does this node's work too.
    pub within: Option<Within>,
}

/// What does the work of the node after it too.
#[derive(Debug, PartialEq)]
pub(crate) enum Within {
    /// A layer, that of a norm, for some numbers of rows.
    Layer(Linear),
    /// Experts, that of an activation, or of a sum and a norm, up to this many rows.
    Experts(usize),
}

impl Planned {
    /// Whether there is nothing left to do for it.
    pub fn is_done(&self, counts: Counts, recorded: Recorded) -> bool {
        match &self.within {
            Some(Within::Layer(layer)) => recorded.together(layer, counts),
            Some(Within::Experts(most)) => recorded == Recorded::Together && counts.rows <= *most,
            None => false,
        }
    }

    /// Gives `see` everything that is recorded of it in a step.
    pub fn visit(
        &self,
        counts: Counts,
        recorded: Recorded,
        see: &mut dyn FnMut(Run) -> Result<()>,
    ) -> Result<()> {
        if self.is_done(counts, recorded) {
            return Ok(());
        }
        self.commands.iter().try_for_each(|command| match command {
            Command::Dispatch(dispatch) => dispatch.run(counts).map_or(Ok(()), &mut *see),
            Command::Linear(layers) => layers.runs(counts, recorded).try_for_each(&mut *see),
            Command::Experts(experts) => {
                let dispatches = experts.dispatches(counts.rows, recorded == Recorded::Apart);
                dispatches.filter_map(|dispatch| dispatch.run(counts)).try_for_each(&mut *see)
            }
        })
    }

    /// All kernels that it may need, and from how many rows on, about.
    pub fn kernels(&self) -> impl Iterator<Item = (u32, KernelId)> {
        let dispatches = self.commands.iter().flat_map(|command| match command {
            Command::Dispatch(dispatch) => vec![dispatch],
            Command::Experts(experts) => experts.all().collect(),
            Command::Linear(_) => vec![],
        });
        let of_layers = self.commands.iter().filter_map(|command| match command {
            Command::Linear(layers) => Some(layers.kernels()),
            Command::Dispatch(_) | Command::Experts(_) => None,
        });
        dispatches.map(|dispatch| (dispatch.grid.rows(), dispatch.kernel)).chain(of_layers.flatten())
    }
}

/// How nodes are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// All of a step: one may do the work of the next, and leave out what no other reads.
    Together,
    /// Each writes all that it stands for, so that it can be looked at and timed.
    Apart,
}

impl Recorded {
    /// Whether a layer that can also do a norm's work does.
    pub(super) fn together(self, layer: &Linear, counts: Counts) -> bool {
        self == Recorded::Together && layer.requantizes(counts.rows as u32)
    }
}

/// Something to record.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Dispatch(Dispatch),
    Linear(Layers),
    Experts(ExpertHalves),
}
