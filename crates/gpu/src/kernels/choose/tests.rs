//! The choice kernels over random logits of many widths, against plain sorts and the plain rule.

use gleed_model::choice::choose;

use super::*;
use crate::step::Counts;
use crate::testing::{self, kernels, read, write};

/// The first `width` logits of each row, on the device, with rows of another stride than their width.
struct Bench {
    logits: Buffer,
    chosen: Buffer,
    rules: Buffer,
    width: usize,
    stride: usize,
    rows: usize,
}

/// A number that differs from call to call.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Logits of several kinds: smooth, with many ties, with infinities and extremes, of nothing but negative infinity,
/// one of which may not be a number.
fn logits(state: &mut u64, kind: usize, width: usize) -> Vec<f32> {
    let special = [f32::NEG_INFINITY, f32::INFINITY, 0.0, -0.0, f32::MIN, f32::MAX, 1.0];
    let mut one = |i: usize| {
        let bits = random(state);
        let unit = (bits >> 40) as f32 / (1u32 << 24) as f32;
        match kind {
            0 => 24.0 * unit - 16.0,
            1 => (bits % 7) as f32 - 3.0,
            2 if bits.is_multiple_of(5) => special[(bits >> 8) as usize % special.len()],
            // Far below the best, but for a few.
            3 if i % 97 != 5 => -80.0 * unit,
            4 => f32::NEG_INFINITY,
            5 => (unit - 0.5) * 1e-38,
            _ => 8.0 * unit,
        }
    };
    let mut all: Vec<f32> = (0..width).map(&mut one).collect();
    // What is not a number, anywhere among others.
    if kind >= FIRST_WITHOUT_NUMBER {
        all[(random(state) % width as u64) as usize] =
            if kind.is_multiple_of(2) { f32::NAN } else { -f32::NAN };
    }
    all
}

impl Bench {
    fn new(width: usize, rows: usize) -> Bench {
        let stride = width + 3;
        let storage = |words: usize| kernels().storage("test", 4 * words as u64);
        let (logits, chosen, rules) = (storage(stride * rows), storage(rows), storage(RULE_WORDS * rows));
        Bench { logits, chosen, rules, width, stride, rows }
    }

    fn place(&self) -> Place {
        Place { buffer: self.logits, offset: 2, width: self.width, stride: self.stride }
    }

    fn upload(&self, rows: &[Vec<f32>]) {
        let mut words = Vec::new();
        for row in rows {
            words.extend([f32::INFINITY; 2]);
            words.extend_from_slice(row);
            words.push(f32::INFINITY);
        }
        write(self.logits, &words);
    }

    fn run(&self, dispatches: &[Dispatch], out: Buffer) -> Vec<u32> {
        let counts = Counts { rows: self.rows, ..Counts::default() };
        testing::run(dispatches.iter().filter_map(|dispatch| dispatch.run(counts)));
        read(out)
    }
}

/// All tokens that can be chosen, best first.
fn sorted(logits: &[f32]) -> Vec<(f32, u32)> {
    let mut all: Vec<(f32, u32)> =
        logits.iter().copied().zip(0u32..).filter(|x| x.0 > f32::NEG_INFINITY).collect();
    all.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap().then(a.1.cmp(&b.1)));
    all
}

const KINDS: usize = 9;

/// The kinds from here on have a logit that is not a number.
const FIRST_WITHOUT_NUMBER: usize = 7;

/// One entry, fewer than there are candidates, whole chunks and not, two stages, three.
const WIDTHS: [usize; 9] = [1, 5, 63, 64, 1000, 2048, 2049, 33_333, 70_001];

#[test]
fn the_largest_logits_come_first() {
    let mut state = 1;
    for width in WIDTHS {
        let bench = Bench::new(width, KINDS);
        let rows: Vec<Vec<f32>> = (0..KINDS).map(|kind| logits(&mut state, kind, width)).collect();
        bench.upload(&rows);
        let argmax = argmax(&mut kernels(), bench.place(), KINDS, bench.chosen);
        let best = bench.run(&argmax, bench.chosen);
        let (top, candidates) = top(&mut kernels(), bench.place(), KINDS);
        let found = bench.run(&top, candidates);
        for (kind, row) in rows.iter().enumerate() {
            let truth = sorted(row);
            if kind >= FIRST_WITHOUT_NUMBER {
                assert_eq!(best[kind], NO_TOKEN, "width {width}, kind {kind}");
                assert_eq!(found[2 * MOST_CANDIDATES * kind..][..2], [u32::MAX, NO_TOKEN]);
                continue;
            }
            assert_eq!(best[kind], truth.first().map_or(NO_TOKEN, |x| x.1), "width {width}, kind {kind}");
            let found = &found[2 * MOST_CANDIDATES * kind..][..2 * MOST_CANDIDATES];
            let mut tokens: Vec<u32> = found.chunks(2).map(|entry| entry[1]).collect();
            let count = truth.len().min(MOST_CANDIDATES);
            assert!(found.chunks(2).skip(count).all(|entry| entry[0] == 0), "only as many as there are");
            tokens.truncate(count);
            let truth: Vec<u32> = truth[..count].iter().map(|x| x.1).collect();
            assert_eq!(tokens, truth, "width {width}, kind {kind}");
        }
    }
}

#[test]
fn rules_draw_what_the_host_draws() {
    let (mut state, mut different, mut all) = (2, 0, 0);
    for width in [3, 64, 100, 5000] {
        let count = 42;
        let bench = Bench::new(width, count);
        let (mut dispatches, candidates) = top(&mut kernels(), bench.place(), count);
        dispatches.push(draw(&mut kernels(), candidates, bench.rules, bench.chosen));
        for round in 0..8 {
            let rows: Vec<Vec<f32>> =
                (0..count).map(|i| logits(&mut state, (i + round) % KINDS, width)).collect();
            bench.upload(&rows);
            let rules: Vec<(Rule, u64)> = (0..count)
                .map(|i| {
                    let mut pick = |values: &[f32]| values[random(&mut state) as usize % values.len()];
                    let temperature = pick(&[0.0, 0.1, 0.8, 1.0, 1.3, 7.0, 1e-20, 1e20]);
                    let (top_p, min_p) =
                        (pick(&[1.0, 0.95, 0.5, 0.01, 0.0]), pick(&[0.0, 0.05, 0.7, 1.0, 1e-9]));
                    let top_k = [1, 2, 7, 40, 63, 64][i % 6];
                    let bits = [0, u64::MAX, random(&mut state), random(&mut state)][i % 4];
                    (Rule { temperature, top_k, top_p, min_p }, bits)
                })
                .collect();
            let words: Vec<u32> = rules.iter().flat_map(|(rule, bits)| words(rule, *bits)).collect();
            write(bench.rules, &words);
            let found = bench.run(&dispatches, bench.chosen);
            for ((row, (rule, bits)), found) in rows.iter().zip(&rules).zip(found) {
                assert!(follows(rule));
                let numbers = row.iter().all(|logit| !logit.is_nan());
                let expected = if numbers { choose(row, rule, *bits) } else { NO_TOKEN };
                assert_eq!(found, expected, "width {width}: {rule:?} {bits:x}");
                different += usize::from(sorted(row).first().is_some_and(|best| best.1 != found));
                all += 1;
            }
        }
    }
    assert!(different > all / 10, "{different} of {all} draws are not the best token");
}
