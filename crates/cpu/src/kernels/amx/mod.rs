//! Linear layers in `q8` arithmetic on AMX: the tile unit multiplies sixteen rows of activations with
//! sixteen rows of weights into exact integers; the vector unit scales and adds them block by block, as
//! `arithmetic::dot_q8` has it.
//!
//! Both units work at once, because a step's products are stored one step later and scaled two steps
//! later, a few instructions of each in turn: a product takes dozens of cycles, a stored tile cannot be
//! loaded before it has reached the cache, and neither may wait for the other.

mod detect;
mod split;

use std::arch::asm;
use std::arch::x86_64::*;

use gleed_model::arithmetic::{BLOCK, SUPER_BLOCK};

pub use self::detect::Amx;
use self::split::split;
use super::avx512::Avx512;
use super::blocked::{BLOCK_ROWS, Blocked, CELL_LINES, PANELS, RowBlock, SuperScales};
use super::integer::{Panel, TILE};
use super::packed::Line;

/// The shapes of the tile registers, as the processor reads them.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Shapes {
    /// Results in tiles 0 to 3, activations in 4 and 5, weights in 6 and 7; so many columns at a time.
    const fn new(columns: usize) -> Shapes {
        let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
        let mut i = 0;
        while i < 4 {
            (row_bytes[i], rows[i]) = (64, 16);
            i += 1;
        }
        while i < 6 {
            (row_bytes[i], rows[i]) = (columns as u16, 16);
            (row_bytes[2 + i], rows[2 + i]) = (64, (columns / 4) as u8);
            i += 1;
        }
        Shapes { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows }
    }
}

/// Rows below which a single block is better left to the vector unit.
pub const FEWEST_ROWS: usize = 12;

/// The same for a block after others: the weights are unpacked already.
pub const FEWEST_MORE_ROWS: usize = 6;

/// Columns of a super-block that are multiplied at once: what a row of a tile holds.
const PASS: usize = 64;

/// Passes over a super-block.
const PASSES: usize = SUPER_BLOCK / PASS;

/// The weights of a pass: a line for each four columns.
type Pass = [Line; PASS / 4];

/// The weights of a super-block: for each pass the low parts, then the high parts.
type Parts = [[Pass; 2]; PASSES];

/// Lines of scratch: a super-block of each panel in two parts, one more, and the products of two steps.
pub const SCRATCH_LINES: usize =
    ((PANELS + 1) * size_of::<Parts>() + 2 * size_of::<[Products; 2]>()) / size_of::<Line>();

/// Multiplies panels with blocks of activations.
#[derive(Debug)]
pub struct MultiplyAmx<'a> {
    /// Panels of the same kind, at most [`PANELS`], each all columns of sixteen rows of weights.
    pub panels: &'a [Panel<'a>],
    /// The activations.
    pub x: Blocked<'a>,
    /// What will be unpacked next.
    pub next: &'a [Line],
    /// One result per row of activations and row of weights; whole blocks of rows.
    pub out: &'a mut [[f32; TILE]],
    /// From panel to panel in `out`.
    pub stride: usize,
    /// Room for [`SCRATCH_LINES`].
    pub scratch: &'a mut [Line],
}

/// Results of a block of rows.
type Results = [[f32; TILE]; BLOCK_ROWS];

/// The integers of a block of rows: a line per row.
type Products = [Line; BLOCK_ROWS];

impl MultiplyAmx<'_> {
    /// Runs it, given proofs that the instructions are there.
    pub fn run(self, _: Amx, unit: Avx512) {
        let MultiplyAmx { panels, x, next, out, stride, scratch } = self;
        let Some(Panel { groups, .. }) = panels.first().filter(|_| x.row_blocks > 0) else { return };
        let mut outs = out.chunks_mut(stride);
        for panel in panels {
            panel.check();
            assert!(x.columns == panel.columns() && panel.groups == *groups && x.block == groups.block);
        }
        let rows = x.row_blocks * BLOCK_ROWS;
        let mut of_next = || {
            let out = outs.next().and_then(|out| out.get_mut(..rows)).expect("room for all rows");
            out.fill([0.0; TILE]);
            out.as_chunks_mut().0
        };
        let (parts, products) = scratch.split_at_mut((PANELS + 1) * size_of::<Parts>() / size_of::<Line>());
        let parts = parts.as_chunks_mut().0.as_chunks_mut().0.as_chunks_mut().0.first_chunk_mut();
        let parts = parts.expect("room for the super-blocks");
        let products = products.as_chunks_mut().0.as_chunks_mut().0.first_chunk_mut();
        let products = products.expect("room for two steps");
        // SAFETY: the proofs say that AVX-512 (as `Avx512` lists it) and AMX for bytes are there.
        unsafe {
            match *panels {
                [a] => all(unit, [a], x, next, [of_next()], parts, products),
                [a, b] => all(unit, [a, b], x, next, [of_next(), of_next()], parts, products),
                _ => panic!("{} panels at once", panels.len()),
            }
        }
    }
}

