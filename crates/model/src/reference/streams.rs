//! Ops of several residual streams, row by row.

use super::Reference;
use crate::arithmetic::{correct_streams, mix_streams, sparsify};
use crate::program::{View, WeightId};

impl Reference {
    pub(super) fn scale_columns(&mut self, weight: WeightId, input: View, out: View) {
        let weight = self.vector(weight);
        for r in 0..self.rows.len() {
            let x = self.get(input, r).to_vec();
            self.set(out, r).iter_mut().zip(x.iter().zip(&weight)).for_each(|(out, (x, w))| *out = x * w);
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
