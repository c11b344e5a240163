//! Recurrent layers. Threads take blocks of sixteen channels, with their part of every state slot, and go through the
//! rows of all sequences in order: the state is read from one slot, changed in a thread's own memory, and written to the
//! slots that the batch names.

use std::ops::Range;

use gleed_model::Batch;
use gleed_model::arithmetic::LANES;
use gleed_model::program::View;
use gleed_model::recurrence::{Convolution, DeltaRule, Scan, delta_gates};

use super::Fixed;
use crate::kernels::Kernels;
use crate::kernels::recur::{self, Decay, PerHead};
use crate::kernels::shared::{Paired, Source};
use crate::machine::{Machine, fork, lock};
use crate::plan::Plan;
use crate::state::StateMemory;

/// A row of some channels.
struct Part<'a> {
    kernels: Kernels,
    /// Which row.
    row: usize,
    /// The first channel.
    first: usize,
    /// The state of the channels.
    state: &'a mut [[f32; LANES]],
    /// Their results.
    out: &'a mut [f32],
}

impl Part<'_> {
    /// The channels in stretches of one head each, as places in the block.
    fn by_head(&self, width: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (first, count) = (self.first, self.out.len());
        let mut start = 0;
        std::iter::from_fn(move || {
            let end = count.min(start + width - (first + start) % width);
            let stretch = start..end;
            start = end;
            (!stretch.is_empty()).then_some(stretch)
        })
    }
}

/// Takes all sequences' states through their rows.
fn recur<const N: usize>(
    fixed: Fixed,
    plan: &Plan,
    machine: &mut Machine,
    memory: &mut StateMemory,
    (inputs, out): ([View; N], View),
    each: impl Fn(&[Source; N], Part) + Sync,
) {
    let Machine { kernels, pool, activations, rows, sequences, scratch, whole, .. } = machine;
    let (batch, depth, kernels) = (fixed.batch, memory.rows(), *kernels);
    let work = rows.len() * out.width * 4 * depth;
    let (sources, rectangles) = activations.split_view(inputs, out, whole, &plan.columns);
    let queue = Paired::new(rectangles, memory.split_blocks());
    fork(pool, work, |thread| {
        let mut scratch = lock(&scratch[thread]);
        let state = &mut scratch.state[..depth];
        while let Some((mut columns, mut block)) = queue.next() {
            let first = block.index() * LANES;
            for (table, indices) in sequences.iter() {
                match batch.state(table) {
                    Some(slot) => state.copy_from_slice(block.of(slot as usize)),
                    None => state.fill([0.0; LANES]),
                }
                for &(_, row) in indices {
                    each(&sources, Part { kernels, row, first, state, out: columns.row(row) });
                    for slot in saved(batch, table, rows[row].position) {
                        block.of(slot).copy_from_slice(state);
                    }
                }
            }
        }
    });
}

/// The slots that a state is written to after a position.
fn saved(batch: &Batch, table: u32, position: usize) -> impl Iterator<Item = usize> + '_ {
    let here =
        move |save: &&gleed_model::executor::Save| save.table == table && save.position as usize == position;
    batch.saves().iter().filter(here).map(|save| save.slot as usize)
}

/// out = a short convolution of each channel.
pub(super) fn convolve(
    fixed: Fixed,
    plan: &Plan,
    machine: &mut Machine,
    memory: &mut StateMemory,
    convolution: Convolution,
    (input, out): (View, View),
) {
    let taps = fixed.weights.vector(convolution.taps);
    let bias = convolution.bias.map(|bias| fixed.weights.vector(bias));
    recur(fixed, plan, machine, memory, ([input], out), |[input], part| {
        let Part { kernels, row, first, state, out } = part;
        let x = &input.row(row)[first..first + out.len()];
        kernels.run(recur::Convolve { state, taps, bias, silu: convolution.silu, first, x, out });
    });
}

/// out = what a selective scan reads from its state.
pub(super) fn scan(
    fixed: Fixed,
    plan: &Plan,
    machine: &mut Machine,
    memory: &mut StateMemory,
    scan: Scan,
    (inputs, out): ([View; 4], View),
) {
    let (decay, skip) = (fixed.weights.vector(scan.decay), fixed.weights.vector(scan.skip));
    let bias = scan.dt_bias.map(|bias| fixed.weights.vector(bias));
    let (width, depth) = (out.width / scan.heads, memory.rows());
    // Of channels that are heads by themselves a group is computed together, else of each head.
    let stretch = if width == 1 { out.width / scan.groups } else { width };
    recur(fixed, plan, machine, memory, (inputs, out), |[x, dt, b, c], part| {
        let (x, dt, b, c) = (x.row(part.row), dt.row(part.row), b.row(part.row), c.row(part.row));
        for lanes in part.by_head(stretch) {
            let channels = part.first + lanes.start..part.first + lanes.end;
            let head = channels.start / width;
            let group = head / (scan.heads / scan.groups) * depth;
            part.kernels.run(recur::Scan {
                at: lanes.start,
                first: channels.start,
                dt: of_heads(dt, width, &channels),
                dt_bias: bias.map(|bias| of_heads(bias, width, &channels)),
                skip: of_heads(skip, width, &channels),
                decay: match decay.len() == scan.heads {
                    true => Decay::Heads(of_heads(decay, width, &channels)),
                    false => Decay::Channels(decay),
                },
                b: &b[group..group + depth],
                c: &c[group..group + depth],
                x: &x[channels.clone()],
                state: part.state,
                out: &mut part.out[lanes],
            });
        }
    });
}

/// What some channels have of a value for each head: one for all of them, or each its own where each is a head.
fn of_heads<'a>(values: &'a [f32], width: usize, channels: &Range<usize>) -> PerHead<'a> {
    match width {
        1 => PerHead::Each(&values[channels.clone()]),
        _ => PerHead::One(values[channels.start / width]),
    }
}

/// out = what the gated delta rule reads from its state.
pub(super) fn delta_rule(
    fixed: Fixed,
    plan: &Plan,
    machine: &mut Machine,
    memory: &mut StateMemory,
    rule: DeltaRule,
    (inputs, out): ([View; 5], View),
) {
    let (decays, biases) = (fixed.weights.vector(rule.decay), fixed.weights.vector(rule.dt_bias));
    let (width, depth) = (out.width / rule.heads, memory.rows());
    recur(fixed, plan, machine, memory, (inputs, out), |sources, part| {
        let [query, key, value, alpha, beta] = sources.map(|source| source.row(part.row));
        for lanes in part.by_head(width) {
            let channels = part.first + lanes.start..part.first + lanes.end;
            let head = channels.start / width;
            let of_key = rule.key_head(head) * depth;
            let (decay, beta) = delta_gates(decays[head], biases[head], alpha[head], beta[head]);
            part.kernels.run(recur::Delta {
                at: lanes.start,
                decay,
                beta,
                scale: rule.scale,
                query: &query[of_key..of_key + depth],
                key: &key[of_key..of_key + depth],
                value: &value[channels],
                state: part.state,
                out: &mut part.out[lanes],
            });
        }
    });
}
