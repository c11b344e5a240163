//! What encoding loses, and what it refuses: round trips of random, constant, tiny and huge values
//! through every format that can be encoded, and the error beside llama.cpp's on the same weights.

use std::path::Path;

use gleed_gguf::Format;

/// Every format that can be encoded and how much of a normal distribution's spread it may lose, as the
/// root mean square of the error. The bounds are a few percent above what good encoders reach.
const ENCODED: [(Format, f64); 26] = [
    (Format::F32, 0.0),
    (Format::F16, 2.5e-4),
    (Format::BF16, 2e-3),
    (Format::Q4_0, 0.1),
    (Format::Q4_1, 0.09),
    (Format::Q5_0, 0.05),
    (Format::Q5_1, 0.043),
    (Format::Q8_0, 0.006),
    (Format::Q2_K, 0.3),
    (Format::Q3_K, 0.165),
    (Format::Q4_K, 0.075),
    (Format::Q5_K, 0.037),
    (Format::Q6_K, 0.0185),
    (Format::Q8_K, 0.008),
    (Format::IQ1_S, 0.48),
    (Format::IQ1_M, 0.45),
    (Format::IQ2_XXS, 0.36),
    (Format::IQ2_XS, 0.31),
    (Format::IQ2_S, 0.28),
    (Format::IQ3_XXS, 0.21),
    (Format::IQ3_S, 0.16),
    (Format::IQ4_NL, 0.078),
    (Format::IQ4_XS, 0.08),
    (Format::TQ1_0, 0.9),
    (Format::TQ2_0, 0.9),
    (Format::MXFP4, 0.125),
];

/// A small generator of random numbers, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u64 << 24) as f32
    }

    /// Nearly normal, with spread 1.
    fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.uniform()).sum::<f32>() - 6.0
    }
}

fn round_trip(format: Format, values: &[f32]) -> Vec<f32> {
    let mut bytes = vec![0xaa; format.row_bytes(values.len()).unwrap()];
    format.encode(values, &mut bytes).unwrap_or_else(|error| panic!("{format}: {error}"));
    let mut decoded = vec![f32::NAN; values.len()];
    format.decode(&bytes, &mut decoded);
    decoded
}

fn root_mean_square(ours: &[f32], truth: &[f32]) -> f64 {
    let squares: f64 = ours.iter().zip(truth).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
    (squares / truth.len() as f64).sqrt()
}

#[test]
fn random_weights_lose_no_more_than_the_format_must() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for spread in [0.02f32, 1.0, 300.0] {
        let values: Vec<f32> = (0..16384).map(|_| spread * random.normal()).collect();
        for (format, bound) in ENCODED {
            let lost = root_mean_square(&round_trip(format, &values), &values) / f64::from(spread);
            assert!(lost <= bound, "{format}: loses {lost:.5} of the spread, more than {bound}");
            assert!(lost >= bound * 0.5, "{format}: the bound {bound} is loose, it loses {lost:.5}");
        }
    }
}

#[test]
fn shifted_weights_use_the_min_of_formats_that_have_one() {
    let mut random = Random(77);
    for shift in [-0.5f32, 0.5] {
        let values: Vec<f32> = (0..4096).map(|_| 0.02 * random.normal() + shift).collect();
        let formats = [Format::Q4_1, Format::Q5_1, Format::Q2_K, Format::Q4_K, Format::Q5_K];
        // A min below zero is free; one above zero does not exist in the K formats.
        for format in formats.into_iter().take(if shift < 0.0 { 5 } else { 2 }) {
            let lost = root_mean_square(&round_trip(format, &values), &values) / 0.02;
            assert!(lost < 0.55, "{format} at {shift}: loses {lost}");
        }
    }
}

