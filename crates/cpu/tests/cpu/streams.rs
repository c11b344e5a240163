//! Kernels of several residual streams, each on every instruction set that this machine has, against
//! `gleed_model::arithmetic`, bit for bit, over random shapes; and that against what the words say, in f64.

use crate::common::{NO_NUMBERS, Random, comparable, each_isa};
use gleed_cpu::kernels::streams::{Blend, CorrectStream, Dot, Length, Sparsify};
use gleed_model::arithmetic::{correct_streams, dot, length, mix_streams, sparsify};

const WIDTHS: [usize; 8] = [2, 3, 15, 16, 17, 33, 64, 100];

/// Now and then what is no number.
fn inputs(random: &mut Random, count: usize) -> Vec<f32> {
    let mut x = random.floats(count);
    if random.below(8) == 0 {
        x[random.below(count)] = NO_NUMBERS[random.below(4)];
    }
    x
}

#[test]
fn corrected_streams() {
    each_isa(|kernels, random| {
        for width in WIDTHS {
            for streams in [1, 2, 4] {
                let coefficients = random.units(streams);
                let (truth, input) = (inputs(random, width), inputs(random, streams * width));
                let mut expected = vec![0.0; streams * width];
                correct_streams(&coefficients, &truth, &input, &mut expected);
                let mut found = vec![0.0; streams * width];
                let parts = found.chunks_mut(width).zip(input.chunks(width)).zip(&coefficients);
                for ((out, stream), coefficient) in parts {
                    let (first, factor) = (&input[..width], 1.0 + coefficient);
                    kernels.run(CorrectStream { stream, truth: &truth, first, factor, out });
                }
                assert_eq!(comparable(&found), comparable(&expected), "{:?} {width}", kernels.isa());
            }
        }
    });
}

#[test]
fn blends_and_dots() {
    each_isa(|kernels, random| {
        for width in WIDTHS {
            let (shares, x, y) = (random.units(width), inputs(random, width), inputs(random, width));
            let mut found = vec![0.0; width];
            kernels.run(Blend { shares: &shares, x: &x, y: &y, out: &mut found });
            let expected: Vec<f32> = (0..width).map(|i| shares[i].mul_add(y[i] - x[i], x[i])).collect();
            assert_eq!(comparable(&found), comparable(&expected), "{:?} {width}", kernels.isa());
            let found = kernels.run(Dot { x: &x, y: &y });
            assert_eq!(comparable(&[found]), comparable(&[dot(&x, &y)]), "{:?} {width}", kernels.isa());
        }
    });
}

#[test]
fn lengths_and_what_is_left_of_a_row() {
    each_isa(|kernels, random| {
        for width in WIDTHS {
            for _ in 0..20 {
                let x = inputs(random, width);
                let spread = 2.0 * random.unit();
                assert_eq!(kernels.run(Length { x: &x }).to_bits(), length(&x).to_bits());
                let (mut found, mut expected) = (x.clone(), x);
                sparsify(&mut expected, spread);
                kernels.run(Sparsify { x: &mut found, spread });
                assert_eq!(comparable(&found), comparable(&expected), "{:?} {width}", kernels.isa());
            }
        }
    });
}

#[test]
fn the_definition_says_what_the_words_say() {
    let mut random = Random::new(9);
    for width in WIDTHS {
        let x = random.units(width);
        let values: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let mean = values.iter().sum::<f64>() / width as f64;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (width - 1) as f64;
        let mut found = x.clone();
        sparsify(&mut found, 0.7);
        for (found, x) in found.iter().zip(&values) {
            let expected = (x - mean - 0.7 * variance.sqrt()).max(0.0);
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} {expected}");
        }
        let (coefficients, streams) = (random.units(9), random.units(3 * width));
        let mut mixed = vec![0.0; 3 * width];
        mix_streams(&coefficients, &streams, &mut mixed);
        for (at, found) in mixed.iter().enumerate() {
            let (stream, column) = (at / width, at % width);
            let others = (0..3)
                .map(|j| f64::from(coefficients[3 * stream + j]) * f64::from(streams[j * width + column]));
            let expected = f64::from(streams[at]) + others.sum::<f64>();
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} {expected}");
        }
    }
}
