//! Every way to cut the work against the definition, bit for bit. On a device without matrix units they are emulated.

use gleed_gguf::Format;
use gleed_model::arithmetic::{HalfRow, dot_halves, half_activations};
use gleed_model::program::Activation;

use super::*;
use crate::kernels::experts::tiles::half_bytes;
use crate::linear::tests::emulation::with_plain_halves;
use crate::linear::tests::halves::half_matrix;
use crate::linear::tests::support::{Random, UNTOUCHED, Weight, setup};
use crate::linear::tests::translation::translate_shared;
use crate::linear::{PackedWeight, half_units};
use crate::step::Counts;
use crate::testing::{self, buffer, kernels, number, read};
use crate::units::spirv;

mod single;

/// Rows that there is room for beyond those of a step.
const MORE: usize = 2;

/// Columns between rows of each buffer.
const GAP: usize = 4;

/// Rows that meet experts.
struct Case {
    experts: usize,
    slots: usize,
    rows: usize,
    outputs: usize,
    columns: usize,
    /// Whether experts have rows of their own.
    apart: bool,
    /// `[row][slot]`; without it all in order.
    chosen: Option<Vec<usize>>,
    weights: Vec<Weight>,
    biases: Vec<Option<Vec<f32>>>,
    input: Vec<f32>,
}

impl Case {
    /// Rows that choose any experts but the last.
    fn new([experts, slots, rows]: [usize; 3], [outputs, columns]: [usize; 2], formats: &[Format]) -> Case {
        let mut random = Random(11);
        let weights =
            formats.iter().map(|format| Weight::random(&mut random, *format, experts * outputs, columns));
        let weights: Vec<Weight> = weights.collect();
        let mut chosen = vec![];
        for _ in 0..rows {
            let first = random.next() as usize;
            chosen.extend((0..slots).map(|slot| (first + slot) % (experts - 1)));
        }
        let input = random.floats(rows * columns);
        let biases = formats.iter().map(|_| None).collect();
        let chosen = Some(chosen);
        Case { experts, slots, rows, outputs, columns, apart: false, chosen, weights, biases, input }
    }

    /// The same where each expert of a row has a part of it.
    fn apart(mut self) -> Case {
        self.input = Random(5).floats(self.rows * self.slots * self.columns);
        Case { apart: true, ..self }
    }

    fn with_biases(mut self) -> Case {
        let mut random = Random(17);
        self.biases.fill_with(|| Some(random.floats(self.experts * self.outputs)));
        self
    }

    /// The input of a pair.
    fn part(&self, pair: usize) -> &[f32] {
        let number = if self.apart { pair } else { pair / self.slots };
        &self.input[number * self.columns..][..self.columns]
    }

    fn expert(&self, pair: usize) -> usize {
        self.chosen.as_ref().map_or(pair % self.slots, |chosen| chosen[pair])
    }

    /// `[matrix][pair][output]`
    fn truth(&self) -> Vec<Vec<f32>> {
        let fused = setup().2;
        let one = |(weight, bias): (&Weight, &Option<Vec<f32>>)| {
            let matrix = half_matrix(weight);
            let mut results = vec![];
            for pair in 0..self.rows * self.slots {
                let x = half_activations(self.part(pair));
                let first = self.expert(pair) * self.outputs;
                for (n, HalfRow { values, factor }) in matrix[first..][..self.outputs].iter().enumerate() {
                    let (factor, sum) = (x.factor * factor, dot_halves(values, &x.values));
                    results.push(match bias {
                        Some(bias) if fused => factor.mul_add(sum, bias[first + n]),
                        Some(bias) => factor * sum + bias[first + n],
                        None => factor * sum,
                    });
                }
            }
            results
        };
        self.weights.iter().zip(&self.biases).map(one).collect()
    }

    fn upload(&self, pieces: Option<u64>) -> Vec<PackedWeight> {
        let one = |weight: &Weight| {
            let (packing, largest) = (weight.packing().for_halves(), pieces.unwrap_or(u64::MAX));
            weight.upload_as(packing, largest, &mut |_| {}).unwrap()
        };
        self.weights.iter().map(one).collect()
    }

