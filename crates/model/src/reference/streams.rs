//! Ops of several residual streams, row by row, and others that weigh columns.

use super::Reference;
use crate::arithmetic::{correct_streams, dot, mix_streams, sparsify};
use crate::program::{View, WeightId};

impl Reference {
    pub(super) fn scale_columns(&mut self, weight: WeightId, input: View, out: View) {
        let weight = self.vector(weight);
        for r in 0..self.rows.len() {
            let x = self.get(input, r).to_vec();
            self.set(out, r).iter_mut().zip(x.iter().zip(&weight)).for_each(|(out, (x, w))| *out = x * w);
        }
    }

    pub(super) fn blend(&mut self, shares: WeightId, x: View, y: View, out: View) {
        let shares = self.whole(shares);
        for r in 0..self.rows.len() {
            let [x, y] = [x, y].map(|view| self.get(view, r).to_vec());
            for (out, shares) in self.set(out, r).chunks_mut(x.len()).zip(shares.chunks(x.len())) {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = shares[i].mul_add(y[i] - x[i], x[i]);
                }
            }
        }
    }

    pub(super) fn dot(&mut self, heads: usize, x: View, y: View, out: View) {
        let width = x.width / heads;
        for r in 0..self.rows.len() {
            let [x, y] = [x, y].map(|view| self.get(view, r).to_vec());
            let parts = x.chunks(width).zip(y.chunks(width));
            self.set(out, r).iter_mut().zip(parts).for_each(|(out, (x, y))| *out = dot(x, y));
        }
    }

    pub(super) fn sparsify(&mut self, spread: f32, x: View) {
        (0..self.rows.len()).for_each(|r| sparsify(self.set(x, r), spread));
    }

    pub(super) fn mix_streams(&mut self, coefficients: View, input: View, out: View) {
        for r in 0..self.rows.len() {
            let [coefficients, input] = [coefficients, input].map(|view| self.get(view, r).to_vec());
            mix_streams(&coefficients, &input, self.set(out, r));
        }
    }

    pub(super) fn correct_streams(&mut self, coefficients: View, truth: View, input: View, out: View) {
        for r in 0..self.rows.len() {
            let [coefficients, truth, input] =
                [coefficients, truth, input].map(|view| self.get(view, r).to_vec());
            correct_streams(&coefficients, &truth, &input, self.set(out, r));
        }
    }
}
