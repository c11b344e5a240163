//! What happens to each row by itself, norms, rotations, sums and activations, and which rows go on.

use super::{Normed, Order, Reference};
use crate::arithmetic as plain;
use crate::batch::Row;
use crate::program::{Activation, Map, Norm, View};

impl Reference {
    pub(super) fn norm(&mut self, order: Order, norm: Norm, heads: usize, input: View, out: View) {
        let weight = self.whole(norm.weight);
        let bias = norm.bias.map(|b| self.vector(b));
        if self.leaves_factors(order) {
            let rows: Vec<&[f32]> = (0..self.rows.len()).map(|r| self.get(input, r)).collect();
            let factors = rows.iter().map(|x| plain::rms_factor(x, norm.epsilon)).collect();
            let times = |x: &&[f32]| x.iter().zip(&weight).map(|(x, w)| x * w).collect();
            self.normed = Some(Normed { view: out, rows: rows.iter().map(times).collect(), factors });
        }
        for r in 0..self.rows.len() {
            let x = self.get(input, r).to_vec();
            let width = x.len() / heads;
            // All heads have the same factors, or each its own.
            let weights = weight.chunks(width).cycle();
            for ((x, out), weight) in x.chunks(width).zip(self.set(out, r).chunks_mut(width)).zip(weights) {
                match &bias {
                    None => plain::rms_norm(x, weight, norm.epsilon, out),
                    Some(bias) => plain::layer_norm(x, weight, bias, norm.epsilon, out),
                }
            }
        }
    }

    /// Whether the node is an RMS norm whose factors are left to the layers that read it.
    fn leaves_factors(&self, order: Order) -> bool {
        match order {
            Order::Groups => self.program.nodes[self.node].op.rms_norm().is_some(),
            Order::Halves => self.program.leaves_factors(self.node, |_| true),
            Order::Blocks | Order::Floats => false,
        }
    }

    pub(super) fn center(&mut self, heads: usize, input: View, out: View) {
        let width = out.width / heads;
        for r in 0..self.rows.len() {
            let x = self.get(input, r).to_vec();
            let parts = x.chunks(width).zip(self.set(out, r).chunks_mut(width));
            parts.for_each(|(x, out)| plain::center(x, out));
        }
    }

    pub(super) fn rope(&mut self, rope: usize, heads: usize, x: View) {
        let rope = self.program.ropes[rope].clone();
        let pairs = rope.dimensions / 2;
        let (mut cos, mut sin) = (vec![0.0; pairs], vec![0.0; pairs]);
        for r in 0..self.rows.len() {
            rope.angles(self.rows[r].position, &mut cos, &mut sin);
            let x = self.set(x, r);
            let width = x.len() / heads;
            x.chunks_mut(width).for_each(|head| rope.apply(head, &cos, &sin));
        }
    }

    pub(super) fn add(&mut self, x: View, y: View) {
        for r in 0..self.rows.len() {
            let y = self.get(y, r).to_vec();
            self.set(x, r).iter_mut().zip(y).for_each(|(x, y)| *x += y);
        }
    }

    /// Each wanted row becomes the mean of its sequence's rows, which are all there and follow each other.
    pub(super) fn pool(&mut self, x: View) {
        let mean = |r: usize| {
            let Row { table, position, .. } = self.rows[r];
            let first = r - position as usize;
            let mut mean = vec![0.0; x.width];
            let rows = (first..first + self.lengths[table as usize]).map(|r| self.get(x, r));
            plain::mean_of_rows(rows, &mut mean);
            mean
        };
        // All of them before any row changes.
        let means: Vec<Vec<f32>> = (0..self.rows.len()).map(mean).collect();
        means.iter().enumerate().for_each(|(r, mean)| self.set(x, r).copy_from_slice(mean));
        self.gather(&[x]);
    }

    pub(super) fn gather(&mut self, views: &[View]) {
        let wanted: Vec<usize> = (0..self.rows.len()).filter(|r| self.rows[*r].wants_logits).collect();
        for view in views {
            for (to, from) in wanted.iter().enumerate() {
                let kept = self.get(*view, *from).to_vec();
                self.set(*view, to).copy_from_slice(&kept);
            }
        }
        self.rows.retain(|r| r.wants_logits);
    }
}

/// What an activation makes of a gate, times what is gated where there is any.
pub(super) fn activate(activation: Activation, gate: &[f32], up: Option<&[f32]>, out: &mut [f32]) {
    for (i, (out, gate)) in out.iter_mut().zip(gate).enumerate() {
        *out = match (activation, up) {
            (Activation::ClampedSwiglu, Some(up)) => plain::clamped_swiglu(*gate, up[i]),
            (_, Some(up)) => activated(activation, *gate) * up[i],
            (_, None) => activated(activation, *gate),
        };
    }
}

/// The same of one number.
pub(super) fn activated(activation: Activation, x: f32) -> f32 {
    match activation {
        Activation::Silu => plain::silu(x),
        Activation::Gelu => plain::gelu(x),
        Activation::SquaredRelu => plain::squared_relu(x),
        Activation::Sigmoid => plain::sigmoid(x),
        Activation::Softplus => plain::softplus(x),
        Activation::ExactGelu => plain::exact_gelu(x),
        Activation::Identity => x,
        Activation::ClampedSwiglu => plain::clamped_swiglu(x, 0.0),
    }
}

/// What a map makes of one number. NaN passes through comparisons that it fails.
pub(super) fn mapped(map: Map, x: f32) -> f32 {
    match map {
        Map::Scale(factor) => x * factor,
        Map::SoftCap(cap) => plain::soft_cap(x, cap),
        Map::AtMost(limit) => {
            if x > limit {
                limit
            } else {
                x
            }
        }
        Map::Within(limit) => x.clamp(-limit, limit),
        Map::Kept(rate) => plain::exp(-rate * plain::sigmoid(x)),
        Map::Xielu(numbers) => plain::xielu(x, numbers),
    }
}
