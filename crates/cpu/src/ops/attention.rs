//! Attention over the pages of each row's sequence.
//!
//! A task is one key head and a run of rows of one sequence: each page is read (and decoded) once for
//! all query heads that share the key head and all rows of the run. When there are few rows, a task is
//! only one span of positions, and the spans are merged afterwards. Pages and spans are places in a
//! sequence, so what a row computes depends on its position alone.

use std::ops::Range;

use gleed_model::arithmetic::{LANES, PAGE, SPAN, Softmax, alibi_slope, chosen_in_page};
use gleed_model::program::{self, Map, View};

use super::Fixed;
use crate::cache::LayerCache;
use crate::kernels::Kernels;
use crate::kernels::attention::{Accumulate, QUERIES, Scores, Seen, interleave};
use crate::kernels::fade::Fade;
use crate::kernels::many::{self, ManyScores, ManyValues, with_room};
use crate::kernels::map::MapValues;
use crate::kernels::shared::{BlockQueue, Boundaries, Rectangle, Source};
use crate::kernels::softmax::{Finish, Merge, SoftmaxTiles};
use crate::machine::{LiveRow, Machine, SPLIT_ROWS, fork, partial_vectors};
use crate::plan::Plan;
use crate::scratch::{Accumulators, AttentionScratch, PageScratch, lock};

/// Fewer tasks than this for each thread are split over spans, so that all threads have work to the end.
const TASKS: usize = 8;

/// out = for each query head, the softmax-weighted values of the positions that the row sees.
pub(super) fn attention(
    fixed: Fixed,
    plan: &Plan,
    machine: &mut Machine,
    layer: &LayerCache,
    op: program::Attention,
    query: View,
    out: View,
) {
    let Machine { kernels, pool, activations, rows, scratch, runs, partials, attention_splits, .. } = machine;
    let (key_heads, value_dim) = (plan.columns.len(), layer.values.dim());
    let visible: usize = rows.iter().map(|row| op.visible(row.position, row.length).len()).sum();
    // A multiply-add is a fraction of what the threshold counts as a value's work.
    let work = visible * op.heads * (layer.keys.dim() + value_dim) / 4;
    // Without a choice, the queries stand in for it and are not read as one.
    let ([queries, chosen], tasks) =
        activations.split_view([query, op.chosen.unwrap_or(query)], out, runs, &plan.columns);
    // One head after the other, so that its keys and values stay in a core's cache.
    let tasks = tasks.column_by_column();
    let all = Attention {
        kernels: *kernels,
        fixed,
        layer,
        rows,
        queries,
        chosen: op.chosen.map(|_| chosen),
        group: op.heads / key_heads,
        vectors: value_dim.div_ceil(LANES),
        op,
        sinks: op.sinks.map(|sinks| fixed.weights.vector(sinks)),
    };
    let split = Split::new(&all, runs, key_heads);
    let threads = pool.threads();
    let few = rows.len() <= SPLIT_ROWS && tasks.len() < TASKS * threads && threads > 1;
    if few && split.spans > 1 && split.vectors() <= partials.len() {
        *attention_splits += 1;
        let parts = BlockQueue::new(&mut partials[..split.vectors()], split.parts(), split.part);
        fork(pool, split.parts(), work, |thread| {
            let mut scratch = lock(&scratch[thread]);
            while let Some(mut part) = parts.next() {
                split.run(part.index(), part.of(0), &mut scratch.attention);
            }
        });
        fork(pool, tasks.len(), split.vectors() * LANES, |thread| {
            let mut scratch = lock(&scratch[thread]);
            while let Some(tasks) = tasks.next(1) {
                tasks.for_each(|task| split.merge(task, partials, &mut scratch.attention));
            }
        });
    } else {
        fork(pool, tasks.len(), work, |thread| {
            let mut scratch = lock(&scratch[thread]);
            while let Some(tasks) = tasks.next(1) {
                tasks.for_each(|task| all.run(task, &mut scratch.attention));
            }
        });
    }
}

