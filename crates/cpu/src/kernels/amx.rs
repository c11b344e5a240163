//! Linear layers in `q8` arithmetic on AMX: the tile unit multiplies sixteen rows of activations with
//! sixteen rows of weights, one group of columns at a time, into exact integers; the vector unit scales
//! and adds them in the order of the groups, as `arithmetic::dot_q8` has it.

use std::arch::asm;
use std::sync::OnceLock;

use gleed_model::arithmetic::{ACTIVATION_BLOCK, LANES};

use super::integer::{Panel, Quantized, TILE};
use super::packed::Line;
use super::quantize::{QuantizedRow, row_words};
use super::simd::{Kernel, Simd};

/// Rows of activations that the tile unit takes at once.
pub const AMX_ROWS: usize = 16;

/// Proof that this machine has AMX for bytes, and that this process may use it.
#[derive(Debug, Clone, Copy)]
pub struct Amx(());

impl Amx {
    /// The proof, where the machine has it and the system agrees.
    pub fn detect() -> Option<Amx> {
        static FOUND: OnceLock<bool> = OnceLock::new();
        let found = super::avx512::Avx512::detect().is_some() && *FOUND.get_or_init(is_usable);
        found.then_some(Amx(()))
    }
}

/// Asks the processor, then the system: tile registers are large, and a process must request them once.
fn is_usable() -> bool {
    let features = std::arch::x86_64::__cpuid_count(7, 0).edx;
    let (tiles, bytes) = (features >> 24 & 1, features >> 25 & 1);
    tiles == 1 && bytes == 1 && request_permission()
}

#[cfg(target_os = "linux")]
fn request_permission() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const REQUEST_STATE: i64 = 0x1023;
    const TILE_DATA: i64 = 18;
    let result: i64;
    // SAFETY: the call changes nothing but which registers this process may use, and touches no memory;
    // the registers that the kernel overwrites are named.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") REQUEST_STATE,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn request_permission() -> bool {
    false
}

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
    /// Results in tiles 0 and 1, activations in 2 and 3, weights in 4 and 5; `group` columns at a time.
    fn new(group: usize) -> Shapes {
        let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
        for i in 0..2 {
            (row_bytes[i], rows[i]) = (64, 16);
            (row_bytes[2 + i], rows[2 + i]) = (group as u16, 16);
            (row_bytes[4 + i], rows[4 + i]) = (64, (group / 4) as u8);
        }
        Shapes { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows }
    }
}

/// Multiplies a panel with rows of activations, a multiple of [`AMX_ROWS`].
#[derive(Debug)]
pub struct MultiplyAmx<'a> {
    /// Proof that the instructions are there.
    pub amx: Amx,
    /// All columns of sixteen rows of weights.
    pub panel: Panel<'a>,
    /// The activations.
    pub x: Quantized<'a>,
    /// One result per row of activations and row of weights.
    pub out: &'a mut [[f32; TILE]],
}

/// The integers of one group: a line per row of activations.
type Products = [Line; AMX_ROWS];

impl Kernel for MultiplyAmx<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let MultiplyAmx { amx: Amx(()), panel, x, out } = self;
        let (groups, words) = (x.columns / panel.group, row_words(x.columns));
        assert!(x.rows.is_multiple_of(AMX_ROWS) && out.len() == x.rows);
        assert!(panel.integers.len() == x.columns / 4 && panel.scales.len() == groups);
        assert!(matches!(panel.group, 16 | 32) && x.words.len() >= x.rows * words);
        assert!(panel.mins.is_empty() || panel.mins.len() == groups);
        let shapes = Shapes::new(panel.group);
        // SAFETY: a value of `Amx` proves that the instruction is there; the shapes are within its limits.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const shapes, options(nostack, readonly)) };
        for (block, out) in out.as_chunks_mut::<AMX_ROWS>().0.iter_mut().enumerate() {
            let rows = &x.words[block * AMX_ROWS * words..][..AMX_ROWS * words];
            let rows = Rows { words: rows, columns: x.columns, group: panel.group };
            match panel.mins.is_empty() {
                true => products::<S>(s, panel, rows, out),
                false => {
                    products::<S>(s, panel, rows, out);
                    add_mins::<S>(s, panel, rows, out);
                }
            }
        }
        // SAFETY: as above; nothing uses the tiles after this.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// Sixteen quantised rows.
