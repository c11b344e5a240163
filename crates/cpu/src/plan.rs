//! What is settled once, when a program is loaded: that it can be run, how its linear ops are cut into
//! strips, and how much scratch memory a thread needs.

use std::ops::Range;

use gleed_model::arithmetic::LANES;
use gleed_model::program::{Op, Program, Projection, View, experts_used};
use gleed_model::verify::{Misfit, verify};

use crate::Error;
use crate::kernels::packed::STREAMS;
use crate::kernels::shared::Boundaries;
use crate::kernels::slots::SlotColumns;
use crate::kernels::tile::TILE;
use crate::ops::adapters::STRIP;

/// One node, ready to run.
pub(crate) struct Plan {
    /// Parts of the output's columns that are worked on alone: strips of a linear op, key heads of
    /// attention, all columns of a rotation.
    pub columns: Boundaries,
    /// The strips of a linear op, as its columns; of a gated one, those of the gate; of experts, those of each.
    pub strips: Vec<Strip>,
    /// Where the strips of experts go.
    pub slots: Vec<SlotColumns>,
    /// Which part of the strips that are left a thread takes at once.
    pub share: usize,
    /// For each thread the strip it probably begins with in the next linear op, whose memory it can ask for
    /// before it is done with this one.
    pub then: Vec<Strip>,
}

/// Some rows of a part's weight: a few tiles of sixteen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strip {
    pub part: Projection,
    pub expert: usize,
    pub first: usize,
    pub rows: usize,
}

impl Strip {
    pub fn range(self) -> Range<usize> {
        self.first..self.first + self.rows
    }
}

/// Strips of a linear op that each thread gets at least, where there are enough tiles.
const STRIPS: usize = 8;

/// A thread takes this part of what would be its own of the strips that are left.
const SHARES: usize = 3;

/// Checks a program and plans its nodes.
pub(crate) fn plan(program: &Program, threads: usize) -> Result<Vec<Plan>, Error> {
    verify(program).map_err(|Misfit { node, kind, what }| Error::Program { node, kind, what })?;
    let mut plans: Vec<Plan> =
        program.nodes.iter().map(|node| plan_node(program, &node.op, threads)).collect();
    look_ahead(&mut plans, threads);
    Ok(plans)
}

/// Tells each linear op what the next one begins with, and the last one what the first does.
fn look_ahead(plans: &mut [Plan], threads: usize) {
    let begins = |plan: &Plan| -> Vec<Strip> {
        let (last, first_share) = (plan.strips.len() - 1, (plan.strips.len() / plan.share).max(1));
        (0..threads).map(|thread| plan.strips[last.min(thread * first_share)]).collect()
    };
    let mut then = plans.iter().find(|plan| !plan.strips.is_empty()).map(begins).unwrap_or_default();
    for plan in plans.iter_mut().rev().filter(|plan| !plan.strips.is_empty()) {
        let first = begins(plan);
        plan.then = std::mem::replace(&mut then, first);
    }
}

fn plan_node(program: &Program, op: &Op, threads: usize) -> Plan {
    let rows = |part: &Projection| program.weights[part.weight].rows;
    // As many tiles as are best read together, but so few that every thread gets several strips.
    let width = |rows: usize| TILE * (rows / TILE / (STRIPS * threads)).clamp(1, STREAMS);
    let (mut strips, mut slots) = (Vec::new(), Vec::new());
    let mut cut = |parts: &[Projection]| {
        let mut columns = Boundaries::with_capacity(0);
        let width = width(parts.iter().map(rows).sum());
        for &part in parts {
            let (start, rows) = (columns.end(), rows(&part));
            columns.push_equal(start + rows, width);
            let firsts = (0..rows).step_by(width);
            let strip = |first| Strip { part, expert: 0, first, rows: width.min(rows - first) };
            strips.extend(firsts.map(strip));
        }
        columns
    };
    let columns = match op {
        Op::Linear { parts, .. } => cut(parts),
        Op::GatedLinear { gate, .. } => cut(&[*gate]),
        Op::ExpertLinear { parts, choice, out, .. } => {
            let experts = parts.first().map_or(0, |part| program.weights[part.weight].experts);
            let used = experts_used(*choice, experts);
            cut(parts);
            slots = slot_columns(program, &strips, used, *out);
            Boundaries::with_capacity(0)
        }
        Op::RopeKvWrite { query, .. } => Boundaries::equal(query.width, query.width),
        Op::Attention { attention, out, .. } => {
            Boundaries::equal(out.width, out.width / program.caches[attention.cache].heads)
        }
        // As the state is cut.
        Op::Shift { out, .. }
        | Op::Convolve { out, .. }
        | Op::Scan { out, .. }
        | Op::DeltaRule { out, .. }
        | Op::Wkv { out, .. } => Boundaries::equal(out.width, LANES),
        Op::AddLowRank { parts, x, .. } => {
            // Each strip is of one expert.
            let outputs = parts.first().map_or(x.width, |part| program.weights[part.up].columns);
            let mut columns = Boundaries::with_capacity(x.width.div_ceil(STRIP));
            (outputs..=x.width).step_by(outputs).for_each(|end| columns.push_equal(end, STRIP));
            columns
        }
        // Shared out by rows or by heads.
        Op::Input { .. }
        | Op::Embed { .. }
        | Op::AddPositions { .. }
        | Op::AddVector { .. }
        | Op::Norm { .. }
        | Op::Center { .. }
        | Op::Rope { .. }
        | Op::KvWrite { .. }
        | Op::Choose { .. }
        | Op::Activate { .. }
        | Op::Add { .. }
        | Op::Map { .. }
        | Op::Unzip { .. }
        | Op::Zip { .. }
        | Op::UnitNorm { .. }
        | Op::ScaleColumns { .. }
        | Op::Blend { .. }
        | Op::Dot { .. }
        | Op::Sparsify { .. }
        | Op::MixStreams { .. }
        | Op::CorrectStreams { .. }
        | Op::Gate { .. }
        | Op::Keep { .. }
        | Op::Route { .. }
        | Op::Weigh { .. }
        | Op::Combine { .. }
        | Op::AdapterScales { .. }
        | Op::Gather { .. }
        | Op::Pool { .. }
        | Op::AddNorm { .. } => Boundaries::with_capacity(0),
    };
    Plan { columns, strips, slots, share: SHARES * threads, then: Vec::new() }
}

/// Where the strips of experts go: all slots of a row for one part, then for the next.
fn slot_columns(program: &Program, strips: &[Strip], used: usize, out: View) -> Vec<SlotColumns> {
    let (mut offset, mut columns) = (0, Vec::new());
    for strip in strips {
        let width = program.weights[strip.part.weight].rows;
        if strip.first == 0 && !columns.is_empty() {
            let SlotColumns { view, .. } = columns[columns.len() - 1];
            offset += view.width;
        }
        let view = out.part(offset, used * width);
        columns.push(SlotColumns { view, width, first: strip.first, count: strip.rows });
    }
    columns
}