/// What all tasks share.
struct Attention<'a> {
    kernels: Kernels,
    fixed: Fixed<'a>,
    layer: &'a LayerCache,
    rows: &'a [LiveRow],
    queries: Source<'a>,
    /// The positions that each row sees, where they are chosen.
    chosen: Option<Source<'a>>,
    /// Query heads per key head.
    group: usize,
    /// Vectors of a query's accumulators.
    vectors: usize,
    op: program::Attention,
    /// One score for each query head.
    sinks: Option<&'a [f32]>,
}

impl Attention<'_> {
    /// One key head for a run of rows.
    fn run(&self, mut task: Rectangle, scratch: &mut AttentionScratch) {
        let (head, run) = (task.column_part, task.rows());
        let AttentionScratch { page, span, total } = scratch;
        self.take_queries(head, run.clone(), page);
        self.begin(head, &run, total);
        for index in self.spans(run.clone()) {
            let acc = &mut bytemuck::cast_slice_mut(&mut span.acc)[..self.queries(&run) * self.vectors];
            self.span(head, run.clone(), index, page, &mut span.states, acc);
            for (q, acc) in acc.chunks_exact(self.vectors).enumerate() {
                self.merge(&run, index, q, span.states[q], acc, total);
            }
        }
        self.finish(&mut task, total);
    }

    /// Starts the queries of a run from nothing, or from their sinks.
    fn begin(&self, head: usize, run: &Range<usize>, total: &mut Accumulators) {
        let queries = self.queries(run);
        total.clear(queries, self.vectors);
        if let Some(sinks) = self.sinks {
            let sinks = &sinks[head * self.group..][..self.group];
            for states in total.states[..queries].chunks_exact_mut(self.group) {
                states.iter_mut().zip(sinks).for_each(|(state, sink)| *state = Softmax::of_sink(*sink));
            }
        }
    }

    /// How many queries a run has.
    fn queries(&self, run: &Range<usize>) -> usize {
        run.len() * self.group
    }

    /// The positions that a row sees.
    fn row_sees(&self, row: &LiveRow) -> Range<usize> {
        self.op.visible(row.position, row.length)
    }

    /// The positions that some row of a run sees.
    fn visible(&self, run: Range<usize>) -> Range<usize> {
        let each = || self.rows[run.clone()].iter().map(|row| self.row_sees(row));
        let start = each().map(|visible| visible.start).min().unwrap_or(0);
        start..each().map(|visible| visible.end).max().unwrap_or(0)
    }

    /// The spans that some row of a run sees.
    fn spans(&self, run: Range<usize>) -> Range<usize> {
        let visible = self.visible(run);
        visible.start / SPAN..visible.end.div_ceil(SPAN)
    }

    /// Takes the queries of a key head, `[row][query head of the group]`, as the kernel wants them.
    fn take_queries(&self, head: usize, run: Range<usize>, scratch: &mut PageScratch) {
        let dim = self.layer.keys.dim();
        let (width, all) = (self.group * dim, self.queries(&run) * dim);
        for (row, queries) in run.zip(scratch.rows.chunks_exact_mut(width)) {
            queries.copy_from_slice(&self.queries.row(row)[head * width..][..width]);
        }
        if all > QUERIES * dim {
            many::interleave(&scratch.rows[..all], dim, &mut scratch.queries);
        } else {
            interleave(&scratch.rows[..all], dim, &mut scratch.queries[..all]);
        }
    }

    /// Attention of a run's queries over the pages of one span, starting from nothing.
    fn span(
        &self,
        head: usize,
        run: Range<usize>,
        span: usize,
        scratch: &mut PageScratch,
        states: &mut [Softmax],
        acc: &mut [[f32; LANES]],
    ) {
        let (kernels, count) = (self.kernels, self.queries(&run));
        let PageScratch { queries, laid, scales, scores, seen, corrections, .. } = scratch;
        let (states, seen, corrections) =
            (&mut states[..count], &mut seen[..count], &mut corrections[..count]);
        // A page is laid out for many; few read it as it is stored.
        let are_many = count > QUERIES;
        let room = if are_many { with_room(count) } else { count };
        let queries = &queries[..room * self.layer.keys.dim()];
        let all_scores = &mut bytemuck::cast_slice_mut::<_, [f32; PAGE]>(scores)[..room];
        let laid = bytemuck::cast_slice_mut(laid);
        states.fill(Softmax::default());
        acc.fill([0.0; LANES]);
        let all = self.visible(run.clone());
        let (first, visible) = ((span * SPAN).max(all.start / PAGE * PAGE), all.end.min((span + 1) * SPAN));
        let first_row = run.start;
        let rows = &self.rows[run];
        let pages = self.fixed.batch.pages(rows[0].table, self.layer.group);
        for start in (first..visible).step_by(PAGE) {
            for (seen, row) in seen.chunks_exact_mut(self.group).zip(rows) {
                seen.fill(Seen::of(&self.row_sees(row), start));
            }
            let (page, most) = (pages[start / PAGE] as usize, PAGE.min(visible - start));
            let LayerCache { keys: key_side, values: value_side, .. } = self.layer;
            let (scale, scores) = (self.op.scale, &mut all_scores[..count]);
            let keys = key_side.page(kernels, page, head, most, scales);
            let ahead = value_side.stored(page, head, most);
            if are_many {
                let keys = key_side.lay(kernels, keys, most, laid);
                kernels.run(ManyScores { queries, keys, seen, scale, ahead, scores });
            } else {
                kernels.run(Scores { queries, keys, seen, scale, ahead, scores });
            }
            if let Some(cap) = self.op.soft_cap {
                for (scores, seen) in scores.iter_mut().zip(&*seen) {
                    kernels.run(MapValues { map: Map::SoftCap(cap), x: &mut scores[seen.range()] });
                }
            }
            if let Some(largest) = self.op.alibi {
                for (q, (scores, seen)) in scores.iter_mut().zip(&*seen).enumerate() {
                    let head = head * self.group + q % self.group;
                    let distance = start as f32 + seen.start as f32 - rows[q / self.group].position as f32;
                    let slope = alibi_slope(largest, head, self.op.heads);
                    kernels.run(Fade { slope, distance, scores: &mut scores[seen.range()] });
                }
            }
            if let Some(chosen) = &self.chosen {
                // What is chosen moves to the front, so that the rest has no part in the softmax.
                for (r, _) in rows.iter().enumerate() {
                    let chosen = of_page(chosen.row(first_row + r), start);
                    for q in r * self.group..(r + 1) * self.group {
                        for (i, position) in chosen.iter().enumerate() {
                            scores[q][i] = scores[q][*position as usize - start];
                        }
                        seen[q] = Seen { start: 0, end: chosen.len() };
                    }
                }
            }
            kernels.run(SoftmaxTiles { states, seen, scores, corrections });
            if let Some(chosen) = &self.chosen {
                // Back to its places, between zeros.
                for (r, row) in rows.iter().enumerate() {
                    let chosen = of_page(chosen.row(first_row + r), start);
                    for q in r * self.group..(r + 1) * self.group {
                        let mut weights = [0.0; PAGE];
                        for (weight, position) in scores[q].iter().zip(chosen) {
                            weights[*position as usize - start] = *weight;
                        }
                        scores[q] = weights;
                        if !chosen.is_empty() {
                            seen[q] = Seen::of(&self.row_sees(row), start);
                        }
                    }
                }
            }
            let values = value_side.page(kernels, page, head, most, scales);
            // The next page of the span: another span may be another thread's.
            let ahead = match visible.saturating_sub(start + PAGE).min(PAGE) {
                0 => &[],
                next => key_side.stored(pages[start / PAGE + 1] as usize, head, next),
            };
            let weights = &*all_scores;
            if are_many {
                let values = value_side.lay(kernels, values, most, laid);
                kernels.run(ManyValues { acc, corrections, seen, weights, values, ahead });
            } else {
                kernels.run(Accumulate { acc, corrections, seen, weights, values, ahead });
            }
        }
    }

    /// Merges what a query of a run has of a span, unless it does not see it.
    fn merge(
        &self,
        run: &Range<usize>,
        span: usize,
        q: usize,
        state: Softmax,
        acc: &[[f32; LANES]],
        total: &mut Accumulators,
    ) {
        let visible = self.row_sees(&self.rows[run.start + q / self.group]);
        if visible.end > span * SPAN && visible.start < (span + 1) * SPAN {
            let total_acc = &mut bytemuck::cast_slice_mut(&mut total.acc)[q * self.vectors..][..self.vectors];
            let state = Merge { state: &mut total.states[q], acc: total_acc, span: state, span_acc: acc };
            self.kernels.run(state);
        }
    }

    /// Writes the results of a run.
    fn finish(&self, task: &mut Rectangle, total: &Accumulators) {
        let value_dim = self.layer.values.dim();
        let acc: &[[f32; LANES]] = bytemuck::cast_slice(&total.acc);
        let mut queries = total.states.iter().zip(acc.chunks_exact(self.vectors));
        for row in task.rows() {
            for (out, (state, acc)) in task.row(row).chunks_exact_mut(value_dim).zip(&mut queries) {
                self.kernels.run(Finish { state: *state, acc, out });
            }
        }
    }
}