#[test]
fn zeros_stay_zeros_and_constants_come_close() {
    for (format, _) in ENCODED {
        assert!(round_trip(format, &[0.0; 512]).iter().all(|value| *value == 0.0), "{format}");
        for constant in [0.37f32, -1.5, 1.0, 1e-3, -2000.0] {
            let decoded = round_trip(format, &[constant; 512]);
            let error = decoded.iter().map(|value| (value / constant - 1.0).abs()).fold(0.0, f32::max);
            // MXFP4 has one bit of mantissa; the others scale a constant exactly, but for the rounding
            // of their scales (4 bits in Q2_K, 11 in a half-precision number, fewer in a very small one).
            let bound = match format {
                Format::MXFP4 => 0.25,
                Format::IQ4_XS => 0.02,
                _ => 0.01,
            };
            assert!(error < bound, "{format}: {constant} comes back as {}", decoded[0]);
        }
    }
}

#[test]
fn rare_large_values_survive() {
    let mut random = Random(3);
    let mut values = vec![0.0f32; 1024];
    for i in (0..1024).step_by(37) {
        values[i] = 10.0 * random.normal();
    }
    for (format, _) in ENCODED {
        // Three values, or rows of a codebook, in which a large value has no zeros beside it.
        if ["TQ", "IQ1", "IQ2", "IQ3"].iter().any(|family| format.name().starts_with(family)) {
            continue;
        }
        let decoded = round_trip(format, &values);
        let lost = root_mean_square(&decoded, &values) / root_mean_square(&values, &vec![0.0; 1024]);
        assert!(lost < 0.2, "{format}: loses {lost} of sparse values");
    }
}

#[test]
fn the_smallest_and_largest_values_are_encoded_or_refused() {
    let mut random = Random(5);
    for (format, _) in ENCODED {
        for magnitude in [1e-45f32, 1e-38, 1e-30, 1e-20, 1e-10, 1e-7, 1e3, 1e4] {
            let values: Vec<f32> = (0..256).map(|_| magnitude * (2.0 * random.uniform() - 1.0)).collect();
            let decoded = round_trip(format, &values);
            for (value, decoded) in values.iter().zip(&decoded) {
                assert!(
                    decoded.is_finite() && decoded.abs() <= 2.0 * magnitude,
                    "{format}: {value} {decoded}"
                );
            }
        }
        for magnitude in [1e9f32, 1e20, 3e38] {
            let mut values = vec![0.0; 768];
            values[300] = magnitude;
            values[301] = -magnitude;
            let mut bytes = vec![0; format.row_bytes(768).unwrap()];
            let result = format.encode(&values, &mut bytes);
            if matches!(format, Format::F32 | Format::BF16 | Format::MXFP4 | Format::Q8_K) {
                result.unwrap();
                let mut decoded = vec![0.0; 768];
                format.decode(&bytes, &mut decoded);
                assert!((decoded[300] / magnitude - 1.0).abs() < 0.3, "{format}: {}", decoded[300]);
            } else {
                let error = result.unwrap_err().to_string();
                assert!(error.contains("too large for") && error.contains(format.name()), "{error}");
            }
        }
    }
}

#[test]
fn values_that_are_not_numbers_are_refused_by_place() {
    for (format, _) in ENCODED {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = vec![0.5; 512];
            values[261] = bad;
            let mut bytes = vec![0; format.row_bytes(512).unwrap()];
            let result = format.encode(&values, &mut bytes);
            if format.groups().is_some() {
                let error = result.unwrap_err().to_string();
                assert!(error.starts_with("value 261 is "), "{format}: {error}");
            } else {
                result.unwrap();
                let mut decoded = vec![0.0; 512];
                format.decode(&bytes, &mut decoded);
                assert!(decoded[261] == bad || decoded[261].is_nan() && bad.is_nan());
            }
        }
    }
}

