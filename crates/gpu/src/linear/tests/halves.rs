//! Activations as halves, and layers that multiply them, against the definition: every format bit for bit, few rows
//! against many. On a device without matrix units they are emulated.

use crate::Gpu;
use crate::kernels::{Grid, Source};
use crate::linear::{
    Conversion, HalfRows, Input, Linear, LinearKernels, LinearSpec, Matrix, Operands, PackedWeight, RowsView,
    Tiling, half_units,
};
use crate::step::Counts;
use crate::testing::{self, buffer, kernels, number, read};
use gleed_gguf::Format;
use gleed_model::arithmetic::{
    HalfRow, dot_halves, half_activations, half_row, half_values, half_weights, silu,
};
use gleed_model::program::Activation;

use super::emulation::{emulated, emulating};
use super::support::{Random, Run, Weight, assert_same, setup};
use crate::linear::pack::Room;
use crate::linear::shader::source;

/// Tilings that are small enough for emulation: of one subgroup and of several, that share columns or have outputs of
/// their own, for one fragment of rows and for several, with one group loaded ahead and with two.
const SMALL: [Tiling; 4] = [
    Tiling::Halves { rows: 16, split: 1, across: 1 },
    Tiling::Halves { rows: 8, split: 3, across: 1 },
    Tiling::Halves { rows: 32, split: 2, across: 2 },
    Tiling::Halves { rows: 32, split: 1, across: 1 },
];

/// The kernels to test: those of the device, or emulated ones.
fn all_kernels(gpu: &Gpu) -> Vec<LinearKernels> {
    if half_units(&gpu.info) {
        let one = |tiling| {
            let linear = LinearKernels::new(&mut kernels(), &[], &[]);
            linear.with_texts(tiling, crate::linear::source)
        };
        return Tiling::halves(56, testing::gpu().facts().room()).into_iter().chain(SMALL).map(one).collect();
    }
    SMALL.into_iter().map(emulating).collect()
}

/// Rows of floats, the columns of which are all of a row, as halves.
pub fn to_halves(linear: &LinearKernels, rows: &[f32], columns: usize, gap: usize) -> HalfRows {
    let count = rows.len() / columns;
    let halves = HalfRows::new(&mut kernels(), count, columns);
    let stride = columns + gap;
    let mut spread = vec![f32::NAN; (count * stride + 8).next_multiple_of(4)];
    for (r, row) in rows.chunks(columns).enumerate() {
        spread[4 + r * stride..][..columns].copy_from_slice(row);
    }
    let input = buffer(&spread);
    let batch = number(count);
    let view = RowsView { buffer: input, offset: 4, stride: stride as u32 };
    let conversion = Conversion::to_halves(&mut kernels(), linear, view, columns, halves, batch);
    testing::run(conversion.run(count as u32));
    halves
}

#[test]
fn activations_become_halves_as_defined() {
    let (_, linear, _) = setup();
    let mut random = Random(31);
    for columns in [1, 6, 32, 100, 1184] {
        let mut rows = random.floats(5 * columns);
        rows[0] = 1e30;
        rows[columns] = 3e-38;
        rows[2 * columns..3 * columns].fill(0.0);
        rows[3 * columns] = f32::NAN;
        rows[4 * columns] = f32::NEG_INFINITY;
        for gap in [0, 3] {
            let halves = to_halves(linear, &rows, columns, gap);
            let words: Vec<f32> = read(halves.buffer());
            let (groups, factors) = (columns.div_ceil(128) * 4, &words[4 * halves.factors()..]);
            for (r, row) in rows.chunks(columns).enumerate() {
                let HalfRow { values, factor } = half_activations(row);
                let what = format!("row {r} of {columns}, {gap} apart");
                assert!(factors[r] == factor || factors[r].is_nan() && factor.is_nan(), "{what}");
                let own = &words[r * groups * 16..][..groups * 16];
                for column in 0..groups * 32 {
                    let bits = (own[column / 2].to_bits() >> (column % 2 * 16)) as u16;
                    let expected = values.get(column).map_or(0, |half| half.to_bits());
                    assert_eq!(bits, expected, "{what}: column {column}");
                }
            }
        }
    }
}

