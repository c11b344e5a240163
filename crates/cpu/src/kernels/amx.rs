//! Linear layers in `q8` arithmetic on AMX: the tile unit multiplies sixteen rows of activations with
//! sixteen rows of weights, one group of columns at a time, into exact integers; the vector unit scales
//! and adds them in the order of the groups, as `arithmetic::dot_q8` has it.

use std::arch::asm;
use std::sync::OnceLock;

use gleed_model::arithmetic::ACTIVATION_BLOCK;

use super::blocked::{BLOCK_ROWS, Blocked, CELL_LINES, block_lines};
use super::integer::{Panel, TILE};
use super::packed::Line;
use super::simd::{Kernel, Simd};

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
    /// Results in tiles 0 to 3, activations in 4 and 5, weights in 6 and 7; `group` columns at a time.
    fn new(group: usize) -> Shapes {
        let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
        for i in 0..4 {
            (row_bytes[i], rows[i]) = (64, 16);
        }
        for i in 4..6 {
            (row_bytes[i], rows[i]) = (group as u16, 16);
            (row_bytes[2 + i], rows[2 + i]) = (64, (group / 4) as u8);
        }
        Shapes { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows }
    }
}

/// Multiplies a panel with blocks of activations.
#[derive(Debug)]
pub struct MultiplyAmx<'a> {
    /// Proof that the instructions are there.
    pub amx: Amx,
    /// All columns of sixteen rows of weights.
    pub panel: Panel<'a>,
    /// The activations.
    pub x: Blocked<'a>,
    /// One result per row of activations and row of weights; whole blocks of rows.
    pub out: &'a mut [[f32; TILE]],
    /// Room for [`TILE_SCRATCH`](super::blocked::TILE_SCRATCH) lines.
    pub scratch: &'a mut [Line],
}

/// The integers of one group: a line per row of activations.
type Products = [Line; BLOCK_ROWS];

impl Kernel for MultiplyAmx<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let MultiplyAmx { amx: Amx(()), panel, x, out, scratch } = self;
        let (stages, _) = scratch.as_chunks_mut::<BLOCK_ROWS>().0.as_chunks_mut::<STAGE>();
        let integers: &mut Stages = stages.first_chunk_mut().expect("room for two stages");
        let (groups, lines) = (x.columns / panel.group, block_lines(x.columns));
        let (blocks, rest) = out.as_chunks_mut::<BLOCK_ROWS>();
        assert!(rest.is_empty() && x.lines.len() >= blocks.len() * lines);
        assert!(panel.integers.len() == x.columns / 4 && panel.scales.len() == groups);
        // Mins go with groups of 32, for which the blocks have sums.
        assert!(panel.group == 32 || panel.group == 16 && panel.mins.is_empty());
        assert!(panel.mins.is_empty() || panel.mins.len() == groups);
        let shapes = Shapes::new(panel.group);
        // SAFETY: a value of `Amx` proves that the instruction is there; the shapes are within its limits.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const shapes, options(nostack, readonly)) };
        for (block, out) in x.lines.chunks_exact(lines).zip(blocks) {
            let cells = x.columns / ACTIVATION_BLOCK;
            let (q, rest) = block.split_at(cells * CELL_LINES);
            let (scales, sums) = rest.split_at(cells);
            let sums = bytemuck::cast_slice(sums);
            match panel.group {
                16 => products::<S, 16>(s, panel, q, bytemuck::cast_slice(scales), integers, out),
                _ => products::<S, 32>(s, panel, q, bytemuck::cast_slice(scales), integers, out),
            }
            if !panel.mins.is_empty() {
                add_mins(s, panel.mins, sums, out);
            }
        }
        // SAFETY: as above; nothing uses the tiles after this.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// Groups per stage. A stage passes through three steps, one after the other: the tile unit multiplies,