#[test]
fn lengths_and_formats_that_cannot_be_encoded_are_refused() {
    let mut bytes = vec![0; 1000];
    for format in Format::all() {
        let known = ENCODED.iter().any(|(encoded, _)| *encoded == format);
        let result = format.encode(&[], &mut []);
        assert_eq!(result.is_ok(), known, "{format}");
        if !known {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("cannot be encoded; these can: F32 F16"), "{error}");
            for (encoded, _) in ENCODED {
                assert!(error.split(' ').any(|word| word == encoded.name()), "{encoded} is not in: {error}");
            }
        }
    }
    let error = Format::Q4_K.encode(&[0.0; 300], &mut bytes).unwrap_err().to_string();
    assert_eq!(error, "Q4_K needs a multiple of 256 columns, has 300");
    let error = Format::Q4_0.encode(&[0.0; 64], &mut bytes).unwrap_err().to_string();
    assert_eq!(error, "64 values of Q4_0 take 36 bytes, not 1000");
}

#[test]
fn the_sums_of_q8_k_are_those_of_its_values() {
    let mut random = Random(9);
    let values: Vec<f32> = (0..256).map(|_| random.normal()).collect();
    let mut block = [0; 292];
    Format::Q8_K.encode(&values, &mut block).unwrap();
    for (sum, q) in block[260..].chunks(2).zip(block[4..260].chunks(16)) {
        let expected: i32 = q.iter().map(|q| i32::from(*q as i8)).sum();
        assert_eq!(i32::from(i16::from_le_bytes([sum[0], sum[1]])), expected);
    }
}

/// Importances as they are: most columns alike, a few a thousand times as important.
fn importances(random: &mut Random, count: usize) -> Vec<f32> {
    (0..count)
        .map(|_| (1.5 * random.normal()).exp() * if random.uniform() < 0.01 { 1e3 } else { 1.0 })
        .collect()
}

/// The error by importance, as a share of the values.
fn weighted_error(ours: &[f32], truth: &[f32], importance: &[f32]) -> f64 {
    let sum = |values: &dyn Fn(usize) -> f64| -> f64 {
        (0..truth.len()).map(|i| f64::from(importance[i]) * values(i) * values(i)).sum()
    };
    let error = sum(&|i| f64::from(ours[i]) - f64::from(truth[i]));
    (error / sum(&|i| f64::from(truth[i]))).sqrt()
}

fn weighted_round_trip(format: Format, values: &[f32], importance: &[f32]) -> Vec<f32> {
    let mut bytes = vec![0xaa; format.row_bytes(values.len()).unwrap()];
    format
        .encode_weighted(values, importance, &mut bytes)
        .unwrap_or_else(|error| panic!("{format}: {error}"));
    let mut decoded = vec![f32::NAN; values.len()];
    format.decode(&bytes, &mut decoded);
    decoded
}

/// The formats whose encoders have a choice.
fn weighted() -> impl Iterator<Item = Format> {
    let fixed = [Format::Q8_0, Format::Q8_K, Format::MXFP4, Format::TQ1_0, Format::TQ2_0];
    let all = ENCODED.into_iter().map(|(format, _)| format);
    all.filter(move |format| format.groups().is_some() && !fixed.contains(format))
}

#[test]
fn importance_makes_the_weighted_error_smaller() {
    let mut random = Random(0x1234_5678_9abc);
    let values: Vec<f32> = (0..16384).map(|_| 0.02 * random.normal()).collect();
    let importance = importances(&mut random, values.len());
    for format in weighted() {
        let plain = weighted_error(&round_trip(format, &values), &values, &importance);
        let ours = weighted_error(&weighted_round_trip(format, &values, &importance), &values, &importance);
        assert!(ours < 0.9 * plain, "{format}: {ours:.5} with importance, {plain:.5} without");
        // Not by chance: importance of other values does not help.
        let mut other = importance.clone();
        other.rotate_left(1000);
        let wrong = weighted_error(&weighted_round_trip(format, &values, &other), &values, &importance);
        assert!(wrong > 1.05 * ours, "{format}: {wrong:.5} with the importance of others, {ours:.5}");
    }
}

