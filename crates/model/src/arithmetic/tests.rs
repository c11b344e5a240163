//! Functions against the true values in f64, and the orders of sums against what is written of them.

use super::*;

#[test]
fn exp_is_close_to_the_true_value() {
    let mut worst = 0.0f64;
    for i in -870_000..880_000 {
        let x = i as f32 * 1e-4;
        let truth = f64::from(x).exp();
        worst = worst.max((f64::from(exp(x)) / truth - 1.0).abs());
    }
    assert!(worst < 3e-7, "relative error {worst:e}");
}

#[test]
fn exp_is_finite_everywhere_but_for_nan() {
    for x in [f32::NEG_INFINITY, -1e30, -88.0, 0.0, 89.0, 1e30, f32::INFINITY] {
        assert!(exp(x).is_finite() && exp(x) > 0.0, "{x}");
    }
    for x in [f32::NAN, -f32::NAN] {
        assert!(exp(x).is_nan() && silu(x).is_nan() && gelu(x).is_nan());
    }
}

#[test]
fn a_block_without_numbers_makes_every_product_nan() {
    for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for index in [0, 17, 63] {
            let mut x = [1.5f32; 64];
            x[index] = bad;
            let mut q = [1i8; 64];
            let scales: Vec<f32> = x.chunks(32).zip(q.chunks_mut(32)).map(|(x, q)| quantize(x, q)).collect();
            assert_eq!(q[index], 0);
            assert!(scales[1 - index / 32].is_finite() && !scales[index / 32].is_finite());
            for (integer, mins) in [(0, vec![]), (1, vec![]), (-3, vec![0.0, 0.0])] {
                let row = IntegerRow {
                    integers: &[integer; 64],
                    factors: &[1; 2],
                    scales: &[0.5, 0.0],
                    min_factors: &[1; 2][..mins.len()],
                    mins: &mins,
                    block: 32,
                    group: 32,
                };
                assert!(dot_q8(row, &q, &scales).is_nan(), "{bad} at {index}, weights of {integer}");
            }
        }
    }
}

#[test]
fn a_score_without_a_number_makes_a_softmax_nan() {
    for (first, second) in [(f32::NAN, 1.0), (1.0, f32::NAN), (f32::NAN, f32::NAN)] {
        let mut span = Softmax::default();
        for score in [first, second] {
            span.tile(&mut [score, 0.5]);
        }
        let mut whole = Softmax::default();
        whole.tile(&mut [0.25, 2.0]);
        whole.merge(span);
        assert!(span.sum.is_nan() && whole.sum.is_nan());
        // A span that comes before, too.
        let (mut before, mut after) = (Softmax::default(), Softmax::default());
        before.merge(span);
        after.tile(&mut [3.0]);
        before.merge(after);
        assert!(before.sum.is_nan());
    }
}

#[test]
fn activations_match_their_definitions() {
    for i in -2000..2000 {
        let x = i as f32 * 0.01;
        let wide = f64::from(x);
        let silu_truth = wide / (1.0 + (-wide).exp());
        let u = (2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044715 * wide.powi(3));
        let gelu_truth = 0.5 * wide * (1.0 + u.tanh());
        assert!((f64::from(silu(x)) - silu_truth).abs() < 1e-6 * (1.0 + wide.abs()), "silu {x}");
        assert!((f64::from(gelu(x)) - gelu_truth).abs() < 1e-6 * (1.0 + wide.abs()), "gelu {x}");
        let sigmoid_truth = 1.0 / (1.0 + (-wide).exp());
        assert!((f64::from(sigmoid(x)) / sigmoid_truth - 1.0).abs() < 1e-6, "sigmoid {x}");
        let softplus_truth = wide.exp().ln_1p();
        assert!((f64::from(softplus(x)) / softplus_truth - 1.0).abs() < 1e-6, "softplus {x}");
    }
    assert!(softplus(100.0) == 100.0 && softplus(-200.0) < 1e-37 && softplus(f32::NAN).is_nan());
}

