//! Linear layers against a slow definition of the same order of operations, bit for bit, for every format;
//! few rows against many; and views, biases, gates and cut matrices.

mod common;

use std::sync::OnceLock;

use gleed_gguf::{Format, Unpacked};
use gleed_gpu::Gpu;
use gleed_gpu::linear::{
    Combination, Layout, Linear, LinearKernels, LinearSpec, Matrix, Operands, PackedWeight, Packing,
    RowsView, Tiling, cooperative, source,
};
use gleed_model::arithmetic::{gelu, silu};
use gleed_model::program::Activation;

/// Written before a step everywhere, to see what was not written by it.
const UNTOUCHED: f32 = 12345.5;

/// Tilings enough for a format: one row, several rows, and a tile that rows fill and one that they do not.
const SOME: [Tiling; 4] =
    [Tiling::ALL[0], Tiling::ALL[3], Tiling::Many { rows: 16 }, Tiling::Many { rows: 64 }];

fn setup() -> &'static (Gpu, LinearKernels, bool) {
    static SETUP: OnceLock<(Gpu, LinearKernels, bool)> = OnceLock::new();
    SETUP.get_or_init(|| {
        let gpu = common::gpu();
        let kernels = LinearKernels::new(&gpu, &Tiling::ALL).unwrap();
        let fused = is_fused(&gpu, &kernels);
        (gpu, kernels, fused)
    })
}

/// Whether the device's multiply-add rounds once: the product of these is 1 + 2^-11 + 2^-24, and the last
/// term is lost when it is rounded before the sum.
fn is_fused(gpu: &Gpu, kernels: &LinearKernels) -> bool {
    let weight = Weight::of(Format::F32, 1, 2, |i| [1.0, 1.0 + 2f32.powi(-12)][i]);
    let input = [-(1.0 + 2f32.powi(-11)), 1.0 + 2f32.powi(-12)];
    let run = Run::plain(gpu, kernels, &weight, None, &input, 1);
    match run.rows(1)[0] {
        0.0 => false,
        value => {
            assert_eq!(value, 2f32.powi(-24));
            true
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.unit()).collect()
    }
}

/// A matrix on both sides.
struct Weight {
    format: Format,
    rows: usize,
    columns: usize,
    file: Vec<u8>,
}

impl Weight {
    /// Random blocks whose values are neither too small nor too large for sums of them to be normal numbers.
    fn random(random: &mut Random, format: Format, rows: usize, columns: usize) -> Weight {
        let mut file = Vec::new();
        let mut values = vec![0.0; format.block_len()];
        for _ in 0..rows * columns / format.block_len() {
            let bytes = loop {
                let bytes: Vec<u8> = (0..format.block_bytes()).map(|_| random.next() as u8).collect();
                format.decode(&bytes, &mut values);
                let largest = values.iter().fold(0.0f32, |most, v| most.max(v.abs()));
                if values.iter().all(|v| v.is_finite()) && (1e-6..1e6).contains(&largest) {
                    break bytes;
                }
            };
            file.extend(bytes);
        }
        Weight { format, rows, columns, file }
    }

    /// Values of a format that can be encoded.
    fn of(format: Format, rows: usize, columns: usize, value: impl Fn(usize) -> f32) -> Weight {
        let values: Vec<f32> = (0..rows * columns).map(value).collect();
        let mut file = vec![0; rows * format.row_bytes(columns).unwrap()];
        let size = file.len() / rows.max(1);
        for (values, bytes) in values.chunks(columns).zip(file.chunks_mut(size.max(1))) {
            format.encode(values, bytes).unwrap();
        }
        Weight { format, rows, columns, file }
    }

    fn packing(&self) -> Packing {
        Packing::new("w", self.format, self.rows, self.columns).unwrap()
    }

    fn upload(&self, gpu: &Gpu) -> PackedWeight {
        PackedWeight::upload(gpu, "w", self.packing(), &self.file, &mut |_| {}).unwrap()
    }

