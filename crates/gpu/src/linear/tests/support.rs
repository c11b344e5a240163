//! Matrices on both sides, a layer with its buffers, and the slow definition.

use std::sync::OnceLock;

use crate::Gpu;
use crate::launch::Buffer;
use crate::linear::{
    HalfRows, Input, Layout, Linear, LinearKernels, Matrix, Operands, PackedWeight, Packing, RowsView, Tiling,
};
use crate::testing::{self, buffer, fill, kernels, number, read, write};
use gleed_gguf::{Format, Unpacked};
use gleed_model::arithmetic::{HALF_GROUP, HalfRow, dot, half_row};
use half::f16;

/// Written before a step everywhere, to see what was not written by it.
pub const UNTOUCHED: f32 = 12345.5;

/// Tilings enough for a format: one row, several rows, and a tile that rows fill and one that they do not.
pub const SOME: [Tiling; 4] =
    [Tiling::ALL[0], Tiling::ALL[3], Tiling::Many { rows: 16 }, Tiling::Many { rows: 64 }];

/// The device, kernels of linear layers of this thread, and whether the device's multiply-add rounds once.
pub fn setup() -> &'static (Gpu, LinearKernels, bool) {
    thread_local! {
        static SETUP: &'static (Gpu, LinearKernels, bool) = {
            static FUSED: OnceLock<bool> = OnceLock::new();
            let linear = LinearKernels::new(&mut kernels(), &Tiling::ALL, &Tiling::INTEGERS);
            let fused = *FUSED.get_or_init(|| is_fused(&linear));
            Box::leak(Box::new((testing::gpu().clone(), linear, fused)))
        };
    }
    SETUP.with(|setup| *setup)
}

/// Whether the device's multiply-add rounds once: the product of these is 1 + 2^-11 + 2^-24, and the last
/// term is lost when it is rounded before the sum.
pub fn is_fused(linear: &LinearKernels) -> bool {
    let weight = Weight::of(Format::F32, 1, 2, |i| [1.0, 1.0 + 2f32.powi(-12)][i]);
    let input = [-(1.0 + 2f32.powi(-11)), 1.0 + 2f32.powi(-12)];
    let run = Run::plain(linear, &weight, None, &input, 1);
    match run.rows(1)[0] {
        0.0 => false,
        value => {
            assert_eq!(value, 2f32.powi(-24));
            true
        }
    }
}

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.unit()).collect()
    }
}

/// A matrix on both sides.
pub struct Weight {
    pub format: Format,
    pub rows: usize,
    pub columns: usize,
    pub file: Vec<u8>,
}

impl Weight {
    /// Random blocks whose values are neither too small nor too large for sums of them to be normal numbers.
    pub fn random(random: &mut Random, format: Format, rows: usize, columns: usize) -> Weight {
        let mut file = Vec::new();
        let mut values = vec![0.0; format.block_len()];
        for _ in 0..rows * columns / format.block_len() {
            let bytes = loop {
                let bytes: Vec<u8> = (0..format.block_bytes()).map(|_| random.next() as u8).collect();
                format.decode(&bytes, &mut values);
                let largest = values.iter().fold(0.0f32, |most, v| most.max(v.abs()));
                // Whole numbers and F64 are as large as they are.
                let moderate =
                    format.block_len() == 1 && Layout::of(format).1 || (1e-6..1e6).contains(&largest);
                if values.iter().all(|v| v.is_finite()) && moderate {
                    break bytes;
                }
            };
            file.extend(bytes);
        }
        Weight { format, rows, columns, file }
    }

    /// Values of a format that can be encoded.
    pub fn of(format: Format, rows: usize, columns: usize, value: impl Fn(usize) -> f32) -> Weight {
        let values: Vec<f32> = (0..rows * columns).map(value).collect();
        let mut file = vec![0; rows * format.row_bytes(columns).unwrap()];
        let size = file.len() / rows.max(1);
        for (values, bytes) in values.chunks(columns).zip(file.chunks_mut(size.max(1))) {
            format.encode(values, bytes).unwrap();
        }
        Weight { format, rows, columns, file }
    }

    pub fn packing(&self) -> Packing {
        Packing::new("w", self.format, self.rows, self.columns).unwrap()
    }

    pub fn upload(&self) -> PackedWeight {
        self.upload_as(self.packing(), u64::MAX, &mut |_| {}).unwrap()
    }

    /// The same in pieces of at most `largest` bytes.
    pub fn upload_as(
        &self,
        packing: Packing,
        largest: u64,
        progress: &mut dyn FnMut(u64),
    ) -> crate::Result<PackedWeight> {
        let packed = PackedWeight::in_pieces(&mut kernels(), "w", packing, largest)?;
        fill(&packed, &[&self.file], progress);
        Ok(packed)
    }