/// The chosen positions of a page.
fn of_page(chosen: &[f32], page: usize) -> &[f32] {
    &chosen[chosen_in_page(chosen, page)]
}

/// Attention whose tasks are spans.
struct Split<'a> {
    all: &'a Attention<'a>,
    runs: &'a Boundaries,
    key_heads: usize,
    /// Up to the last that a row sees.
    spans: usize,
    /// Vectors that a task leaves, if its run is the longest one.
    part: usize,
}

impl<'a> Split<'a> {
    fn new(all: &'a Attention<'a>, runs: &'a Boundaries, key_heads: usize) -> Split<'a> {
        let each = (0..runs.len()).map(|index| runs.part(index));
        let longest = each.map(|run| all.queries(&run)).max().unwrap_or(0);
        let part = partial_vectors(longest, all.layer.values.dim());
        Split { all, runs, key_heads, spans: all.spans(0..all.rows.len()).end, part }
    }

    /// How many tasks there are: `[run][head][span]`.
    fn parts(&self) -> usize {
        self.runs.len() * self.key_heads * self.spans
    }

    /// Vectors that all tasks leave.
    fn vectors(&self) -> usize {
        self.parts() * self.part
    }

    /// One span of one key head for a run of rows; leaves accumulators and softmax in `out`.
    fn run(&self, index: usize, out: &mut [[f32; LANES]], scratch: &mut AttentionScratch) {
        let (task, span) = (index / self.spans, index % self.spans);
        let (run, head) = (self.runs.part(task / self.key_heads), task % self.key_heads);
        if self.all.spans(run.clone()).contains(&span) {
            let (acc, states) = out.split_at_mut(self.all.queries(&run) * self.all.vectors);
            self.all.take_queries(head, run.clone(), &mut scratch.page);
            self.all.span(head, run, span, &mut scratch.page, &mut scratch.span.states, acc);
            for (out, state) in states.iter_mut().zip(&scratch.span.states) {
                out[..2].copy_from_slice(&[state.max, state.sum]);
            }
        }
    }

    /// Merges the spans of a key head for a run of rows, in ascending order, and writes the results.
    fn merge(&self, mut task: Rectangle, parts: &[[f32; LANES]], scratch: &mut AttentionScratch) {
        let (head, run) = (task.column_part, task.rows());
        let first = (task.row_part * self.key_heads + head) * self.spans;
        let total = &mut scratch.total;
        self.all.begin(head, &run, total);
        for span in self.all.spans(run.clone()) {
            let part = &parts[(first + span) * self.part..][..self.part];
            let (acc, states) = part.split_at(self.all.queries(&run) * self.all.vectors);
            for (q, (acc, state)) in acc.chunks_exact(self.all.vectors).zip(states).enumerate() {
                let state = Softmax { max: state[0], sum: state[1] };
                self.all.merge(&run, span, q, state, acc, total);
            }
        }
        self.all.finish(&mut task, total);
    }
}
