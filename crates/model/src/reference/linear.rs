//! Linear layers: each row of weights is decoded once and multiplied with every row of activations.

use std::ops::Range;

use gleed_gguf::{Groups, Unpacked};

use super::{Normed, Order, Reference};
use crate::arithmetic::{self as plain, IntegerRow, SUPER_BLOCK, dot, dot_q8};
use crate::kernels::with_fused_multiply_add;
use crate::program::{Projection, View, Weight, WeightId};

/// The rows that a matrix is multiplied with.
enum Activations {
    /// As they are.
    Floats(Vec<Vec<f32>>),
    /// In integers, in the blocks of the weights.
    Integers(Vec<Quantised>, Groups),
}

impl Reference {
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
        let normed = self.normed.as_ref().filter(|normed| rounds && normed.view == input && !logits);
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
            let (block, group) = (groups.block, groups.len);
            let (count, blocks) = (weight.columns / group, weight.columns / block);
            let with_mins = |length| if groups.mins { length } else { 0 };
            let (integers, factors) = (&mut vec![0; weight.columns][..], &mut vec![0; count][..]);
            let (scales, mins) = (&mut vec![0.0; blocks][..], &mut vec![0.0; with_mins(blocks)][..]);
            let min_factors = &mut vec![0; with_mins(count)][..];
            for data in rows_of_weights {
                let unpacked = Unpacked {
                    integers: &mut *integers,
                    factors: &mut *factors,
                    scales: &mut *scales,
                    min_factors: &mut *min_factors,
                    mins: &mut *mins,
                };
                weight.format.unpack(data, unpacked);
                let row = IntegerRow { integers, factors, scales, min_factors, mins, block, group };
                for x in rows {
                    results.push(x.dot(row));
                }
            }
        }
    }
    results
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
