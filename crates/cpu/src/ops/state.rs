//! Recurrent layers. Threads take blocks of sixteen channels, with their part of every state slot, and go through the
//! rows of all sequences in order, a few at a time: the state is read from one slot, changed in a thread's own memory,
//! and written to the slots that the batch names.

use std::ops::Range;

use gleed_model::Batch;
use gleed_model::arithmetic::LANES;
use gleed_model::arithmetic::sigmoid;
use gleed_model::program::View;
use gleed_model::recurrence::{self as plain, Convolution, DeltaRule, Scan, Wkv, WkvRow};

use super::Fixed;
use super::rows::for_each_row;
use crate::kernels::Kernels;
use crate::kernels::recur::{self, Decay, DeltaRow, Kept, PerHead, ScanRow, TOGETHER};
use crate::kernels::shared::{Paired, Source};
use crate::kernels::unpack::Prefetch;
use crate::kernels::wkv;
use crate::machine::{Machine, fork};
use crate::plan::Plan;
use crate::scratch::lock;
use crate::state::StateMemory;

/// How many rows ahead memory is asked for what channels read and write: rows are so far apart that the machine does
/// not guess the next.
const ROWS_AHEAD: usize = 8;

/// A few rows of one sequence, of some channels.
struct Part<'a> {
    kernels: Kernels,
    /// Which rows, at most [`TOGETHER`]: the second of each pair.
    rows: &'a [(u32, usize)],
    /// The first channel.
    first: usize,
    /// How many there are.
    count: usize,
    /// The state of the channels.
    state: &'a mut [[f32; LANES]],
    /// Their results, row by row.
    out: &'a mut [[f32; LANES]],
}

impl Part<'_> {
    /// The channels in stretches of one head each, as places in the block.
    fn by_head(&self, width: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (first, count) = (self.first, self.count);
        let mut start = 0;
        std::iter::from_fn(move || {
            let end = count.min(start + width - (first + start) % width);
            let stretch = start..end;
            start = end;
            (!stretch.is_empty()).then_some(stretch)
        })
    }
}

