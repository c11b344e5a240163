//! Weights of blocks of 256 columns for the tile unit: factor times integer has up to thirteen bits, and goes
//! into two parts of eight. Packed integers are unpacked on the way, from register to register. Where they
//! have four bits, the factor is split and not the product: that is far less work.

use std::arch::asm;
use std::arch::x86_64::*;

use gleed_model::arithmetic::BLOCK;

use super::{PASS, Pass, load_i32, save_i32};
use crate::kernels::avx512::Avx512;
use crate::kernels::integer::{Integers, Panel};

/// Bits between the parts of a panel's products: product = low + high · 2^bits.
#[inline]
pub(super) fn high_bits(panel: &Panel) -> i32 {
    match panel.integers {
        Integers::Packed(tile) if tile.packing.is_nibbles() => 3,
        _ => 7,
    }
}

/// Groups of a pass, where they are shortest.
const GROUPS: usize = PASS / 16;

/// Splits factor · integer = low + high · 2^[`high_bits`] for one pass, counted from the first column on.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) fn split(unit: Avx512, panel: &Panel, pass: usize, [lows, highs]: &mut [Pass; 2]) {
    // Words of a group as a power of two, and the factors of the groups.
    let (shift, groups) = if panel.groups.len == 32 { (3, GROUPS / 2) } else { (2, GROUPS) };
    let stored = &panel.factors[pass * groups..][..groups];
    let mut save = |k: usize, (low, high): (__m512i, __m512i)| {
        save_i32(low, &mut lows[k].0);
        save_i32(high, &mut highs[k].0);
    };
    let cells = pass * PASS / BLOCK..(pass + 1) * PASS / BLOCK;
    match panel.integers {
        Integers::Packed(tile) if tile.packing.is_nibbles() => {
            let mut factors = [(_mm512_setzero_si512(), _mm512_setzero_si512()); GROUPS];
            for (factor, from) in factors.iter_mut().zip(stored) {
                *factor = split_factor(load_i32(from));
            }
            tile.each_word(unit, cells, |k, word| {
                let (low, high) = factors[(k >> shift) % GROUPS];
                save(k, (_mm512_mullo_epi16(word, low), _mm512_mullo_epi16(word, high)));
            });
        }
        integers => {
            let mut factors = [_mm512_setzero_si512(); GROUPS];
            for (factor, from) in factors.iter_mut().zip(stored) {
                *factor = twice(load_i32(from));
            }
            let mut at_word = |k: usize, word| save(k, split_word(word, factors[(k >> shift) % GROUPS]));
            match integers {
                Integers::Words(words) => {
                    let words = &words[pass * PASS / 4..][..PASS / 4];
                    words.iter().enumerate().for_each(|(k, word)| at_word(k, load_i32(word)));
                }
                Integers::Packed(tile) => tile.each_word(unit, cells, at_word),
            }
        }
    }
}

/// The three low bits of a factor of up to six and the three high ones, both in both halves of the lane. With
/// either, two integers of four bits in one half are multiplied at once: no product has more than a byte.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn split_factor(factor: __m512i) -> (__m512i, __m512i) {
    let to_both = _mm512_broadcast_i32x4(_mm_set_epi64x(
        0x800c_800c_8008_8008_u64 as i64,
        0x8004_8004_8000_8000_u64 as i64,
    ));
    let both = _mm512_shuffle_epi8(factor, to_both);
    (_mm512_and_si512(both, _mm512_set1_epi16(7)), _mm512_srli_epi16::<3>(both))
}

/// 256 times each lane's signed byte, in both halves of the lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn twice(factor: __m512i) -> __m512i {
    let to_both = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0c80_0c80_0880_0880, 0x0480_0480_0080_0080));
    _mm512_shuffle_epi8(factor, to_both)
}

/// Both parts of the products of four columns with their factor, given [`twice`], low from 0 to 127: the high half of the
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
