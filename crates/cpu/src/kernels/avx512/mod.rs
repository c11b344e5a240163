//! The vector unit on AVX-512: sixteen lanes are one register, four-byte dot products one instruction. Many rows are
//! the subject of [`blocks`].

pub mod blocks;

use std::arch::x86_64::*;

use gleed_model::arithmetic::{LANES, SUPER_BLOCK};

use super::simd::{Kernel, Simd};

/// Proof that this machine has AVX-512 F, BW, VL, DQ and VNNI (and AVX2, FMA, F16C).
#[derive(Debug, Clone, Copy)]
pub struct Avx512(());

/// Runs instructions that an `Avx512` value proves to exist.
macro_rules! proven {
    ($($body:tt)*) => {{
        // SAFETY: a value of `Avx512` exists only where `detect` found every feature used here, and all
        // memory is reached through references to arrays of the full width or through masks that
        // cover no more lanes than the slice has values.
        unsafe { $($body)* }
    }};
}

impl Avx512 {
    /// The proof, where the machine has it.
    pub fn detect() -> Option<Avx512> {
        let there = super::avx2::Avx2::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vnni");
        there.then_some(Avx512(()))
    }
}

/// A mask of the first `count` lanes.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    assert!(count <= LANES);
    ((1u32 << count) - 1) as __mmask16
}

#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn vectorized<K: Kernel>(simd: Avx512, kernel: K) -> K::Output {
    kernel.run(simd)
}

impl Simd for Avx512 {
    type F32 = __m512;
    type I32 = __m512i;
    type Weights = __m512i;

