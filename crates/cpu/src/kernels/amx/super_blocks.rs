//! Blocks of 256 columns. Factor times integer has more than eight bits, so the weights are in two parts,
//! low + high · 2ⁿ, and a product of two tiles is four pairs of them.
//!
//! A step is two such products at once: two blocks of rows times one panel, or what is left over, one block
//! of rows times two panels. They share half of what they load, and neither waits for itself.

use std::arch::asm;
use std::arch::x86_64::*;

use gleed_model::arithmetic::SUPER_BLOCK;

use super::split::{high_bits, split};
use super::tiles::{Shapes, clear, configure, load_tile, multiply, release, store};
use super::{Outs, PASS, PASSES, Parts, Products, Results, fetch, load, load_i32, save};
use crate::kernels::avx512::Avx512;
use crate::kernels::blocked::{BLOCK_ROWS, Blocked, SuperScales};
use crate::kernels::integer::Panel;
use crate::kernels::tile::Line;

/// Which super-block of columns, block of rows and panel a product is for.
#[derive(Clone, Copy, Default)]
struct Cursor {
    columns: usize,
    rows: usize,
    panel: usize,
}

/// What a step multiplies besides the first product.
#[derive(Clone, Copy, PartialEq)]
enum Second {
    /// The next block of rows, with the same weights.
    Rows,
    /// The same rows, with the next panel.
    Panel,
    /// Nothing.
    None,
}

/// The steps in order: a pair of panels, then the next rows, then the next columns, then the next pair.
#[derive(Clone, Copy)]
struct Steps {
    super_blocks: usize,
    row_blocks: usize,
    panels: usize,
    place: Cursor,
}

impl Steps {
    fn new(super_blocks: usize, row_blocks: usize, panels: usize) -> Steps {
        Steps { super_blocks, row_blocks, panels, place: Cursor::default() }
    }

    /// How many there are.
    fn count(&self) -> usize {
        let last = self.row_blocks % 2 * self.panels.div_ceil(2);
        self.super_blocks * (self.row_blocks / 2 * self.panels + last)
    }

    /// The next step.
    #[inline(always)]
    fn next(&mut self) -> (Cursor, Second) {
        let place = self.place;
        let is_last_of_pair = place.panel % 2 == 1 || place.panel + 1 == self.panels;
        let second = match (place.rows + 1 < self.row_blocks, is_last_of_pair) {
            (true, _) => Second::Rows,
            (false, true) => Second::None,
            (false, false) => Second::Panel,
        };
        let pair = place.panel - place.panel % 2;
        self.place = if !is_last_of_pair && second != Second::Panel {
            Cursor { panel: place.panel + 1, ..place }
        } else if place.rows + 2 < self.row_blocks {
            Cursor { rows: place.rows + 2, panel: pair, ..place }
        } else {
            self.after(Cursor { rows: 0, panel: pair, ..place })
        };
        (place, second)
    }

    /// The next super-block in the place of one.
    #[inline(always)]
    fn after(&self, place: Cursor) -> Cursor {
        if place.columns + 1 < self.super_blocks {
            Cursor { columns: place.columns + 1, ..place }
        } else {
            Cursor { columns: 0, panel: place.panel + 2, ..place }
        }
    }
}

/// The second product's place, or the first's again.
fn second_place(place: Cursor, second: Second) -> Cursor {
    match second {
        Second::Rows => Cursor { rows: place.rows + 1, ..place },
        Second::Panel => Cursor { panel: place.panel + 1, ..place },
        Second::None => place,
    }
}

