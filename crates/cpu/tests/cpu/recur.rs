//! Kernels of recurrent layers, each on every instruction set that this machine has, against
//! `gleed_model::recurrence`, bit for bit, over random shapes and several rows, a few at a time.

use crate::common::{NO_NUMBERS, Random, comparable, each_isa};
use gleed_cpu::kernels::recur::{
    self, Convolve, Decay, Delta, Keep, Kept, PerHead, Scan, TOGETHER, UnitNorm,
};
use gleed_cpu::kernels::wkv;
use gleed_model::arithmetic::LANES;
use gleed_model::recurrence::{self, DeltaRow, DeltaRule, DeltaWeights, ScanRow, ScanWeights, WkvRow};

/// Steps of a state, each of a few rows: none, fewer than go together, as many, and more.
const STEPS: [usize; 5] = [3, 1, TOGETHER, 0, 2 * TOGETHER + 1];

/// What channels of a block are in the results of a few rows; all others must be as they were.
fn results(out: &[[f32; LANES]], at: usize, count: usize) -> Vec<f32> {
    let others = |row: &[f32; LANES]| row[..at].iter().chain(&row[at + count..]).all(|x| *x == UNWRITTEN);
    assert!(out.iter().all(others), "the results of other channels");
    columns(out, at, count)
}

/// What results are before they are written.
const UNWRITTEN: f32 = 77.0;

/// Some channels of a block: where they begin, and how many there are.
fn lanes(random: &mut Random) -> (usize, usize) {
    match random.below(3) {
        0 => (0, LANES),
        _ => {
            let at = random.below(LANES);
            (at, 1 + random.below(LANES - at))
        }
    }
}

/// Columns of a block as a matrix of their own.
fn columns(state: &[[f32; LANES]], at: usize, count: usize) -> Vec<f32> {
    state.iter().flat_map(|row| row[at..at + count].to_vec()).collect()
}

/// A block of random values.
fn block(random: &mut Random, rows: usize) -> Vec<[f32; LANES]> {
    (0..rows).map(|_| std::array::from_fn(|_| random.unit())).collect()
}

/// What each head has, where there is one head or each channel is one.
fn per_head(values: &[f32]) -> PerHead<'_> {
    if let [one] = values { PerHead::One(*one) } else { PerHead::Each(values) }
}

/// Now and then what is no number.
fn inputs(random: &mut Random, count: usize) -> Vec<f32> {
    let mut x = random.floats(count);
    if count > 0 && random.below(8) == 0 {
        x[random.below(count)] = NO_NUMBERS[random.below(4)];
    }
    x
}

#[test]
fn convolutions() {
    each_isa(|kernels, random| {
        for _ in 0..300 {
            let (count, taps) = (1 + random.below(LANES), 2 + random.below(4));
            let (first, channels) = (random.below(30), 50);
            // As files have them, and with a lane per channel.
            let weights = random.units(channels * taps);
            let turned: Vec<f32> =
                (0..channels * taps).map(|i| weights[i % channels * taps + i / channels]).collect();
            let bias = (random.below(2) == 0).then(|| random.units(channels));
            let silu = random.below(2) == 0;
            let mut state = block(random, taps - 1);
            let mut plain = columns(&state, 0, count);
            for rows in STEPS {
                let x = inputs(random, rows * count);
                let x: Vec<&[f32]> = x.chunks(count).collect();
                let (mut out, mut truth) = (vec![[0.0; LANES]; rows], vec![0.0; rows * count]);
                let of = |values: &[f32], each: usize| values[first * each..(first + count) * each].to_vec();
                let (own_taps, own_bias) = (of(&weights, taps), bias.as_ref().map(|bias| of(bias, 1)));
                for (x, truth) in x.iter().zip(truth.chunks_mut(count)) {
                    recurrence::convolve(&mut plain, &own_taps, own_bias.as_deref(), silu, x, truth);
                }
                kernels.run(Convolve {
                    state: &mut state,
                    taps: &turned,
                    bias: bias.as_deref(),
                    silu,
                    first,
                    x: &x,
                    out: &mut out,
                });
                let found = columns(&out, 0, count);
                assert_eq!(comparable(&found), comparable(&truth), "{:?} {count} {taps}", kernels.isa());
                assert_eq!(comparable(&columns(&state, 0, count)), comparable(&plain));
            }
        }
    });
}

