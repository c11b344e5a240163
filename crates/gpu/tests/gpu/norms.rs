//! Norms between linear layers of integers and of halves: the layers around a norm do its work for few rows, and the bits are
//! those of a norm by itself, whatever the shape and the number of rows.

use std::sync::Arc;

use crate::common::{Case, batch, bits, executor, gpu};
use gleed_gguf::{Format, Gguf};
use gleed_gpu::linear::half_units;
use gleed_gpu::{Gpu, GpuExecutor, Options};
use gleed_model::compare::ops_alone;
use gleed_model::executor::{Buffers, Observer};
use gleed_model::program::{Activation, Norm, Op, Program, Projection};
use gleed_model::{Arithmetic, Executor, KvType, Reference, reference};

const TOKENS: usize = 300;
const OPTIONS: Options = Options {
    arithmetic: Arithmetic::Q8,
    kv: KvType::F16,
    max_rows: 130,
    pages: 8,
    window_sequences: None,
    slots: 6,
    logits_rows: None,
};

/// What one op may be off, as a share of the largest true value.
const TOLERANCE: f32 = 3e-6;

/// The widths of a model without attention, and the formats of its matrices in turn.
#[derive(Debug, Clone, Copy)]
struct Shape<'a> {
    width: usize,
    /// Columns of the first projection.
    joined: usize,
    hidden: usize,
    formats: &'a [Format],
    biases: bool,
}

struct Builder<'a> {
    shape: Shape<'a>,
    case: Case,
    matrices: usize,
}

impl Builder<'_> {
    fn part(&mut self, rows: usize, columns: usize) -> Projection {
        let format = self.shape.formats[self.matrices % self.shape.formats.len()];
        self.matrices += 1;
        let weight = self.case.weight(rows, columns, format);
        Projection { weight, bias: self.shape.biases.then(|| self.case.floats(1, rows)) }
    }

    fn norm(&mut self) -> Norm {
        Norm { weight: self.case.floats(1, self.shape.width), bias: None, epsilon: 1e-5 }
    }
}

/// Two projections after each of three norms, the last of which two layers read, and a head.
fn model(seed: u64, shape: Shape) -> (Arc<Gguf>, Program) {
    let Shape { width, joined, hidden, .. } = shape;
    let mut builder = Builder { shape, case: Case::empty(seed, TOKENS, 512), matrices: 0 };
    let b = &mut builder;
    let (x, y, normed) =
        (b.case.buffer("x", width), b.case.buffer("y", width), b.case.buffer("normed", width));
    let (wide, gated) = (b.case.buffer("wide", joined + 37), b.case.buffer("gated", hidden));
    let table = b.case.floats(TOKENS, width);
    b.case.push(Op::Embed { table, out: x });
    let norm = b.norm();
    b.case.push(Op::Norm { norm, heads: 1, input: x, out: normed });
    let parts = vec![b.part(joined, width), b.part(37, width)];
    b.case.push(Op::Linear { parts, input: normed, out: wide });
    let parts = vec![b.part(width, joined)];
    b.case.push(Op::Linear { parts, input: wide.part(0, joined), out: y });
    let norm = b.norm();
    b.case.push(Op::AddNorm { x, y, norm, out: normed });
    let (gate, up) = (b.part(hidden, width), b.part(hidden, width));
    b.case.push(Op::GatedLinear { activation: Activation::Silu, gate, up, input: normed, out: gated });
    let parts = vec![b.part(width, hidden)];
    b.case.push(Op::Linear { parts, input: gated, out: y });
    let norm = b.norm();
    b.case.push(Op::AddNorm { x, y, norm, out: normed });
    for (offset, rows) in [(0, joined), (joined, 37)] {
        let parts = vec![b.part(rows, width)];
        b.case.push(Op::Linear { parts, input: normed, out: wide.part(offset, rows) });
    }
    let logits = b.case.buffer("logits", TOKENS);
    let weight = b.case.floats(TOKENS, joined + 37);
    b.case.push(Op::Linear { parts: vec![Projection { weight, bias: None }], input: wide, out: logits });
    builder.case.with_logits(logits)
}

/// Looks at every op, so that each writes all that it stands for.
struct Looks;

impl Observer for Looks {
    fn after(&mut self, _: usize, _: &dyn Buffers) {}
}

/// The logits of some rows, which are known by their tokens.
fn step(executor: &mut GpuExecutor, tokens: &[usize], observer: &mut dyn Observer) -> Vec<Vec<u32>> {
    let rows: Vec<_> = tokens.iter().enumerate().map(|(i, token)| (0, i, *token as u32, true)).collect();
    executor.step(&batch(&rows, 1, OPTIONS.pages), observer).unwrap();
    (0..tokens.len()).map(|row| bits(executor.logits(row))).collect()
}

