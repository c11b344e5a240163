//! Attention over the pages of each row's sequence.
//!
//! A task is one key head and a run of rows of one sequence: each page is read (and decoded) once for
//! all query heads that share the key head and all rows of the run. Tiles are pages, so what a row
//! computes depends on its position alone.

use gleed_model::arithmetic::{PAGE, Softmax};
use gleed_model::program::View;

use super::Fixed;
use crate::cache::Layer;
use crate::kernels::Kernels;
use crate::kernels::attention::{Accumulate, Scores, SoftmaxTile};
use crate::kernels::shared::{Rectangle, Source};
use crate::machine::{AttentionScratch, LiveRow, Machine, fork, lock};
use crate::plan::Plan;

/// out = for each query head, the softmax-weighted values of all positions up to the row's own.
#[allow(clippy::too_many_arguments, reason = "the operands of the op")]
pub(super) fn attention(
    fixed: Fixed,
    plan: &Plan,
    machine: &mut Machine,
    layer: &Layer,
    heads: usize,
    scale: f32,
    query: View,
    out: View,
) {
    let Machine { kernels, pool, activations, rows, scratch, runs, .. } = machine;
    let visible: usize = rows.iter().map(|row| row.position + 1).sum();
    let work = visible * heads * (layer.keys.dim + layer.values.dim);
    let ([queries], tasks) = activations.split_view([query], out, runs, &plan.columns);
    let all = Attention {
        kernels: *kernels,
        fixed,
        layer,
        rows,
        queries,
        group: out.width / layer.values.dim / plan.columns.len(),
        scale,
    };
    // A multiply-add is a fraction of what the threshold counts as a value's work.
    fork(pool, work / 4, |thread| {
        let mut scratch = lock(&scratch[thread]);
        while let Some(tasks) = tasks.next(1) {
            for task in tasks {
                all.run(task, &mut scratch.attention);
            }
        }
    });
}

/// What all tasks share.
struct Attention<'a> {
    kernels: Kernels,
    fixed: Fixed<'a>,
    layer: &'a Layer,
    rows: &'a [LiveRow],
    queries: Source<'a>,
    /// Query heads per key head.
    group: usize,
    scale: f32,
}

impl Attention<'_> {
    /// One key head for a run of rows.
    fn run(&self, mut task: Rectangle, scratch: &mut AttentionScratch) {
        let (head, range) = (task.column_part, task.rows());
        let (key_dim, value_dim) = (self.layer.keys.dim, self.layer.values.dim);
        let rows = &self.rows[range.clone()];
        let count = rows.len() * self.group;
        let AttentionScratch { page: tile, scores, corrections, softmax, sums } = scratch;
        let (softmax, sums) = (&mut softmax[..count], &mut sums[..count * value_dim]);
        softmax.fill(Softmax::default());
        sums.fill(0.0);
        let last = rows.iter().map(|row| row.position).max().unwrap_or(0);
        let pages = &self.fixed.batch.pages(rows[0].table)[..=last / PAGE];
        for (index, page) in pages.iter().enumerate() {
            let page = *page as usize;
            let start = index * PAGE;
            let most = PAGE.min(last + 1 - start);
            // The queries that see something of this page, and how much.
            let visible = |q: usize| (rows[q / self.group].position + 1).saturating_sub(start).min(PAGE);
            let keys = self.layer.keys.read(self.kernels, page, head, most, tile);
            for q in (0..count).filter(|&q| visible(q) > 0) {
                let scores = &mut scores[q * PAGE..][..visible(q)];
                let first = (head * self.group + q % self.group) * key_dim;
                let query = &self.queries.row(range.start + q / self.group)[first..first + key_dim];
                self.kernels.run(Scores { query, keys, scale: self.scale, scores });
                corrections[q] = self.kernels.run(SoftmaxTile { state: &mut softmax[q], scores });
            }
            let values = self.layer.values.read(self.kernels, page, head, most, tile);
            for q in (0..count).filter(|&q| visible(q) > 0) {
                let (weights, correction) = (&scores[q * PAGE..][..visible(q)], corrections[q]);
                let acc = &mut sums[q * value_dim..][..value_dim];
                self.kernels.run(Accumulate { acc, correction, weights, values });
            }
        }
        for (r, row) in range.enumerate() {
            let out = task.row(row).chunks_exact_mut(value_dim);
            for ((g, out), acc) in
                out.enumerate().zip(sums[r * self.group * value_dim..].chunks_exact(value_dim))
            {
                let inverse = 1.0 / softmax[r * self.group + g].sum;
                for (out, acc) in out.iter_mut().zip(acc) {
                    *out = acc * inverse;
                }
            }
        }
    }
}
