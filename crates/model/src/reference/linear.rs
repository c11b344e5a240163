//! Linear layers: each row of weights is decoded once and multiplied with every row of activations.

use std::ops::Range;

use gleed_gguf::{Groups, Unpacked};

use super::{Normed, Order, Reference};
use crate::arithmetic::{
    self as plain, HalfRow, IntegerRow, SUPER_BLOCK, dot, dot_halves, dot_q8, half_activations, half_row,
    half_values, half_weights,
};
use crate::kernels::with_fused_multiply_add;
use crate::program::{Projection, View, Weight, WeightId};

/// The rows that a matrix is multiplied with.
enum Activations {
    /// As they are.
    Floats(Vec<Vec<f32>>),
    /// In integers, in the blocks of the weights.
    Integers(Vec<Quantised>, Groups),
    /// In halves.
    Halves(Vec<HalfRow>),
}

impl Reference {
    /// A row of a matrix as its [`half_terms`] say, or of one of floats as halves are.
    pub(super) fn half_weight_row(&self, weight: WeightId, row: usize) -> Vec<f32> {
        let w = &self.program.weights[weight];
        let data = self.data(weight);
        let bytes = data.len() / w.rows;
        let data = &data[row * bytes..][..bytes];
        let Some(groups) = w.format.groups() else {
            let HalfRow { values, factor } = half_row(&self.weight_row(weight, row));
            return values.iter().map(|half| half.to_f32() * factor).collect();
        };
        half_values(Integers::new(groups, w.columns).row(w, data))
    }

    pub(super) fn linear(&mut self, order: Order, part: Projection, input: View, out: View) {
        let weight = &self.program.weights[part.weight];
        let bias = part.bias.map(|b| self.vector(b));
        let (inputs, factors) = self.activations(order, weight, input, out);
        let rows = inputs.len();
        for (i, result) in self.products(order, part.weight, 0, inputs).into_iter().enumerate() {
            let (n, r) = (i / rows, i % rows);
            let result = factors.as_ref().map_or(result, |factors| result * factors[r]);
            self.set(out, r)[n] = bias.as_ref().map_or(result, |b| result + b[n]);
        }
    }

    /// One matrix of a weight times some rows: `[output][row]`.
    pub(super) fn products(
        &self,
        order: Order,
        id: WeightId,
        expert: usize,
        inputs: Vec<Vec<f32>>,
    ) -> Vec<f32> {
        let weight = &self.program.weights[id];
        let rows = inputs.len();
        let activations = match weight.format.groups().filter(|_| order == Order::Blocks) {
            _ if order == Order::Halves => {
                Activations::Halves(inputs.iter().map(|x| half_activations(x)).collect())
            }
            Some(groups) => {
                let quantised = inputs.iter().map(|x| Quantised::new(x, groups.block)).collect();
                Activations::Integers(quantised, groups)
            }
            None => Activations::Floats(inputs),
        };
        let data = self.data(id);
        let matrix = data.len() / weight.experts;
        let data = &data[expert * matrix..][..matrix];
        let results = self.threads.run(weight.rows, weight.rows * weight.columns * rows, |range| {
            with_fused_multiply_add(
                #[inline(always)]
                || outputs(weight, data, &activations, range),
            )
        });
        results.concat()
    }

    /// The rows of activations that a matrix meets, and what its results are multiplied with.
    fn activations(
        &self,
        order: Order,
        weight: &Weight,
        input: View,
        out: View,
    ) -> (Vec<Vec<f32>>, Option<Vec<f32>>) {
        let rounds = order == Order::Groups && weight.format.groups().is_some();
        let logits = out.buffer == self.program.logits.buffer;
        let before = rounds || order == Order::Halves;
        let normed = self.normed.as_ref().filter(|normed| before && normed.view == input && !logits);
        let inputs: Vec<Vec<f32>> = match normed {
            Some(Normed { rows, .. }) => rows.clone(),
            None => (0..self.rows.len()).map(|r| self.get(input, r).to_vec()).collect(),
        };
        let inputs = inputs.into_iter().map(|x| if rounds { rounded(x) } else { x }).collect();
        (inputs, normed.map(|normed| normed.factors.clone()))
    }
}