#[test]
fn scans() {
    each_isa(|kernels, random| {
        for _ in 0..300 {
            let (at, count) = lanes(random);
            let rows = 1 + random.below(40);
            // One head of all channels, or each a head with decays of its own, in each row or in all alike.
            let heads = if random.below(2) == 0 { 1 } else { count };
            let each = if heads > 1 && random.below(2) == 0 { rows } else { 1 };
            let negative = |x: Vec<f32>| -> Vec<f32> { x.into_iter().map(|x| -x.abs()).collect() };
            let decay = negative(random.units(heads * each));
            let turned: Vec<f32> = (0..heads * each).map(|i| decay[i % heads * each + i / heads]).collect();
            let skip = random.units(heads);
            let dt_bias = (random.below(2) == 0).then(|| random.units(heads));
            let scan = recurrence::Scan { state: 0, heads, groups: 1, decay: 0, dt_bias: None, skip: 0 };
            let mut state = block(random, rows);
            let (before, mut plain) = (state.clone(), columns(&state, at, count));
            for steps in STEPS {
                let (x, dt) = (inputs(random, steps * count), random.floats(steps * heads));
                let (b, c) = (random.units(steps * rows), random.units(steps * rows));
                let (mut out, mut truth) = (vec![[UNWRITTEN; LANES]; steps], vec![0.0; steps * count]);
                let weights = ScanWeights { scan, decay: &decay, dt_bias: dt_bias.as_deref(), skip: &skip };
                let mut scanned = Vec::new();
                for (i, truth) in truth.chunks_mut(count).enumerate() {
                    let (x, dt) = (&x[i * count..][..count], &dt[i * heads..][..heads]);
                    let (b, c) = (&b[i * rows..][..rows], &c[i * rows..][..rows]);
                    recurrence::scan(&mut plain, weights, ScanRow { x, dt, b, c }, truth);
                    scanned.push(recur::ScanRow { dt: per_head(dt), b, c, x });
                }
                kernels.run(Scan {
                    state: &mut state,
                    at,
                    first: 0,
                    dt_bias: dt_bias.as_deref().map(per_head),
                    skip: per_head(&skip),
                    decay: if each == 1 { Decay::Heads(per_head(&decay)) } else { Decay::Channels(&turned) },
                    rows: &scanned,
                    out: &mut out,
                });
                let what = format!("{:?} {count} lanes, {rows} rows, {heads} heads", kernels.isa());
                assert_eq!(comparable(&results(&out, at, count)), comparable(&truth), "{what}");
                assert_eq!(comparable(&columns(&state, at, count)), comparable(&plain), "{what}");
            }
            // The other channels of the block are as they were.
            assert_eq!(columns(&state, 0, at), columns(&before, 0, at));
            let end = at + count;
            assert_eq!(columns(&state, end, LANES - end), columns(&before, end, LANES - end));
        }
    });
}

