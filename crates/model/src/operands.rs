//! What an op touches: the one list of its weights, views, caches and rotary tables.
//!
//! The list names every field of every op, so that neither a new op nor a new field compiles before it is said
//! here what it touches. Whatever passes over a program (fusion, splitting, checks, printing, planning) asks this
//! list and not the ops one by one, so that none of them can skip an op that it has never heard of.

use crate::program::{Attention, Indexer, LowRank, Norm, Op, Projection, View, WeightId};
use crate::recurrence::{Convolution, Decay, DeltaRule, Scan, Wkv};
use crate::routing::Routing;

/// What an op does with a view or with a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes all of a view, or the rows' positions of a cache, whatever was there.
    Write,
    /// Reads it and writes it.
    Update,
    /// Reads it and may leave anything in its place.
    Consume,
}

impl Access {
    /// Whether what was there before matters.
    pub fn reads(self) -> bool {
        match self {
            Access::Read | Access::Update | Access::Consume => true,
            Access::Write => false,
        }
    }

    /// Whether there is something of the op's afterwards.
    pub fn writes(self) -> bool {
        match self {
            Access::Write | Access::Update => true,
            Access::Read | Access::Consume => false,
        }
    }
}

/// What a weight is to an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Multiplied with.
    Matrix,
    /// Looked up in, one entry per row.
    Table,
    /// The factors of a norm, or of columns.
    Factors,
    /// Added.
    Bias,
    /// Scores without values.
    Sinks,
    /// Some values for each channel or head of a recurrent layer.
    Channels,
    /// The upper matrix of an adapter.
    Up,
}

/// One thing that an op touches. `I` is a number or a place for one, `V` the same of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand<I, V> {
    /// A weight of the program.
    Weight(I, Role),
    /// Some columns of a buffer, of the row that is computed and of no other; only [`Op::Pool`] reads other rows.
    View(V, Access),
    /// The keys and values of one layer: state that outlives the step.
    Cache(I, Access),
    /// What a recurrent layer keeps of a sequence, which outlives the step too; a row takes it up where the row before
    /// it in its sequence left it.
    State(I, Access),
    /// A rotary embedding of the program.
    Rope(I),
}