/// then its results are stored, then the vector unit scales them. Each step has time for what it waits
/// for (a product takes dozens of cycles, and a stored tile cannot be loaded before it reaches the cache)
/// while the other two work on the stages before and after.
const STAGE: usize = 2;

/// The products of two stages: one that is being stored, one that is being scaled.
type Stages = [[Products; STAGE]; 2];

/// out = Σ (weight scale · activation scale) · integers + 0, group by group.
#[inline(always)]
fn products<S: Simd, const GROUP: usize>(
    s: S,
    panel: Panel,
    x: &[Line],
    x_scales: &[[f32; BLOCK_ROWS]],
    integers: &mut Stages,
    out: &mut [[f32; TILE]; BLOCK_ROWS],
) {
    let groups = panel.scales.len();
    let stages = groups / STAGE;
    let mut sums = [s.splat(0.0); BLOCK_ROWS];
    for step in 0..stages + 2 {
        if step < stages {
            multiply_stage::<GROUP>(panel, x, step);
        }
        if (1..=stages).contains(&step) {
            store_stage(step - 1, &mut integers[(step - 1) % 2]);
        }
        if step >= 2 {
            for (i, integers) in integers[step % 2].iter().enumerate() {
                let group = (step - 2) * STAGE + i;
                let x_scales = &x_scales[group * GROUP / ACTIVATION_BLOCK];
                add_group(s, &panel.scales[group], x_scales, integers, &mut sums);
            }
        }
    }
    for group in stages * STAGE..groups {
        let integers = &mut integers[0][0];
        multiply_group::<GROUP>(panel, x, group, integers);
        let x_scales = &x_scales[group * GROUP / ACTIVATION_BLOCK];
        add_group(s, &panel.scales[group], x_scales, integers, &mut sums);
    }
    for (sum, out) in sums.into_iter().zip(out) {
        s.store(s.add(sum, s.splat(0.0)), out);
    }
}

/// sums += (weight scale · activation scale) · integers, for one group.
#[inline(always)]
fn add_group<S: Simd>(
    s: S,
    scales: &[f32; TILE],
    x_scales: &[f32; BLOCK_ROWS],
    integers: &Products,
    sums: &mut [S::F32; BLOCK_ROWS],
) {
    let scale = s.load(scales);
    for r in 0..BLOCK_ROWS {
        let factor = s.mul(scale, s.splat(x_scales[r]));
        sums[r] = s.mul_add(factor, s.to_f32(s.load_i32(&integers[r].0)), sums[r]);
    }
}

/// out += Σ min · (activation scale · Σ activations), group by group.
#[inline(always)]
fn add_mins<S: Simd>(
    s: S,
    mins: &[[f32; TILE]],
    x_sums: &[[f32; BLOCK_ROWS]],
    out: &mut [[f32; TILE]; BLOCK_ROWS],
) {
    let mut sums = [s.splat(0.0); BLOCK_ROWS];
    for (min, x_sums) in mins.iter().zip(x_sums) {
        let min = s.load(min);
        for r in 0..BLOCK_ROWS {
            sums[r] = s.mul_add(min, s.splat(x_sums[r]), sums[r]);
        }
    }
    for (sum, out) in sums.into_iter().zip(out) {
        s.store(s.add(s.load(out), sum), out);
    }
}

/// Where the activations of a group are, in bytes from those of a group that starts a cell.
const fn offset(group: usize, columns: usize) -> usize {
    let cell = group * columns / ACTIVATION_BLOCK;
    cell * CELL_LINES * size_of::<Line>() + group * columns % ACTIVATION_BLOCK
}

/// The operands of the tile unit for some groups, checked: activations and weights.
#[inline(always)]
fn operands<const GROUP: usize>(
    panel: Panel,
    x: &[Line],
    first: usize,
    count: usize,
) -> (*const u8, *const u8) {
    let words = GROUP / 4;
    let weights = &panel.integers[first * words..][..count * words];
    let cells = (first * GROUP / ACTIVATION_BLOCK)..((first + count) * GROUP).div_ceil(ACTIVATION_BLOCK);
    let activations = &x[cells.start * CELL_LINES..cells.end * CELL_LINES];
    let inside = first * GROUP % ACTIVATION_BLOCK;
    (activations.as_ptr().cast::<u8>().wrapping_add(inside), weights.as_ptr().cast())
}