#[test]
fn formats_without_a_choice_are_the_same_with_importance() {
    let mut random = Random(21);
    let values: Vec<f32> = (0..1024).map(|_| random.normal()).collect();
    let importance = importances(&mut random, values.len());
    for (format, _) in ENCODED {
        if !weighted().any(|other| other == format) {
            assert_eq!(weighted_round_trip(format, &values, &importance), round_trip(format, &values));
        }
    }
}

#[test]
fn odd_importances_do_no_harm() {
    let mut random = Random(22);
    let values: Vec<f32> = (0..1024).map(|_| random.normal()).collect();
    let one_in = |n: usize| -> Vec<f32> { (0..1024).map(|i| f32::from(i % n == 3)).collect() };
    for format in weighted() {
        let plain = root_mean_square(&round_trip(format, &values), &values);
        for (name, importance) in [
            ("zeros", vec![0.0; 1024]),
            ("ones", vec![1.0; 1024]),
            ("tiny", vec![1e-38; 1024]),
            ("huge", vec![1e38; 1024]),
            ("one in a group", one_in(32)),
            ("one in a block", one_in(256)),
            ("one in all", one_in(1024)),
        ] {
            let decoded = weighted_round_trip(format, &values, &importance);
            let lost = root_mean_square(&decoded, &values);
            // Values of no importance may become others, but nothing wild.
            assert!(lost < 1.2, "{format}, {name}: loses {lost} of the spread");
            if matches!(name, "zeros" | "ones" | "tiny" | "huge") {
                assert!(lost < 1.05 * plain, "{format}, {name}: loses {lost}, {plain} without");
            }
        }
    }
}

#[test]
fn importances_that_are_none_are_refused() {
    let mut bytes = vec![0; 18];
    let mut refused = |importance: &[f32], expected: &str| {
        let error = Format::Q4_0.encode_weighted(&[1.0; 32], importance, &mut bytes).unwrap_err().to_string();
        assert_eq!(error, expected);
    };
    refused(&[1.0; 31], "31 values have an importance, 32 are there");
    let mut importance = [1.0; 32];
    for (bad, shown) in [(-1.0, "-1"), (f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        importance[7] = bad;
        refused(&importance, &format!("the importance of value 7 is {shown}"));
    }
}

#[test]
fn the_error_is_no_larger_than_llama_cpps() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/quantize");
    let weights = std::fs::read(folder.join("weights.f32")).unwrap();
    let weights: Vec<f32> = weights.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let importance = std::fs::read(folder.join("importance.f32")).unwrap();
    let importance: Vec<f32> =
        importance.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let importance = importance.repeat(weights.len() / importance.len());
    for format in weighted() {
        let mut theirs = vec![0.0; weights.len()];
        format.decode(&std::fs::read(folder.join(format!("{format}.weighted.blocks"))).unwrap(), &mut theirs);
        let theirs = weighted_error(&theirs, &weights, &importance);
        let ours = weighted_error(&weighted_round_trip(format, &weights, &importance), &weights, &importance);
        assert!(ours <= 1.01 * theirs, "{format}: weighted error {ours:e}, llama.cpp's {theirs:e}");
    }
    for format in [
        Format::Q2_K,
        Format::Q3_K,
        Format::Q4_K,
        Format::Q5_K,
        Format::Q6_K,
        Format::IQ3_S,
        Format::IQ4_NL,
        Format::IQ4_XS,
    ] {
        let mut theirs = vec![0.0; weights.len()];
        format.decode(&std::fs::read(folder.join(format!("{format}.blocks"))).unwrap(), &mut theirs);
        let theirs = root_mean_square(&theirs, &weights);
        let ours = root_mean_square(&round_trip(format, &weights), &weights);
        assert!(theirs < 0.02, "{format}: llama.cpp's blocks are not of these weights");
        assert!(ours <= theirs, "{format}: error {ours:e}, llama.cpp's {theirs:e}");
    }
}