/// The list, for shared and for exclusive references alike: no pattern has `..`, so that no field is forgotten.
macro_rules! list {
    ($op:expr, $each:expr) => {{
        use Access::{Consume, Read, Update, Write};
        let each = $each;
        macro_rules! norm {
            ($norm:expr) => {{
                let Norm { weight, bias, epsilon: _ } = $norm;
                each(Operand::Weight(weight, Role::Factors));
                if let Some(bias) = bias {
                    each(Operand::Weight(bias, Role::Bias));
                }
            }};
        }
        macro_rules! part {
            ($part:expr) => {{
                let Projection { weight, bias } = $part;
                each(Operand::Weight(weight, Role::Matrix));
                if let Some(bias) = bias {
                    each(Operand::Weight(bias, Role::Bias));
                }
            }};
        }
        match $op {
            Op::Input { views } => {
                for view in views {
                    each(Operand::View(view, Write));
                }
            }
            Op::Embed { table, out } => {
                each(Operand::Weight(table, Role::Table));
                each(Operand::View(out, Write));
            }
            Op::AddPositions { table, x } | Op::AddVector { table, x } => {
                each(Operand::Weight(table, Role::Table));
                each(Operand::View(x, Update));
            }
            Op::Norm { norm, heads: _, input, out } => {
                norm!(norm);
                each(Operand::View(input, Read));
                each(Operand::View(out, Write));
            }
            Op::Center { heads: _, input, out } => {
                each(Operand::View(input, Read));
                each(Operand::View(out, Write));
            }
            Op::Linear { parts, input, out } => {
                for part in parts {
                    part!(part);
                }
                each(Operand::View(input, Read));
                each(Operand::View(out, Write));
            }
            Op::Rope { rope, heads: _, x } => {
                each(Operand::Rope(rope));
                each(Operand::View(x, Update));
            }
            Op::KvWrite { cache, key, value } => {
                each(Operand::View(key, Read));
                each(Operand::View(value, Read));
                each(Operand::Cache(cache, Write));
            }
            Op::Attention { attention, query, out } => {
                let Attention {
                    cache,
                    heads: _,
                    scale: _,
                    causal: _,
                    window: _,
                    chunk: _,
                    soft_cap: _,
                    alibi: _,
                    sinks,
                    chosen,
                } = attention;
                if let Some(sinks) = sinks {
                    each(Operand::Weight(sinks, Role::Sinks));
                }
                each(Operand::View(query, Read));
                if let Some(chosen) = chosen {
                    each(Operand::View(chosen, Read));
                }
                each(Operand::Cache(cache, Read));
                each(Operand::View(out, Write));
            }
            Op::Choose { indexer: Indexer { cache, heads: _ }, query, weights, out } => {
                each(Operand::View(query, Read));
                each(Operand::View(weights, Read));
                each(Operand::Cache(cache, Read));
                each(Operand::View(out, Write));
            }
            Op::Activate { activation: _, gate, up, out } => {
                each(Operand::View(gate, Read));
                if let Some(up) = up {
                    each(Operand::View(up, Read));
                }
                each(Operand::View(out, Write));
            }
            Op::Add { x, y } => {
                each(Operand::View(x, Update));
                each(Operand::View(y, Read));
            }
            Op::Map { map: _, x } => each(Operand::View(x, Update)),
            Op::Unzip { heads: _, input, outs } => {
                each(Operand::View(input, Read));
                for out in outs {
                    each(Operand::View(out, Write));
                }
            }
            Op::Zip { heads: _, first, second, out } => {
                each(Operand::View(first, Read));
                each(Operand::View(second, Read));
                each(Operand::View(out, Write));
            }
            Op::UnitNorm { heads: _, epsilon: _, like, x } => {
                if let Some(like) = like {
                    each(Operand::View(like, Read));
                }
                each(Operand::View(x, Update));
            }
            Op::ScaleColumns { weight, input, out } => {
                each(Operand::Weight(weight, Role::Factors));
                each(Operand::View(input, Read));
                each(Operand::View(out, Write));
            }
            Op::Blend { shares, x, y, out } => {
                each(Operand::Weight(shares, Role::Factors));
                each(Operand::View(x, Read));
                each(Operand::View(y, Read));
                each(Operand::View(out, Write));
            }
            Op::Dot { heads: _, x, y, out } => {
                each(Operand::View(x, Read));
                each(Operand::View(y, Read));
                each(Operand::View(out, Write));
            }
            Op::Sparsify { spread: _, x } => each(Operand::View(x, Update)),
            Op::MixStreams { coefficients, input, out } => {
                each(Operand::View(coefficients, Read));
                each(Operand::View(input, Read));
                each(Operand::View(out, Write));
            }
            Op::CorrectStreams { coefficients, truth, input, out } => {
                for view in [coefficients, truth, input] {
                    each(Operand::View(view, Read));
                }
                each(Operand::View(out, Write));
            }
            Op::Shift { state, input, out } => {
                each(Operand::View(input, Read));
                each(Operand::State(state, Update));
                each(Operand::View(out, Write));
            }
            Op::Convolve { convolution, input, out } => {
                let Convolution { state, taps, bias, silu: _ } = convolution;
                each(Operand::Weight(taps, Role::Channels));
                if let Some(bias) = bias {
                    each(Operand::Weight(bias, Role::Bias));
                }
                each(Operand::View(input, Read));
                each(Operand::State(state, Update));
                each(Operand::View(out, Write));
            }
            Op::Scan { scan, x, dt, b, c, out } => {
                let Scan { state, heads: _, groups: _, decay, dt_bias, skip } = scan;
                each(Operand::Weight(decay, Role::Channels));
                if let Some(bias) = dt_bias {
                    each(Operand::Weight(bias, Role::Bias));
                }
                each(Operand::Weight(skip, Role::Channels));
                for view in [x, dt, b, c] {
                    each(Operand::View(view, Read));
                }
                each(Operand::State(state, Update));
                each(Operand::View(out, Write));
            }
            Op::DeltaRule { rule, query, key, value, alpha, beta, out } => {
                let DeltaRule { state, heads: _, key_heads: _, in_turn: _, decay, scale: _ } = rule;
                if let Some(Decay { decay, dt_bias }) = decay {
                    each(Operand::Weight(decay, Role::Channels));
                    each(Operand::Weight(dt_bias, Role::Bias));
                }
                for view in [query, key, value, alpha, beta] {
                    each(Operand::View(view, Read));
                }
                each(Operand::State(state, Update));
                each(Operand::View(out, Write));
            }
            Op::Wkv { wkv, query, kept, key, value, asked, removed, out } => {
                let Wkv { state, heads: _ } = wkv;
                for view in [query, kept, key, value, asked, removed] {
                    each(Operand::View(view, Read));
                }
                each(Operand::State(state, Update));
                each(Operand::View(out, Write));
            }
            Op::Keep { decay: Decay { decay, dt_bias }, x } => {
                each(Operand::Weight(decay, Role::Channels));
                each(Operand::Weight(dt_bias, Role::Bias));
                each(Operand::View(x, Update));
            }
            Op::Gate { activation: _, gate, x } => {
                each(Operand::View(gate, Read));
                each(Operand::View(x, Update));
            }
            Op::Route { routing, scores, out } => {
                let Routing { gate: _, used: _, groups: _, bias, normalised: _, scale: _, factors } = routing;
                for weight in [bias, factors].into_iter().flatten() {
                    each(Operand::Weight(weight, Role::Bias));
                }
                each(Operand::View(scores, Read));
                each(Operand::View(out, Write));
            }
            Op::ExpertLinear { parts, choice, input, out } => {
                for part in parts {
                    part!(part);
                }
                if let Some(choice) = choice {
                    each(Operand::View(choice, Read));
                }
                each(Operand::View(input, Read));
                each(Operand::View(out, Write));
            }
            Op::Weigh { choice, input, out } | Op::Combine { choice, weighted: _, input, out } => {
                each(Operand::View(choice, Read));
                each(Operand::View(input, Read));
                each(Operand::View(out, Write));
            }
            Op::AdapterScales { out } => each(Operand::View(out, Write)),
            Op::AddLowRank { parts, choice, scales, input, x } => {
                for LowRank { adapter: _, up, factor: _ } in parts {
                    each(Operand::Weight(up, Role::Up));
                }
                if let Some(choice) = choice {
                    each(Operand::View(choice, Read));
                }
                each(Operand::View(scales, Read));
                each(Operand::View(input, Read));
                each(Operand::View(x, Update));
            }
            Op::Gather { views } => {
                for view in views {
                    each(Operand::View(view, Update));
                }
            }
            Op::Pool { x } => each(Operand::View(x, Update)),
            Op::AddNorm { x, y, norm, out } => {
                each(Operand::View(x, Update));
                each(Operand::View(y, Read));
                norm!(norm);
                each(Operand::View(out, Write));
            }
            Op::RopeKvWrite {
                cache,
                heads: _,
                query_rope,
                key_rope,
                query_norm,
                key_norm,
                query,
                key,
                value,
            } => {
                if let Some(norm) = query_norm {
                    norm!(norm);
                }
                if let Some(norm) = key_norm {
                    norm!(norm);
                }
                each(Operand::Rope(query_rope));
                each(Operand::Rope(key_rope));
                each(Operand::View(query, Update));
                // An executor may rotate keys in place or on their way to the cache.
                each(Operand::View(key, Consume));
                each(Operand::View(value, Read));
                each(Operand::Cache(cache, Write));
            }
            Op::GatedLinear { activation: _, gate, up, input, out } => {
                part!(gate);
                part!(up);
                each(Operand::View(input, Read));
                each(Operand::View(out, Write));
            }
        }
    }};
}