#[test]
fn delta_rules() {
    each_isa(|kernels, random| {
        for _ in 0..300 {
            let (at, count) = lanes(random);
            let rows = 1 + random.below(40);
            let rule = DeltaRule {
                state: 0,
                heads: 1,
                key_heads: 1,
                in_turn: false,
                decay: Some(recurrence::Decay { decay: 0, dt_bias: 0 }),
                scale: 0.3,
            };
            // Each row of the state has a share of its own, or all have one.
            let each = random.below(2) == 0;
            let rule = DeltaRule { decay: rule.decay.filter(|_| !each), ..rule };
            let (decay, dt_bias) = ([-random.unit().abs()], [random.unit()]);
            let mut state = block(random, rows);
            let (before, mut plain) = (state.clone(), columns(&state, at, count));
            for steps in STEPS {
                let (query, key) = (random.units(steps * rows), random.units(steps * rows));
                let value = inputs(random, steps * count);
                let beta = random.floats(steps);
                let alpha = if each { random.units(steps * rows) } else { random.floats(steps) };
                let (mut out, mut truth) = (vec![[UNWRITTEN; LANES]; steps], vec![0.0; steps * count]);
                let weights = DeltaWeights { rule, decay: &decay, dt_bias: &dt_bias };
                let mut ruled = Vec::new();
                for (i, truth) in truth.chunks_mut(count).enumerate() {
                    let (query, key) = (&query[i * rows..][..rows], &key[i * rows..][..rows]);
                    let (value, beta) = (&value[i * count..][..count], &beta[i..=i]);
                    let alpha = if each { &alpha[i * rows..][..rows] } else { &alpha[i..=i] };
                    recurrence::delta_rule(
                        &mut plain,
                        weights,
                        DeltaRow { query, key, value, alpha, beta },
                        truth,
                    );
                    let kept = match each {
                        true => Kept::Rows(alpha),
                        false => Kept::All(recurrence::kept(alpha[0], dt_bias[0], decay[0])),
                    };
                    let beta = gleed_model::arithmetic::sigmoid(beta[0]);
                    ruled.push(recur::DeltaRow { kept, beta, query, key, value });
                }
                kernels.run(Delta { state: &mut state, at, scale: rule.scale, rows: &ruled, out: &mut out });
                let found = results(&out, at, count);
                assert_eq!(comparable(&found), comparable(&truth), "{:?} {count} {rows}", kernels.isa());
                assert_eq!(comparable(&columns(&state, at, count)), comparable(&plain));
            }
            assert_eq!(columns(&state, 0, at), columns(&before, 0, at));
        }
    });
}

#[test]
fn rules_of_rwkv() {
    each_isa(|kernels, random| {
        for _ in 0..300 {
            let (at, count) = lanes(random);
            let rows = 1 + random.below(40);
            let mut state = block(random, rows);
            let (before, mut plain) = (state.clone(), columns(&state, at, count));
            for steps in STEPS {
                let [query, kept, key, asked, removed] = [(); 5].map(|()| random.units(steps * rows));
                let value = inputs(random, steps * count);
                let (mut out, mut truth) = (vec![[UNWRITTEN; LANES]; steps], vec![0.0; steps * count]);
                let mut ruled = Vec::new();
                for (i, truth) in truth.chunks_mut(count).enumerate() {
                    let [query, kept, key, asked, removed] =
                        [&query, &kept, &key, &asked, &removed].map(|x| &x[i * rows..][..rows]);
                    let value = &value[i * count..][..count];
                    let row = WkvRow { query, kept, key, value, asked, removed };
                    recurrence::wkv(&mut plain, 1, row, truth);
                    ruled.push(row);
                }
                kernels.run(wkv::Wkv { state: &mut state, at, rows: &ruled, out: &mut out });
                let found = results(&out, at, count);
                assert_eq!(comparable(&found), comparable(&truth), "{:?} {count} {rows}", kernels.isa());
                assert_eq!(comparable(&columns(&state, at, count)), comparable(&plain));
            }
            assert_eq!(columns(&state, 0, at), columns(&before, 0, at));
        }
    });
}

#[test]
fn kept_shares() {
    each_isa(|kernels, random| {
        for length in [1, 2, 15, 16, 17, 33, 64, 100] {
            let (x, dt_bias) = (inputs(random, length), random.floats(length));
            let decay = -random.unit().abs();
            let mut out = x.clone();
            kernels.run(Keep { x: &mut out, dt_bias: &dt_bias, decay });
            let steps = x.iter().zip(&dt_bias);
            let truth: Vec<f32> = steps.map(|(x, bias)| recurrence::kept(*x, *bias, decay)).collect();
            assert_eq!(comparable(&out), comparable(&truth), "{:?} {length}", kernels.isa());
        }
    });
}

#[test]
fn unit_norms() {
    each_isa(|kernels, random| {
        for length in [1, 2, 15, 16, 17, 33, 64, 100] {
            for _ in 0..20 {
                let x = inputs(random, length);
                let (mut out, mut truth) = (x.clone(), x);
                let length = random.unit();
                recurrence::unit_norm(&mut truth, 1e-6, length);
                kernels.run(UnitNorm { x: &mut out, epsilon: 1e-6, length });
                assert_eq!(comparable(&out), comparable(&truth), "{:?} {length}", kernels.isa());
            }
        }
    });
}