/// Some outputs of a matrix for all rows, `[output][row]`. In loops: what iterators call is compiled apart, see
/// [`with_fused_multiply_add`].
#[inline(always)]
fn outputs(weight: &Weight, data: &[u8], activations: &Activations, range: Range<usize>) -> Vec<f32> {
    let bytes = data.len() / weight.rows;
    let rows_of_weights = range.map(|n| &data[n * bytes..(n + 1) * bytes]);
    let mut results = Vec::new();
    match activations {
        Activations::Floats(rows) => {
            let mut values = vec![0.0; weight.columns];
            for data in rows_of_weights {
                weight.format.decode(data, &mut values);
                for x in rows {
                    results.push(dot(&values, x));
                }
            }
        }
        Activations::Integers(rows, groups) => {
            let mut room = Integers::new(*groups, weight.columns);
            for data in rows_of_weights {
                let row = room.row(weight, data);
                for x in rows {
                    results.push(x.dot(row));
                }
            }
        }
        Activations::Halves(rows) => {
            let mut values = vec![0.0; weight.columns];
            let mut room = weight.format.groups().map(|groups| Integers::new(groups, weight.columns));
            for data in rows_of_weights {
                let weights = match &mut room {
                    Some(room) => half_weights(room.row(weight, data)),
                    None => {
                        weight.format.decode(data, &mut values);
                        half_row(&values)
                    }
                };
                for x in rows {
                    results.push(weights.factor * x.factor * dot_halves(&weights.values, &x.values));
                }
            }
        }
    }
    results
}

/// Room for a row of weights in integers.
struct Integers {
    groups: Groups,
    integers: Vec<i8>,
    factors: Vec<i8>,
    scales: Vec<f32>,
    min_factors: Vec<i8>,
    mins: Vec<f32>,
}

impl Integers {
    fn new(groups: Groups, columns: usize) -> Integers {
        let (count, blocks) = (columns / groups.len, columns / groups.block);
        let with_mins = |length| if groups.mins { length } else { 0 };
        Integers {
            groups,
            integers: vec![0; columns],
            factors: vec![0; count],
            scales: vec![0.0; blocks],
            min_factors: vec![0; with_mins(count)],
            mins: vec![0.0; with_mins(blocks)],
        }
    }

    /// The row that these bytes of a file are.
    fn row(&mut self, weight: &Weight, data: &[u8]) -> IntegerRow<'_> {
        let Integers { groups, integers, factors, scales, min_factors, mins } = self;
        weight.format.unpack(data, Unpacked { integers, factors, scales, min_factors, mins });
        IntegerRow { integers, factors, scales, min_factors, mins, block: groups.block, group: groups.len }
    }
}

/// A row of activations in integers, and where it is uneven, what they leave of it.
struct Quantised {
    q: Vec<i8>,
    scales: Vec<f32>,
    remainder: Option<(Vec<i8>, Vec<f32>)>,
}

impl Quantised {
    fn new(x: &[f32], block: usize) -> Quantised {
        let quantize_row = |x: &[f32]| {
            let mut q = vec![0i8; x.len()];
            let blocks = x.chunks(block).zip(q.chunks_mut(block));
            let scales: Vec<f32> = blocks.map(|(x, q)| plain::quantize(x, q)).collect();
            (q, scales)
        };
        let (q, scales) = quantize_row(x);
        let uneven = q.chunks(block).zip(&scales).any(|(q, scale)| plain::is_uneven(q, *scale));
        let remainder = (block == SUPER_BLOCK && uneven).then(|| {
            let mut rest = vec![0.0; x.len()];
            let blocks = x.chunks(block).zip(q.chunks(block)).zip(rest.chunks_mut(block));
            for (((x, q), rest), scale) in blocks.zip(&scales) {
                plain::remainder(x, q, *scale, rest);
            }
            quantize_row(&rest)
        });
        Quantised { q, scales, remainder }
    }

    #[inline(always)]
    fn dot(&self, row: IntegerRow) -> f32 {
        let mut result = dot_q8(row, &self.q, &self.scales);
        if let Some((q, scales)) = &self.remainder {
            result += dot_q8(row, q, scales);
        }
        result
    }
}

/// Activations after int8 in groups of 32.
fn rounded(mut x: Vec<f32>) -> Vec<f32> {
    for group in x.chunks_mut(plain::BLOCK) {
        let mut q = [0i8; plain::BLOCK];
        let scale = plain::quantize(group, &mut q[..group.len()]);
        group.iter_mut().zip(q).for_each(|(x, q)| *x = scale * f32::from(q));
    }
    x
}