/// All steps of some panels.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn all<const T: usize>(
    unit: Avx512,
    panels: [Panel; T],
    x: Blocked,
    next: &[Line],
    outs: [&mut [Results]; T],
    parts: &mut [Parts; PANELS + 1],
    products: &mut [[Products; 2]; 2],
) {
    let groups = panels[0].groups;
    match (groups.block, groups.len, groups.mins) {
        (BLOCK, _, false) => blocks::<false, T>(panels, x, next, outs, products),
        (BLOCK, _, true) => blocks::<true, T>(panels, x, next, outs, products),
        (_, _, false) => super_blocks::<0, T>(unit, panels, x, next, outs, parts, products),
        (_, 32, true) => super_blocks::<4, T>(unit, panels, x, next, outs, parts, products),
        (_, _, true) => super_blocks::<8, T>(unit, panels, x, next, outs, parts, products),
    }
}

/// Sets the shapes of the tiles.
macro_rules! configure {
    ($columns:expr) => {{
        static SHAPES: Shapes = Shapes::new($columns);
        // SAFETY: who calls this has a proof that the instruction is there; the shapes are within its limits.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const SHAPES, options(nostack, readonly)) };
    }};
}

/// Clears the tiles, so that the processor need not keep them.
macro_rules! release {
    () => {
        // SAFETY: as for `configure`; nothing uses the tiles after this.
        unsafe { asm!("tilerelease", options(nostack, nomem)) }
    };
}

/// Stores a tile of results: a line per row.
macro_rules! store {
    ($tile:tt, $out:expr) => {{
        let out: &mut Products = $out;
        // SAFETY: as for `configure`; a result is sixteen rows of 64 bytes.
        unsafe {
            asm!(
                concat!("tilestored [{out} + {line}], ", $tile),
                line = in(reg) size_of::<Line>(),
                out = in(reg) out.as_mut_ptr(),
                options(nostack),
            );
        }
    }};
}

/// Sixteen rows of activations times sixteen rows of weights over 32 columns.
macro_rules! multiply_block {
    ($tile:tt, $x:expr, $weights:expr) => {{
        let (x, weights): (&[Line; CELL_LINES], &[[i32; TILE]; 8]) = ($x, $weights);
        // SAFETY: as for `configure`; sixteen rows of 32 bytes one after the other, and eight rows of 64.
        unsafe {
            asm!(
                concat!("tilezero ", $tile),
                "tileloadd tmm4, [{x} + {row}]",
                "tileloadd tmm6, [{weights} + {line}]",
                concat!("tdpbssd ", $tile, ", tmm4, tmm6"),
                x = in(reg) x.as_ptr(),
                row = in(reg) BLOCK,
                weights = in(reg) weights.as_ptr(),
                line = in(reg) size_of::<Line>(),
                out($tile) _,
                out("tmm4") _,
                out("tmm6") _,
                options(nostack, readonly),
            );
        }
    }};
}

/// Adds sixteen rows of activations times both parts of sixteen rows of weights over 64 columns.
macro_rules! multiply_pass {
    ($low:tt, $high:tt, $x:expr, $weights:expr) => {{
        let (x, [low, high]): (&Pass, &[Pass; 2]) = ($x, $weights);
        // SAFETY: as for `configure`; all three are sixteen rows of 64 bytes.
        unsafe {
            asm!(
                "tileloadd tmm4, [{x} + {line}]",
                "tileloadd tmm6, [{low} + {line}]",
                concat!("tdpbssd ", $low, ", tmm4, tmm6"),
                "tileloadd tmm7, [{high} + {line}]",
                concat!("tdpbssd ", $high, ", tmm4, tmm7"),
                x = in(reg) x.as_ptr(),
                low = in(reg) low.as_ptr(),
                high = in(reg) high.as_ptr(),
                line = in(reg) size_of::<Line>(),
                out($low) _,
                out($high) _,
                out("tmm4") _,
                out("tmm6") _,
                out("tmm7") _,
                options(nostack, readonly),
            );
        }
    }};
}

/// Sets two tiles of results to zero.
macro_rules! clear {
    ($low:tt, $high:tt) => {
        // SAFETY: as for `configure`.
        unsafe {
            asm!(
                concat!("tilezero ", $low),
                concat!("tilezero ", $high),
                out($low) _,
                out($high) _,
                options(nostack, nomem)
            )
        }
    };
}