/// A matrix on the device, for matrix units.
pub fn upload(weight: &Weight) -> PackedWeight {
    weight.upload_as(weight.packing().for_halves(), u64::MAX, &mut |_| {}).unwrap()
}

/// A matrix as halves, row by row.
pub fn half_matrix(weight: &Weight) -> Vec<HalfRow> {
    let Weight { rows, columns, format, ref file } = *weight;
    let bytes = file.len() / rows;
    let row = |data: &[u8]| {
        let Some(groups) = format.groups() else {
            let mut values = vec![0.0; columns];
            format.decode(data, &mut values);
            return half_row(&values);
        };
        let mut room = Room::new(Some(groups), columns);
        format.unpack(data, room.unpacked());
        half_weights(room.row(groups))
    };
    file.chunks(bytes).map(row).collect()
}

/// The definition.
pub fn multiply(weight: &Weight, bias: Option<&[f32]>, input: &[f32]) -> Vec<f32> {
    let matrix = half_matrix(weight);
    let rows = input.chunks(weight.columns).flat_map(|x| {
        let x = half_activations(x);
        let result = |(o, row): (usize, &HalfRow)| {
            let (factor, sum) = (x.factor * row.factor, dot_halves(&row.values, &x.values));
            bias.map_or(factor * sum, |bias| factor.mul_add(sum, bias[o]))
        };
        matrix.iter().enumerate().map(result).collect::<Vec<f32>>()
    });
    rows.collect()
}

/// A layer whose input are these rows.
fn run(
    linear: &LinearKernels,
    [columns, outputs, capacity]: [usize; 3],
    input: &[f32],
    make: impl FnOnce(Operands) -> crate::Result<Linear>,
) -> Run {
    let halves = to_halves(linear, input, columns, 0);
    Run::new([columns, outputs, capacity], &[], |operands| {
        make(Operands { input: Input::Halves(halves), ..operands })
    })
}

fn check(linear: &LinearKernels, random: &mut Random, format: Format, outputs: usize, columns: usize) {
    let weight = Weight::random(random, format, outputs, columns);
    let capacity = 18;
    let mut input = random.floats(capacity * columns);
    input.iter_mut().step_by(97).for_each(|x| *x *= 40.0);
    let truth = multiply(&weight, None, &input);
    let packed = upload(&weight);
    let run = run(linear, [columns, outputs, capacity], &input, |operands| {
        Linear::new(&mut kernels(), linear, "test", Matrix { weight: &packed, bias: None }, operands)
    });
    for rows in [0, 1, 18] {
        let what = format!("{format} {outputs} x {columns}, {rows} rows");
        assert_same(&what, &run.rows(rows), &truth[..rows * outputs]);
    }
}

/// A kernel that writes weights instead of multiplying them: output `o` of row `c` is weight `c` of row `o`.
fn unpacking(spec: LinearSpec, tiling: Tiling) -> String {
    let text = if half_units(&setup().0.info) { source(spec, tiling) } else { emulated(spec, tiling) };
    let (functions, _) = text.split_once("const UNITS_OF_SEGMENT").expect("a kernel of halves");
    functions.to_string() + include_str!("unpack.wgsl")
}