    const WIDE: bool = true;
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
    fn splat(self, x: f32) -> __m512 {
        proven!(_mm512_set1_ps(x))
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> __m512 {
        proven!(_mm512_loadu_ps(x.as_ptr()))
    }

    #[inline(always)]
    fn load_partial(self, x: &[f32]) -> __m512 {
        proven!(_mm512_maskz_loadu_ps(first(x.len()), x.as_ptr()))
    }

    #[inline(always)]
    fn store(self, x: __m512, out: &mut [f32; LANES]) {
        proven!(_mm512_storeu_ps(out.as_mut_ptr(), x))
    }

    #[inline(always)]
    fn store_partial(self, x: __m512, out: &mut [f32]) {
        proven!(_mm512_mask_storeu_ps(out.as_mut_ptr(), first(out.len()), x))
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_div_ps(a, b))
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_max_ps(a, b))
    }

    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_min_ps(a, b))
    }

    #[inline(always)]
    fn max_magnitude(self, a: __m512, b: __m512) -> __m512 {
        proven!(max_magnitude(a, b))
    }

    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        proven!(_mm512_abs_ps(a))
    }

    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        proven!(_mm512_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn mul_sub(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        proven!(_mm512_fmsub_ps(a, b, c))
    }

    #[inline(always)]
    fn mul_add_partial(self, a: &[f32], b: &[f32], c: __m512) -> __m512 {
        let mask = first(a.len().min(b.len()));
        proven!({
            let a = _mm512_maskz_loadu_ps(mask, a.as_ptr());
            let b = _mm512_maskz_loadu_ps(mask, b.as_ptr());
            _mm512_mask3_fmadd_ps(a, b, c, mask)
        })
    }

    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        proven!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
    }

    #[inline(always)]
    fn power_of_two(self, n: __m512) -> __m512 {
        proven!({
            let biased = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
        })
    }

    #[inline(always)]
    fn fold(self, a: __m512) -> f32 {
        proven!({
            let a = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)))
        })
    }

    #[inline(always)]
    fn fold_each(self, a: &[__m512; LANES]) -> __m512 {
        proven!(each(a, |a, b| _mm512_add_ps(a, b)))
    }

    #[inline(always)]
    fn largest(self, a: __m512) -> f32 {
        proven!(_mm512_reduce_max_ps(a))
    }

    #[inline(always)]
    fn largest_magnitude(self, a: __m512) -> f32 {
        proven!(f32::from_bits(_mm512_reduce_max_epi32(_mm512_castps_si512(a)) as u32))
    }

    #[inline(always)]
    fn largest_magnitude_each(self, a: &[__m512; LANES]) -> __m512 {
        proven!(each(a, |a, b| max_magnitude(a, b)))
    }

    #[inline(always)]
    fn sums_of_sixteen(self, x: &[i8; SUPER_BLOCK]) -> [i32; LANES] {
        proven!(sums_of_sixteen(x))
    }

    #[inline(always)]
    fn sum_of_magnitudes(self, x: &[i8; SUPER_BLOCK]) -> i32 {
        proven!(sum_of_magnitudes(x))
    }

    #[inline(always)]
    fn load_half(self, x: &[u16; LANES]) -> __m512 {
        proven!(_mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast())))
    }

    #[inline(always)]
    fn store_half(self, x: __m512, out: &mut [u16; LANES]) {
        proven!({
            let half = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
            _mm256_storeu_si256(out.as_mut_ptr().cast(), half)
        })
    }

    #[inline(always)]
    fn load_exponents(self, e: &[u8; LANES]) -> __m512 {
        proven!({
            let (e, one) = (_mm512_cvtepu8_epi32(_mm_loadu_si128(e.as_ptr().cast())), _mm512_set1_epi32(1));
            // From 2 on the bits of a normal number, below those of others, which are larger there.
            let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, one));
            _mm512_castsi512_ps(_mm512_max_epi32(normal, _mm512_slli_epi32::<21>(_mm512_add_epi32(e, one))))
        })
    }

    #[inline(always)]
    fn half(self, x: u16) -> f32 {
        proven!(_mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(x)))))
    }

    #[inline(always)]
    fn load_i8(self, x: &[i8; LANES]) -> __m512 {
        proven!(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(x.as_ptr().cast()))))
    }

    #[inline(always)]
    fn store_i8(self, x: __m512, out: &mut [i8; LANES]) {
        proven!({
            let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(x, x);
            let bytes = _mm512_cvtepi32_epi8(_mm512_maskz_cvtps_epi32(number, x));
            _mm_storeu_si128(out.as_mut_ptr().cast(), bytes)
        })
    }

    #[inline(always)]
    fn to_i32(self, x: i32) -> __m512i {
        proven!(_mm512_set1_epi32(x))
    }

    #[inline(always)]
    fn load_i32(self, x: &[i32; LANES]) -> __m512i {
        proven!(_mm512_loadu_si512(x.as_ptr().cast()))
    }

    #[inline(always)]
    fn load_bytes(self, x: &[i8; LANES]) -> __m512i {
        proven!(_mm512_cvtepi8_epi32(_mm_loadu_si128(x.as_ptr().cast())))
    }

    #[inline(always)]
    fn load_byte_pairs(self, x: &[i8; 2 * LANES]) -> __m512i {
        proven!(_mm512_cvtepi8_epi16(_mm256_loadu_si256(x.as_ptr().cast())))
    }

    #[inline(always)]
    fn store_i32(self, x: __m512i, out: &mut [i32; LANES]) {
        proven!(_mm512_storeu_si512(out.as_mut_ptr().cast(), x))
    }

    #[inline(always)]
    fn sub_bytes(self, x: __m512i, number: u8) -> __m512i {
        proven!(_mm512_sub_epi8(x, _mm512_set1_epi8(number as i8)))
    }

    #[inline(always)]
    fn shift_right<const N: u32>(self, x: __m512i) -> __m512i {
        proven!(_mm512_srli_epi32::<N>(x))
    }

    #[inline(always)]
    fn shift_left<const N: u32>(self, x: __m512i) -> __m512i {
        proven!(_mm512_slli_epi32::<N>(x))
    }

    #[inline(always)]
    fn and_bytes(self, x: __m512i, mask: u8) -> __m512i {
        proven!(_mm512_and_si512(x, _mm512_set1_epi8(mask as i8)))
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; LANES], places: __m512i) -> __m512i {
        proven!({
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            _mm512_shuffle_epi8(table, places)
        })
    }

    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_or_si512(a, b))
    }

    #[inline(always)]
    fn mul_add_i32(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        proven!(_mm512_add_epi32(_mm512_mullo_epi32(a, b), c))
    }

    #[inline(always)]
    fn dot2(self, acc: __m512i, pairs: __m512i, x: i32) -> __m512i {
        proven!(_mm512_dpwssd_epi32(acc, pairs, _mm512_set1_epi32(x)))
    }

    #[inline(always)]
    fn dot4_unsigned(self, acc: __m512i, weights: __m512i, activations: i32) -> __m512i {
        proven!(_mm512_dpbusd_epi32(acc, weights, _mm512_set1_epi32(activations)))
    }

    #[inline(always)]
    fn to_f32(self, x: __m512i) -> __m512 {
        proven!(_mm512_cvtepi32_ps(x))
    }

    /// The instruction multiplies unsigned by signed bytes: weights are kept as w + 128.
    #[inline(always)]
    fn weights(self, x: __m512i) -> __m512i {
        proven!(_mm512_xor_si512(x, _mm512_set1_epi8(-128)))
    }

    #[inline(always)]
    fn plain(self, weights: __m512i) -> __m512i {
        proven!(_mm512_xor_si512(weights, _mm512_set1_epi8(-128)))
    }

    /// Σ (w + 128) x = Σ w x + 128 Σ x, so the sums start that much below zero.
    #[inline(always)]
    fn dot_start(self, activation_sum: i32) -> __m512i {
        proven!(_mm512_set1_epi32(-128 * activation_sum))
    }

    #[inline(always)]
    fn dot4(self, acc: __m512i, weights: __m512i, activations: i32) -> __m512i {
        proven!(_mm512_dpbusd_epi32(acc, weights, _mm512_set1_epi32(activations)))
    }

    #[inline(always)]
    fn transpose(self, rows: [&[i32; LANES]; LANES], out: &mut [[i32; LANES]; LANES]) {
        proven!(transpose(rows, out))
    }
}

