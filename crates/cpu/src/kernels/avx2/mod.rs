//! The vector unit on AVX2: sixteen lanes are two registers. Many rows are the subject of [`blocks`].

pub mod blocks;

use std::arch::x86_64::*;

use gleed_model::arithmetic::LANES;

use super::simd::{Kernel, Simd};

/// Proof that this machine has AVX2, FMA and F16C.
#[derive(Debug, Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    /// The proof, where the machine has it.
    pub fn detect() -> Option<Avx2> {
        let there = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        there.then_some(Avx2(()))
    }
}

/// Runs instructions that an `Avx2` value proves to exist.
macro_rules! proven {
    ($($body:tt)*) => {{
        // SAFETY: a value of `Avx2` exists only where `detect` found every feature used here, and all
        // memory is reached through references to arrays of the full width.
        unsafe { $($body)* }
    }};
}

type Pair = [__m256; 2];
type PairI32 = [__m256i; 2];

#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
fn vectorized<K: Kernel>(simd: Avx2, kernel: K) -> K::Output {
    kernel.run(simd)
}

/// The same operation on both halves.
macro_rules! both {
    ($op:ident, $($x:ident),+) => { proven!([$op($($x[0]),+), $op($($x[1]),+)]) };
}

impl Simd for Avx2 {
    type F32 = Pair;
    type I32 = PairI32;
    /// The weights and their magnitudes, which the instruction takes as unsigned bytes.
    type Weights = [PairI32; 2];

    const WIDE: bool = false;
    const SEVERAL: bool = true;
    const IN_TURN: bool = true;

