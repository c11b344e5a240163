//! Weights of blocks of 256 columns for the tile unit: factor times integer has up to thirteen bits, and goes
//! into two parts of eight. Packed integers are unpacked on the way, from register to register.

use std::arch::asm;
use std::arch::x86_64::*;

use gleed_model::arithmetic::SUPER_BLOCK;

use super::{PASS, Parts, load_i32, save_i32};
use crate::kernels::avx512::Avx512;
use crate::kernels::integer::{Integers, Panel};

/// Splits factor · integer = low + 128 · high, low from 0 to 127, for one super-block.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) fn split(unit: Avx512, panel: Panel, b: usize, parts: &mut Parts) {
    // Words of a group as a power of two, and the factors of the groups.
    let (shift, groups) = if panel.groups.len == 32 { (3, 8) } else { (2, 16) };
    let mut factors = [_mm512_setzero_si512(); 16];
    for (factor, from) in factors.iter_mut().zip(&panel.factors[b * groups..][..groups]) {
        *factor = twice(load_i32(from));
    }
    let mut at_word = |k: usize, word: __m512i| {
        let [lows, highs] = &mut parts[k / (PASS / 4)];
        let (low, high) = split_word(word, factors[(k >> shift) % 16]);
        save_i32(low, &mut lows[k % (PASS / 4)].0);
        save_i32(high, &mut highs[k % (PASS / 4)].0);
    };
    match panel.integers {
        Integers::Words(integers) => {
            let integers = &integers[b * SUPER_BLOCK / 4..][..SUPER_BLOCK / 4];
            integers.iter().enumerate().for_each(|(k, word)| at_word(k, load_i32(word)));
        }
        Integers::Packed(tile) => tile.each_word(unit, b, at_word),
    }
}

/// 256 times each lane's signed byte, in both halves of the lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn twice(factor: __m512i) -> __m512i {
    let to_both = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0c80_0c80_0880_0880, 0x0480_0480_0080_0080));
    _mm512_shuffle_epi8(factor, to_both)
}

/// Both parts of the products of four columns with their factor, given [`twice`]: the high half of the
/// product of 256 times an integer and 256 times a factor is the product of the two. Shifts and products
/// compete for one port of the processor; the rest has two.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn split_word(word: __m512i, factor: __m512i) -> (__m512i, __m512i) {
    let (low_byte, seven_bits) = (_mm512_set1_epi16(0xff), _mm512_set1_epi8(0x7f));
    // The low byte of each half to the high one.
    let upwards = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0e0e_0c0c_0a0a_0808, 0x0606_0404_0202_0000));
    // Each byte from the first where the mask has it, from the second elsewhere.
    let select = |a, b| _mm512_ternarylogic_epi32::<0xca>(low_byte, a, b);
    let even = multiply_high(_mm512_slli_epi16::<8>(word), factor);
    let odd = multiply_high(_mm512_andnot_si512(low_byte, word), factor);
    let low = _mm512_and_si512(select(even, _mm512_shuffle_epi8(odd, upwards)), seven_bits);
    let high = select(_mm512_srai_epi16::<7>(even), _mm512_add_epi16(odd, odd));
    (low, high)
}

/// The high halves of the products of 16-bit integers. The compiler's own function is a widened product
/// that it finds again only sometimes: next to shifts it became many instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn multiply_high(a: __m512i, b: __m512i) -> __m512i {
    let high;
    // SAFETY: one instruction, which this function is compiled for, on registers.
    unsafe {
        asm!("vpmulhw {}, {}, {}", lateout(zmm_reg) high, in(zmm_reg) a, in(zmm_reg) b, options(pure, nomem, nostack))
    };
    high
}
