//! Rows of block-quantised weights to integers, factors, scales and mins, compiled for the vector unit.

use gleed_gguf::{Format, Unpacked};

use super::simd::{Kernel, Simd};

/// Unpacks whole blocks, as `Format::unpack`.
#[derive(Debug)]
pub struct Unpack<'a> {
    /// How they are stored; must have groups.
    pub format: Format,
    /// The blocks.
    pub bytes: &'a [u8],
    /// Where their parts go.
    pub out: Unpacked<'a>,
}

impl Kernel for Unpack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        self.format.unpack(self.bytes, self.out);
    }
}

/// Asks for bytes ahead of their use, so that memory works while the vector unit does.
#[derive(Debug)]
pub struct Prefetch<'a> {
    /// What will be used next.
    pub bytes: &'a [u8],
}

impl Kernel for Prefetch<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        const LINE: usize = 64;
        for byte in self.bytes.iter().step_by(LINE) {
            s.prefetch(byte);
        }
    }
}
