//! Recurrent kernels against the definition, row by row and sequence by sequence: whatever the sizes, where sequences begin
//! and which of their states are kept.

use gleed_model::program::StateLayer;
use gleed_model::recurrence::{self, DeltaRow, DeltaWeights, ScanRow, ScanWeights, WkvRow};

use super::*;
use crate::linear::tests::support::{Random, UNTOUCHED, setup};
use crate::step::Counts;
use crate::testing::{self, buffer, kernels, read};

const NONE: u32 = u32::MAX;
const SLOTS: usize = 8;

/// Columns between rows of each buffer, and before the first.
const GAP: usize = 4;

/// One sequence: the slot that its state is in, how many rows it has, and after which of them its state goes to a slot.
struct Sequence {
    before: Option<usize>,
    rows: usize,
    saves: Vec<(usize, usize)>,
}

/// Sequences whose rows follow each other in turns.
struct Case {
    shape: StateLayer,
    sequences: Vec<Sequence>,
    state: Vec<f32>,
}

impl Case {
    fn new(random: &mut Random, rows: usize, columns: usize, sequences: Vec<Sequence>) -> Case {
        let state = random.floats(SLOTS * rows * columns);
        Case { shape: StateLayer { rows, columns }, sequences, state }
    }

    fn rows(&self) -> usize {
        self.sequences.iter().map(|sequence| sequence.rows).sum()
    }

    /// The rows of the batch that each sequence has.
    fn order(&self) -> Vec<Vec<usize>> {
        let most = self.sequences.iter().map(|sequence| sequence.rows).max().unwrap_or(0);
        let (mut order, mut next) = (vec![vec![]; self.sequences.len()], 0);
        for turn in 0..most {
            for (own, sequence) in order.iter_mut().zip(&self.sequences) {
                if turn < sequence.rows {
                    own.push(next);
                    next += 1;
                }
            }
        }
        order
    }

    /// What the device is told of them.
    fn step(&self) -> Buffer {
        let mut words = vec![0u32; header::words(1)];
        let first = words.len();
        words[header::STATES] = first as u32;
        let mut record = first + 3 * self.sequences.len();
        let mut slot = record + 3 * self.rows();
        let (mut records, mut slots) = (vec![], vec![]);
        for (own, sequence) in self.order().iter().zip(&self.sequences) {
            words.extend([sequence.before.map_or(NONE, |slot| slot as u32), record as u32, own.len() as u32]);
            record += 3 * own.len();
            for (r, row) in own.iter().enumerate() {
                let saves: Vec<u32> =
                    sequence.saves.iter().filter(|save| save.0 == r).map(|save| save.1 as u32).collect();
                records.extend([*row as u32, slot as u32, saves.len() as u32]);
                slot += saves.len();
                slots.extend(saves);
            }
        }
        words.extend(records.into_iter().chain(slots));
        buffer(&words.into_iter().map(f32::from_bits).collect::<Vec<f32>>())
    }

    /// What the device makes of the states and of an output of `width` columns.
    fn run(&self, width: usize, plan: impl FnOnce(Buffer, LayerState, Place) -> Dispatch) -> [Vec<f32>; 2] {
        let (step, state) = (self.step(), buffer(&self.state));
        let out = place(&vec![UNTOUCHED; self.rows() * width], width);
        let dispatch = plan(step, LayerState { shape: self.shape, buffer: state }, out);
        let counts = Counts { rows: self.rows(), sequences: self.sequences.len(), ..Counts::default() };
        testing::run(dispatch.run(counts));
        let all: Vec<f32> = read(out.buffer);
        let rows = (0..self.rows()).flat_map(|row| all[GAP + row * (width + GAP)..][..width].to_vec());
        [rows.collect(), read(state)]
    }

    /// The same by a definition of a row, which changes the state and writes its output.
    fn truth(&self, width: usize, mut row: impl FnMut(usize, &mut [f32], &mut [f32])) -> [Vec<f32>; 2] {
        let size = self.shape.size();
        let (mut out, mut states) = (vec![0.0; self.rows() * width], self.state.clone());
        for (own, sequence) in self.order().iter().zip(&self.sequences) {
            let mut state =
                sequence.before.map_or(vec![0.0; size], |slot| self.state[slot * size..][..size].to_vec());
            for (r, index) in own.iter().enumerate() {
                row(*index, &mut state, &mut out[index * width..][..width]);
                for (_, slot) in sequence.saves.iter().filter(|save| save.0 == r) {
                    states[slot * size..][..size].copy_from_slice(&state);
                }
            }
        }
        [out, states]
    }
}

/// Rows of `width` columns, with what is not a number between them.
fn place(values: &[f32], width: usize) -> Place {
    let mut all = vec![f32::NAN; GAP + values.len() / width * (width + GAP)];
    for (row, values) in values.chunks(width).enumerate() {
        all[GAP + row * (width + GAP)..][..width].copy_from_slice(values);
    }
    all.resize(all.len().next_multiple_of(4), 0.0);
    Place { buffer: buffer(&all), offset: GAP, width, stride: width + GAP }
}