    #[inline(always)]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        proven!(vectorized(self, kernel))
    }

    #[inline(always)]
    fn prefetch<T>(self, value: &T) {
        proven!(_mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()))
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Pair {
        proven!([_mm256_set1_ps(x); 2])
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Pair {
        proven!([_mm256_loadu_ps(x.as_ptr()), _mm256_loadu_ps(x.as_ptr().add(8))])
    }

    #[inline(always)]
    fn load_partial(self, x: &[f32]) -> Pair {
        let mut lanes = [0.0; LANES];
        lanes[..x.len()].copy_from_slice(x);
        self.load(&lanes)
    }

    #[inline(always)]
    fn store(self, x: Pair, out: &mut [f32; LANES]) {
        proven!({
            _mm256_storeu_ps(out.as_mut_ptr(), x[0]);
            _mm256_storeu_ps(out.as_mut_ptr().add(8), x[1]);
        })
    }

    #[inline(always)]
    fn store_partial(self, x: Pair, out: &mut [f32]) {
        let mut lanes = [0.0; LANES];
        self.store(x, &mut lanes);
        out.copy_from_slice(&lanes[..out.len()]);
    }

    #[inline(always)]
    fn add(self, a: Pair, b: Pair) -> Pair {
        both!(_mm256_add_ps, a, b)
    }

    #[inline(always)]
    fn sub(self, a: Pair, b: Pair) -> Pair {
        both!(_mm256_sub_ps, a, b)
    }

    #[inline(always)]
    fn mul(self, a: Pair, b: Pair) -> Pair {
        both!(_mm256_mul_ps, a, b)
    }

    #[inline(always)]
    fn div(self, a: Pair, b: Pair) -> Pair {
        both!(_mm256_div_ps, a, b)
    }

    #[inline(always)]
    fn max(self, a: Pair, b: Pair) -> Pair {
        both!(_mm256_max_ps, a, b)
    }

    #[inline(always)]
    fn min(self, a: Pair, b: Pair) -> Pair {
        both!(_mm256_min_ps, a, b)
    }

    #[inline(always)]
    fn max_magnitude(self, a: Pair, b: Pair) -> Pair {
        proven!([max_magnitude(a[0], b[0]), max_magnitude(a[1], b[1])])
    }

    #[inline(always)]
    fn abs(self, a: Pair) -> Pair {
        let sign = self.splat(-0.0);
        both!(_mm256_andnot_ps, sign, a)
    }

    #[inline(always)]
    fn mul_add(self, a: Pair, b: Pair, c: Pair) -> Pair {
        both!(_mm256_fmadd_ps, a, b, c)
    }

    #[inline(always)]
    fn mul_sub(self, a: Pair, b: Pair, c: Pair) -> Pair {
        both!(_mm256_fmsub_ps, a, b, c)
    }

    #[inline(always)]
    fn mul_add_partial(self, a: &[f32], b: &[f32], c: Pair) -> Pair {
        let mut lanes = [0.0; LANES];
        self.store(c, &mut lanes);
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane = a.mul_add(*b, *lane);
        }
        self.load(&lanes)
    }

    #[inline(always)]
    fn round(self, a: Pair) -> Pair {
        proven!([round(a[0]), round(a[1])])
    }

    #[inline(always)]
    fn power_of_two(self, n: Pair) -> Pair {
        proven!([power_of_two(n[0]), power_of_two(n[1])])
    }

    #[inline(always)]
    fn fold(self, a: Pair) -> f32 {
        proven!({
            let a = _mm256_add_ps(a[0], a[1]);
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)))
        })
    }

    #[inline(always)]
    fn fold_each(self, a: &[Pair; LANES]) -> Pair {
        let [low, high] = a.as_chunks().0 else { unreachable!("sixteen are two times eight") };
        proven!([fold_eight(low), fold_eight(high)])
    }

    #[inline(always)]
    fn largest(self, a: Pair) -> f32 {
        proven!({
            let a = _mm256_max_ps(a[0], a[1]);
            let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)))
        })
    }

    #[inline(always)]
    fn largest_magnitude(self, a: Pair) -> f32 {
        proven!({
            let a = _mm256_castps_si256(max_magnitude(a[0], a[1]));
            let a = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a));
            let a = _mm_max_epi32(a, _mm_shuffle_epi32::<0b11_10_11_10>(a));
            f32::from_bits(_mm_cvtsi128_si32(_mm_max_epi32(a, _mm_shuffle_epi32::<1>(a))) as u32)
        })
    }

    #[inline(always)]
    fn load_half(self, x: &[u16; LANES]) -> Pair {
        proven!([
            _mm256_cvtph_ps(_mm_loadu_si128(x.as_ptr().cast())),
            _mm256_cvtph_ps(_mm_loadu_si128(x.as_ptr().add(8).cast())),
        ])
    }

    #[inline(always)]
    fn store_half(self, x: Pair, out: &mut [u16; LANES]) {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;
        proven!({
            _mm_storeu_si128(out.as_mut_ptr().cast(), _mm256_cvtps_ph::<NEAREST>(x[0]));
            _mm_storeu_si128(out.as_mut_ptr().add(8).cast(), _mm256_cvtps_ph::<NEAREST>(x[1]));
        })
    }

    #[inline(always)]
    fn load_exponents(self, e: &[u8; LANES]) -> Pair {
        proven!({
            let bytes = _mm_loadu_si128(e.as_ptr().cast());
            [exponents(bytes), exponents(_mm_srli_si128::<8>(bytes))]
        })
    }

    #[inline(always)]
    fn half(self, x: u16) -> f32 {
        proven!(_mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(x)))))
    }

    #[inline(always)]
    fn load_i8(self, x: &[i8; LANES]) -> Pair {
        proven!({
            let bytes = _mm_loadu_si128(x.as_ptr().cast());
            [
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes))),
            ]
        })
    }

    #[inline(always)]
    fn store_i8(self, x: Pair, out: &mut [i8; LANES]) {
        proven!({
            let (low, high) = (numbers_to_i32(x[0]), numbers_to_i32(x[1]));
            // Packing works within halves: words 0-3 8-11 | 4-7 12-15, put in order afterwards.
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(low, high));
            let (low, high) = (_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_packs_epi16(low, high));
        })
    }

    #[inline(always)]
    fn to_i32(self, x: i32) -> PairI32 {
        proven!([_mm256_set1_epi32(x); 2])
    }

    #[inline(always)]
    fn load_i32(self, x: &[i32; LANES]) -> PairI32 {
        proven!([_mm256_loadu_si256(x.as_ptr().cast()), _mm256_loadu_si256(x.as_ptr().add(8).cast())])
    }

    #[inline(always)]
    fn load_bytes(self, x: &[i8; LANES]) -> PairI32 {
        proven!({
            let bytes = _mm_loadu_si128(x.as_ptr().cast());
            [_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(bytes))]
        })
    }

    #[inline(always)]
    fn load_byte_pairs(self, x: &[i8; 2 * LANES]) -> PairI32 {
        proven!({
            let half = |i: usize| _mm256_cvtepi8_epi16(_mm_loadu_si128(x[i..][..LANES].as_ptr().cast()));
            [half(0), half(LANES)]
        })
    }

    #[inline(always)]
    fn store_i32(self, x: PairI32, out: &mut [i32; LANES]) {
        proven!({
            _mm256_storeu_si256(out.as_mut_ptr().cast(), x[0]);
            _mm256_storeu_si256(out.as_mut_ptr().add(8).cast(), x[1]);
        })
    }

    #[inline(always)]
    fn sub_bytes(self, x: PairI32, number: u8) -> PairI32 {
        proven!({
            let number = _mm256_set1_epi8(number as i8);
            [_mm256_sub_epi8(x[0], number), _mm256_sub_epi8(x[1], number)]
        })
    }

    #[inline(always)]
    fn shift_right<const N: u32>(self, x: PairI32) -> PairI32 {
        proven!({
            let count = _mm_cvtsi32_si128(N as i32);
            [_mm256_srl_epi32(x[0], count), _mm256_srl_epi32(x[1], count)]
        })
    }

    #[inline(always)]
    fn shift_left<const N: u32>(self, x: PairI32) -> PairI32 {
        proven!({
            let count = _mm_cvtsi32_si128(N as i32);
            [_mm256_sll_epi32(x[0], count), _mm256_sll_epi32(x[1], count)]
        })
    }

    #[inline(always)]
    fn and_bytes(self, x: PairI32, mask: u8) -> PairI32 {
        proven!({
            let mask = _mm256_set1_epi8(mask as i8);
            [_mm256_and_si256(x[0], mask), _mm256_and_si256(x[1], mask)]
        })
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; LANES], places: PairI32) -> PairI32 {
        proven!({
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            [_mm256_shuffle_epi8(table, places[0]), _mm256_shuffle_epi8(table, places[1])]
        })
    }

    #[inline(always)]
    fn or(self, a: PairI32, b: PairI32) -> PairI32 {
        both!(_mm256_or_si256, a, b)
    }

    #[inline(always)]
    fn mul_add_i32(self, a: PairI32, b: PairI32, c: PairI32) -> PairI32 {
        let products = both!(_mm256_mullo_epi32, a, b);
        both!(_mm256_add_epi32, products, c)
    }

    #[inline(always)]
    fn dot2(self, acc: PairI32, pairs: PairI32, x: i32) -> PairI32 {
        proven!({
            let x = _mm256_set1_epi32(x);
            let products = [_mm256_madd_epi16(pairs[0], x), _mm256_madd_epi16(pairs[1], x)];
            [_mm256_add_epi32(acc[0], products[0]), _mm256_add_epi32(acc[1], products[1])]
        })
    }

    #[inline(always)]
    fn dot4_unsigned(self, acc: PairI32, weights: PairI32, activations: i32) -> PairI32 {
        proven!({
            // A pair is at most 2 · 127 · 127, which fits 16 bits.
            let (x, ones) = (_mm256_set1_epi32(activations), _mm256_set1_epi16(1));
            let low = _mm256_madd_epi16(_mm256_maddubs_epi16(weights[0], x), ones);
            let high = _mm256_madd_epi16(_mm256_maddubs_epi16(weights[1], x), ones);
            [_mm256_add_epi32(acc[0], low), _mm256_add_epi32(acc[1], high)]
        })
    }

    #[inline(always)]
    fn to_f32(self, x: PairI32) -> Pair {
        both!(_mm256_cvtepi32_ps, x)
    }

    #[inline(always)]
    fn weights(self, x: PairI32) -> [PairI32; 2] {
        [x, both!(_mm256_abs_epi8, x)]
    }

    #[inline(always)]
    fn plain(self, weights: [PairI32; 2]) -> PairI32 {
        weights[0]
    }

    #[inline(always)]
    fn dot_start(self, _activation_sum: i32) -> PairI32 {
        proven!([_mm256_setzero_si256(); 2])
    }

    #[inline(always)]
    fn dot4(self, acc: PairI32, weights: [PairI32; 2], activations: i32) -> PairI32 {
        let [weights, magnitudes] = weights;
        proven!({
            let x = _mm256_set1_epi32(activations);
            [dot4(acc[0], weights[0], magnitudes[0], x), dot4(acc[1], weights[1], magnitudes[1], x)]
        })
    }

    #[inline(always)]
    fn transpose(self, rows: [&[i32; LANES]; LANES], out: &mut [[i32; LANES]; LANES]) {
        proven!(transpose(rows, out))
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn round(a: __m256) -> __m256 {
    _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a)
}

