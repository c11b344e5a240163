//! Ops that treat every row by itself: a thread takes a row and computes all of it.

use gleed_model::program::{Activation, Map, Norm, View, WeightId};

use super::Fixed;
use crate::kernels::Kernels;
use crate::kernels::activate::Activate;
use crate::kernels::add::Add;
use crate::kernels::map::MapValues;
use crate::kernels::norm::{Center, Norm as NormKernel};
use crate::kernels::pool::Pool;
use crate::kernels::recur::UnitNorm;
use crate::kernels::shared::{Activations, WholeRow};
use crate::kernels::streams::Length;
use crate::machine::{LiveRow, Machine, at_once, fork};
use crate::scratch::lock;
use crate::weights::{Weights, decode};

/// Calls `each` for every row, on several threads when `width` values per row make it worth it.
pub(super) fn for_each_row(
    pool: &mut Pool,
    activations: &mut Activations,
    count: usize,
    width: usize,
    each: impl Fn(usize, &mut WholeRow) + Sync,
) {
    let (queue, at_once) = (activations.split_rows(count), at_once(pool, count));
    fork(pool, count, count * width, |thread| {
        queue.in_chunks(at_once).for_each(|mut row| each(thread, &mut row));
    });
}

/// These buffers = what the batch brings, buffer by buffer.
pub(super) fn input(fixed: Fixed, machine: &mut Machine, views: &[View]) {
    let Machine { pool, activations, rows, .. } = machine;
    let mut rest = fixed.batch.inputs();
    for view in views {
        let (values, others) = rest.split_at(rows.len() * view.width);
        for_each_row(pool, activations, rows.len(), view.width, |_, row| {
            let from = row.index() * view.width;
            row.write(*view).copy_from_slice(&values[from..from + view.width]);
        });
        rest = others;
    }
}

/// out = the table's entry of each row's token.
pub(super) fn embed(fixed: Fixed, machine: &mut Machine, table: WeightId, out: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    let (weights, format) = (fixed.weights, fixed.weights.get(table).format);
    for_each_row(pool, activations, rows.len(), out.width, |_, row| {
        let bytes = weights.rows(table, rows[row.index()].token, 1);
        decode(*kernels, format, bytes, row.write(out));
    });
}

/// x += the table's entry of each row's position.
pub(super) fn add_positions(fixed: Fixed, machine: &mut Machine, table: WeightId, x: View) {
    add_entries(fixed, machine, table, x, |row| row.position);
}

/// x += the table's first entry.
pub(super) fn add_vector(fixed: Fixed, machine: &mut Machine, table: WeightId, x: View) {
    add_entries(fixed, machine, table, x, |_| 0);
}

fn add_entries(
    fixed: Fixed,
    machine: &mut Machine,
    table: WeightId,
    x: View,
    entry: impl Fn(LiveRow) -> usize + Sync,
) {
    let Machine { kernels, pool, activations, rows, scratch, .. } = machine;
    let (weights, format) = (fixed.weights, fixed.weights.get(table).format);
    for_each_row(pool, activations, rows.len(), x.width, |thread, row| {
        let mut scratch = lock(&scratch[thread]);
        let values = &mut scratch.tile.floats[..x.width];
        decode(*kernels, format, weights.rows(table, entry(rows[row.index()]), 1), values);
        kernels.run(Add { x: row.write(x), y: values });
    });
}

/// The norm of one part of a row, in place.
pub(super) fn norm_in_place(kernels: Kernels, weights: &Weights, norm: &Norm, x: &mut [f32]) {
    let weight = weights.vector(norm.weight);
    norm_with(kernels, weights, norm, weight, x);
}

/// The same with these of the norm's factors.
fn norm_with(kernels: Kernels, weights: &Weights, norm: &Norm, weight: &[f32], x: &mut [f32]) {
    let bias = norm.bias.map(|bias| weights.vector(bias));
    kernels.run(NormKernel { x, weight, bias, epsilon: norm.epsilon });
}

/// out = norm(input), over each of `heads` equal parts by itself.
pub(super) fn norm(fixed: Fixed, machine: &mut Machine, norm: Norm, heads: usize, input: View, out: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    for_each_row(pool, activations, rows.len(), 4 * out.width, |_, row| {
        if input != out {
            let ([input, _], out) = row.read_write([input; 2], out);
            out.copy_from_slice(input);
        }
        let width = out.width / heads;
        // All heads have the same factors, or each its own.
        let weights = fixed.weights.vector(norm.weight).chunks_exact(width).cycle();
        for (head, weight) in row.write(out).chunks_exact_mut(width).zip(weights) {
            norm_with(*kernels, fixed.weights, &norm, weight, head);
        }
    });
}

/// out = input less its mean.
pub(super) fn center(machine: &mut Machine, heads: usize, input: View, out: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    for_each_row(pool, activations, rows.len(), 2 * out.width, |_, row| {
        let ([input, _], out) = row.read_write([input; 2], out);
        out.copy_from_slice(input);
        out.chunks_exact_mut(out.len() / heads).for_each(|x| kernels.run(Center { x }));
    });
}