/// Bit for bit, where multiply-adds round once and nothing is divided, which devices round as they like.
fn assert_same(what: &str, divides: bool, found: [Vec<f32>; 2], truth: [Vec<f32>; 2]) {
    let exact = setup().2 && !divides;
    for (name, (found, truth)) in ["output", "state"].iter().zip(found.iter().zip(&truth)) {
        assert_eq!(found.len(), truth.len());
        for (i, (found, truth)) in found.iter().zip(truth).enumerate() {
            let near = !exact && (found - truth).abs() <= 1e-4 * truth.abs().max(1.0);
            assert!(near || found.to_bits() == truth.to_bits(), "{what}: {name} {i} is {found}, not {truth}");
        }
    }
}

/// A sequence alone and others beside it, of fewer rows than are handed on together, of just as many and of more.
fn sequences() -> Vec<Vec<Sequence>> {
    let sequence = |before, rows: usize, saves: &[(usize, usize)]| {
        let saves = saves.iter().copied().chain([(rows - 1, 7)]).collect();
        Sequence { before, rows, saves }
    };
    vec![
        vec![sequence(None, 1, &[])],
        vec![sequence(Some(2), 8, &[])],
        vec![sequence(Some(0), 21, &[(10, 3), (10, 4)])],
        vec![sequence(None, 70, &[(15, 1), (63, 5)])],
        vec![
            sequence(Some(1), 19, &[]),
            Sequence { before: Some(0), rows: 1, saves: vec![(0, 4)] },
            Sequence { before: None, rows: 40, saves: vec![(31, 5), (39, 6)] },
        ],
    ]
}

/// A scan by one thread for each channel, row by row.
fn plain_scan(
    step: Buffer,
    weights: &Weights,
    layer: LayerState,
    (op, decays): (Scan, usize),
    [x, dt, b, c, out]: [Place; 5],
) -> Dispatch {
    let source = source("scan", include_str!("tests/scan_plain.wgsl"), step, layer)
        .snippet(include_str!("../../common/exp.wgsl"))
        .snippet(include_str!("../../common/softplus.wgsl"))
        .size("HEADS", op.heads)
        .size("GROUPS", op.groups)
        .size("DECAYS", decays / op.heads)
        .flag("BIASED", op.dt_bias.is_some())
        .read("decay", "f32", weights.vector(op.decay))
        .read("skip", "f32", weights.vector(op.skip))
        .read("dt_bias", "f32", weights.vector(op.dt_bias.unwrap_or(op.skip)))
        .read_place("x", "X_", x)
        .read_place("dt", "DT_", dt)
        .read_place("b", "B_", b)
        .read_place("c", "C_", c)
        .write_place("out", "OUT_", out);
    dispatch(&mut kernels(), source, layer)
}

#[test]
fn scans_are_as_defined() {
    let mut random = Random(71);
    // State rows, heads, channels of each, groups; whether rows of the state decay differently.
    let shapes = [
        (128, 2, 32, 1, false),
        (16, 6, 8, 3, false),
        (64, 3, 24, 1, false),
        (16, 40, 1, 1, true),
        (5, 4, 3, 2, true),
        (1, 2, 2, 1, false),
    ];
    for (depth, heads, each, groups, differently) in shapes {
        for (number, sequences) in sequences().into_iter().enumerate() {
            let channels = heads * each;
            let case = Case::new(&mut random, depth, channels, sequences);
            let rows = case.rows();
            let decays = if differently { heads * depth } else { heads };
            let decay: Vec<f32> = random.floats(decays).iter().map(|x| -x.abs()).collect();
            let [dt_bias, skip] = [(); 2].map(|()| random.floats(heads));
            let biased = number % 2 == 0;
            let inputs =
                [channels, heads, groups * depth, groups * depth].map(|width| random.floats(rows * width));
            let [x, dt, b, c] = &inputs;
            let op = Scan { state: 0, heads, groups, decay: 0, dt_bias: biased.then_some(1), skip: 2 };
            let weights =
                Weights::of_vectors([&decay, &dt_bias, &skip].map(|values| buffer(values)).to_vec());
            let inputs = |out| {
                [
                    place(x, channels),
                    place(dt, heads),
                    place(b, groups * depth),
                    place(c, groups * depth),
                    out,
                ]
            };
            let found = case.run(channels, |step, layer, out| {
                let places = inputs(out);
                scan(&mut kernels(), step, &weights, layer, (op, decays), places)
            });
            let plain = case.run(channels, |step, layer, out| {
                plain_scan(step, &weights, layer, (op, decays), inputs(out))
            });
            let what = format!("a scan of {depth} rows, {heads} heads of {each}, sequences {number}");
            let bits =
                |values: &[Vec<f32>; 2]| values.concat().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert!(bits(&found) == bits(&plain), "{what}: other bits than those of one thread");
            let weights =
                ScanWeights { scan: op, decay: &decay, dt_bias: biased.then_some(&dt_bias), skip: &skip };
            let truth = case.truth(channels, |row, state, out| {
                let of = |values: &'_ [f32], width: usize| values[row * width..][..width].to_vec();
                let (x, dt, b, c) =
                    (of(x, channels), of(dt, heads), of(b, groups * depth), of(c, groups * depth));
                recurrence::scan(state, weights, ScanRow { x: &x, dt: &dt, b: &b, c: &c }, out);
            });
            assert_same(&what, true, found, truth);
        }
    }
}