    /// The values: as the format decodes them, but with one rounding for scale and min where multiply-adds
    /// have one.
    fn values(&self, fused: bool) -> Vec<f32> {
        let mut out = vec![0.0; self.rows * self.columns];
        let Some(groups) = self.format.groups().filter(|groups| groups.mins && fused) else {
            self.format.decode(&self.file, &mut out);
            return out;
        };
        let (mut integers, count, blocks) =
            (vec![0; out.len()], out.len() / groups.len, out.len() / groups.block);
        let (mut factors, mut min_factors) = (vec![0; count], vec![0; count]);
        let (mut scales, mut mins) = (vec![0.0; blocks], vec![0.0; blocks]);
        let unpacked = Unpacked {
            integers: &mut integers,
            factors: &mut factors,
            scales: &mut scales,
            min_factors: &mut min_factors,
            mins: &mut mins,
        };
        self.format.unpack(&self.file, unpacked);
        for (i, out) in out.iter_mut().enumerate() {
            let (block, group) = (i / groups.block, i / groups.len);
            let scale = scales[block] * f32::from(factors[group]);
            *out = scale.mul_add(f32::from(integers[i]), mins[block] * f32::from(min_factors[group]));
        }
        out
    }

    /// The definition: eight chains over groups of 32 columns, folded, then the bias.
    fn multiply(&self, fused: bool, bias: Option<&[f32]>, input: &[f32]) -> Vec<f32> {
        let values = self.values(fused);
        let mut out = Vec::new();
        for x in input.chunks(self.columns) {
            for (o, weights) in values.chunks(self.columns).enumerate() {
                let mut c = [0.0f32; 8];
                for (g, (weights, x)) in weights.chunks(32).zip(x.chunks(32)).enumerate() {
                    for (w, x) in weights.iter().zip(x) {
                        c[g % 8] = if fused { w.mul_add(*x, c[g % 8]) } else { w * x + c[g % 8] };
                    }
                }
                let sum = ((c[0] + c[4]) + (c[2] + c[6])) + ((c[1] + c[5]) + (c[3] + c[7]));
                out.push(bias.map_or(sum, |bias| sum + bias[o]));
            }
        }
        out
    }
}

fn buffer(gpu: &Gpu, values: &[f32], usage: wgpu::BufferUsages) -> wgpu::Buffer {
    let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: 4 * values.len() as u64,
        usage: usage | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    });
    gpu.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(values));
    buffer
}

/// A layer with its buffers: input rows 8 floats into a buffer and a few apart, output likewise.
struct Run<'a> {
    gpu: &'a Gpu,
    linear: Linear,
    batch: wgpu::Buffer,
    output: wgpu::Buffer,
    outputs: usize,
    capacity: usize,
}

const OFFSET: usize = 8;
const GAP: usize = 5;

impl<'a> Run<'a> {
    fn new(
        gpu: &'a Gpu,
        [columns, outputs, capacity]: [usize; 3],
        input: &[f32],
        make: impl FnOnce(Operands) -> gleed_gpu::Result<Linear>,
    ) -> Run<'a> {
        // Rows of odd widths lie as close as they can, others where they can be read four floats at a time.
        let stride = if columns.is_multiple_of(4) { columns + 4 } else { columns + 1 };
        // What is between the rows is not a number, so that reading it would be seen.
        let mut spread = vec![f32::NAN; OFFSET + capacity * stride];
        for (r, row) in input.chunks(columns).enumerate() {
            spread[OFFSET + r * stride..][..columns].copy_from_slice(row);
        }
        let input = buffer(gpu, &spread, wgpu::BufferUsages::STORAGE);
        let untouched = vec![UNTOUCHED; OFFSET + capacity * (outputs + GAP)];
        let output = buffer(gpu, &untouched, wgpu::BufferUsages::STORAGE);
        let batch = buffer(gpu, &[0.0; 4], wgpu::BufferUsages::UNIFORM);
        let offset = OFFSET as u32;
        let linear = make(Operands {
            input: RowsView { buffer: &input, offset, stride: stride as u32 },
            output: RowsView { buffer: &output, offset, stride: (outputs + GAP) as u32 },
            batch: &batch,
        })
        .unwrap();
        Run { gpu, linear, batch, output, outputs, capacity }
    }

    fn plain(
        gpu: &'a Gpu,
        kernels: &LinearKernels,
        weight: &Weight,
        bias: Option<&[f32]>,
        input: &[f32],
        capacity: usize,
    ) -> Run<'a> {
        let packed = weight.upload(gpu);
        let bias = bias.map(|bias| buffer(gpu, bias, wgpu::BufferUsages::STORAGE));
        let bias = bias.as_ref();
        Run::new(gpu, [weight.columns, weight.rows, capacity], input, |operands| {
            Linear::new(gpu, kernels, "test", Matrix { weight: &packed, bias }, operands)
        })
    }

    /// The results of the first rows; all else must be untouched.
    fn rows(&self, rows: usize) -> Vec<f32> {
        let untouched = vec![UNTOUCHED; OFFSET + self.capacity * (self.outputs + GAP)];
        self.gpu.queue.write_buffer(&self.output, 0, bytemuck::cast_slice(&untouched));
        self.gpu.queue.write_buffer(&self.batch, 0, bytemuck::cast_slice(&[rows as u32, 0, 0, 0]));
        let mut encoder = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            self.linear.record(&mut pass, rows as u32);
        }
        let read = self.gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: self.output.size(),
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        encoder.copy_buffer_to_buffer(&self.output, 0, &read, 0, self.output.size());
        self.gpu.queue.submit([encoder.finish()]);
        read.slice(..).map_async(wgpu::MapMode::Read, |result| result.unwrap());
        self.gpu.wait().unwrap();
        let all: Vec<f32> = bytemuck::cast_slice(&read.slice(..).get_mapped_range().unwrap()).to_vec();
        let mut out = Vec::new();
        for (i, value) in all.iter().enumerate() {
            let (row, column) = (
                i.wrapping_sub(OFFSET) / (self.outputs + GAP),
                i.wrapping_sub(OFFSET) % (self.outputs + GAP),
            );
            if i >= OFFSET && row < rows && column < self.outputs {
                out.push(*value);
            } else {
                assert_eq!(*value, UNTOUCHED, "float {i} of the output was written");
            }
        }
        out
    }
}