/// Takes all sequences' states through their rows. One of the inputs, `own`, has a value for each channel.
fn recur<const N: usize>(
    fixed: Fixed,
    plan: &Plan,
    machine: &mut Machine,
    memory: &mut StateMemory,
    (inputs, own, out): ([View; N], usize, View),
    each: impl Fn(&[Source; N], Part) + Sync,
) {
    let Machine { kernels, pool, activations, rows, sequences, scratch, whole, .. } = machine;
    let (batch, depth, kernels) = (fixed.batch, memory.rows(), *kernels);
    let work = rows.len() * out.width * 4 * depth;
    let (sources, rectangles) = activations.split_view(inputs, out, whole, &plan.columns);
    let queue = Paired::new(rectangles, memory.split_blocks());
    fork(pool, plan.columns.len(), work, |thread| {
        let mut scratch = lock(&scratch[thread]);
        let state = &mut scratch.state[..depth];
        while let Some((mut columns, mut block)) = queue.next() {
            let first = block.index() * LANES;
            for (table, indices) in sequences.iter() {
                match batch.state(table) {
                    Some(slot) => state.copy_from_slice(block.of(slot as usize)),
                    None => state.fill([0.0; LANES]),
                }
                let mut later = indices;
                while !later.is_empty() {
                    // Up to a row after which the state is saved.
                    let most = &later[..later.len().min(TOGETHER)];
                    let saves = |(_, row): &(u32, usize)| saved(batch, table, rows[*row].position);
                    let end = most.iter().position(|row| saves(row).next().is_some());
                    let now;
                    (now, later) = later.split_at(end.map_or(most.len(), |last| last + 1));
                    for &(_, row) in later.iter().skip(ROWS_AHEAD - TOGETHER).take(now.len()) {
                        let out = columns.row(row);
                        let x = &sources[own].row(row)[first..first + out.len()];
                        kernels.run(Prefetch { bytes: bytemuck::cast_slice(out) });
                        kernels.run(Prefetch { bytes: bytemuck::cast_slice(x) });
                    }
                    let out = &mut [[0.0; LANES]; TOGETHER][..now.len()];
                    let count = columns.row(now[0].1).len();
                    each(&sources, Part { kernels, rows: now, first, count, state, out });
                    for (out, &(_, row)) in out.iter().zip(now) {
                        columns.row(row).copy_from_slice(&out[..count]);
                    }
                    for slot in now.last().into_iter().flat_map(saves) {
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
        move |save: &&gleed_model::batch::Save| save.table == table && save.position as usize == position;
    batch.saves().iter().filter(here).map(|save| save.slot as usize)
}

/// out = the input of the row before.
pub(super) fn shift(
    fixed: Fixed,
    plan: &Plan,
    machine: &mut Machine,
    memory: &mut StateMemory,
    (input, out): (View, View),
) {
    recur(fixed, plan, machine, memory, ([input], 0, out), |[input], part| {
        let Part { rows, first, count, state, out, .. } = part;
        for (out, (_, row)) in out.iter_mut().zip(rows) {
            *out = state[0];
            state[0][..count].copy_from_slice(&input.row(*row)[first..first + count]);
        }
    });
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
    recur(fixed, plan, machine, memory, ([input], 0, out), |[input], part| {
        let Part { kernels, rows, first, count, state, out } = part;
        let mut x = [&[][..]; TOGETHER];
        for (x, (_, row)) in x.iter_mut().zip(rows) {
            *x = &input.row(*row)[first..first + count];
        }
        let (x, silu) = (&x[..rows.len()], convolution.silu);
        kernels.run(recur::Convolve { state, taps, bias, silu, first, x, out });
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
    recur(fixed, plan, machine, memory, (inputs, 0, out), |[x, dt, b, c], part| {
        for lanes in part.by_head(stretch) {
            let channels = part.first + lanes.start..part.first + lanes.end;
            let head = channels.start / width;
            let group = head / (scan.heads / scan.groups) * depth;
            let mut rows = [ScanRow::EMPTY; TOGETHER];
            for (scanned, &(_, row)) in rows.iter_mut().zip(part.rows) {
                *scanned = ScanRow {
                    dt: of_heads(dt.row(row), width, &channels),
                    b: &b.row(row)[group..group + depth],
                    c: &c.row(row)[group..group + depth],
                    x: &x.row(row)[channels.clone()],
                };
            }
            part.kernels.run(recur::Scan {
                at: lanes.start,
                first: channels.start,
                dt_bias: bias.map(|bias| of_heads(bias, width, &channels)),
                skip: of_heads(skip, width, &channels),
                decay: match decay.len() == scan.heads {
                    true => Decay::Heads(of_heads(decay, width, &channels)),
                    false => Decay::Channels(decay),
                },
                rows: &rows[..part.rows.len()],
                state: part.state,
                out: part.out,
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

/// x = the shares that are kept after the time steps x.
pub(super) fn keep(fixed: Fixed, machine: &mut Machine, decay: plain::Decay, x: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    let (decays, biases) = (fixed.weights.vector(decay.decay), fixed.weights.vector(decay.dt_bias));
    let width = x.width / decays.len();
    for_each_row(pool, activations, rows.len(), 8 * x.width, |_, row| {
        let heads = row.write(x).chunks_exact_mut(width).zip(biases.chunks_exact(width));
        for ((x, dt_bias), decay) in heads.zip(decays) {
            kernels.run(recur::Keep { x, dt_bias, decay: *decay });
        }
    });
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
    let vector = |weight| fixed.weights.vector(weight);
    let gates = rule.decay.map(|decay| (vector(decay.decay), vector(decay.dt_bias)));
    let (width, depth) = (out.width / rule.heads, memory.rows());
    recur(fixed, plan, machine, memory, (inputs, 2, out), |sources, part| {
        for lanes in part.by_head(width) {
            let channels = part.first + lanes.start..part.first + lanes.end;
            let head = channels.start / width;
            let of_key = rule.key_head(head) * depth;
            let mut rows = [DeltaRow::EMPTY; TOGETHER];
            for (ruled, &(_, row)) in rows.iter_mut().zip(part.rows) {
                let [query, key, value, alpha, beta] = sources.each_ref().map(|source| source.row(row));
                let kept = match gates {
                    Some((decays, biases)) => Kept::All(plain::kept(alpha[head], biases[head], decays[head])),
                    None => Kept::Rows(&alpha[head * depth..][..depth]),
                };
                let (query, key) = (&query[of_key..of_key + depth], &key[of_key..of_key + depth]);
                let (beta, value) = (sigmoid(beta[head]), &value[channels.clone()]);
                *ruled = DeltaRow { kept, beta, query, key, value };
            }
            part.kernels.run(recur::Delta {
                at: lanes.start,
                scale: rule.scale,
                rows: &rows[..part.rows.len()],
                state: part.state,
                out: part.out,
            });
        }
    });
}

/// out = what RWKV's rule reads from its state.
pub(super) fn wkv(
    fixed: Fixed,
    plan: &Plan,
    machine: &mut Machine,
    memory: &mut StateMemory,
    layer: Wkv,
    (inputs, out): ([View; 6], View),
) {
    let (width, depth) = (out.width / layer.heads, memory.rows());
    recur(fixed, plan, machine, memory, (inputs, 3, out), |sources, part| {
        for lanes in part.by_head(width) {
            let channels = part.first + lanes.start..part.first + lanes.end;
            let keys = channels.start / width * depth..(channels.start / width + 1) * depth;
            let mut rows = [WkvRow::EMPTY; TOGETHER];
            for (ruled, &(_, row)) in rows.iter_mut().zip(part.rows) {
                let [query, kept, key, value, asked, removed] =
                    sources.each_ref().map(|source| source.row(row));
                let [query, kept, key, asked, removed] =
                    [query, kept, key, asked, removed].map(|x| &x[keys.clone()]);
                *ruled = WkvRow { query, kept, key, value: &value[channels.clone()], asked, removed };
            }
            part.kernels.run(wkv::Wkv {
                at: lanes.start,
                rows: &rows[..part.rows.len()],
                state: part.state,
                out: part.out,
            });
        }
    });
}