/// Blocks of 32 columns: a step is one of them for one block of rows and one panel.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn blocks<const MINS: bool, const T: usize>(
    panels: [Panel; T],
    x: Blocked,
    next: &[Line],
    mut outs: [&mut [Results]; T],
    products: &mut [[Products; 2]; 2],
) {
    configure!(BLOCK);
    let [[first, _], [second, _]] = products;
    let steps = x.columns / BLOCK;
    let mut next = next.chunks(next.len().div_ceil((steps * x.row_blocks * T).max(1)).max(1));
    for b in 0..x.row_blocks {
        let RowBlock { integers, scales, scaled_sums } = x.block(b);
        for (panel, out) in panels.iter().zip(&mut outs) {
            let out = &mut out[b];
            let weights = &panel.integers.words().as_chunks::<8>().0[..steps];
            let (w_scales, w_mins) = (&panel.scales[..steps], &panel.mins[..if MINS { steps } else { 0 }]);
            for step in 0..steps + 2 {
                let even = step.is_multiple_of(2);
                let (stored, scaled) = if even { (&mut *second, &*first) } else { (&mut *first, &*second) };
                if step < steps {
                    next.next().into_iter().for_each(|lines| fetch(lines));
                    let (x, w) = (&integers[step], &weights[step]);
                    if even { multiply_block!("tmm0", x, w) } else { multiply_block!("tmm1", x, w) }
                }
                let mut scale = |half: usize| {
                    if let Some(i) = step.checked_sub(2) {
                        let min = if MINS { Some(&w_mins[i]) } else { None };
                        scale_block((&w_scales[i], min), (&scales[i], &scaled_sums[i]), scaled, out, half);
                    }
                };
                scale(0);
                if (1..=steps).contains(&step) {
                    if even { store!("tmm1", stored) } else { store!("tmm0", stored) }
                }
                scale(1);
            }
        }
    }
    release!();
}

/// Asks for lines ahead of their use.
#[inline]
#[target_feature(enable = "avx512f")]
fn fetch(lines: &[Line]) {
    for line in lines {
        _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(line).cast());
    }
}

/// Half a block of rows: results += (scale · activation scale) · products, then += min · scaled sum.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn scale_block(
    (scale, min): (&[f32; TILE], Option<&[f32; TILE]>),
    (x_scales, x_sums): (&[f32; BLOCK_ROWS], &[f32; BLOCK_ROWS]),
    products: &Products,
    out: &mut Results,
    half: usize,
) {
    let (scale, min) = (load(scale), min.map(|min| load(min)));
    for r in half * BLOCK_ROWS / 2..(half + 1) * BLOCK_ROWS / 2 {
        let factor = _mm512_mul_ps(scale, _mm512_set1_ps(x_scales[r]));
        let mut sum = _mm512_fmadd_ps(factor, _mm512_cvtepi32_ps(load_i32(&products[r].0)), load(&out[r]));
        if let Some(min) = min {
            sum = _mm512_fmadd_ps(min, _mm512_set1_ps(x_sums[r]), sum);
        }
        save(sum, &mut out[r]);
    }
}

/// Which super-block of columns, block of rows and panel a step is for: all panels, then the next rows,
/// then the next columns.
#[derive(Clone, Copy, Default)]
struct Place {
    columns: usize,
    rows: usize,
    panel: usize,
}

impl Place {
    /// This one, and goes on to the next.
    fn next(&mut self, row_blocks: usize, panels: usize) -> Place {
        let place = *self;
        self.panel += 1;
        if self.panel == panels {
            *self = Place { rows: self.rows + 1, panel: 0, ..*self };
        }
        if self.rows == row_blocks {
            *self = Place { columns: self.columns + 1, ..Place::default() };
        }
        place
    }
}

