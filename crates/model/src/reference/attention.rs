//! Keys and values in their pages, and attention over them: query head by query head, in spans of pages.

use std::ops::Range;

use half::f16;

use super::Reference;
use crate::arithmetic::{
    self as plain, Arithmetic, PAGE, SPAN, Scoring, Softmax, accumulate, attend_halves, choose_positions,
    chosen_in_page, index_score, score,
};
use crate::batch::Row;
use crate::kernels::with_fused_multiply_add;
use crate::program::{Attention, Indexer, KvLayer, View};

impl Reference {
    pub(super) fn kv_write(&mut self, cache: usize, key: View, value: View) {
        let KvLayer { heads, key_dim, value_dim } = self.program.caches[cache];
        for r in 0..self.rows.len() {
            let slot = self.slot(cache, r, self.rows[r].position as usize);
            let (mut k, mut v) = (self.get(key, r).to_vec(), self.get(value, r).to_vec());
            k.chunks_mut(key_dim).for_each(|head| self.options.kv.round(head));
            v.chunks_mut(value_dim).for_each(|head| self.options.kv.round(head));
            self.keys[cache][slot * heads * key_dim..][..k.len()].copy_from_slice(&k);
            self.values[cache][slot * heads * value_dim..][..v.len()].copy_from_slice(&v);
        }
    }

    /// Where a position of a row's sequence is stored in a cache.
    fn slot(&self, cache: usize, row: usize, position: usize) -> usize {
        let table = &self.tables[self.rows[row].table as usize][self.page_groups.of_cache(cache)];
        table[position / PAGE] as usize * PAGE + position % PAGE
    }

    /// The positions that a row sees.
    fn visible(&self, attention: Attention, r: usize) -> Range<usize> {
        let Row { table, position, .. } = self.rows[r];
        attention.visible(position as usize, self.lengths[table as usize])
    }

    /// Which positions each row sees.
    pub(super) fn choose(&mut self, indexer: Indexer, query: View, weights: View, out: View) {
        let Indexer { cache, heads } = indexer;
        let (dim, nowhere) = (self.program.caches[cache].key_dim, self.program.context as f32);
        let positions: usize = self.rows.iter().map(|row| row.position as usize + 1).sum();
        let chosen = self.threads.run(self.rows.len(), positions * query.width, |rows| {
            with_fused_multiply_add(
                #[inline(always)]
                || {
                    let mut chosen = Vec::new();
                    for r in rows {
                        let (queries, weights) = (self.get(query, r), self.get(weights, r));
                        let mut scores = vec![0.0; self.rows[r].position as usize + 1];
                        for (position, total) in scores.iter_mut().enumerate() {
                            let key = &self.keys[cache][self.slot(cache, r, position) * dim..][..dim];
                            for head in 0..heads {
                                let product = score(&queries[head * dim..][..dim], key, 1.0);
                                *total = index_score(*total, weights[head], product);
                            }
                        }
                        let (mut room, mut row) = (vec![0; scores.len()], vec![0.0; out.width]);
                        choose_positions(&scores, &mut room, nowhere, &mut row);
                        chosen.extend(row);
                    }
                    chosen
                },
            )
        });
        self.load(out, &chosen.concat());
    }

    pub(super) fn attention(&mut self, attention: Attention, query: View, out: View) {
        let positions: usize = (0..self.rows.len()).map(|r| self.visible(attention, r).len()).sum();
        let work = positions * (query.width + out.width);
        let sinks = attention.sinks.map(|sinks| self.vector(sinks));
        let results = self.threads.run(self.rows.len(), work, |rows| {
            with_fused_multiply_add(
                #[inline(always)]
                || {
                    let mut results = Vec::new();
                    for r in rows {
                        for (head, q) in self.get(query, r).chunks(query.width / attention.heads).enumerate()
                        {
                            let sink = sinks.as_ref().map(|sinks| sinks[head]);
                            results.extend(self.attend(attention, head, sink, r, q));
                        }
                    }
                    results
                },
            )
        });
        self.load(out, &results.concat());
    }

