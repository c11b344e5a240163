//! Which experts a row uses, and with what weights.

use crate::arithmetic::{exp, sigmoid};
use crate::program::WeightId;

/// How a row chooses experts by the scores that it has for all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Routing {
    /// How scores become weights.
    pub gate: Gate,
    /// How many experts a row uses.
    pub used: usize,
    /// Where given, experts are taken from the best groups only.
    pub groups: Option<Groups>,
    /// Added to the weights for the choice alone.
    pub bias: Option<WeightId>,
    /// Whether the weights of the chosen are divided by their sum.
    pub normalised: bool,
    /// What weights are multiplied with.
    pub scale: f32,
    /// What the weight of each expert is multiplied with, one for each.
    pub factors: Option<WeightId>,
}

/// How scores become weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// By a softmax over all experts.
    Softmax,
    /// Each by itself.
    Sigmoid,
    /// By a softmax over the chosen ones, who are chosen by their scores.
    SoftmaxOfChosen,
}

/// Groups of neighbouring experts, of which each is worth what its two best experts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    /// How many there are.
    pub count: usize,
    /// How many of them experts are taken from.
    pub used: usize,
}

/// Numbers that a choice needs room for, for each expert.
pub const ROOM: usize = 3;

/// The least sum that weights are divided by: the smallest normal half.
pub const LEAST_SUM: f32 = 6.103_515_6e-5;

impl Routing {
    /// Writes the chosen experts in order of rank, then their weights. Scores that are not numbers rank before all
    /// others, and of equals the first does. `room` is for [`ROOM`] numbers for each expert.
    pub fn choose(
        &self,
        scores: &[f32],
        bias: Option<&[f32]>,
        factors: Option<&[f32]>,
        room: &mut [f32],
        out: &mut [f32],
    ) {
        let (weights, room) = room.split_at_mut(scores.len());
        weights.copy_from_slice(scores);
        match self.gate {
            Gate::Softmax => softmax(weights),
            Gate::Sigmoid => weights.iter_mut().for_each(|weight| *weight = sigmoid(*weight)),
            Gate::SoftmaxOfChosen => {}
        }
        let (worth, group_worth) = room.split_at_mut(scores.len());
        // What has been taken is marked by a NaN of its own.
        worth
            .iter_mut()
            .zip(&*weights)
            .for_each(|(worth, x)| *worth = if x.is_nan() { f32::NAN } else { *x });
        if let Some(bias) = bias {
            worth.iter_mut().zip(bias).for_each(|(worth, bias)| *worth += bias);
        }
        if let Some(Groups { count, used }) = self.groups {
            keep_best_groups(worth, &mut group_worth[..count], used);
        }
        let (experts, chosen) = out.split_at_mut(self.used);
        for (rank, expert) in experts.iter_mut().enumerate() {
            let best = take_best(worth);
            *expert = best as f32;
            chosen[rank] = weights[best];
        }
        if self.gate == Gate::SoftmaxOfChosen {
            softmax(chosen);
        }
        if self.normalised {
            let mut sum = 0.0;
            for weight in &*chosen {
                sum += weight;
            }
            // Not `max`, which would hide NaN.
            let sum = if sum < LEAST_SUM { LEAST_SUM } else { sum };
            chosen.iter_mut().for_each(|weight| *weight /= sum);
        }
        for (weight, expert) in chosen.iter_mut().zip(experts) {
            *weight *= self.scale;
            if let Some(factors) = factors {
                *weight *= factors[*expert as usize];
            }
        }
    }
}

/// exp(x - largest) / sum, summed in order.
fn softmax(x: &mut [f32]) {
    let largest = x.iter().fold(f32::NEG_INFINITY, |a, b| if *b > a { *b } else { a });
    let mut sum = 0.0;
    for x in &mut *x {
        *x = exp(*x - largest);
        sum += *x;
    }
    x.iter_mut().for_each(|x| *x /= sum);
}

/// The first of the largest, which is not to be taken again.
fn take_best(worth: &mut [f32]) -> usize {
    let mut best = 0;
    for (index, value) in worth.iter().enumerate() {
        if rank(*value) > rank(worth[best]) {
            best = index;
        }
    }
    worth[best] = TAKEN;
    best
}

/// What has been taken: after everything else, minus infinity too.
const TAKEN: f32 = f32::from_bits(0xffff_ffff);

/// Orders numbers as they are ordered; what has been taken comes before all, all else that is no number after all.
fn rank(value: f32) -> i32 {
    if value.is_nan() {
        return if value.to_bits() == TAKEN.to_bits() { i32::MIN } else { i32::MAX };
    }
    // Zero has two signs and one rank.
    let bits = (value + 0.0).to_bits().cast_signed();
    if bits < 0 { -(bits & i32::MAX) } else { bits }
}