/// One token after the other, in batches of any size, looked at or not: the bits of many rows at once. In steps
/// of few rows, `norms` norms are within layers.
fn check(gpu: &Gpu, arithmetic: Arithmetic, seed: u64, shape: Shape, norms: usize) {
    let (file, program) = model(seed, shape);
    let mut executor = executor(gpu, &file, &program, Options { arithmetic, ..OPTIONS });
    let most_rows = if arithmetic == Arithmetic::F16 { 1 } else { 4 };
    for rows in 1..=most_rows {
        assert_eq!(executor.norms_in_layers(rows), norms, "{shape:?}");
    }
    assert_eq!(executor.norms_in_layers(most_rows + 1), 0);
    let tokens: Vec<usize> = (0..OPTIONS.max_rows).map(|i| 7 * i % TOKENS).collect();
    let truth = step(&mut executor, &tokens, &mut ());
    assert_ne!(truth[0], truth[1]);
    let mut first = 0;
    for rows in [1, 2, 3, 4, 5, 8, 9, 33] {
        let (some, expected) = (&tokens[first..first + rows], &truth[first..first + rows]);
        assert!(step(&mut executor, some, &mut ()) == expected, "{rows} rows of {shape:?}");
        assert!(step(&mut executor, some, &mut Looks) == expected, "{rows} rows of {shape:?}, looked at");
        first += rows;
    }
}

#[test]
fn norms_within_layers_are_the_same_bits_as_norms_alone() {
    let gpu = gpu();
    let formats = [Format::Q4_0, Format::Q8_0, Format::Q5_0, Format::Q4_1];
    let shapes = [(32, 32, 32), (96, 64, 160), (1056, 96, 64), (4096, 32, 64), (64, 32, 12288)];
    for (index, (width, joined, hidden)) in shapes.into_iter().enumerate() {
        let biases = index % 2 == 1;
        check(
            &gpu,
            Arithmetic::Q8,
            index as u64,
            Shape { width, joined, hidden, formats: &formats, biases },
            2,
        );
    }
    let formats = [Format::Q4_K, Format::Q6_K, Format::Q5_K];
    let shape = Shape { width: 512, joined: 256, hidden: 768, formats: &formats, biases: true };
    check(&gpu, Arithmetic::Q8, 20, shape, 2);
}

/// The same in halves on devices that have units for them; elsewhere kernels with emulated units are compared, one by one.
#[test]
fn norms_within_layers_in_halves_are_the_same_bits_as_norms_alone() {
    let gpu = gpu();
    if !half_units(&gpu.info) {
        return;
    }
    let formats = [Format::Q4_0, Format::F16, Format::Q5_0, Format::Q4_1];
    let shapes = [(32, 32, 32), (96, 64, 160), (1056, 96, 64), (4096, 32, 64), (64, 32, 12288)];
    for (index, (width, joined, hidden)) in shapes.into_iter().enumerate() {
        let biases = index % 2 == 1;
        let shape = Shape { width, joined, hidden, formats: &formats, biases };
        check(&gpu, Arithmetic::F16, index as u64, shape, 2);
    }
    // Not of whole groups.
    let shape = Shape { width: 100, joined: 96, hidden: 64, formats: &[Format::F16], biases: true };
    check(&gpu, Arithmetic::F16, 20, shape, 0);
}

/// Where an op reads the norm's floats, or a layer has floats, the norm runs by itself.
#[test]
fn norms_that_are_read_as_floats_are_written_as_floats() {
    let gpu = gpu();
    let shape = Shape { width: 96, joined: 64, hidden: 32, formats: &[], biases: false };
    // Matrices in turn: two of the first norm, its projection, gate and up, theirs, two of the last norm.
    let q = Format::Q8_0;
    for (formats, norms) in [
        ([q, Format::F16, q, q, q, q, q, q], 2),
        ([q, q, Format::F16, q, q, q, q, q], 1),
        ([q, q, q, q, Format::F16, q, q, q], 1),
        ([q, q, q, q, q, q, q, Format::F16], 1),
        ([q, q, q, q, q, q, Format::BF16, q], 1),
        ([Format::F32; 8], 0),
    ] {
        check(&gpu, Arithmetic::Q8, 30, Shape { formats: &formats, ..shape }, norms);
    }
}

/// A norm that is too wide for a device's workgroups, or whose layers are of floats, is another order; this one is
/// the reference's.
#[test]
fn every_op_alone_is_what_the_reference_computes() {
    let gpu = gpu();
    let formats = [Format::Q4_0, Format::Q8_0, Format::F16, Format::Q4_1, Format::Q5_0];
    for (index, (width, joined, hidden)) in [(1056, 96, 64), (4096, 32, 64)].into_iter().enumerate() {
        let shape = Shape { width, joined, hidden, formats: &formats, biases: index == 0 };
        let (file, program) = model(40 + index as u64, shape);
        let Options { kv, max_rows, pages, .. } = OPTIONS;
        let options = reference::Options {
            arithmetic: Arithmetic::F32,
            rounds_to_groups: Some(0),
            kv,
            max_rows,
            pages,
        };
        let mut truth = Reference::new(Arc::clone(&file), program.clone(), options).unwrap();
        let mut found = executor(&gpu, &file, &program, OPTIONS);
        for rows in [1, 5] {
            let rows: Vec<_> = (0..rows).map(|i| (0, i, 3 * i as u32, true)).collect();
            let batch = batch(&rows, 1, OPTIONS.pages);
            for difference in ops_alone(&mut found, &mut truth, &batch, || {}).unwrap() {
                let off = difference.difference.relative;
                assert!(off < TOLERANCE, "{off:e}: {:?}", program.nodes[difference.node]);
            }
        }
    }
}