#[test]
fn convolutions_are_as_defined() {
    let mut random = Random(72);
    for (depth, channels) in [(3, 100), (1, 64), (6, 7)] {
        for (number, sequences) in sequences().into_iter().enumerate() {
            let case = Case::new(&mut random, depth, channels, sequences);
            let x = random.floats(case.rows() * channels);
            let (taps, bias) = (random.floats(channels * (depth + 1)), random.floats(channels));
            let (biased, silu) = (number % 2 == 0, number % 3 == 0);
            let op = Convolution { state: 0, taps: 0, bias: biased.then_some(1), silu };
            let weights = Weights::of_vectors(vec![buffer(&taps), buffer(&bias)]);
            let found = case.run(channels, |step, layer, out| {
                let x = place(&x, channels);
                convolve(&mut kernels(), step, &weights, layer, op, [x, out])
            });
            let truth = case.truth(channels, |row, state, out| {
                let x = &x[row * channels..][..channels];
                recurrence::convolve(state, &taps, biased.then_some(&bias[..]), silu, x, out);
            });
            let what = format!("{} taps of {channels} channels, sequences {number}", depth + 1);
            assert_same(&what, silu, found, truth);
        }
    }
}

#[test]
fn delta_rules_are_as_defined() {
    let mut random = Random(73);
    // State rows, heads, channels of each, heads of keys; whether heads take these in turn and keep rows differently.
    for (depth, heads, each, key_heads, special) in [(32, 4, 20, 2, false), (7, 3, 5, 3, true)] {
        for (number, sequences) in sequences().into_iter().enumerate() {
            let channels = heads * each;
            let case = Case::new(&mut random, depth, channels, sequences);
            let alphas = if special { heads * depth } else { heads };
            let widths = [key_heads * depth, key_heads * depth, channels, alphas, heads];
            let mut inputs = widths.map(|width| random.floats(case.rows() * width));
            // Keys of about length one, as in models: longer ones would make errors grow from row to row.
            inputs[1].iter_mut().for_each(|x| *x *= 1.5 / (depth as f32).sqrt());
            let decay: Vec<f32> = random.floats(heads).iter().map(|x| -x.abs()).collect();
            let dt_bias = random.floats(heads);
            let op = DeltaRule {
                state: 0,
                heads,
                key_heads,
                in_turn: special,
                decay: (!special).then_some(Decay { decay: 0, dt_bias: 1 }),
                scale: 0.3,
            };
            let weights = Weights::of_vectors([&decay, &dt_bias].map(|values| buffer(values)).to_vec());
            let found = case.run(channels, |step, layer, out| {
                let [query, key, value, alpha, beta] = [0, 1, 2, 3, 4].map(|i| place(&inputs[i], widths[i]));
                let places = [query, key, value, alpha, beta, out];
                delta_rule(&mut kernels(), step, &weights, layer, op, places)
            });
            let weights = DeltaWeights { rule: op, decay: &decay, dt_bias: &dt_bias };
            let truth = case.truth(channels, |row, state, out| {
                let [query, key, value, alpha, beta] =
                    [0, 1, 2, 3, 4].map(|i| &inputs[i][row * widths[i]..][..widths[i]]);
                recurrence::delta_rule(state, weights, DeltaRow { query, key, value, alpha, beta }, out);
            });
            assert_same(&format!("a delta rule of {depth} rows, sequences {number}"), true, found, truth);
        }
    }
}

#[test]
fn the_rule_of_rwkv_is_as_defined() {
    let mut random = Random(74);
    for (depth, heads) in [(16, 3), (5, 2)] {
        for (number, sequences) in sequences().into_iter().enumerate() {
            let channels = heads * depth;
            let case = Case::new(&mut random, depth, channels, sequences);
            // Small enough for states not to grow.
            let inputs = [(); 6].map(|()| {
                random.floats(case.rows() * channels).iter().map(|x| 0.3 * x).collect::<Vec<f32>>()
            });
            let found = case.run(channels, |step, layer, out| {
                let [query, kept, key, value, asked, removed] = inputs.each_ref().map(|x| place(x, channels));
                let places = [query, kept, key, value, asked, removed, out];
                wkv(&mut kernels(), step, layer, Wkv { state: 0, heads }, places)
            });
            let truth = case.truth(channels, |row, state, out| {
                let [query, kept, key, value, asked, removed] =
                    inputs.each_ref().map(|x| &x[row * channels..][..channels]);
                let row = WkvRow { query, kept, key, value, asked, removed };
                recurrence::wkv(state, heads, row, out);
            });
            assert_same(&format!("{heads} heads of {depth}, sequences {number}"), false, found, truth);
        }
    }
}
