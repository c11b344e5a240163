//! Writing keys and values to the cache. Threads take whole heads, so that whatever rows a batch has,
//! no two threads write the same place, and rows are written in order.

use gleed_model::Batch;
use gleed_model::arithmetic::PAGE;
use gleed_model::program::{Norm, View};

use super::Fixed;
use super::rows::norm_in_place;
use crate::cache::{LayerCache, Slots};
use crate::kernels::Kernels;
use crate::kernels::shared::BlockQueue;
use crate::machine::{LiveRow, Machine, fork};
use crate::scratch::lock;

/// What happens to queries and keys before a write.
#[derive(Clone, Copy)]
pub(super) struct Rotation {
    pub query_rope: usize,
    pub key_rope: usize,
    pub query_norm: Option<Norm>,
    pub key_norm: Option<Norm>,
}

/// Where the rows of a batch are written.
struct Target<'a> {
    kernels: Kernels,
    rows: &'a [LiveRow],
    batch: &'a Batch,
    /// The page group of the cache.
    group: usize,
}

impl Target<'_> {
    /// Takes heads from the queue and stores what `of` gives for each row and head.
    fn store<'x>(
        &self,
        slots: Slots,
        queue: &BlockQueue<u64>,
        mut of: impl FnMut(usize, usize) -> &'x [f32],
    ) {
        while let Some(mut head) = queue.next() {
            for (r, row) in self.rows.iter().enumerate() {
                let values = of(r, head.index());
                slots.put(self.kernels, head.of(self.page(row)), row.position % PAGE, values);
            }
        }
    }

    fn page(&self, row: &LiveRow) -> usize {
        self.batch.pages(row.table, self.group)[row.position / PAGE] as usize
    }
}

/// Stores keys and values at the rows' positions.
pub(super) fn write(fixed: Fixed, machine: &mut Machine, layer: &mut LayerCache, key: View, value: View) {
    let Machine { kernels, pool, activations, rows, .. } = machine;
    let target = Target { kernels: *kernels, rows, batch: fixed.batch, group: layer.group };
    let (key_dim, value_dim) = (layer.keys.dim(), layer.values.dim());
    let (key_slots, keys) = layer.keys.split_heads();
    let (value_slots, values) = layer.values.split_heads();
    let activations = &*activations;
    fork(pool, keys.len() + values.len(), rows.len() * (key.width + value.width), |_| {
        target.store(key_slots, &keys, |row, head| {
            &activations.row(key, row)[head * key_dim..(head + 1) * key_dim]
        });
        target.store(value_slots, &values, |row, head| {
            &activations.row(value, row)[head * value_dim..(head + 1) * value_dim]
        });
    });
}

/// Head norms of query and key where given, rotation of both, and the write of key and value. The
/// queries change in place; rotated keys go to the cache only.
pub(super) fn rope_write(
    fixed: Fixed,
    plan: &crate::plan::Plan,
    machine: &mut Machine,
    layer: &mut LayerCache,
    rotation: Rotation,
    [query, key, value]: [View; 3],
) {
    let Machine { kernels, pool, activations, rows, angles, scratch, runs, .. } = machine;
    let kernels = *kernels;
    let target = Target { kernels, rows, batch: fixed.batch, group: layer.group };
    let turn = |row: usize, rope: usize, norm: &Option<Norm>, head: &mut [f32]| {
        if let Some(norm) = norm {
            norm_in_place(kernels, fixed.weights, norm, head);
        }
        kernels.run(angles[rope].rotation(target.rows[row], fixed.program.ropes[rope].pairing, head));
    };
    let (key_dim, value_dim) = (layer.keys.dim(), layer.values.dim());
    let (key_slots, keys) = layer.keys.split_heads();
    let (value_slots, values) = layer.values.split_heads();
    let ([key_rows, value_rows], queries) = activations.split_view([key, value], query, runs, &plan.columns);
    let tasks = queries.len() + keys.len() + values.len();
    fork(pool, tasks, rows.len() * 4 * (query.width + key.width + value.width), |thread| {
        let mut scratch = lock(&scratch[thread]);
        for mut run in queries.in_chunks(1) {
            for row in run.rows() {
                for head in run.row(row).chunks_exact_mut(key_dim) {
                    turn(row, rotation.query_rope, &rotation.query_norm, head);
                }
            }
        }
        while let Some(mut head) = keys.next() {
            let columns = head.index() * key_dim..(head.index() + 1) * key_dim;
            let key = &mut scratch.head[..key_dim];
            for (r, row) in rows.iter().enumerate() {
                key.copy_from_slice(&key_rows.row(r)[columns.clone()]);
                turn(r, rotation.key_rope, &rotation.key_norm, key);
                key_slots.put(kernels, head.of(target.page(row)), row.position % PAGE, key);
            }
        }
        target.store(value_slots, &values, |row, head| {
            &value_rows.row(row)[head * value_dim..(head + 1) * value_dim]
        });
    });
}