#[test]
fn every_format_becomes_the_halves_that_are_defined() {
    let mut random = Random(32);
    let tiling = Tiling::Halves { rows: 64, split: 1, across: 1 };
    // Before kernels are planned, whose texts ask for it.
    setup();
    let linear = LinearKernels::new(&mut kernels(), &[], &[]).with_texts(tiling, unpacking);
    for format in Format::all() {
        let columns = match format.block_len() {
            1 => 90,
            32 => 32 * 9,
            _ => 512,
        };
        let weight = Weight::random(&mut random, format, 19, columns);
        let packed = upload(&weight);
        let halves = HalfRows::new(&mut kernels(), 1, columns);
        let run = Run::new([columns, 19, columns], &[], |operands| {
            let operands = Operands { input: Input::Halves(halves), ..operands };
            Linear::new(&mut kernels(), &linear, "test", Matrix { weight: &packed, bias: None }, operands)
        });
        let matrix = half_matrix(&weight);
        let truth: Vec<f32> =
            (0..columns).flat_map(|c| matrix.iter().map(move |row| row.values[c].to_f32())).collect();
        // A zero has either sign.
        let plus = |values: &[f32]| values.iter().map(|value| value + 0.0).collect::<Vec<_>>();
        assert_same(&format.to_string(), &plus(&run.rows(columns)), &plus(&truth));
    }
}

#[test]
fn every_tiling_multiplies_the_same() {
    let gpu = &setup().0;
    let mut random = Random(33);
    let real = half_units(&gpu.info);
    let tilings: Vec<Tiling> = if real {
        Tiling::halves(56, testing::gpu().facts().room()).into_iter().chain(SMALL).collect()
    } else {
        SMALL.to_vec()
    };
    for (tiling, linear) in tilings.into_iter().zip(all_kernels(gpu)) {
        // Emulated subgroups that share columns come to as many barriers, and so have as many of them; all others have
        // columns of several segments.
        let columns = match tiling {
            Tiling::Halves { rows: 32, split: 1, .. } if !real => 768,
            Tiling::Halves { split, .. } if !real && split > 1 => 512 * split as usize,
            _ => 1792,
        };
        check(&linear, &mut random, Format::Q4_K, 35, columns);
        // The columns are part of a kernel's text, and an emulated one takes long to compile.
        check(&linear, &mut random, Format::Q4_K, 1, if real { 256 } else { columns });
    }
}

#[test]
fn gates_joins_and_biases_are_as_defined() {
    let gpu = &setup().0;
    let mut random = Random(34);
    let (outputs, columns, capacity) = (20, 64, 17);
    let all = all_kernels(gpu);
    let some = if half_units(&gpu.info) { &all[..] } else { &all[1..2] };
    for linear in some {
        let [first, second] =
            [Format::Q4_0, Format::Q5_1].map(|format| Weight::random(&mut random, format, outputs, columns));
        let [one, other] = [random.floats(outputs), random.floats(outputs)];
        let input = random.floats(capacity * columns);
        let packed = [upload(&first), upload(&second)];
        let biases = [&one, &other].map(|bias| buffer(bias));
        let matrices = [0, 1].map(|i| Matrix { weight: &packed[i], bias: Some(biases[i]) });
        let truth = [multiply(&first, Some(&one), &input), multiply(&second, Some(&other), &input)];
        let joined = run(linear, [columns, 2 * outputs, capacity], &input, |operands| {
            Linear::joined(&mut kernels(), linear, "test", matrices, operands)
        });
        let both = truth[0].chunks(outputs).zip(truth[1].chunks(outputs));
        let expected: Vec<f32> = both.flat_map(|(a, b)| [a, b].concat()).collect();
        assert_same("joined", &joined.rows(capacity), &expected);
        let gated = run(linear, [columns, outputs, capacity], &input, |operands| {
            Linear::gated(&mut kernels(), linear, "test", Activation::Silu, matrices, operands)
        });
        for (got, (gate, up)) in gated.rows(capacity).iter().zip(truth[0].iter().zip(&truth[1])) {
            let expected = silu(*gate) * up;
            assert!((got - expected).abs() <= 1e-5 * expected.abs().max(1e-3), "{got}, not {expected}");
        }
    }
}