/// Without signs, floats are ordered like their bits, and NaN is above all.
#[inline]
#[target_feature(enable = "avx2")]
fn max_magnitude(a: __m256, b: __m256) -> __m256 {
    _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn power_of_two(n: __m256) -> __m256 {
    let biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
}

/// 2^(e - 128) of eight bytes: from 2 on the bits of a normal number, below those of others, which are larger there.
#[inline]
#[target_feature(enable = "avx2")]
fn exponents(bytes: __m128i) -> __m256 {
    let (e, one) = (_mm256_cvtepu8_epi32(bytes), _mm256_set1_epi32(1));
    let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, one));
    _mm256_castsi256_ps(_mm256_max_epi32(normal, _mm256_slli_epi32::<21>(_mm256_add_epi32(e, one))))
}

/// Whole numbers; 0 where not a number.
#[inline]
#[target_feature(enable = "avx2")]
fn numbers_to_i32(x: __m256) -> __m256i {
    _mm256_and_si256(_mm256_cvtps_epi32(x), _mm256_castps_si256(_mm256_cmp_ps::<_CMP_ORD_Q>(x, x)))
}

/// |w| times x with the sign of w. A pair is at most 2 · 128 · 127, which fits 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn dot4(acc: __m256i, weights: __m256i, magnitudes: __m256i, x: __m256i) -> __m256i {
    let pairs = _mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(x, weights));
    _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn fold_eight(a: &[Pair; 8]) -> __m256 {
    // Vector s holds inputs s and 4+s, four partial sums of each in a half.
    let halves = |s: usize| {
        let (a, b) = (_mm256_add_ps(a[s][0], a[s][1]), _mm256_add_ps(a[4 + s][0], a[4 + s][1]));
        _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b))
    };
    let pairs = |a, b| _mm256_add_ps(_mm256_shuffle_ps::<0x44>(a, b), _mm256_shuffle_ps::<0xEE>(a, b));
    let (a, b) = (pairs(halves(0), halves(1)), pairs(halves(2), halves(3)));
    _mm256_add_ps(_mm256_shuffle_ps::<0x88>(a, b), _mm256_shuffle_ps::<0xDD>(a, b))
}

