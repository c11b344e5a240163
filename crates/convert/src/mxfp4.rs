//! Experts that are in blocks of four bits already, as GPT-OSS is published: codes in one tensor, the exponents of their
//! blocks in another. GGUF has the same blocks with the codes in another order, so that nothing is lost.

use gleed_gguf::{Format, Make, TensorSpec};

use crate::recipe::Source;
use crate::safetensors::{Tensor, Type};

/// Values in a block.
const BLOCK: usize = 32;
/// Bytes of the codes of a block.
const CODES: usize = BLOCK / 2;

/// A tensor of blocks.
pub struct Mxfp4 {
    codes: Source,
    exponents: Source,
    /// Blocks in a row.
    blocks: usize,
    /// Rows of an expert in the result, and of how many in the source every which one is taken from where on.
    rows: usize,
    step: usize,
    first: usize,
}

impl Mxfp4 {
    /// Every `step`-th row from `first` on of each expert's matrix.
    pub fn new(
        name: &str,
        (codes, exponents): (&Tensor, &Tensor),
        sources: (Source, Source),
        (first, step): (usize, usize),
    ) -> Result<(TensorSpec, Mxfp4), String> {
        let bytes = Type::Other("U8".to_string());
        let [experts, rows, blocks, CODES] = codes.shape[..] else {
            return Err(format!("tensor {name}: blocks of shape {:?} are not known", codes.shape));
        };
        if exponents.shape[..] != [experts, rows, blocks] || codes.dtype != bytes || exponents.dtype != bytes
        {
            return Err(format!("tensor {name}: its blocks and their scales do not fit together"));
        }
        if !rows.is_multiple_of(step) || experts * rows * blocks == 0 {
            return Err(format!("tensor {name}: {rows} rows cannot be shared out to {step} matrices"));
        }
        let rows = rows / step;
        let spec = TensorSpec {
            name: name.to_string(),
            shape: vec![blocks * BLOCK, rows, experts],
            format: Format::MXFP4,
        };
        Ok((spec, Mxfp4 { codes: sources.0, exponents: sources.1, blocks, rows, step, first }))
    }
}

impl Make for Mxfp4 {
    fn release(&self) {
        self.codes.release();
        self.exponents.release();
    }

    fn make(&self, start: usize, out: &mut [u8]) {
        let size = Format::MXFP4.block_bytes();
        for (block, out) in (start / size..).zip(out.chunks_exact_mut(size)) {
            let (row, within) = (block / self.blocks, block % self.blocks);
            let (expert, row) = (row / self.rows, row % self.rows);
            let row = (expert * self.rows + row) * self.step + self.first;
            let at = row * self.blocks + within;
            let codes = &self.codes.bytes[self.codes.offset + at * CODES..][..CODES];
            out[0] = self.exponents.bytes[self.exponents.offset + at];
            // Neighbours share a byte in the source, values half a block apart in the result.
            let code = |value: usize| codes[value / 2] >> (value % 2 * 4) & 15;
            for (value, out) in out[1..].iter_mut().enumerate() {
                *out = code(value) | code(value + CODES) << 4;
            }
        }
    }
}