    /// What a device computes of it, `[matrix][pair][output]`, and what activation it gives.
    fn run(&self, cut: Cut, pieces: Option<u64>) -> (Vec<Vec<f32>>, Vec<f32>) {
        let (gpu, ..) = setup();
        // What lies between rows, and after the last, is not a number.
        let spread = |values: &[f32], width: usize| {
            let mut all = vec![f32::NAN; (self.rows + MORE) * (width + GAP) + GAP];
            for (r, row) in values.chunks(width).enumerate() {
                all[GAP + r * (width + GAP)..][..width].copy_from_slice(row);
            }
            buffer(&all)
        };
        let input_width = self.input.len() / self.rows;
        let input = spread(&self.input, input_width);
        let choice: Option<Vec<f32>> = self.chosen.as_ref().map(|chosen| {
            let row = |row: &[usize]| {
                let experts: Vec<f32> = row.iter().map(|expert| *expert as f32).collect();
                [experts, vec![0.5; self.slots]].concat()
            };
            chosen.chunks(self.slots).flat_map(row).collect()
        });
        let choice = choice.map(|choice| spread(&choice, 2 * self.slots));
        let part = self.slots * self.outputs;
        let width = self.weights.len() * part;
        let untouched = |width: usize| vec![UNTOUCHED; GAP + (self.rows + MORE) * (width + GAP)];
        let out = buffer(&untouched(width));
        let hidden = buffer(&untouched(part));
        let biases: Vec<Option<Buffer>> =
            self.biases.iter().map(|bias| bias.as_ref().map(|bias| buffer(bias))).collect();
        let weights = self.upload(pieces);
        let place = |buffer, width| Place { buffer, offset: GAP, width, stride: width + GAP };
        let mut matrices = weights.iter().zip(&biases).map(|(weight, bias)| Matrix { weight, bias: *bias });
        let product = Product {
            first: matrices.next().unwrap(),
            second: matrices.next(),
            sizes: [self.experts, self.outputs, self.columns],
            choice: choice.map(|choice| place(choice, 2 * self.slots)),
            input: place(input, input_width),
            out: place(out, width),
            activated: (self.weights.len() == 2).then_some((Activation::Silu, place(hidden, part))),
            normed: None,
            chooses: None,
            summed: None,
        };
        let most_rows = self.rows + MORE;
        let most_pairs = most_rows * self.slots;
        let sizes = [
            half_bytes(most_pairs, self.columns),
            4 * (list_at(most_pairs, self.experts) + most_pairs) as u64,
        ];
        let count = number(self.rows);
        let mut kernels = kernels();
        let rows = ExpertRows::with(&mut kernels, sizes, most_rows);
        let mut dispatches = vec![];
        let way = match cut {
            Cut::Direct => Way::Direct { split: direct_split(kernels.facts.room(), self.columns).unwrap() },
            Cut::Tiles(tile_rows) | Cut::Alone(tile_rows) => {
                let subgroups = match cut {
                    Cut::Alone(_) => Subgroups { split: 1, across: 2 },
                    _ => Subgroups::of(tile_rows, self.columns, kernels.facts.room()),
                };
                let tiles = product.tiles(tile_rows);
                if self.chosen.is_some() {
                    dispatches.push(kernels.dispatch(product.sort(tiles, rows, count), Grid::Once));
                }
                let parts = product.parts() as u32;
                dispatches.push(kernels.dispatch(product.halving(rows), Grid::Rows(parts)));
                Way::Tiled { tiles, subgroups, rows, count }
            }
        };
        for piece in 0..weights[0].pieces().len() {
            let real = half_units(&gpu.info);
            let (source, each) = product.source(piece, way, real);
            let source = source.on_units();
            let source = if real { source } else { source.with_text(emulated) };
            let grid = match way {
                Way::Direct { .. } | Way::Normed { .. } => Grid::Pairs { each, slots: self.slots },
                Way::Summed { .. } => Grid::Rows(each),
                Way::Tiled { tiles, .. } => Grid::Tiles(each, tiles),
            };
            dispatches.push(kernels.dispatch(source, grid));
        }
        let counts = Counts { rows: self.rows, ..Counts::default() };
        drop(kernels);
        testing::run(dispatches.iter().filter_map(|dispatch| dispatch.run(counts)));
        let rows_of = |all: Vec<f32>, width: usize| -> Vec<f32> {
            let mut found = vec![];
            for (i, value) in all.into_iter().enumerate() {
                let (row, column) =
                    (i.wrapping_sub(GAP) / (width + GAP), i.wrapping_sub(GAP) % (width + GAP));
                if i >= GAP && row < self.rows && column < width {
                    found.push(value);
                } else {
                    assert_eq!(value, UNTOUCHED, "float {i} was written");
                }
            }
            found
        };
        let results = rows_of(read(out), width);
        let hidden = rows_of(read(hidden), part);
        let matrix =
            |m: usize| results.chunks(width).flat_map(|row| row[m * part..][..part].to_vec()).collect();
        ((0..self.weights.len()).map(matrix).collect(), hidden)
    }