impl Op {
    /// Gives out everything that the op touches, in the order in which people would name it.
    pub fn each_operand<'a>(&'a self, each: &mut dyn FnMut(Operand<&'a usize, &'a View>)) {
        list!(self, each);
    }

    /// The same, to be changed.
    pub fn each_operand_mut<'a>(&'a mut self, each: &mut dyn FnMut(Operand<&'a mut usize, &'a mut View>)) {
        list!(self, each);
    }

    fn list<T>(&self, pick: impl Fn(Operand<&usize, &View>) -> Option<T>) -> Vec<T> {
        let mut picked = Vec::new();
        self.each_operand(&mut |operand| picked.extend(pick(operand)));
        picked
    }

    fn views(&self, wanted: fn(Access) -> bool) -> Vec<View> {
        self.list(|operand| match operand {
            Operand::View(view, access) => wanted(access).then_some(*view),
            Operand::Weight(..) | Operand::Cache(..) | Operand::State(..) | Operand::Rope(_) => None,
        })
    }

    /// The views that the op reads.
    pub fn inputs(&self) -> Vec<View> {
        self.views(Access::reads)
    }

    /// The views that the op writes.
    pub fn outputs(&self) -> Vec<View> {
        self.views(Access::writes)
    }

    /// The views that may hold anything when the op has read them.
    pub fn consumed(&self) -> Vec<View> {
        self.views(|access| access == Access::Consume)
    }

    /// Everything of the file that the op uses and for which `wanted` holds.
    pub fn weights_that(&self, wanted: impl Fn(Role) -> bool) -> Vec<WeightId> {
        self.list(|operand| match operand {
            Operand::Weight(weight, role) => wanted(role).then_some(*weight),
            Operand::View(..) | Operand::Cache(..) | Operand::State(..) | Operand::Rope(_) => None,
        })
    }

    /// Everything of the file that the op uses: matrices, tables, norms and biases.
    pub fn weights(&self) -> Vec<WeightId> {
        self.weights_that(|_| true)
    }

    /// The matrices that the op multiplies with.
    pub fn matrices(&self) -> Vec<WeightId> {
        self.weights_that(|role| role == Role::Matrix)
    }

    /// The weights that the op uses as plain f32, whatever they are in the file: vectors, and what adapters add with.
    pub fn vectors(&self) -> Vec<WeightId> {
        self.weights_that(|role| matches!(role, Role::Factors | Role::Bias | Role::Sinks | Role::Up))
    }

    /// The weights that hold some values for each channel or head.
    pub fn channels(&self) -> Vec<WeightId> {
        self.weights_that(|role| role == Role::Channels)
    }

    /// Whether only wanted rows are left after the op.
    pub fn gathers(&self) -> bool {
        matches!(self, Op::Gather { .. } | Op::Pool { .. })
    }

    /// Whether the op changes what outlives the step, so that every row must go through it.
    pub fn changes_state(&self) -> bool {
        let mut changes = false;
        self.each_operand(&mut |operand| match operand {
            Operand::Cache(_, access) | Operand::State(_, access) => changes |= access.writes(),
            Operand::Weight(..) | Operand::View(..) | Operand::Rope(_) => {}
        });
        changes
    }
}