#[test]
fn softmax_over_tiles_matches_softmax_at_once() {
    let scores: Vec<f32> = (0..200).map(|i| ((i * 37) % 101) as f32 * 0.2 - 7.0).collect();
    let mut running = Softmax::default();
    let mut total = 0.0f32;
    for tile in scores.chunks(PAGE) {
        let mut tile = tile.to_vec();
        let correction = running.tile(&mut tile);
        total = total * correction + tile.iter().zip(scores.iter()).map(|(p, _)| p).sum::<f32>();
    }
    let max = scores.iter().copied().fold(f32::MIN, f32::max);
    let truth: f64 = scores.iter().map(|s| f64::from(s - max).exp()).sum();
    assert_eq!(running.max, max);
    assert!((f64::from(running.sum) / truth - 1.0).abs() < 1e-6);
    assert!((f64::from(total) / truth - 1.0).abs() < 1e-5);
}

#[test]
fn softmax_over_spans_matches_softmax_at_once() {
    let scores: Vec<f32> = (0..700).map(|i| ((i * 53) % 211) as f32 * 0.1 - 9.0).collect();
    let (mut whole, mut total) = (Softmax::default(), 0.0f32);
    for span in scores.chunks(SPAN) {
        let (mut running, mut acc) = (Softmax::default(), 0.0f32);
        for tile in span.chunks(PAGE) {
            let mut weights = tile.to_vec();
            acc *= running.tile(&mut weights);
            weights.iter().zip(tile).for_each(|(w, s)| acc = w.mul_add(*s, acc));
        }
        let (before, after) = whole.merge(running);
        total = total.mul_add(before, acc * after);
    }
    let max = scores.iter().copied().fold(f32::MIN, f32::max);
    let weights: Vec<f64> = scores.iter().map(|s| f64::from(s - max).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mean = weights.iter().zip(&scores).map(|(w, s)| w * f64::from(*s)).sum::<f64>() / sum;
    assert_eq!(whole.max, max);
    assert!((f64::from(whole.sum) / sum - 1.0).abs() < 1e-6);
    assert!((f64::from(total / whole.sum) / mean - 1.0).abs() < 1e-5);
}

#[test]
fn the_remainder_of_an_uneven_row_brings_back_what_its_integers_lose() {
    let mut x: Vec<f32> = (0..256).map(|i| (i as f32 * 1.7).sin()).collect();
    let quantised = |x: &[f32]| {
        let mut q = [0i8; 256];
        let scale = quantize(x, &mut q);
        (q, scale)
    };
    let (q, scale) = quantised(&x);
    assert!(!is_uneven(&q, scale));
    x[100] = 500.0;
    let (q, scale) = quantised(&x);
    assert!(is_uneven(&q, scale));
    assert!(q.iter().filter(|q| **q != 0).count() == 1, "all but one are lost");
    let mut rest = [0.0; 256];
    remainder(&x, &q, scale, &mut rest);
    let (rest_q, rest_scale) = quantised(&rest);
    for ((x, q), rest) in x.iter().zip(q).zip(rest_q) {
        let both = f32::from(q) * scale + f32::from(rest) * rest_scale;
        assert!((x - both).abs() < 0.0041, "{x} {both}");
    }
    assert!(!is_uneven(&[0; 256], 0.0), "zeros leave nothing");
}

#[test]
fn quantised_activations_are_within_half_a_step() {
    let x: Vec<f32> = (0..32).map(|i| (i as f32 * 1.7).sin() * 3.0).collect();
    let mut q = [0i8; 32];
    let scale = quantize(&x, &mut q);
    for (x, q) in x.iter().zip(q) {
        assert!((x - scale * f32::from(q)).abs() <= scale * 0.5001);
    }
    assert_eq!(quantize(&[0.0; 32], &mut q), 0.0);
    assert_eq!(q, [0; 32]);
    quantize(&[-1e-40; 32], &mut q);
    assert_eq!(q, [0; 32]);
}