/// Takes experts of all groups but the best.
fn keep_best_groups(worth: &mut [f32], groups: &mut [f32], used: usize) {
    let size = worth.len() / groups.len();
    for (group, worth) in groups.iter_mut().zip(worth.chunks(size)) {
        let mut best = [f32::NEG_INFINITY; 2];
        for &value in worth {
            if rank(value) > rank(best[0]) {
                best = [value, best[0]];
            } else if rank(value) > rank(best[1]) {
                best[1] = value;
            }
        }
        *group = if size == 1 { best[0] } else { best[0] + best[1] };
    }
    for _ in 0..used {
        take_best(groups);
    }
    for (group, worth) in groups.iter().zip(worth.chunks_mut(size)) {
        if group.to_bits() != TAKEN.to_bits() {
            worth.fill(TAKEN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by sorting whole lists.
    fn sorted(routing: &Routing, scores: &[f32], bias: &[f32]) -> Vec<usize> {
        let worth: Vec<f32> = scores.iter().zip(bias).map(|(score, bias)| sigmoid(*score) + bias).collect();
        let best =
            |list: &mut Vec<(usize, f32)>| list.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let Groups { count, used } = routing.groups.unwrap_or(Groups { count: 1, used: 1 });
        let size = scores.len() / count;
        let mut groups: Vec<(usize, f32)> = (0..count)
            .map(|group| {
                let mut own = worth[group * size..(group + 1) * size].to_vec();
                own.sort_by(|a, b| b.total_cmp(a));
                (group, own.iter().take(2).sum())
            })
            .collect();
        best(&mut groups);
        let kept: Vec<usize> = groups[..used].iter().map(|(group, _)| *group).collect();
        let mut experts: Vec<(usize, f32)> =
            worth.into_iter().enumerate().filter(|(expert, _)| kept.contains(&(expert / size))).collect();
        best(&mut experts);
        experts[..routing.used].iter().map(|(expert, _)| *expert).collect()
    }

    #[test]
    fn the_best_are_chosen_by_rank() {
        let mut state = 7u32;
        // Few values, so that many are equal.
        let mut random = |values: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 16) % values) as f32 / 4.0 - 2.0
        };
        for (experts, used, groups) in
            [(8, 2, None), (7, 7, None), (16, 4, Some((4, 2))), (6, 3, Some((6, 3)))]
        {
            let groups = groups.map(|(count, used)| Groups { count, used });
            let routing = Routing {
                gate: Gate::Sigmoid,
                used,
                groups,
                bias: Some(0),
                normalised: true,
                scale: 2.5,
                factors: None,
            };
            for _ in 0..200 {
                let scores: Vec<f32> = (0..experts).map(|_| random(16)).collect();
                let bias: Vec<f32> = (0..experts).map(|_| random(4)).collect();
                let (mut room, mut out) = (vec![0.0; ROOM * experts], vec![0.0; 2 * used]);
                routing.choose(&scores, Some(&bias), None, &mut room, &mut out);
                let chosen: Vec<usize> = out[..used].iter().map(|expert| *expert as usize).collect();
                assert_eq!(chosen, sorted(&routing, &scores, &bias), "{scores:?} {bias:?}");
                let sum: f32 = chosen.iter().map(|expert| sigmoid(scores[*expert])).sum();
                for (expert, weight) in chosen.iter().zip(&out[used..]) {
                    assert!((weight - 2.5 * sigmoid(scores[*expert]) / sum).abs() < 1e-6);
                }
            }
        }
    }

    #[test]
    fn what_is_no_number_is_chosen_once() {
        for gate in [Gate::Softmax, Gate::Sigmoid, Gate::SoftmaxOfChosen] {
            let routing = Routing {
                gate,
                used: 3,
                groups: None,
                bias: None,
                normalised: true,
                scale: 1.0,
                factors: None,
            };
            for bad in [f32::NAN, f32::from_bits(u32::MAX)] {
                let (mut room, mut out) = ([0.0; 4 * ROOM], [0.0; 6]);
                routing.choose(&[0.5, bad, 2.0, f32::NEG_INFINITY], None, None, &mut room, &mut out);
                let mut chosen = out[..3].to_vec();
                chosen.sort_by(f32::total_cmp);
                chosen.dedup();
                assert!(chosen.len() == 3 && chosen.contains(&1.0), "{gate:?}: {out:?}");
                assert!(out[3..].iter().any(|weight| weight.is_nan()));
            }
        }
    }
}