#[inline]
#[target_feature(enable = "avx2")]
fn transpose(rows: [&[i32; LANES]; LANES], out: &mut [[i32; LANES]; LANES]) {
    // Four blocks of eight by eight words.
    for (r, c) in [(0, 0), (0, 8), (8, 0), (8, 8)] {
        // SAFETY: a row is sixteen words and c is 0 or 8.
        let load = |row: usize| unsafe { _mm256_loadu_si256(rows[r + row].as_ptr().add(c).cast()) };
        // Half l of the result's element j is column 4l + j of rows 4k .. 4k + 4 of the block.
        let quad = |k: usize| {
            let [a, b, c, d] = [load(4 * k), load(4 * k + 1), load(4 * k + 2), load(4 * k + 3)];
            let (low, high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let (low_next, high_next) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
            [
                _mm256_unpacklo_epi64(low, low_next),
                _mm256_unpackhi_epi64(low, low_next),
                _mm256_unpacklo_epi64(high, high_next),
                _mm256_unpackhi_epi64(high, high_next),
            ]
        };
        let (upper, lower) = (quad(0), quad(1));
        for (j, (a, b)) in upper.into_iter().zip(lower).enumerate() {
            let columns = [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b)];
            for (l, column) in columns.into_iter().enumerate() {
                // SAFETY: a column has room for sixteen words and r is 0 or 8.
                unsafe { _mm256_storeu_si256(out[c + 4 * l + j].as_mut_ptr().add(r).cast(), column) };
            }
        }
    }
}