/// All steps. `QUADS`: min factors in fours of pairs.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) fn super_blocks<const QUADS: usize>(
    unit: Avx512,
    panels: &[Panel],
    x: Blocked,
    next: &[Line],
    outs: &mut Outs,
    parts: &mut [Parts; 4],
    [even_products, odd_products]: &mut [[[Products; 2]; 2]; 2],
) {
    configure!(PASS);
    let super_blocks = x.columns / SUPER_BLOCK;
    let mut multiplied = Steps::new(super_blocks, x.row_blocks, panels.len());
    let mut scaled = multiplied;
    let steps = multiplied.count();
    let mut next = next.chunks(next.len().div_ceil((PASSES * steps).max(1)).max(1));
    // A super-block of a panel is split, pass by pass, while the one before it is multiplied for the first
    // time: what was just written cannot be loaded as a tile before it has reached the cache. If that is also
    // the last time, it takes its place.
    let parts_of = |place: Cursor| {
        let index = place.panel / 2 * super_blocks + place.columns;
        if x.row_blocks <= 2 { place.panel % 2 } else { index % 2 * 2 + place.panel % 2 }
    };
    let split_at = |parts: &mut [Parts; 4], place: Cursor, pass: usize| {
        if let Some(panel) = panels.get(place.panel) {
            split(unit, panel, place.columns * PASSES + pass, &mut parts[parts_of(place)][pass]);
        }
    };
    for panel in 0..2 {
        (0..PASSES).for_each(|pass| split_at(parts, Cursor { panel, ..Cursor::default() }, pass));
    }
    for step in 0..steps + 2 {
        let (stored, products) = if step.is_multiple_of(2) {
            (&mut *even_products, &*odd_products)
        } else {
            (&mut *odd_products, &*even_products)
        };
        // In the first two steps there is nothing to scale yet.
        let (first, then) = if step >= 2 { scaled.next() } else { (Cursor::default(), Second::None) };
        let second = second_place(first, then);
        let scales_first = Scales::<QUADS>::new(&panels[first.panel], first.columns);
        let scales_second = Scales::<QUADS>::new(&panels[second.panel], second.columns);
        let (x_of_first, x_of_second) =
            (x.super_scales(first.rows, first.columns), x.super_scales(second.rows, second.columns));
        // Two rows of the products before the last: the first product's, then the second's.
        macro_rules! scale {
            ($pair:expr) => {
                if $pair < 8 && step >= 2 {
                    let out = outs.of(first.panel, first.rows);
                    scales_first.add(2 * $pair, x_of_first, &products[0], out);
                } else if $pair >= 8 && then != Second::None {
                    let out = outs.of(second.panel, second.rows);
                    scales_second.add(2 * ($pair % 8), x_of_second, &products[1], out);
                }
            };
        }
        if step >= steps {
            // The last products are stored, and the rest is scaled.
            if step == steps {
                store!("tmm0", &mut stored[0][0]);
                store!("tmm1", &mut stored[0][1]);
                store!("tmm2", &mut stored[1][0]);
                store!("tmm3", &mut stored[1][1]);
            }
            for pair in 0..BLOCK_ROWS {
                scale!(pair);
            }
            continue;
        }
        let (place, with) = multiplied.next();
        let other = second_place(place, with);
        let (x_first, x_second) =
            (x.super_block(place.rows, place.columns), x.super_block(other.rows, other.columns));
        // The results of the step before go out where they are first needed; before the first step they
        // are zero.
        macro_rules! pass {
            ($pass:literal) => {
                macro_rules! begin {
                    ($tile:tt, $product:literal, $part:literal) => {
                        if $pass == 0 {
                            store!($tile, &mut stored[$product][$part]);
                            clear!($tile);
                        }
                    };
                }
                next.next().into_iter().for_each(|lines| fetch(lines));
                let [low, high] = &parts[parts_of(place)][$pass];
                let [other_low, other_high] = &parts[parts_of(other)][$pass];
                load_tile!("tmm4", x_first[$pass], PASS);
                load_tile!("tmm6", low, PASS);
                begin!("tmm0", 0, 0);
                multiply!("tmm0", "tmm4", "tmm6");
                scale!(4 * $pass);
                match with {
                    Second::Rows => {
                        load_tile!("tmm5", x_second[$pass], PASS);
                        begin!("tmm2", 1, 0);
                        multiply!("tmm2", "tmm5", "tmm6");
                    }
                    Second::Panel => {
                        load_tile!("tmm7", other_low, PASS);
                        begin!("tmm2", 1, 0);
                        multiply!("tmm2", "tmm4", "tmm7");
                    }
                    Second::None => begin!("tmm2", 1, 0),
                }
                scale!(4 * $pass + 1);
                load_tile!("tmm7", high, PASS);
                begin!("tmm1", 0, 1);
                multiply!("tmm1", "tmm4", "tmm7");
                scale!(4 * $pass + 2);
                begin!("tmm3", 1, 1);
                match with {
                    Second::Rows => multiply!("tmm3", "tmm5", "tmm7"),
                    Second::Panel => {
                        load_tile!("tmm6", other_high, PASS);
                        multiply!("tmm3", "tmm4", "tmm6");
                    }
                    Second::None => {}
                }
                scale!(4 * $pass + 3);
                if place.rows == 0 {
                    split_at(parts, multiplied.after(place), $pass);
                    if with == Second::Panel {
                        split_at(parts, multiplied.after(other), $pass);
                    }
                }
            };
        }
        pass!(0);
        pass!(1);
        pass!(2);
        pass!(3);
    }
    release!();
}

