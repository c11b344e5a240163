//! Linear layers in `q8` arithmetic on AMX: the tile unit multiplies sixteen rows of activations with
//! sixteen rows of weights into exact integers; the vector unit scales and adds them block by block, as
//! `arithmetic::dot_q8` has it.
//!
//! Both units work at once, because a step's products are stored one step later and scaled two steps
//! later, a few instructions of each in turn: a product takes dozens of cycles, a stored tile cannot be
//! loaded before it has reached the cache, and neither may wait for the other.

mod blocks;
mod detect;
mod split;
mod super_blocks;
mod tiles;

use std::arch::x86_64::*;

use gleed_model::arithmetic::{BLOCK, SUPER_BLOCK};

use self::blocks::blocks;
pub use self::detect::Amx;
use self::super_blocks::super_blocks;
use super::avx512::Avx512;
use super::blocked::{BLOCK_ROWS, MultiplyBlocks};
use super::tile::{Line, TILE};

/// Rows below which a single block is better left to the vector unit, and the same for a block after others: the
/// weights are unpacked already.
pub const FEWEST_ROWS: [usize; 2] = [12, 6];

/// Columns of a super-block that are multiplied at once: what a row of a tile holds.
const PASS: usize = 64;

/// Passes over a super-block.
const PASSES: usize = SUPER_BLOCK / PASS;

/// The weights of a pass: a line for each four columns.
type Pass = [Line; PASS / 4];

/// The weights of a super-block: for each pass the low parts, then the high parts.
type Parts = [[Pass; 2]; PASSES];

/// Lines of two super-blocks of two panels, in two parts.
const PARTS_LINES: usize = 2 * 2 * size_of::<Parts>() / size_of::<Line>();

/// Lines of scratch: these, and the products of two steps, two each in two parts.
pub const SCRATCH_LINES: usize = PARTS_LINES + 2 * 2 * 2 * size_of::<Products>() / size_of::<Line>();

/// Results of a block of rows.
type Results = [[f32; TILE]; BLOCK_ROWS];

/// The results of all panels.
struct Outs<'a> {
    blocks: &'a mut [Results],
    /// Blocks from panel to panel.
    stride: usize,
}

impl Outs<'_> {
    /// Those of a panel and a block of rows.
    #[inline(always)]
    fn of(&mut self, panel: usize, rows: usize) -> &mut Results {
        &mut self.blocks[panel * self.stride + rows]
    }
}

/// The integers of a block of rows: a line per row.
type Products = [Line; BLOCK_ROWS];

/// Multiplies panels with blocks of activations, given proofs that the instructions are there. The scratch is room for
/// [`SCRATCH_LINES`].
pub fn multiply(_: Amx, unit: Avx512, job: MultiplyBlocks) {
    let Some(groups) = job.check() else { return };
    let MultiplyBlocks { panels, x, next, out, stride, scratch } = job;
    let mut out = Outs { blocks: out.as_chunks_mut().0, stride: stride / BLOCK_ROWS };
    let (parts, products) = scratch.split_at_mut(PARTS_LINES);
    let parts = parts.as_chunks_mut().0.as_chunks_mut().0.as_chunks_mut().0.first_chunk_mut();
    let parts = parts.expect("room for the super-blocks");
    let products = products.as_chunks_mut().0.as_chunks_mut().0.as_chunks_mut().0.first_chunk_mut();
    let products: &mut [[[Products; 2]; 2]; 2] = products.expect("room for two steps");
    // SAFETY: the proofs say that AVX-512 (as `Avx512` lists it) and AMX for bytes are there.
    unsafe {
        let [[[first, second], _], _] = products;
        match (groups.block, groups.len, groups.mins) {
            (BLOCK, _, false) => blocks::<false>(panels, x, next, &mut out, [first, second]),
            (BLOCK, _, true) => blocks::<true>(panels, x, next, &mut out, [first, second]),
            (_, _, false) => super_blocks::<0>(unit, panels, x, next, &mut out, parts, products),
            (_, 32, true) => super_blocks::<1>(unit, panels, x, next, &mut out, parts, products),
            (_, _, true) => super_blocks::<2>(unit, panels, x, next, &mut out, parts, products),
        }
    }
}

/// Asks for lines ahead of their use.
#[inline]
#[target_feature(enable = "avx512f")]
fn fetch(lines: &[Line]) {
    for line in lines {
        _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(line).cast());
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(x: &[f32; TILE]) -> __m512 {
    // SAFETY: sixteen values.
    unsafe { _mm512_loadu_ps(x.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_i32(x: &[i32; TILE]) -> __m512i {
    // SAFETY: sixteen values.
    unsafe { _mm512_loadu_si512(x.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn save(x: __m512, out: &mut [f32; TILE]) {
    // SAFETY: sixteen values.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), x) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn save_i32(x: __m512i, out: &mut [i32; TILE]) {
    // SAFETY: sixteen values.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), x) }
}