#[derive(Clone, Copy)]
struct Rows<'a> {
    words: &'a [i32],
    columns: usize,
    group: usize,
}

impl<'a> Rows<'a> {
    /// The parts of each row.
    #[inline(always)]
    fn each(self) -> [QuantizedRow<'a>; AMX_ROWS] {
        let words = row_words(self.columns);
        std::array::from_fn(|r| {
            QuantizedRow::new(&self.words[r * words..][..words], self.columns, self.group)
        })
    }
}

/// out = Σ (weight scale · activation scale) · integers + 0, group by group.
#[inline(always)]
fn products<S: Simd>(s: S, panel: Panel, rows: Rows, out: &mut [[f32; TILE]; AMX_ROWS]) {
    let each = rows.each();
    let groups = panel.scales.len();
    let per_block = ACTIVATION_BLOCK / panel.group;
    let mut integers: [Products; 2] = [[Line([0; LANES]); AMX_ROWS]; 2];
    let mut sums = [s.splat(0.0); AMX_ROWS];
    if groups > 0 {
        multiply_group(panel, rows, 0, &mut integers[0]);
    }
    for g in 0..groups {
        // The tile unit works on the next group while the vector unit scales this one.
        let [even, odd] = &mut integers;
        let (this, next) = if g % 2 == 0 { (even, odd) } else { (odd, even) };
        if g + 1 < groups {
            multiply_group(panel, rows, g + 1, next);
        }
        let scale = s.load(&panel.scales[g]);
        for r in 0..AMX_ROWS {
            // SAFETY: a row has a scale for every block of columns, and g / per_block is one of them.
            let x_scale = unsafe { *each[r].scales.get_unchecked(g / per_block) };
            let factor = s.mul(scale, s.splat(x_scale));
            sums[r] = s.mul_add(factor, s.to_f32(s.load_i32(&this[r].0)), sums[r]);
        }
    }
    for (sum, out) in sums.into_iter().zip(out) {
        s.store(s.add(sum, s.splat(0.0)), out);
    }
}

/// out += Σ min · (activation scale · Σ activations), group by group.
#[inline(always)]
fn add_mins<S: Simd>(s: S, panel: Panel, rows: Rows, out: &mut [[f32; TILE]; AMX_ROWS]) {
    let each = rows.each();
    let mut sums = [s.splat(0.0); AMX_ROWS];
    for (g, min) in panel.mins.iter().enumerate() {
        let min = s.load(min);
        for r in 0..AMX_ROWS {
            // SAFETY: a row has a sum for every group, and there are as many mins as groups.
            let x_sum = unsafe { *each[r].scaled_sums.get_unchecked(g) };
            sums[r] = s.mul_add(min, s.splat(x_sum), sums[r]);
        }
    }
    for (sum, out) in sums.into_iter().zip(out) {
        s.store(s.add(s.load(out), sum), out);
    }
}

/// Sixteen rows of activations times sixteen rows of weights, over the columns of one group.
#[inline(always)]
fn multiply_group(panel: Panel, rows: Rows, group: usize, out: &mut Products) {
    let words = panel.group / 4;
    let weights = &panel.integers[group * words..][..words];
    let activations = &rows.words[group * words..];
    let stride = row_words(rows.columns) * size_of::<i32>();
    assert!(size_of_val(activations) >= (AMX_ROWS - 1) * stride + panel.group);
    // SAFETY: the caller has a proof that the instructions are there and has loaded the shapes: sixteen
    // rows of a group's bytes at a distance of `stride`, which the assertion above keeps inside
    // `activations`; a row of 64 bytes for each word of `weights`; and sixteen rows of 64 bytes in `out`.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tileloadd tmm2, [{activations} + {stride}]",
            "tileloadd tmm4, [{weights} + {line}]",
            "tdpbssd tmm0, tmm2, tmm4",
            "tilestored [{out} + {line}], tmm0",
            activations = in(reg) activations.as_ptr(),
            stride = in(reg) stride,
            weights = in(reg) weights.as_ptr(),
            line = in(reg) size_of::<Line>(),
            out = in(reg) out.as_mut_ptr(),
            out("tmm0") _,
            out("tmm2") _,
            out("tmm4") _,
            options(nostack),
        );
    }
}