#[track_caller]
fn assert_same(what: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got.to_bits(), expected.to_bits(), "{what}: value {i} is {got}, not {expected}");
    }
}

/// All numbers of rows of one matrix against the definition.
fn check(kernels: &LinearKernels, random: &mut Random, format: Format, outputs: usize, columns: usize) {
    let (gpu, _, fused) = setup();
    let weight = Weight::random(random, format, outputs, columns);
    let input = random.floats(70 * columns);
    let truth = weight.multiply(*fused, None, &input);
    let run = Run::plain(gpu, kernels, &weight, None, &input, 70);
    for rows in [0, 1, 2, 7, 8, 9, 20, 65] {
        let what = format!("{format} {outputs} x {columns}, {rows} rows");
        assert_same(&what, &run.rows(rows), &truth[..rows * outputs]);
    }
}

fn formats(groups: impl Fn(Format) -> bool) -> Vec<Format> {
    Format::all().filter(|format| groups(*format)).collect()
}

#[test]
fn native_formats_multiply_as_defined() {
    let (gpu, mut random) = (&setup().0, Random(1));
    let kernels = LinearKernels::new(gpu, &SOME).unwrap();
    for format in formats(|f| f.block_len() > 1 && !Layout::of(f).1) {
        let columns = if format.block_len() == 32 { 32 * 11 } else { 256 * 3 };
        check(&kernels, &mut random, format, 33, columns);
    }
}

#[test]
fn converted_formats_multiply_as_defined() {
    let (gpu, mut random) = (&setup().0, Random(2));
    let kernels = LinearKernels::new(gpu, &SOME).unwrap();
    for format in formats(|f| f.block_len() > 1 && Layout::of(f).1) {
        check(&kernels, &mut random, format, 17, 512);
    }
}

#[test]
fn floats_of_any_width_multiply_as_defined() {
    let (kernels, mut random) = (&setup().1, Random(3));
    for format in [Format::F32, Format::F16, Format::BF16] {
        for (outputs, columns) in [(1, 1), (33, 33), (5, 300), (66, 64)] {
            check(kernels, &mut random, format, outputs, columns);
        }
    }
    check(kernels, &mut random, Format::I8, 3, 40);
}

#[test]
fn odd_shapes_multiply_as_defined() {
    let (kernels, mut random) = (&setup().1, Random(4));
    for (outputs, columns) in [(1, 256), (16, 2304), (65, 256), (130, 4096)] {
        check(kernels, &mut random, Format::Q4_K, outputs, columns);
    }
    for (outputs, columns) in [(1, 32), (7, 96), (31, 1056)] {
        check(kernels, &mut random, Format::Q4_0, outputs, columns);
    }
}

#[test]
fn a_row_does_not_depend_on_its_neighbours() {
    let (gpu, kernels, _) = setup();
    let mut random = Random(5);
    let weight = Weight::random(&mut random, Format::Q5_K, 40, 1024);
    let row = random.floats(1024);
    let alone = Run::plain(gpu, kernels, &weight, None, &row, 1).rows(1);
    for (rows, place) in [(2, 1), (5, 3), (8, 7), (9, 0), (33, 32), (65, 64), (70, 40)] {
        let mut input = random.floats(rows * 1024);
        // Neighbours that would spoil everything they touch.
        input.iter_mut().step_by(7).for_each(|x| *x = f32::INFINITY);
        input[place * 1024..][..1024].copy_from_slice(&row);
        let all = Run::plain(gpu, kernels, &weight, None, &input, rows).rows(rows);
        assert_same(&format!("row {place} of {rows}"), &all[place * 40..][..40], &alone);
    }
}

