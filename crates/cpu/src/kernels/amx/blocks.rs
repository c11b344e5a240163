//! Blocks of 32 columns: a step is one of them for one block of rows and one panel. The results of a block
//! of rows stay in registers until its last step.

use std::arch::asm;
use std::arch::x86_64::*;

use gleed_model::arithmetic::BLOCK;

use super::tiles::{Shapes, clear, configure, load_tile, multiply, release, store};
use super::{Outs, Products, fetch, load, save};
use crate::kernels::blocked::{BLOCK_ROWS, Blocked, RowBlock};
use crate::kernels::integer::Panel;
use crate::kernels::tile::{Line, TILE};

/// Panels that are multiplied in turn with the same rows: these come from the second cache level, and the
/// second panel finds them in the first.
const PANELS: usize = 2;

/// All steps.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) fn blocks<const MINS: bool>(
    panels: &[Panel],
    x: Blocked,
    next: &[Line],
    outs: &mut Outs,
    [first, second]: [&mut Products; 2],
) {
    configure!(BLOCK);
    let steps = x.columns / BLOCK;
    let all_steps = steps * x.row_blocks * panels.len();
    let mut next = next.chunks(next.len().div_ceil(all_steps.max(1)).max(1));
    for (b, pair) in
        (0..panels.len()).step_by(PANELS).flat_map(|pair| (0..x.row_blocks).map(move |b| (b, pair)))
    {
        let RowBlock { integers, scales, scaled_sums } = x.block(b);
        for (t, panel) in panels.iter().enumerate().skip(pair).take(PANELS) {
            let weights = &panel.integers.words().as_chunks::<8>().0[..steps];
            let (w_scales, w_mins) = (&panel.scales[..steps], &panel.mins[..if MINS { steps } else { 0 }]);
            let mut sums = [_mm512_setzero_ps(); BLOCK_ROWS];
            for step in 0..steps + 2 {
                let even = step.is_multiple_of(2);
                let (stored, products) = if even { (&mut *second, &*first) } else { (&mut *first, &*second) };
                if step < steps {
                    next.next().into_iter().for_each(|lines| fetch(lines));
                    load_tile!("tmm4", integers[step], BLOCK);
                    load_tile!("tmm6", weights[step], size_of::<Line>());
                    if even {
                        clear!("tmm0");
                        multiply!("tmm0", "tmm4", "tmm6")
                    } else {
                        clear!("tmm1");
                        multiply!("tmm1", "tmm4", "tmm6")
                    }
                }
                if (1..=steps).contains(&step) {
                    if even { store!("tmm1", stored) } else { store!("tmm0", stored) }
                }
                if let Some(i) = step.checked_sub(2) {
                    let (scale, min) =
                        (load(&w_scales[i]), if MINS { load(&w_mins[i]) } else { load(&w_scales[i]) });
                    for r in 0..BLOCK_ROWS {
                        sums[r] = add_scaled(sums[r], scale, &scales[i][r], &products[r].0);
                        if MINS {
                            sums[r] = _mm512_fmadd_ps(min, _mm512_set1_ps(scaled_sums[i][r]), sums[r]);
                        }
                    }
                }
            }
            for (sum, out) in sums.iter().zip(outs.of(t, b)) {
                save(*sum, out);
            }
        }
    }
    release!();
}

/// Adds (scale · activation scale) · product. In this order: the compiler would begin with all scales, for
/// which there are not registers enough.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_scaled(mut sum: __m512, scale: __m512, x_scale: &f32, product: &[i32; TILE]) -> __m512 {
    let (_factor, _value): (__m512, __m512);
    // SAFETY: instructions which this function is compiled for, that read four bytes and 64.
    unsafe {
        asm!(
            "vmulps {factor}, {scale}, dword ptr [{x_scale}]{{1to16}}",
            "vcvtdq2ps {value}, zmmword ptr [{product}]",
            "vfmadd231ps {sum}, {factor}, {value}",
            factor = out(zmm_reg) _factor,
            value = out(zmm_reg) _value,
            sum = inout(zmm_reg) sum,
            scale = in(zmm_reg) scale,
            x_scale = in(reg) x_scale,
            product = in(reg) product,
            options(pure, readonly, nostack),
        );
    }
    sum
}
