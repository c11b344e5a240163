//! Recurrent layers: every sequence by itself, row by row in order of position.

use super::Reference;
use crate::arithmetic::length;
use crate::program::{View, Weight};
use crate::recurrence::{
    Convolution, Decay, DeltaRow, DeltaRule, DeltaWeights, Scan, ScanRow, ScanWeights, Wkv, WkvRow, convolve,
    delta_rule, kept, scan, wkv,
};
use crate::{Error, Result};

impl Reference {
    /// The same with this many slots for the states of recurrent layers.
    pub fn with_slots(self, slots: usize) -> Result<Reference> {
        let too_many = || Error::Invalid(format!("there is no memory for {slots} state slots"));
        let sizes =
            self.program.states.iter().map(|layer| layer.size().checked_mul(slots).ok_or_else(too_many));
        let states = sizes.map(|size| Ok(vec![0.0; size?])).collect::<Result<_>>()?;
        Ok(Reference { states, slots, ..self })
    }

    /// Takes every sequence's state through its rows: `row` changes it and returns what the row's result is.
    fn recur(&mut self, layer: usize, out: View, row: impl Fn(&Reference, &mut [f32], usize, &mut [f32])) {
        let size = self.program.states[layer].size();
        let at = |slot: u32| slot as usize * size..(slot as usize + 1) * size;
        for table in 0..self.tables.len() {
            let mut state = match self.befores[table] {
                Some(slot) => self.states[layer][at(slot)].to_vec(),
                None => vec![0.0; size],
            };
            for r in
                (0..self.rows.len()).filter(|r| self.rows[*r].table as usize == table).collect::<Vec<_>>()
            {
                let mut result = vec![0.0; out.width];
                row(self, &mut state, r, &mut result);
                self.set(out, r).copy_from_slice(&result);
                let position = self.rows[r].position;
                let here =
                    |save: &&crate::batch::Save| save.table as usize == table && save.position == position;
                for save in self.saves.iter().filter(here) {
                    self.states[layer][at(save.slot)].copy_from_slice(&state);
                }
            }
        }
    }

    pub(super) fn shift(&mut self, state: usize, input: View, out: View) {
        self.recur(state, out, |this, before, r, out| {
            out.copy_from_slice(before);
            before.copy_from_slice(this.get(input, r));
        });
    }

    pub(super) fn convolve(&mut self, convolution: Convolution, input: View, out: View) {
        let taps = self.whole(convolution.taps);
        let bias = convolution.bias.map(|bias| self.vector(bias));
        self.recur(convolution.state, out, |this, state, r, out| {
            convolve(state, &taps, bias.as_deref(), convolution.silu, this.get(input, r), out);
        });
    }

    pub(super) fn scan(&mut self, layer: Scan, [x, dt, b, c]: [View; 4], out: View) {
        let (decay, skip) = (self.whole(layer.decay), self.whole(layer.skip));
        let dt_bias = layer.dt_bias.map(|bias| self.vector(bias));
        self.recur(layer.state, out, |this, state, r, out| {
            let weights =
                ScanWeights { scan: layer, decay: &decay, dt_bias: dt_bias.as_deref(), skip: &skip };
            let [x, dt, b, c] = [x, dt, b, c].map(|view| this.get(view, r));
            scan(state, weights, ScanRow { x, dt, b, c }, out);
        });
    }

    pub(super) fn delta_rule(&mut self, rule: DeltaRule, inputs: [View; 5], out: View) {
        let decay = rule.decay.map_or_else(Vec::new, |decay| self.whole(decay.decay));
        let dt_bias = rule.decay.map_or_else(Vec::new, |decay| self.vector(decay.dt_bias));
        self.recur(rule.state, out, |this, state, r, out| {
            let weights = DeltaWeights { rule, decay: &decay, dt_bias: &dt_bias };
            let [query, key, value, alpha, beta] = inputs.map(|view| this.get(view, r));
            delta_rule(state, weights, DeltaRow { query, key, value, alpha, beta }, out);
        });
    }

    pub(super) fn wkv(&mut self, layer: Wkv, inputs: [View; 6], out: View) {
        self.recur(layer.state, out, |this, state, r, out| {
            let [query, kept, key, value, asked, removed] = inputs.map(|view| this.get(view, r));
            wkv(state, layer.heads, WkvRow { query, kept, key, value, asked, removed }, out);
        });
    }

    pub(super) fn keep(&mut self, decay: Decay, x: View) {
        let (decays, dt_bias) = (self.whole(decay.decay), self.vector(decay.dt_bias));
        let each = x.width / decays.len();
        for r in 0..self.rows.len() {
            for (i, (x, bias)) in self.set(x, r).iter_mut().zip(&dt_bias).enumerate() {
                *x = kept(*x, *bias, decays[i / each]);
            }
        }
    }

    pub(super) fn unzip(&mut self, heads: usize, input: View, outs: &[View]) {
        for r in 0..self.rows.len() {
            let x = self.get(input, r).to_vec();
            let mut offset = 0;
            for out in outs {
                let piece = out.width / heads;
                for (head, x) in x.chunks(input.width / heads).enumerate() {
                    self.set(*out, r)[head * piece..][..piece].copy_from_slice(&x[offset..offset + piece]);
                }
                offset += piece;
            }
        }
    }

    pub(super) fn zip(&mut self, heads: usize, first: View, second: View, out: View) {
        let (piece, rest) = (first.width / heads, (out.width - first.width) / heads);
        for r in 0..self.rows.len() {
            let (x, y) = (self.get(first, r).to_vec(), self.get(second, r).to_vec());
            for (head, out) in self.set(out, r).chunks_mut(piece + rest).enumerate() {
                let own = if y.len() == rest { 0 } else { head };
                out[..piece].copy_from_slice(&x[head * piece..][..piece]);
                out[piece..].copy_from_slice(&y[own * rest..][..rest]);
            }
        }
    }

    pub(super) fn unit_norm(&mut self, heads: usize, epsilon: f32, like: Option<View>, x: View) {
        for r in 0..self.rows.len() {
            let length = like.map_or(1.0, |like| length(self.get(like, r)));
            let x = self.set(x, r);
            let width = x.len() / heads;
            x.chunks_mut(width).for_each(|head| crate::recurrence::unit_norm(head, epsilon, length));
        }
    }

    /// All values of a weight, row by row.
    pub(super) fn whole(&self, weight: usize) -> Vec<f32> {
        let Weight { experts, rows, .. } = self.program.weights[weight];
        (0..experts * rows).flat_map(|row| self.weight_row(weight, row)).collect()
    }
}