#[test]
fn two_outputs_of_a_slot_give_the_same_bits() {
    let (gpu, _, fused) = setup();
    let mut random = Random(6);
    for rows in [1, 2, 4] {
        let kernels = LinearKernels::new(gpu, &[Tiling::Few { rows, outputs: 2 }]).unwrap();
        for format in [Format::Q4_K, Format::Q6_K, Format::Q8_0] {
            let weight = Weight::random(&mut random, format, 50, 768);
            let input = random.floats(9 * 768);
            let run = Run::plain(gpu, &kernels, &weight, None, &input, 9);
            let truth = weight.multiply(*fused, None, &input);
            assert_same(&format!("{format} {rows}"), &run.rows(9), &truth);
        }
    }
}

#[test]
fn biases_are_added_last() {
    let (gpu, kernels, fused) = setup();
    let mut random = Random(7);
    let weight = Weight::random(&mut random, Format::Q4_1, 35, 64);
    let (bias, input) = (random.floats(35), random.floats(20 * 64));
    let truth = weight.multiply(*fused, Some(&bias), &input);
    let run = Run::plain(gpu, kernels, &weight, Some(&bias), &input, 20);
    for rows in [1, 3, 20] {
        assert_same("bias", &run.rows(rows), &truth[..rows * 35]);
    }
}

/// The gate's activation is a few roundings that a device may do its own way; few and many rows must still be
/// the same bits, and the value within a few units in the last place of the definition's.
#[test]
fn gated_layers_multiply_activate_and_multiply() {
    let (gpu, kernels, fused) = setup();
    let mut random = Random(8);
    let cases = [
        (Format::Q4_K, Format::Q4_K, Activation::Silu, false),
        (Format::Q4_K, Format::Q6_K, Activation::Gelu, true),
        (Format::F16, Format::Q8_0, Activation::Silu, true),
    ];
    for (gate, up, activation, biased) in cases {
        let (outputs, columns, capacity) = (37, 512, 66);
        let weights = [gate, up].map(|format| {
            let scale = 0.1;
            Weight::of(format, outputs, columns, {
                let values = random.floats(outputs * columns);
                move |i| values[i] * scale
            })
        });
        let biases = [(); 2].map(|()| random.floats(outputs));
        // Only the second has a bias, so that the first must be left as it is.
        let bias = |i: usize| (biased && i == 1).then_some(&biases[i][..]);
        let input = random.floats(capacity * columns);
        let sums = [0, 1].map(|i| weights[i].multiply(*fused, bias(i), &input));
        let packed = [0, 1].map(|i| weights[i].upload(gpu));
        let device_bias = buffer(gpu, &biases[1], wgpu::BufferUsages::STORAGE);
        let run = Run::new(gpu, [columns, outputs, capacity], &input, |operands| {
            let bias = [None, biased.then_some(&device_bias)];
            let matrices = [0, 1].map(|i| Matrix { weight: &packed[i], bias: bias[i] });
            Linear::gated(gpu, kernels, "gated", activation, matrices, operands)
        });
        let most = run.rows(capacity);
        for rows in [1, 2, 4, 8, 9, 17, 65] {
            assert_same("fewer rows", &run.rows(rows), &most[..rows * outputs]);
        }
        for (i, got) in most.iter().enumerate() {
            let activate = if activation == Activation::Silu { silu } else { gelu };
            let truth = activate(sums[0][i]) * sums[1][i];
            let error = (got - truth).abs() / truth.abs().max(1e-12);
            assert!(error <= 1e-6, "{gate} {up}: {got} is not {truth}");
        }
    }
}