/// Without signs, floats are ordered like their bits, and NaN is above all.
#[inline]
#[target_feature(enable = "avx512f")]
fn max_magnitude(a: __m512, b: __m512) -> __m512 {
    _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)))
}

/// All lanes of each of sixteen, joined by halves.
#[inline]
#[target_feature(enable = "avx512f")]
fn each(a: &[__m512; LANES], join: impl Fn(__m512, __m512) -> __m512) -> __m512 {
    let pair = |a, b| join(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xEE>(a, b));
    // Vector s holds inputs s, 4+s, 8+s and 12+s, four partial results of each in a quarter.
    let quarters = |s: usize| {
        let (ab, cd) = (pair(a[s], a[4 + s]), pair(a[8 + s], a[12 + s]));
        join(_mm512_shuffle_f32x4::<0x88>(ab, cd), _mm512_shuffle_f32x4::<0xDD>(ab, cd))
    };
    let halves = |a, b| join(_mm512_shuffle_ps::<0x44>(a, b), _mm512_shuffle_ps::<0xEE>(a, b));
    let (a, b) = (halves(quarters(0), quarters(1)), halves(quarters(2), quarters(3)));
    join(_mm512_shuffle_ps::<0x88>(a, b), _mm512_shuffle_ps::<0xDD>(a, b))
}

#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn sums_of_sixteen(x: &[i8; SUPER_BLOCK]) -> [i32; LANES] {
    let ones = _mm512_set1_epi8(1);
    // Sums of four bytes: vector v's quarter t has those of sixteen number 4v + t.
    let [a, b, c, d] = lines(x).map(|x| _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, x));
    let pair = |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (ab, cd) = (pair(a, b), pair(c, d));
    // Now quarter t has number t of each vector.
    let sums = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let mut out = [0; LANES];
    // SAFETY: there is room for sixteen words.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), _mm512_permutexvar_epi32(order, sums)) };
    out
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn sum_of_magnitudes(x: &[i8; SUPER_BLOCK]) -> i32 {
    let [a, b, c, d] = lines(x).map(|x| _mm512_sad_epu8(_mm512_abs_epi8(x), _mm512_setzero_si512()));
    _mm512_reduce_add_epi64(_mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d))) as i32
}

#[inline]
#[target_feature(enable = "avx512f")]
fn lines(x: &[i8; SUPER_BLOCK]) -> [__m512i; 4] {
    // SAFETY: four times 64 bytes.
    std::array::from_fn(|i| unsafe { _mm512_loadu_si512(x.as_ptr().add(64 * i).cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: [&[i32; LANES]; LANES], out: &mut [[i32; LANES]; LANES]) {
    // SAFETY: each row is sixteen words.
    let load = |row: usize| unsafe { _mm512_loadu_si512(rows[row].as_ptr().cast()) };
    // Four rows at a time: quarter l of the result's element c is column 4l + c of rows 4k .. 4k + 4.
    let quad = |k: usize| {
        let [a, b, c, d] = [load(4 * k), load(4 * k + 1), load(4 * k + 2), load(4 * k + 3)];
        let (low, high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (low_next, high_next) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        [
            _mm512_unpacklo_epi64(low, low_next),
            _mm512_unpackhi_epi64(low, low_next),
            _mm512_unpacklo_epi64(high, high_next),
            _mm512_unpackhi_epi64(high, high_next),
        ]
    };
    let quads = [quad(0), quad(1), quad(2), quad(3)];
    // Then quarters change places between the four groups of rows.
    for c in 0..4 {
        let [p, q, r, s] = [quads[0][c], quads[1][c], quads[2][c], quads[3][c]];
        let (low, low_next) = (_mm512_shuffle_i32x4::<0x44>(p, q), _mm512_shuffle_i32x4::<0x44>(r, s));
        let (high, high_next) = (_mm512_shuffle_i32x4::<0xEE>(p, q), _mm512_shuffle_i32x4::<0xEE>(r, s));
        let columns = [
            _mm512_shuffle_i32x4::<0x88>(low, low_next),
            _mm512_shuffle_i32x4::<0xDD>(low, low_next),
            _mm512_shuffle_i32x4::<0x88>(high, high_next),
            _mm512_shuffle_i32x4::<0xDD>(high, high_next),
        ];
        for (l, column) in columns.into_iter().enumerate() {
            // SAFETY: each column has room for sixteen words.
            unsafe { _mm512_storeu_si512(out[4 * l + c].as_mut_ptr().cast(), column) };
        }
    }
}