    /// What one query head of a row makes of the values of its key-value head.
    #[inline(always)]
    fn attend(
        &self,
        attention: Attention,
        head: usize,
        sink: Option<f32>,
        r: usize,
        query: &[f32],
    ) -> Vec<f32> {
        let Attention { cache, heads, scale, soft_cap, alibi, chosen, .. } = attention;
        let chosen = chosen.map(|view| self.get(view, r));
        let stored = self.program.caches[cache];
        let KvLayer { heads: kv_heads, key_dim, value_dim } = stored;
        let kv_head = head / (heads / kv_heads);
        let visible = self.visible(attention, r);
        let (own, slope) =
            (self.rows[r].position as usize, alibi.map(|largest| plain::alibi_slope(largest, head, heads)));
        if self.options.arithmetic == Arithmetic::F16 && attention.in_halves(stored, self.options.kv) {
            let scoring = Scoring { scale, soft_cap, fading: slope.map(|slope| (slope, own)), sink };
            return self.attend_in_halves(cache, scoring, kv_head, r, visible, query);
        }
        let mut softmax = sink.map_or(Softmax::default(), Softmax::of_sink);
        let mut acc = vec![0.0f32; value_dim];
        for span in (visible.start / SPAN * SPAN..visible.end).step_by(SPAN) {
            let mut span_softmax = Softmax::default();
            let mut span_acc = vec![0.0; value_dim];
            for page in (span..visible.end.min(span + SPAN)).step_by(PAGE) {
                let seen = visible.start.max(page)..visible.end.min(page + PAGE);
                let own_of_page = chosen.map(|chosen| &chosen[chosen_in_page(chosen, page)]);
                // A span may begin with pages that the window has left, and of a page nothing may be chosen.
                if seen.is_empty() || own_of_page.is_some_and(<[f32]>::is_empty) {
                    continue;
                }
                let start = seen.start;
                let slots: Vec<usize> = seen.clone().map(|p| self.slot(cache, r, p)).collect();
                // In a loop: what iterators call is compiled apart, see `with_fused_multiply_add`.
                let mut scores = Vec::with_capacity(slots.len());
                for (slot, position) in slots.iter().zip(seen) {
                    let k = &self.keys[cache][(slot * kv_heads + kv_head) * key_dim..][..key_dim];
                    let score = score(query, k, scale);
                    let score = soft_cap.map_or(score, |cap| plain::soft_cap(score, cap));
                    scores.push(slope.map_or(score, |slope| plain::faded(score, slope, own, position)));
                }
                let correction = match own_of_page {
                    None => span_softmax.tile(&mut scores),
                    Some(chosen) => {
                        // What is not chosen has no part in the softmax, and no weight.
                        let at = |position: &f32| *position as usize - start;
                        let mut own: Vec<f32> = chosen.iter().map(|position| scores[at(position)]).collect();
                        let correction = span_softmax.tile(&mut own);
                        scores.fill(0.0);
                        chosen.iter().zip(own).for_each(|(position, weight)| scores[at(position)] = weight);
                        correction
                    }
                };
                span_acc.iter_mut().for_each(|a| *a *= correction);
                for (weight, slot) in scores.iter().zip(&slots) {
                    let v = &self.values[cache][(slot * kv_heads + kv_head) * value_dim..][..value_dim];
                    accumulate(&mut span_acc, *weight, v);
                }
            }
            let (before, after) = softmax.merge(span_softmax);
            acc.iter_mut().zip(span_acc).for_each(|(acc, span)| *acc = acc.mul_add(before, span * after));
        }
        let inverse = 1.0 / softmax.sum;
        acc.iter_mut().for_each(|a| *a *= inverse);
        acc
    }

    /// The same in halves, as which keys and values are stored.
    fn attend_in_halves(
        &self,
        cache: usize,
        scoring: Scoring,
        kv_head: usize,
        r: usize,
        visible: Range<usize>,
        query: &[f32],
    ) -> Vec<f32> {
        let KvLayer { heads, key_dim, value_dim } = self.program.caches[cache];
        let halves = |stored: &[f32], dim: usize| -> Vec<Vec<f16>> {
            let of = |position| {
                let at = (self.slot(cache, r, position) * heads + kv_head) * dim;
                stored[at..][..dim].iter().copied().map(f16::from_f32).collect()
            };
            visible.clone().map(of).collect()
        };
        let (keys, values) = (halves(&self.keys[cache], key_dim), halves(&self.values[cache], value_dim));
        let first = visible.start;
        attend_halves(query, scoring, visible, |p| &keys[p - first], |p| &values[p - first])
    }
}