#[test]
fn joined_matrices_give_their_outputs_one_after_the_other() {
    let (gpu, kernels, fused) = setup();
    let mut random = Random(12);
    let first = Weight::random(&mut random, Format::Q4_K, 37, 768);
    let second = Weight::random(&mut random, Format::Q6_K, 21, 768);
    let (bias, input) = (random.floats(21), random.floats(66 * 768));
    let device_bias = buffer(gpu, &bias, wgpu::BufferUsages::STORAGE);
    let sums = [first.multiply(*fused, None, &input), second.multiply(*fused, Some(&bias), &input)];
    let truth: Vec<f32> =
        sums[0].chunks(37).zip(sums[1].chunks(21)).flat_map(|(a, b)| [a, b].concat()).collect();
    // In one piece each, and the second in several.
    for largest in [1 << 20, 384 * 9] {
        let upload = |weight: &Weight, largest| {
            PackedWeight::upload_in_pieces(gpu, "w", weight.packing(), &weight.file, largest, &mut |_| {})
        };
        let packed = [upload(&first, 1 << 20).unwrap(), upload(&second, largest).unwrap()];
        let run = Run::new(gpu, [768, 58, 66], &input, |operands| {
            let matrices = [
                Matrix { weight: &packed[0], bias: None },
                Matrix { weight: &packed[1], bias: Some(&device_bias) },
            ];
            Linear::joined(gpu, kernels, "joined", matrices, operands)
        });
        for rows in [1, 3, 8, 16, 66] {
            assert_same("joined", &run.rows(rows), &truth[..rows * 58]);
        }
    }
}