    /// That a way to cut the work gives what is defined.
    fn check(&self, what: &str, cut: Cut, pieces: Option<u64>) {
        let truth = self.truth();
        let (results, hidden) = self.run(cut, pieces);
        for (m, (results, truth)) in results.iter().zip(&truth).enumerate() {
            for (i, (got, truth)) in results.iter().zip(truth).enumerate() {
                let same = got.to_bits() == truth.to_bits() || got.is_nan() && truth.is_nan();
                let (pair, output) = (i / self.outputs, i % self.outputs);
                assert!(
                    same,
                    "{what}, {cut:?}: output {output} of pair {pair}, matrix {m}: {got}, not {truth}"
                );
            }
        }
        if truth.len() == 2 && cut == Cut::Direct {
            for (i, got) in hidden.iter().enumerate() {
                let expected = gleed_model::arithmetic::silu(truth[0][i]) * truth[1][i];
                let near = (got - expected).abs() <= 1e-5 * expected.abs() + 1e-20 * truth[1][i].abs();
                assert!(near || got.is_nan() && expected.is_nan(), "{what}: {got}, not {expected}");
            }
        } else {
            assert!(hidden.iter().all(|value| *value == UNTOUCHED), "{what}: nothing is activated");
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Direct,
    /// Tiles of this many rows.
    Tiles(usize),
    /// The same with subgroups that have all columns.
    Alone(usize),
}

/// The ways to cut that are tested.
fn cuts() -> Vec<Cut> {
    let tiles = TILES.iter().map(|(rows, _)| Cut::Tiles(*rows));
    [Cut::Direct, Cut::Alone(16)].into_iter().chain(tiles).collect()
}

fn emulated(text: String) -> String {
    let subgroups = text.split("const SUBGROUPS = ").nth(1).and_then(|rest| rest.split('u').next());
    let subgroups = subgroups.and_then(|count| count.parse().ok()).expect("a number of subgroups");
    let text = text.replace(
        include_str!("../../../common/lanes.wgsl"),
        include_str!("../../../linear/tests/lanes_plain.wgsl"),
    );
    let written = if text.contains("residual[") { "residual" } else { "out" };
    with_plain_halves(&text, subgroups, &format!("arrayLength(&{written})"))
}

/// Two matrices of which each row chooses some experts; outputs are whole tiles.
#[test]
fn gates_and_ups_are_what_is_defined() {
    let case = Case::new([5, 2, 7], [48, 160], &[Format::Q8_0, Format::Q8_0]);
    cuts().into_iter().for_each(|cut| case.check("gates and ups", cut, None));
}

/// Outputs that are no whole tiles, so that experts begin in the midst of them; several segments, parts of rows.
#[test]
fn odd_outputs_are_what_is_defined() {
    let real = half_units(&setup().0.info);
    for cut in cuts() {
        let columns = match cut {
            _ if real => 1280,
            // A subgroup has all of them, and can emulate no more.
            Cut::Tiles(32) => 768,
            // Emulated subgroups wait for each other, so that they need as many columns each.
            _ => 1024,
        };
        let case = Case::new([4, 3, 6], [21, columns], &[Format::Q4_K]).apart().with_biases();
        case.check("odd outputs", cut, None);
    }
}

/// Every row meets all experts, in order, without choosing.
#[test]
fn experts_in_order_are_what_is_defined() {
    let mut case = Case::new([3, 3, 9], [20, 100], &[Format::F16]).apart().with_biases();
    case.chosen = None;
    cuts().into_iter().for_each(|cut| case.check("in order", cut, None));
}

/// Matrices in pieces that end within an expert.
#[test]
fn pieces_are_one_matrix() {
    let case = Case::new([4, 2, 5], [40, 64], &[Format::Q5_0]);
    let row = case.upload(None)[0].packing().low_row() as u64 * 4;
    for cut in [Cut::Direct, Cut::Tiles(8)] {
        case.check("pieces", cut, Some(row * 48));
    }
}

/// A row that is not a number is no other row's business, nor is an expert that no row chose.
#[test]
fn what_is_not_a_number_stays_with_its_row() {
    let mut case = Case::new([3, 2, 5], [16, 64], &[Format::F32]);
    case.input[2 * 64 + 7] = f32::NAN;
    let last = case.weights[0].file.len() / 3 * 2;
    case.weights[0].file[last..].chunks_mut(4).for_each(|x| x.copy_from_slice(&f32::NAN.to_le_bytes()));
    for cut in [Cut::Direct, Cut::Tiles(16)] {
        let truth = case.truth();
        assert!(truth[0].iter().enumerate().all(|(i, x)| x.is_nan() == (i / 32 == 2)), "of row 2 alone");
        case.check("not a number", cut, None);
    }
}

/// All experts have the same rows, or none; more than one tile each.
#[test]
fn tiles_have_one_expert_each() {
    let mut case = Case::new([9, 2, 21], [16, 32], &[Format::Q4_0]);
    case.chosen = Some((0..42).map(|pair| [1, 7][pair % 2]).collect());
    case.check("two experts", Cut::Tiles(8), None);
    case.check("two experts", Cut::Tiles(16), None);
}

#[test]
fn tiles_are_as_many_as_there_can_be() {
    let tiles = |rows| Tiles { rows, slots: 8, experts: 128, chosen: true };
    assert_eq!(tiles(8).most(1), 9);
    assert_eq!(tiles(32).most(512), 128 + 128);
    for rows in 1..3000 {
        let serving: Vec<usize> =
            TILES.iter().map(|(of, _)| *of).filter(|of| tiles(*of).serve(rows)).collect();
        assert_eq!(serving.len(), 1, "{rows} rows");
        assert!(rows >= tiles(serving[0]).rows_needed(), "{rows} rows need {serving:?}");
    }
}

/// The kernels that devices with matrix units are given can be translated for them.
#[test]
fn every_kernel_is_completed() {
    for (formats, outputs) in [(vec![Format::Q4_K; 2], 64), (vec![Format::Q6_K], 40), (vec![Format::F32], 16)]
    {
        let case = Case::new([4, 2, 3], [outputs, 1536], &formats).with_biases();
        let (weights, out) = (case.upload(None), buffer(&[0.0; 4]));
        let [input, choice, hidden] = [(); 3].map(|()| buffer(&[0.0; 4]));
        let place = |buffer, width| Place { buffer, offset: 0, width, stride: width };
        let matrix = |weight| Matrix { weight, bias: Some(out) };
        let product = Product {
            first: matrix(&weights[0]),
            second: weights.get(1).map(matrix),
            sizes: [4, outputs, 1536],
            choice: Some(place(choice, 4)),
            input: place(input, 1536),
            out: place(out, formats.len() * 2 * outputs),
            activated: (formats.len() == 2).then_some((Activation::Silu, place(hidden, 2 * outputs))),
            normed: None,
            chooses: None,
            summed: None,
        };
        let rows = ExpertRows::with(&mut kernels(), [16, 16], 3);
        let count = number(3);
        let tiled = TILES.map(|(tile, _)| {
            let (tiles, subgroups) =
                (product.tiles(tile), Subgroups::of(tile, 1536, testing::gpu().facts().room()));
            Way::Tiled { tiles, subgroups, rows, count }
        });
        for way in [Way::Direct { split: 3 }].into_iter().chain(tiled) {
            for product in [product, Product { choice: None, ..product }] {
                let text = product.source(0, way, true).0.on_units().finish().0;
                assert_eq!(spirv::translate(&text).err(), None);
                translate_shared(&text);
            }
        }
    }
}
