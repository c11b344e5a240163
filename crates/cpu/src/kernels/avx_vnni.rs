//! Many rows on AVX-VNNI, which is AVX2 with dot products of four bytes (Intel's processors for people since Alder Lake,
//! AMD's since Zen 5). All else is AVX2's.

use std::arch::x86_64::*;
use std::hint::black_box;

use super::avx2::Avx2;
use super::blocked::{BLOCK_ROWS, MultiplyBlocks};
use super::tile::TILE;
use super::vnni::{self, Part, Vnni};

/// Proof that this machine has AVX-VNNI besides what AVX2's kernels need.
#[derive(Debug, Clone, Copy)]
pub struct AvxVnni(Avx2);

/// Runs instructions that an `AvxVnni` value proves to exist.
macro_rules! proven {
    ($($body:tt)*) => {{
        // SAFETY: a value of `AvxVnni` exists only where `detect` found every feature used here.
        unsafe { $($body)* }
    }};
}

impl AvxVnni {
    /// The proof, where the machine has it.
    pub fn detect() -> Option<AvxVnni> {
        Avx2::detect().filter(|_| is_x86_feature_detected!("avxvnni")).map(AvxVnni)
    }

    /// Nothing but dot products, to find out how many the machine can do.
    pub fn multiply_only(self, rounds: u64) {
        #[target_feature(enable = "avx2,avxvnni")]
        fn all(rounds: u64) {
            let (x, weights) = (_mm256_set1_epi32(black_box(0x0101_0101)), _mm256_set1_epi32(black_box(1)));
            let mut sums = [_mm256_setzero_si256(); SUMS];
            for _ in 0..rounds {
                for sum in &mut sums {
                    *sum = _mm256_dpbusd_avx_epi32(*sum, x, weights);
                }
            }
            black_box(sums);
        }
        proven!(all(rounds))
    }
}

/// Rows below which a single block is better left to single rows, and the same for a block after others, for which the
/// weights are unpacked already. Measured: a block of its own takes as long as six to eight rows of AVX2's, others as six.
pub const FEWEST_ROWS: [usize; 2] = [8, 6];

/// Multiply-adds of a round of [`AvxVnni::multiply_only`].
pub const DOTS_ROUND: usize = SUMS * 32;

/// Sums that are independent, more than two dot products a cycle of a latency of five need.
const SUMS: usize = 12;

/// Rows that are multiplied together, and what is then left of a block: with both halves of a panel twelve sums stay in
/// registers, as many as hide the time that a product takes; their totals wait in the innermost cache.
const ROWS: usize = 6;
const LAST_ROWS: usize = BLOCK_ROWS % ROWS;

impl Vnni for AvxVnni {
    type Lanes = Avx2;

    const PANELS: usize = 1;

    #[inline(always)]
    fn lanes(self) -> Avx2 {
        self.0
    }

    fn all_panels<const GROUPS: usize, const MINS: bool>(self, job: MultiplyBlocks) {
        #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
        fn all<const GROUPS: usize, const MINS: bool>(unit: AvxVnni, job: MultiplyBlocks) {
            vnni::all_panels::<AvxVnni, GROUPS, MINS>(unit, job);
        }
        proven!(all::<GROUPS, MINS>(self, job))
    }

    #[inline(always)]
    fn each_part<const GROUPS: usize, const MINS: bool, const NARROW: bool>(
        block: Part<AvxVnni>,
        out: &mut [[f32; TILE]],
        stride: usize,
    ) {
        for row in (0..BLOCK_ROWS).step_by(ROWS) {
            let part = block.with_row(row);
            match row + ROWS <= BLOCK_ROWS {
                true => part.multiply::<1, ROWS, GROUPS, MINS, NARROW>(out, stride),
                false => part.multiply::<1, LAST_ROWS, GROUPS, MINS, NARROW>(out, stride),
            }
        }
    }

    #[inline(always)]
    fn dot4_raised(
        self,
        acc: [__m256i; 2],
        activations: [__m256i; 2],
        weights: [__m256i; 2],
    ) -> [__m256i; 2] {
        proven!([
            _mm256_dpbusd_avx_epi32(acc[0], activations[0], weights[0]),
            _mm256_dpbusd_avx_epi32(acc[1], activations[1], weights[1]),
        ])
    }

    #[inline(always)]
    fn dot2(self, acc: [__m256i; 2], a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        proven!([_mm256_dpwssd_avx_epi32(acc[0], a[0], b[0]), _mm256_dpwssd_avx_epi32(acc[1], a[1], b[1])])
    }

    #[inline(always)]
    fn larger_magnitudes(self, largest: [__m256i; 2], bytes: [__m256i; 2]) -> [__m256i; 2] {
        proven!([
            _mm256_max_epu8(largest[0], _mm256_abs_epi8(bytes[0])),
            _mm256_max_epu8(largest[1], _mm256_abs_epi8(bytes[1])),
        ])
    }
}
