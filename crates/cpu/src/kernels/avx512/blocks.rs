//! Many rows on AVX-512: two panels and six rows at a time.

use std::arch::asm;
use std::arch::x86_64::*;

use super::Avx512;
use crate::kernels::blocked::{BLOCK_ROWS, MultiplyBlocks};
use crate::kernels::tile::TILE;
use crate::kernels::vnni::{self, Part, Vnni};

/// Runs instructions that an `Avx512` value proves to exist.
macro_rules! proven {
    ($($body:tt)*) => {{
        // SAFETY: a value of `Avx512` exists only where `detect` found every feature used here.
        unsafe { $($body)* }
    }};
}

/// Rows below which a single block is better left to single rows, and the same for a block after others, for which the
/// weights are unpacked already. Measured: a block of its own takes as long as its sixteen rows, others as ten.
pub const FEWEST_ROWS: [usize; 2] = [16, 10];

/// Rows that are multiplied together, and what is then left of a block: with two panels twelve sums and twelve totals stay
/// in registers, every load of weights serves six products and every load of activations two.
const ROWS: usize = 6;
const LAST_ROWS: usize = BLOCK_ROWS % ROWS;

impl Vnni for Avx512 {
    type Lanes = Avx512;

    const PANELS: usize = 2;

    #[inline(always)]
    fn lanes(self) -> Avx512 {
        self
    }

    fn all_panels<const GROUPS: usize, const MINS: bool>(self, job: MultiplyBlocks) {
        #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
        fn all<const GROUPS: usize, const MINS: bool>(unit: Avx512, job: MultiplyBlocks) {
            vnni::all_panels::<Avx512, GROUPS, MINS>(unit, job);
        }
        proven!(all::<GROUPS, MINS>(self, job))
    }

    #[inline(always)]
    fn each_part<const GROUPS: usize, const MINS: bool, const NARROW: bool>(
        block: Part<Avx512>,
        out: &mut [[f32; TILE]],
        stride: usize,
    ) {
        for row in (0..BLOCK_ROWS).step_by(ROWS) {
            let part = block.with_row(row);
            match (block.panels(), row + ROWS <= BLOCK_ROWS) {
                (2, true) => part.multiply::<2, ROWS, GROUPS, MINS, NARROW>(out, stride),
                (2, false) => part.multiply::<2, LAST_ROWS, GROUPS, MINS, NARROW>(out, stride),
                (_, true) => part.multiply::<1, ROWS, GROUPS, MINS, NARROW>(out, stride),
                (_, false) => part.multiply::<1, LAST_ROWS, GROUPS, MINS, NARROW>(out, stride),
            }
        }
    }

    #[inline(always)]
    fn dot4_raised(self, acc: __m512i, activations: __m512i, weights: __m512i) -> __m512i {
        proven!(_mm512_dpbusd_epi32(acc, activations, weights))
    }

    #[inline(always)]
    fn dot2(self, acc: __m512i, a: __m512i, b: __m512i) -> __m512i {
        proven!(dot2(acc, a, b))
    }

    #[inline(always)]
    fn larger_magnitudes(self, largest: __m512i, bytes: __m512i) -> __m512i {
        proven!(_mm512_max_epu8(largest, _mm512_abs_epi8(bytes)))
    }
}

/// Adds the products of halves. The compiler makes two instructions of its own function, where they seem to be done
/// sooner, and there are not too few products under way here but too many instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dot2(mut acc: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: one instruction, which this function is compiled for, on registers.
    unsafe {
        asm!("vpdpwssd {}, {}, {}", inout(zmm_reg) acc, in(zmm_reg) a, in(zmm_reg) b, options(pure, nomem, nostack))
    };
    acc
}