/// Sixteen rows of activations times sixteen rows of weights, over the columns of one group.
#[inline(always)]
fn multiply_group<const GROUP: usize>(panel: Panel, x: &[Line], group: usize, out: &mut Products) {
    let (activations, weights) = operands::<GROUP>(panel, x, group, 1);
    // SAFETY: the caller has a proof that the instructions are there and has loaded the shapes: sixteen
    // rows of a group's bytes at a distance of a cell's 32, a row of 64 bytes for each word of weights,
    // both inside what `operands` checked; and sixteen rows of 64 bytes in `out`.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tileloadd tmm4, [{activations} + {row}]",
            "tileloadd tmm6, [{weights} + {line}]",
            "tdpbssd tmm0, tmm4, tmm6",
            "tilestored [{out} + {line}], tmm0",
            activations = in(reg) activations,
            row = in(reg) ACTIVATION_BLOCK,
            weights = in(reg) weights,
            line = in(reg) size_of::<Line>(),
            out = in(reg) out.as_mut_ptr(),
            out("tmm0") _,
            out("tmm4") _,
            out("tmm6") _,
            options(nostack),
        );
    }
}

/// The products of a stage's groups, left in tiles 0 and 1 for even stages and 2 and 3 for odd ones.
#[inline(always)]
fn multiply_stage<const GROUP: usize>(panel: Panel, x: &[Line], stage: usize) {
    let (activations, weights) = operands::<GROUP>(panel, x, stage * STAGE, STAGE);
    macro_rules! multiply {
        ($first:tt, $second:tt) => {
            // SAFETY: as for one group; the two follow each other in activations and weights.
            unsafe {
                asm!(
                    concat!("tilezero ", $first),
                    concat!("tilezero ", $second),
                    "tileloadd tmm4, [{activations} + {row}]",
                    "tileloadd tmm6, [{weights} + {line}]",
                    "tileloadd tmm5, [{activations} + {row} + {second}]",
                    "tileloadd tmm7, [{weights} + {line} + 16 * {group}]",
                    concat!("tdpbssd ", $first, ", tmm4, tmm6"),
                    concat!("tdpbssd ", $second, ", tmm5, tmm7"),
                    activations = in(reg) activations,
                    row = in(reg) ACTIVATION_BLOCK,
                    weights = in(reg) weights,
                    line = in(reg) size_of::<Line>(),
                    group = const GROUP,
                    second = const offset(1, GROUP),
                    out($first) _,
                    out($second) _,
                    out("tmm4") _,
                    out("tmm5") _,
                    out("tmm6") _,
                    out("tmm7") _,
                    options(nostack, readonly),
                );
            }
        };
    }
    if stage.is_multiple_of(2) { multiply!("tmm0", "tmm1") } else { multiply!("tmm2", "tmm3") }
}

/// Stores what [`multiply_stage`] left in the tiles. Nothing but this file uses them, so they are still there.
#[inline(always)]
fn store_stage(stage: usize, out: &mut [Products; STAGE]) {
    macro_rules! store {
        ($first:tt, $second:tt) => {
            // SAFETY: two results of sixteen rows of 64 bytes.
            unsafe {
                asm!(
                    concat!("tilestored [{out} + {line}], ", $first),
                    concat!("tilestored [{out} + {line} + 1024], ", $second),
                    line = in(reg) size_of::<Line>(),
                    out = in(reg) out.as_mut_ptr(),
                    options(nostack),
                );
            }
        };
    }
    if stage.is_multiple_of(2) { store!("tmm0", "tmm1") } else { store!("tmm2", "tmm3") }
}