/// The scales of a super-block of weights. `QUADS`: min factors in fours of pairs.
#[derive(Clone, Copy)]
struct Scales<const QUADS: usize> {
    /// Bits between low and high parts.
    high_bits: __m512i,
    scale: __m512,
    min: __m512,
    min_pairs: [[__m512i; 4]; QUADS],
    /// All lanes, but none for the first super-block: results begin with zero.
    before: __mmask16,
}

impl<const QUADS: usize> Scales<QUADS> {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    fn new(panel: &Panel, b: usize) -> Scales<QUADS> {
        let scale = load(&panel.scales[b]);
        let high_bits = _mm512_set1_epi32(high_bits(panel));
        let before = if b == 0 { 0 } else { 0xffff };
        let mut min_pairs = [[_mm512_setzero_si512(); 4]; QUADS];
        if QUADS == 0 {
            return Scales { high_bits, scale, min: scale, min_pairs, before };
        }
        let stored = &panel.min_pairs.as_chunks::<4>().0[b * QUADS..][..QUADS];
        for (pairs, stored) in min_pairs.iter_mut().zip(stored) {
            let [a, b, c, d] = stored;
            *pairs = [load_i32(a), load_i32(b), load_i32(c), load_i32(d)];
        }
        Scales { high_bits, scale, min: load(&panel.mins[b]), min_pairs, before }
    }

    /// Two rows from one on: results += (scale · activation scale) · (low + high · 2ⁿ), then
    /// += min · (activation scale · Σ min factor · sum).
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    fn add(&self, row: usize, x: SuperScales, [low, high]: &[Products; 2], out: &mut Results) {
        for r in row..row + 2 {
            let x_scale = _mm512_set1_ps(x.scales[r]);
            let high = _mm512_sllv_epi32(load_i32(&high[r].0), self.high_bits);
            let integers = _mm512_cvtepi32_ps(_mm512_add_epi32(high, load_i32(&low[r].0)));
            // SAFETY: sixteen values.
            let sum = unsafe { _mm512_maskz_loadu_ps(self.before, out[r].as_ptr()) };
            let mut sum = _mm512_fmadd_ps(_mm512_mul_ps(self.scale, x_scale), integers, sum);
            if QUADS > 0 {
                let mut sums = _mm512_setzero_si512();
                for (i, pairs) in self.min_pairs.iter().enumerate() {
                    let x = if QUADS == 1 { &x.pairs_32[r] } else { &x.pairs_16[r].as_chunks().0[i] };
                    sums = add_pairs(sums, pairs, x);
                }
                sum = _mm512_fmadd_ps(self.min, _mm512_mul_ps(x_scale, _mm512_cvtepi32_ps(sums)), sum);
            }
            save(sum, &mut out[r]);
        }
    }
}

/// Adds the products of four pairs of 16-bit integers with each lane's. The compiler makes of its own
/// function two instructions a pair, because they are sooner done; here their number counts.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn add_pairs(mut sums: __m512i, pairs: &[__m512i; 4], x: &[i32; 4]) -> __m512i {
    // SAFETY: instructions which this function is compiled for, that read sixteen bytes.
    unsafe {
        asm!(
            "vpdpwssd {sums}, {a}, dword ptr [{x}]{{1to16}}",
            "vpdpwssd {sums}, {b}, dword ptr [{x} + 4]{{1to16}}",
            "vpdpwssd {sums}, {c}, dword ptr [{x} + 8]{{1to16}}",
            "vpdpwssd {sums}, {d}, dword ptr [{x} + 12]{{1to16}}",
            sums = inout(zmm_reg) sums,
            a = in(zmm_reg) pairs[0],
            b = in(zmm_reg) pairs[1],
            c = in(zmm_reg) pairs[2],
            d = in(zmm_reg) pairs[3],
            x = in(reg) x,
            options(pure, readonly, nostack),
        );
    }
    sums
}
