//! The choice of the positions that rows see, by an indexer: a thread takes a row, scores all positions up to its own and
//! chooses among them.

use gleed_model::arithmetic::{PAGE, choose_positions};
use gleed_model::program::{Indexer, View};

use super::Fixed;
use super::rows::for_each_row;
use crate::cache::LayerCache;
use crate::kernels::attention::{Scores, Seen, interleave};
use crate::kernels::index::IndexScores;
use crate::machine::Machine;
use crate::scratch::{PageScratch, Scratch, lock};

/// out = the positions with the largest scores.
pub(super) fn choose(
    fixed: Fixed,
    machine: &mut Machine,
    layer: &LayerCache,
    indexer: Indexer,
    inputs: [View; 2],
    out: View,
) {
    let Machine { kernels, pool, activations, rows, scratch, .. } = machine;
    let (kernels, dim, nowhere) = (*kernels, layer.keys.dim(), fixed.program.context as f32);
    let last = rows.iter().map(|row| row.position).max().unwrap_or(0);
    for_each_row(pool, activations, rows.len(), (last + 1) * inputs[0].width / 4, |thread, row| {
        let live = rows[row.index()];
        let ([query, weights], out) = row.read_write(inputs, out);
        let mut scratch = lock(&scratch[thread]);
        let Scratch { attention, room, .. } = &mut *scratch;
        let (totals, room) = room.split_at_mut(room.len() / 2);
        let totals = &mut totals[..live.position + 1];
        // All of them are chosen where there are no more than there is room for.
        if totals.len() > out.len() {
            let PageScratch { queries, scales, scores, seen, .. } = &mut attention.page;
            let (queries, seen) = (&mut queries[..indexer.heads * dim], &mut seen[..indexer.heads]);
            let scores = &mut bytemuck::cast_slice_mut::<_, [f32; PAGE]>(scores)[..indexer.heads];
            interleave(query, dim, queries);
            let pages = fixed.batch.pages(live.table, layer.group);
            for (totals, page) in totals.chunks_mut(PAGE).zip(pages) {
                seen.fill(Seen { start: 0, end: totals.len() });
                let keys = layer.keys.page(kernels, *page as usize, 0, totals.len(), scales);
                kernels.run(Scores { queries, keys, seen, scale: 1.0, ahead: &[], scores });
                kernels.run(IndexScores { weights, products: scores, totals });
            }
        }
        choose_positions(totals, bytemuck::cast_slice_mut(room), nowhere, out);
    });
}