/// Rotates each of `heads` parts of the row by the row's position.
pub(super) fn rope(fixed: Fixed, machine: &mut Machine, rope: usize, heads: usize, x: View) {
    let Machine { kernels, pool, activations, rows, angles, .. } = machine;
    let (angles, pairing) = (&angles[rope], fixed.program.ropes[rope].pairing);
    for_each_row(pool, activations, rows.len(), 4 * x.width, |_, row| {
        let live = rows[row.index()];
        for head in row.write(x).chunks_exact_mut(x.width / heads) {
            kernels.run(angles.rotation(live, pairing, head));
        }
    });
}

/// out = activation(gate) · up, or activation(gate) without `up`.
pub(super) fn activate(
    machine: &mut Machine,
    activation: Activation,
    gate: View,
    up: Option<View>,
    out: View,
) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    for_each_row(pool, activations, rows.len(), 8 * out.width, |_, row| {
        let ([gate, factor], out) = row.read_write([gate, up.unwrap_or(gate)], out);
        out.copy_from_slice(gate);
        kernels.run(Activate { activation, x: out, up: up.map(|_| factor) });
    });
}

/// x += y.
pub(super) fn add(machine: &mut Machine, x: View, y: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    for_each_row(pool, activations, rows.len(), x.width, |_, row| {
        let ([y, _], x) = row.read_write([y; 2], x);
        kernels.run(Add { x, y });
    });
}

/// x = map(x), value by value.
pub(super) fn map(machine: &mut Machine, map: Map, x: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    for_each_row(pool, activations, rows.len(), 4 * x.width, |_, row| {
        kernels.run(MapValues { map, x: row.write(x) });
    });
}

/// Each head's pieces go to one output each.
pub(super) fn unzip(machine: &mut Machine, heads: usize, input: View, outs: &[View]) {
    let Machine { pool, activations, rows, .. } = machine;
    for_each_row(pool, activations, rows.len(), input.width, |_, row| {
        let mut offset = 0;
        for out in outs {
            let piece = out.width / heads;
            let ([input, _], out) = row.read_write([input; 2], *out);
            let of_head = input.chunks_exact(input.len() / heads);
            for (out, x) in out.chunks_exact_mut(piece).zip(of_head) {
                out.copy_from_slice(&x[offset..offset + piece]);
            }
            offset += piece;
        }
    });
}

/// Each head = a piece of the first input and one of the second, which all heads may share.
pub(super) fn zip(machine: &mut Machine, heads: usize, first: View, second: View, out: View) {
    let Machine { pool, activations, rows, .. } = machine;
    let (head, piece) = (out.width / heads, first.width / heads);
    let step = if second.width == head - piece { 0 } else { head - piece };
    for_each_row(pool, activations, rows.len(), out.width, |_, row| {
        let ([first, second], out) = row.read_write([first, second], out);
        for (index, (out, x)) in out.chunks_exact_mut(head).zip(first.chunks_exact(piece)).enumerate() {
            let (own, rest) = out.split_at_mut(piece);
            own.copy_from_slice(x);
            rest.copy_from_slice(&second[index * step..][..rest.len()]);
        }
    });
}

/// Each of `heads` parts of the row is scaled to length one, or to the length of another view.
pub(super) fn unit_norm(machine: &mut Machine, heads: usize, epsilon: f32, like: Option<View>, x: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    for_each_row(pool, activations, rows.len(), 4 * x.width, |_, row| {
        let length = match like {
            Some(like) => kernels.run(Length { x: row.write(like) }),
            None => 1.0,
        };
        for x in row.write(x).chunks_exact_mut(x.width / heads) {
            kernels.run(UnitNorm { x, epsilon, length });
        }
    });
}

/// x += y, then out = norm(x).
pub(super) fn add_norm(fixed: Fixed, machine: &mut Machine, x: View, y: View, norm: Norm, out: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    for_each_row(pool, activations, rows.len(), 4 * x.width, |_, row| {
        let ([y, _], sum) = row.read_write([y; 2], x);
        kernels.run(Add { x: sum, y });
        let ([sum, _], out) = row.read_write([x; 2], out);
        out.copy_from_slice(sum);
        norm_in_place(*kernels, fixed.weights, &norm, out);
    });
}

/// Keeps only the rows that want logits, in these views.
pub(super) fn gather(fixed: Fixed, machine: &mut Machine, views: &[View]) {
    let Machine { activations, rows, .. } = machine;
    let batch = fixed.batch.rows();
    let mut kept = 0;
    // Rows only move up, so a row is read before it is written; all views of a row move together, so
    // views may overlap.
    for index in 0..rows.len() {
        if batch[rows[index].batch].wants_logits {
            for view in views.iter().filter(|_| kept != index) {
                activations.copy_row(*view, index, kept);
            }
            rows[kept] = rows[index];
            kept += 1;
        }
    }
    rows.truncate(kept);
    machine.rows_changed();
}
