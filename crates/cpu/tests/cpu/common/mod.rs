//! Shared by the tests: what all executors' tests share, and what is needed to call kernels alone.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::sync::Arc;

use gleed_cpu::kernels::Kernels;
use gleed_cpu::kernels::blocked::{BLOCK_ROWS, block_lines, chunks, fill_block};
use gleed_cpu::kernels::quantize::Quantized;
use gleed_cpu::kernels::tile::Line;
use gleed_cpu::{Cpu, Isa, Options};
use gleed_gguf::Gguf;
use gleed_model::arithmetic::quantize;
use gleed_model::program::Program;

#[path = "../../../../model/tests/support/mod.rs"]
mod support;

pub use support::*;

/// Calls a test with the kernels of every instruction set that this machine has.
pub fn each_isa(test: impl Fn(Kernels, &mut Random)) {
    for isa in Isa::available() {
        let kernels = Kernels::new(isa).unwrap();
        assert_eq!(kernels.isa(), isa);
        test(kernels, &mut Random::new(7 + isa as u64));
    }
}

/// One row quantised in such blocks, by the definition: integers and scales.
pub fn plain_quantized(x: &[f32], block: usize) -> (Vec<i8>, Vec<f32>) {
    let mut q = vec![0; x.len()];
    let blocks = x.chunks(block).zip(q.chunks_mut(block));
    let scales = blocks.map(|(x, q)| quantize(x, q)).collect();
    (q, scales)
}

/// What is no number, and numbers that no sum survives.
pub const NO_NUMBERS: [f32; 4] = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY];

/// Puts one of them into every third row, from the second on.
pub fn without_numbers(random: &mut Random, x: &mut [f32], columns: usize) {
    for row in x.chunks_mut(columns).skip(1).step_by(3) {
        row[random.below(columns)] = NO_NUMBERS[random.below(4)];
    }
}

/// An executor for a tiny model.
pub fn cpu(file: &Arc<Gguf>, program: &Program, options: Options) -> Cpu {
    Cpu::new(Arc::clone(file), program.clone(), options).unwrap()
}

/// Quantised rows in blocks of sixteen, as a tile unit reads them.
pub fn in_blocks(kernels: Kernels, x: Quantized) -> Vec<Line> {
    let (size, row_blocks) = (block_lines(x.columns, x.block), x.rows.div_ceil(BLOCK_ROWS));
    // What was there before must not matter.
    let mut lines = vec![Line([-1; 16]); row_blocks * size * chunks(x.columns, x.block)];
    for (i, lines) in lines.chunks_mut(size).enumerate() {
        let (chunk, b) = (i / row_blocks, i % row_blocks);
        let rest = x.from_row(b * BLOCK_ROWS);
        fill_block(kernels, Quantized { rows: rest.rows.min(BLOCK_ROWS), ..rest }, chunk, lines);
    }
    lines
}