/// A row that is not a number is so in all its results, and in no others.
#[test]
fn what_is_not_a_number_stays_in_its_row() {
    let gpu = &setup().0;
    let mut random = Random(35);
    let (outputs, columns, capacity) = (20, 64, 3);
    let weight = Weight::random(&mut random, Format::Q8_0, outputs, columns);
    let packed = upload(&weight);
    let mut input = random.floats(capacity * columns);
    input[columns + 5] = f32::NAN;
    for linear in &all_kernels(gpu)[..1] {
        let run = run(linear, [columns, outputs, capacity], &input, |operands| {
            Linear::new(&mut kernels(), linear, "test", Matrix { weight: &packed, bias: None }, operands)
        });
        for (i, value) in run.rows(capacity).iter().enumerate() {
            assert_eq!(value.is_nan(), i / outputs == 1, "value {i} is {value}");
        }
    }
}

/// A single row has the bits of others.
#[test]
fn a_single_row_is_multiplied_as_others_are() {
    let gpu = &setup().0;
    let mut random = Random(36);
    let shapes = [
        (Format::Q5_K, 19, 1536, [3, 1]),
        (Format::F16, 33, 100, [1, 1]),
        // Segments in two rounds, of subgroups with outputs of their own.
        (Format::Q4_0, 70, 2048, [2, 2]),
    ];
    for (format, outputs, columns, [split, across]) in shapes {
        let weight = Weight::random(&mut random, format, outputs, columns);
        let packed = upload(&weight);
        let mut input = random.floats(columns.next_multiple_of(4));
        input[3] = 900.0;
        let truth = multiply(&weight, None, &input[..columns]);
        let matrix = Matrix { weight: &packed, bias: None };
        let tiling = Tiling::Halves { rows: 1, split, across };
        let linear = match half_units(&gpu.info) {
            true => LinearKernels::new(&mut kernels(), &[], &[]).with_halves(vec![tiling]),
            false => emulating(tiling),
        };
        let halves = to_halves(&linear, &input[..columns], columns, 0);
        let run = Run::new([columns, outputs, 1], &[], |operands| {
            Linear::new(
                &mut kernels(),
                &linear,
                "test",
                matrix,
                Operands { input: Input::Single(halves), ..operands },
            )
        });
        assert_same(&format!("a row of {format}"), &run.rows(1), &truth);
    }
}

/// A table of embeddings that is a matrix too is read in the layout of lanes: each format gives what its terms stand for.
#[test]
fn tables_give_what_their_terms_stand_for() {
    let (_, _, fused) = setup();
    let mut random = Random(39);
    for format in Format::all() {
        let columns = if format.block_len() == 1 { 90 } else { 512 };
        let weight = Weight::random(&mut random, format, 19, columns);
        let packed = upload(&weight);
        let stride = packed.packing().groups() * 32;
        let out = buffer(&vec![0.0; 19 * stride]);
        let source = Source::new("test", include_str!("table.wgsl"))
            .matrix(&packed, &packed.pieces()[0])
            .size("STRIDE", stride)
            .write("out", "f32", out);
        let dispatch = kernels().dispatch(source, Grid::Rows(1));
        testing::run(dispatch.run(Counts { rows: 19, ..Counts::default() }));
        let found: Vec<f32> = read(out);
        for (row, file) in weight.file.chunks(weight.file.len() / 19).enumerate() {
            let expected: Vec<f32> = match format.groups() {
                Some(groups) => {
                    let mut room = Room::new(Some(groups), columns);
                    format.unpack(file, room.unpacked());
                    half_values(room.row(groups))
                }
                None => {
                    let HalfRow { values, factor } = &half_matrix(&weight)[row];
                    values.iter().map(|value| value.to_f32() * factor).collect()
                }
            };
            for (column, expected) in expected.iter().enumerate() {
                let found = found[row * stride + column];
                // A device may round a multiply-add twice.
                let near = (found - expected).abs() <= expected.abs() * 2f32.powi(-22) + f32::MIN_POSITIVE;
                let exact = *fused || format.groups().is_none_or(|groups| !groups.mins);
                assert!(
                    found == *expected || !exact && near,
                    "{format}, row {row}, column {column}: {found}, not {expected}"
                );
            }
        }
    }
}