#[test]
fn matrices_larger_than_a_binding_are_cut_by_rows() {
    let (gpu, kernels, fused) = setup();
    let mut random = Random(9);
    let gate = Weight::random(&mut random, Format::Q4_K, 50, 512);
    let up = Weight::random(&mut random, Format::Q6_K, 50, 512);
    let input = random.floats(10 * 512);
    let upload = |weight: &Weight, largest: u64| {
        let mut bytes = 0;
        let packed =
            PackedWeight::upload_in_pieces(gpu, "w", weight.packing(), &weight.file, largest, &mut |n| {
                bytes += n;
            });
        assert!(packed.is_err() || bytes == weight.packing().bytes());
        packed
    };
    assert!(matches!(upload(&gate, 255), Err(gleed_gpu::Error::Limit { .. })));
    let [cut, whole] = [256 * 7, 1 << 20].map(|largest| upload(&gate, largest).unwrap());
    let other = upload(&up, 256 * 11).unwrap();
    let plain = |packed: &PackedWeight| {
        Run::new(gpu, [512, 50, 10], &input, |operands| {
            Linear::new(gpu, kernels, "cut", Matrix { weight: packed, bias: None }, operands)
        })
    };
    let gated = |packed: &PackedWeight| {
        let matrices = [packed, &other].map(|weight| Matrix { weight, bias: None });
        Run::new(gpu, [512, 50, 10], &input, |operands| {
            Linear::gated(gpu, kernels, "cut", Activation::Silu, matrices, operands)
        })
    };
    let truth = gate.multiply(*fused, None, &input);
    for rows in [1, 10] {
        assert_same("cut", &plain(&cut).rows(rows), &truth[..rows * 50]);
        assert_same("cut gate", &gated(&cut).rows(rows), &gated(&whole).rows(rows));
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let (gpu, kernels, _) = setup();
    let mut random = Random(10);
    let [weight, other] = [8, 9].map(|rows| Weight::random(&mut random, Format::Q8_0, rows, 32).upload(gpu));
    let floats = buffer(gpu, &[0.0; 64], wgpu::BufferUsages::STORAGE);
    let out = buffer(gpu, &[0.0; 64], wgpu::BufferUsages::STORAGE);
    let batch = buffer(gpu, &[0.0; 4], wgpu::BufferUsages::UNIFORM);
    let operands = Operands {
        input: RowsView { buffer: &floats, offset: 0, stride: 32 },
        output: RowsView { buffer: &out, offset: 0, stride: 8 },
        batch: &batch,
    };
    let plain = |weight| Matrix { weight, bias: None };
    let bias = Matrix { weight: &weight, bias: Some(&batch) };
    let error = Linear::new(gpu, kernels, "short", bias, operands).unwrap_err();
    assert!(error.to_string().contains("8 values"), "{error}");
    let both = [plain(&weight), plain(&other)];
    let error = Linear::gated(gpu, kernels, "two", Activation::Silu, both, operands).unwrap_err();
    assert!(error.to_string().contains("9 x 32"), "{error}");
}

/// Where there are matrix units, half precision loses no more than roundings of 2^-11 do, and a row still does
/// not depend on its neighbours; elsewhere asking for them is an error.
#[test]
fn matrix_units_are_used_where_there_are_any() {
    let (gpu, _, _) = setup();
    let tilings = [(32, 64), (64, 64), (128, 128)].map(|(sums, rows)| Tiling::Cooperative { sums, rows });
    if !cooperative(&gpu.info) {
        let error = LinearKernels::new(gpu, &tilings).unwrap_err().to_string();
        assert!(error.contains("matrix"), "{error}");
        return;
    }
    let mut random = Random(11);
    let (outputs, columns, capacity) = (150, 1024, 140);
    let input = random.floats(capacity * columns);
    for format in [Format::Q4_K, Format::Q6_K, Format::Q8_0, Format::F16] {
        let values = random.floats(outputs * columns);
        let weight = Weight::of(format, outputs, columns, |i| values[i]);
        let values = weight.values(true);
        let mut whole: Option<Vec<f32>> = None;
        for tiling in tilings {
            let kernels = LinearKernels::new(gpu, &[tiling]).unwrap();
            let run = Run::plain(gpu, &kernels, &weight, None, &input, capacity);
            let all = run.rows(capacity);
            for rows in [1, 65] {
                assert_same("fewer rows", &run.rows(rows), &all[..rows * outputs]);
            }
            for (i, got) in all.iter().enumerate() {
                let (row, output) = (i / outputs, i % outputs);
                let products = input[row * columns..][..columns]
                    .iter()
                    .zip(&values[output * columns..][..columns])
                    .map(|(x, w)| f64::from(*x) * f64::from(*w));
                let (truth, size) = products.fold((0.0, 0.0), |(t, s), p| (t + p, s + p.abs()));
                let error = (f64::from(*got) - truth).abs() / size;
                assert!(error < 2.0 * 2f64.powi(-11), "{format} {tiling:?}: {got} is not {truth}");
            }
            assert_same("another tile", &all, whole.get_or_insert_with(|| all.clone()));
        }
    }
}

/// Parses and validates a kernel and writes it as SPIR-V; returns what the other writers need.
fn translate_for_vulkan(source: &str) -> (naga::Module, naga::valid::ModuleInfo) {
    let module = naga::front::wgsl::parse_str(source)
        .unwrap_or_else(|error| panic!("{}\n{source}", error.emit_to_string(source)));
    let flags = naga::valid::ValidationFlags::all();
    let info = naga::valid::Validator::new(flags, naga::valid::Capabilities::all())
        .validate(&module)
        .unwrap_or_else(|error| panic!("{}\n{source}", error.emit_to_string(source)));
    naga::back::spv::write_vec(&module, &info, &naga::back::spv::Options::default(), None).unwrap();
    (module, info)
}

fn translate(source: &str) {
    let (module, info) = translate_for_vulkan(source);
    let pipeline = naga::back::msl::PipelineOptions::default();
    let options =
        naga::back::msl::Options { lang_version: (2, 3), fake_missing_bindings: true, ..Default::default() };
    naga::back::msl::write_string(&module, &info, &options, &pipeline).unwrap();
    let options = naga::back::hlsl::Options { fake_missing_bindings: true, ..Default::default() };
    let pipeline = naga::back::hlsl::PipelineOptions::default();
    let mut text = String::new();
    naga::back::hlsl::Writer::new(&mut text, &options, &pipeline).write(&module, &info, None).unwrap();
}

#[test]
fn every_kernel_is_translated_for_vulkan_metal_and_dx12() {
    let mut layouts: Vec<Layout> = Vec::new();
    for format in Format::all() {
        let (layout, _) = Layout::of(format);
        if !layouts.contains(&layout) {
            layouts.push(layout);
        }
    }
    for layout in &layouts {
        let specs = |second: Layout| {
            let plain = LinearSpec { first: (*layout, false), second: None, aligned: true };
            let with = |bias, combination| Some(((second, bias), combination));
            [
                plain,
                LinearSpec { first: (*layout, true), aligned: false, ..plain },
                LinearSpec { second: with(false, Combination::Gated(Activation::Silu)), ..plain },
                LinearSpec { second: with(true, Combination::Gated(Activation::Gelu)), ..plain },
                LinearSpec { second: with(true, Combination::Joined), ..plain },
            ]
        };
        for spec in specs(layouts[3]) {
            Tiling::ALL.iter().for_each(|tiling| translate(&source(spec, *tiling)));
            // Matrix units are used through Vulkan only.
            for (sums, rows) in [(32, 64), (64, 64), (128, 128)] {
                translate_for_vulkan(&source(spec, Tiling::Cooperative { sums, rows }));
            }
        }
        translate(&source(specs(layouts[3])[0], Tiling::Few { rows: 1, outputs: 2 }));
    }
}