/// Blocks of 256 columns: a step is one of them for one block of rows and one panel. Factor times integer
/// has more than eight bits, so the weights are in two parts: low + 128 · high. `PAIRS`: pairs of min
/// factors.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn super_blocks<const PAIRS: usize, const T: usize>(
    unit: Avx512,
    panels: [Panel; T],
    x: Blocked,
    next: &[Line],
    mut outs: [&mut [Results]; T],
    parts: &mut [Parts; PANELS + 1],
    products: &mut [[Products; 2]; 2],
) {
    configure!(PASS);
    let [first, second] = products;
    let super_blocks = x.columns / SUPER_BLOCK * T;
    let (row_blocks, steps) = (x.row_blocks, super_blocks * x.row_blocks);
    let (mut multiplied, mut scaled) = (Place::default(), Place::default());
    let mut next = next.chunks(next.len().div_ceil((PASSES * steps).max(1)).max(1));
    // A super-block of a panel is split while the one before it is multiplied for the first time: what was
    // just written cannot be loaded as a tile before it has reached the cache.
    let split_ahead = |parts: &mut [Parts; PANELS + 1], index: usize| {
        if index < super_blocks {
            split(unit, panels[index % T], index / T, &mut parts[index % (T + 1)]);
        }
    };
    split_ahead(parts, 0);
    for step in 0..steps + 2 {
        let even = step.is_multiple_of(2);
        let ([low, high], products) = if even { (&mut *second, &*first) } else { (&mut *first, &*second) };
        let factors = (step < steps).then(|| {
            let Place { columns, rows, panel } = multiplied.next(row_blocks, T);
            if even {
                clear!("tmm0", "tmm1")
            } else {
                clear!("tmm2", "tmm3")
            }
            let index = columns * T + panel;
            (x.super_block(rows, columns), index % (T + 1), (rows == 0).then_some(index))
        });
        let mut sums = (step >= 2).then(|| {
            let Place { columns, rows, panel } = scaled.next(row_blocks, T);
            let scales = Scales::<PAIRS>::new(panels[panel], columns);
            (scales, x.super_scales(rows, columns), &mut outs[panel][rows])
        });
        macro_rules! pass {
            ($pass:literal) => {
                if let Some((x, weights, _)) = factors {
                    let (x, weights) = (&x[$pass], &parts[weights][$pass]);
                    next.next().into_iter().for_each(|lines| fetch(lines));
                    if even {
                        multiply_pass!("tmm0", "tmm1", x, weights);
                    } else {
                        multiply_pass!("tmm2", "tmm3", x, weights);
                    }
                }
                if $pass < 2 && (1..=steps).contains(&step) {
                    match ($pass, even) {
                        (0, false) => store!("tmm0", low),
                        (0, true) => store!("tmm2", low),
                        (_, false) => store!("tmm1", high),
                        (_, true) => store!("tmm3", high),
                    }
                }
                if let Some((scales, x, out)) = &mut sums {
                    scales.add::<$pass>(*x, products, out);
                }
            };
        }
        pass!(0);
        pass!(1);
        pass!(2);
        pass!(3);
        if let Some((_, _, Some(index))) = factors {
            split_ahead(parts, index + 1);
        }
    }
    release!();
}

/// The scales of a super-block of weights.
struct Scales<const PAIRS: usize> {
    scale: __m512,
    min: __m512,
    min_pairs: [__m512i; PAIRS],
}

impl<const PAIRS: usize> Scales<PAIRS> {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    fn new(panel: Panel, b: usize) -> Scales<PAIRS> {
        let mut min_pairs = [_mm512_setzero_si512(); PAIRS];
        if PAIRS == 0 {
            return Scales { scale: load(&panel.scales[b]), min: _mm512_setzero_ps(), min_pairs };
        }
        for (pair, stored) in min_pairs.iter_mut().zip(&panel.min_pairs[b * PAIRS..][..PAIRS]) {
            *pair = load_i32(stored);
        }
        Scales { scale: load(&panel.scales[b]), min: load(&panel.mins[b]), min_pairs }
    }

    /// A quarter of a block of rows: results += (scale · activation scale) · (low + 128 · high), then
    /// += min · (activation scale · Σ min factor · sum).
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    fn add<const QUARTER: usize>(&self, x: SuperScales, [low, high]: &[Products; 2], out: &mut Results) {
        for r in QUARTER * BLOCK_ROWS / 4..(QUARTER + 1) * BLOCK_ROWS / 4 {
            let x_scale = _mm512_set1_ps(x.scales[r]);
            let high = _mm512_slli_epi32::<7>(load_i32(&high[r].0));
            let integers = _mm512_cvtepi32_ps(_mm512_add_epi32(high, load_i32(&low[r].0)));
            let mut sum = _mm512_fmadd_ps(_mm512_mul_ps(self.scale, x_scale), integers, load(&out[r]));
            if PAIRS > 0 {
                let mut sums = _mm512_setzero_si512();
                for i in 0..PAIRS {
                    let x = if PAIRS == 4 { x.pairs_32[r][i] } else { x.pairs_16[r][i] };
                    sums = _mm512_dpwssd_epi32(sums, self.min_pairs[i], _mm512_set1_epi32(x));
                }
                sum = _mm512_fmadd_ps(self.min, _mm512_mul_ps(x_scale, _mm512_cvtepi32_ps(sums)), sum);
            }
            save(sum, &mut out[r]);
        }
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
