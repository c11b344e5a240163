//! Experts: the rows that chose one are multiplied with its matrix, the others never meet it.

use super::{Order, Reference};
use crate::program::{Projection, View, experts_used};
use crate::routing::{ROOM, Routing};

impl Reference {
    pub(super) fn route(&mut self, routing: Routing, scores: View, out: View) {
        let [bias, factors] = [routing.bias, routing.factors].map(|id| id.map(|id| self.vector(id)));
        let mut room = vec![0.0; ROOM * scores.width];
        for r in 0..self.rows.len() {
            let mut choice = vec![0.0; out.width];
            let scores = self.get(scores, r);
            routing.choose(scores, bias.as_deref(), factors.as_deref(), &mut room, &mut choice);
            self.set(out, r).copy_from_slice(&choice);
        }
    }

    pub(super) fn expert_linear(
        &mut self,
        order: Order,
        parts: &[Projection],
        choice: Option<View>,
        input: View,
        out: View,
    ) {
        let mut first = 0;
        for part in parts {
            let weight = self.program.weights[part.weight].clone();
            let used = experts_used(choice, weight.experts);
            let bias = part.bias.map(|bias| self.vector(bias));
            for expert in 0..weight.experts {
                let slots: Vec<(usize, usize)> = (0..self.rows.len())
                    .flat_map(|r| (0..used).map(move |slot| (r, slot)))
                    .filter(|&(r, slot)| {
                        choice.map_or(slot, |choice| self.get(choice, r)[slot] as usize) == expert
                    })
                    .collect();
                let rows = slots.iter().map(|&(r, slot)| {
                    let own = if input.width == weight.columns { 0 } else { slot };
                    self.get(input.part(own * weight.columns, weight.columns), r).to_vec()
                });
                let rows: Vec<Vec<f32>> = rows.collect();
                if rows.is_empty() {
                    continue;
                }
                let results = self.products(order, part.weight, expert, rows);
                for (n, results) in results.chunks(slots.len()).enumerate() {
                    for (result, &(r, slot)) in results.iter().zip(&slots) {
                        let bias = bias.as_ref().map(|bias| bias[expert * weight.rows + n]);
                        self.set(out, r)[first + slot * weight.rows + n] =
                            bias.map_or(*result, |bias| result + bias);
                    }
                }
            }
            first += used * weight.rows;
        }
    }

    pub(super) fn weigh(&mut self, choice: View, input: View, out: View) {
        for r in 0..self.rows.len() {
            let weights = self.get(choice, r)[choice.width / 2..].to_vec();
            let x = self.get(input, r).to_vec();
            for (out, weight) in self.set(out, r).chunks_mut(input.width).zip(weights) {
                out.iter_mut().zip(&x).for_each(|(out, x)| *out = x * weight);
            }
        }
    }

    pub(super) fn combine(&mut self, choice: View, weighted: bool, input: View, out: View) {
        for r in 0..self.rows.len() {
            let weights = self.get(choice, r)[choice.width / 2..].to_vec();
            let all = self.get(input, r).to_vec();
            let sum = self.set(out, r);
            sum.fill(0.0);
            for (given, weight) in all.chunks(out.width).zip(weights) {
                let weight = if weighted { weight } else { 1.0 };
                sum.iter_mut().zip(given).for_each(|(sum, x)| *sum = weight.mul_add(*x, *sum));
            }
        }
    }
}