    /// The values: as the format decodes them, but with one rounding for scale and min where multiply-adds
    /// have one.
    pub fn values(&self, fused: bool) -> Vec<f32> {
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
    pub fn multiply(&self, fused: bool, bias: Option<&[f32]>, input: &[f32]) -> Vec<f32> {
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

/// A layer with its buffers: input rows 8 floats into a buffer and a few apart, output likewise.
pub struct Run {
    pub linear: Linear,
    batch: Buffer,
    output: Buffer,
    outputs: usize,
    capacity: usize,
}

pub const OFFSET: usize = 8;
pub const GAP: usize = 5;

impl Run {
    pub fn new(
        [columns, outputs, capacity]: [usize; 3],
        input: &[f32],
        make: impl FnOnce(Operands) -> crate::Result<Linear>,
    ) -> Run {
        // Rows of odd widths lie as close as they can, others where they can be read four floats at a time.
        let stride = if columns.is_multiple_of(4) { columns + 4 } else { columns + 1 };
        // What is between the rows is not a number, so that reading it would be seen.
        let mut spread = vec![f32::NAN; OFFSET + capacity * stride];
        for (r, row) in input.chunks(columns).enumerate() {
            spread[OFFSET + r * stride..][..columns].copy_from_slice(row);
        }
        let input = buffer(&spread);
        let untouched = vec![UNTOUCHED; OFFSET + capacity * (outputs + GAP)];
        let output = buffer(&untouched);
        let batch = number(0);
        let offset = OFFSET as u32;
        let linear = make(Operands {
            input: Input::Floats(RowsView { buffer: input, offset, stride: stride as u32 }),
            output: RowsView { buffer: output, offset, stride: (outputs + GAP) as u32 },
            rounded: None,
            batch,
        })
        .unwrap();
        Run { linear, batch, output, outputs, capacity }
    }

    pub fn plain(
        linear: &LinearKernels,
        weight: &Weight,
        bias: Option<&[f32]>,
        input: &[f32],
        capacity: usize,
    ) -> Run {
        let packed = weight.upload();
        let bias = bias.map(buffer);
        Run::new([weight.columns, weight.rows, capacity], input, |operands| {
            Linear::new(&mut kernels(), linear, "test", Matrix { weight: &packed, bias }, operands)
        })
    }

    /// The results of the first rows; all else must be untouched.
    pub fn rows(&self, rows: usize) -> Vec<f32> {
        let untouched = vec![UNTOUCHED; OFFSET + self.capacity * (self.outputs + GAP)];
        write(self.output, &untouched);
        write(self.batch, &[rows as u32, 0, 0, 0]);
        testing::run(self.linear.runs(rows as u32));
        let all: Vec<f32> = read(self.output);
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
pub fn assert_same(what: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got.to_bits(), expected.to_bits(), "{what}: value {i} is {got}, not {expected}");
    }
}

/// Rows as halves, read back.
pub struct Written {
    words: Vec<f32>,
    stride: usize,
    factors: usize,
    group_factors: usize,
    squares: usize,
}

impl Written {
    pub fn read(halves: HalfRows, columns: usize) -> Written {
        Written {
            words: read(halves.buffer()),
            stride: columns.div_ceil(128) * 64,
            factors: 4 * halves.factors(),
            group_factors: 4 * halves.group_factors(),
            squares: 4 * halves.squares(),
        }
    }

    /// The factor of a row.
    pub fn factor(&self, row: usize) -> f32 {
        self.words[self.factors + row]
    }

    /// Those of the groups of a single row.
    pub fn group_factors(&self, columns: usize) -> &[f32] {
        &self.words[self.group_factors..][..columns.div_ceil(HALF_GROUP)]
    }

    /// A half of a row.
    pub fn half(&self, row: usize, column: usize) -> f16 {
        let word = self.words[row * self.stride + column / 2].to_bits();
        f16::from_bits((word >> (column % 2 * 16)) as u16)
    }

    /// That the groups of a single row are these, each by itself.
    pub fn assert_groups(&self, what: &str, values: &[f32]) {
        for (g, group) in values.chunks(HALF_GROUP).enumerate() {
            let HalfRow { values, factor } = half_row(group);
            assert_eq!(self.words[self.group_factors + g], factor, "{what}: the factor of group {g}");
            for (i, half) in values.into_iter().enumerate() {
                assert_eq!(self.half(0, g * HALF_GROUP + i), half, "{what}: group {g}, column {i}");
            }
        }
    }

    /// The sums of squares of the groups of a single row.
    pub fn squares(&self, columns: usize) -> &[f32] {
        &self.words[self.squares..][..columns.div_ceil(HALF_GROUP)]
    }

    /// That the sums of squares of a single row's groups are those of these values, within roundings.
    pub fn assert_squares(&self, what: &str, values: &[f32]) {
        for (g, group) in values.chunks(HALF_GROUP).enumerate() {
            let (sum, truth) = (self.squares(values.len())[g], dot(group, group));
            assert!((sum - truth).abs() <= 2e-6 * truth, "{what}: {sum}, not {truth} in group {g}");
        }
    }
}
