//! The kernels: one op per file, written once against the sixteen lanes of [`simd::Simd`] and compiled
//! for every instruction set. All `unsafe` code of this crate is in this folder.
//!
//! Every kernel computes exactly what `gleed_model::arithmetic` defines, bit for bit, so that nothing
//! depends on the instruction set.

pub mod activate;
pub mod add;
#[cfg(target_arch = "x86_64")]
pub mod amx;
mod apart;
pub mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_vnni;
pub mod blocked;
pub mod chain;
pub mod convert;
pub mod dot;
pub mod fade;
pub mod index;
pub mod integer;
mod isa;
pub mod limits;
pub mod low_rank;
pub mod many;
pub mod map;
mod math;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod norm;
pub mod packed;
pub(crate) mod pool;
mod portable;
pub mod products;
pub mod quantize;
pub mod recur;
pub mod rope;
pub(crate) mod shared;
pub mod simd;
pub(crate) mod slots;
pub mod softmax;
pub mod streams;
pub mod tile;
pub mod unpack;
#[cfg(target_arch = "x86_64")]
mod vnni;
pub mod wkv;

use blocked::{Blocked, MultiplyBlocks};
use integer::Panel;
pub use isa::Isa;
use simd::{Kernel, Simd};
use tile::{Line, TILE};
#[cfg(target_arch = "x86_64")]
use vnni::Vnni;

/// The kernels of one instruction set, chosen once.
#[derive(Debug, Clone, Copy)]
pub struct Kernels {
    unit: Unit,
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    Portable(portable::Portable),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    AvxVnni(avx_vnni::AvxVnni),
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
    #[cfg(target_arch = "x86_64")]
    Amx(avx512::Avx512, amx::Amx),
    #[cfg(target_arch = "aarch64")]
    Neon(neon::Neon),
    #[cfg(target_arch = "aarch64")]
    NeonI8mm(neon::Neon, neon::Matrices),
}

impl Kernels {
    /// The kernels of an instruction set; `None` where the machine does not have it.
    pub fn new(isa: Isa) -> Option<Kernels> {
        let unit = match isa {
            Isa::Portable => Some(Unit::Portable(portable::Portable)),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::Avx2::detect().map(Unit::Avx2),
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni => avx_vnni::AvxVnni::detect().map(Unit::AvxVnni),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::Avx512::detect().map(Unit::Avx512),
            #[cfg(target_arch = "x86_64")]
            Isa::Amx => {
                avx512::Avx512::detect().zip(amx::Amx::detect()).map(|(unit, amx)| Unit::Amx(unit, amx))
            }
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::AvxVnni | Isa::Avx512 | Isa::Amx => None,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => neon::Neon::detect().map(Unit::Neon),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonI8mm => neon::Neon::detect()
                .zip(neon::Matrices::detect())
                .map(|(unit, matrices)| Unit::NeonI8mm(unit, matrices)),
            #[cfg(not(target_arch = "aarch64"))]
            Isa::Neon | Isa::NeonI8mm => None,
        };
        unit.map(|unit| Kernels { unit })
    }

    /// Which instruction set they use.
    pub fn isa(self) -> Isa {
        match self.unit {
            Unit::Portable(_) => Isa::Portable,
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2(_) => Isa::Avx2,
            #[cfg(target_arch = "x86_64")]
            Unit::AvxVnni(_) => Isa::AvxVnni,
            #[cfg(target_arch = "x86_64")]
            Unit::Avx512(_) => Isa::Avx512,
            #[cfg(target_arch = "x86_64")]
            Unit::Amx(..) => Isa::Amx,
            #[cfg(target_arch = "aarch64")]
            Unit::Neon(_) => Isa::Neon,
            #[cfg(target_arch = "aarch64")]
            Unit::NeonI8mm(..) => Isa::NeonI8mm,
        }
    }

    /// Multiplies panels with blocks of activations on the machine's tile unit, or what stands in for one,
    /// which must be there; what will be unpacked next is fetched meanwhile. The results of the second panel
    /// follow after `stride` rows. `scratch` is room for [`Kernels::tile_scratch`] lines.
    pub fn multiply_blocks(
        self,
        panels: &[Panel],
        x: Blocked,
        next: &[Line],
        out: &mut [[f32; TILE]],
        stride: usize,
        scratch: &mut [Line],
    ) {
        let job = MultiplyBlocks { panels, x, next, out, stride, scratch };
        match self.unit {
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2(unit) => avx2::blocks::multiply(unit, job),
            #[cfg(target_arch = "x86_64")]
            Unit::AvxVnni(unit) => vnni::multiply(unit, job),
            #[cfg(target_arch = "x86_64")]
            Unit::Avx512(unit) => vnni::multiply(unit, job),
            #[cfg(target_arch = "x86_64")]
            Unit::Amx(unit, amx) => amx::multiply(amx, unit, job),
            #[cfg(target_arch = "aarch64")]
            Unit::Neon(unit) => neon::multiply(unit, None, job),
            #[cfg(target_arch = "aarch64")]
            Unit::NeonI8mm(unit, matrices) => neon::multiply(unit, Some(matrices), job),
            _ => panic!("there is no tile unit for {} panels", job.panels.len()),
        }
    }

    /// Lines of scratch that the machine's tile unit needs, if there is one.
    pub fn tile_scratch(self) -> usize {
        match self.unit {
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2(_) => avx2::blocks::SCRATCH_LINES,
            #[cfg(target_arch = "x86_64")]
            Unit::AvxVnni(_) => vnni::scratch_lines::<avx_vnni::AvxVnni>(),
            #[cfg(target_arch = "x86_64")]
            Unit::Avx512(_) => vnni::scratch_lines::<avx512::Avx512>(),
            #[cfg(target_arch = "x86_64")]
            Unit::Amx(..) => amx::SCRATCH_LINES,
            #[cfg(target_arch = "aarch64")]
            Unit::Neon(_) | Unit::NeonI8mm(..) => neon::SCRATCH_LINES,
            _ => 0,
        }
    }

    /// Whether activations are raised in blocks, so that they have no sign: so the vector unit wants them that multiplies
    /// bytes without a sign with bytes that have one.
    pub(crate) fn raises_activations(self) -> bool {
        matches!(self.isa(), Isa::AvxVnni | Isa::Avx512)
    }

    /// Rows below which a block is better left to the vector unit: a single block, and one after others, for which
    /// the weights are unpacked already. `None` without a tile unit.
    fn fewest_tile_rows(self) -> Option<[usize; 2]> {
        match self.unit {
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2(_) => Some(avx2::blocks::FEWEST_ROWS),
            #[cfg(target_arch = "x86_64")]
            Unit::AvxVnni(_) => Some(avx_vnni::FEWEST_ROWS),
            #[cfg(target_arch = "x86_64")]
            Unit::Avx512(_) => Some(avx512::blocks::FEWEST_ROWS),
            #[cfg(target_arch = "x86_64")]
            Unit::Amx(..) => Some(amx::FEWEST_ROWS),
            #[cfg(target_arch = "aarch64")]
            Unit::Neon(_) => Some(neon::FEWEST_ROWS_OF_DOTS),
            #[cfg(target_arch = "aarch64")]
            Unit::NeonI8mm(..) => Some(neon::FEWEST_ROWS_OF_MATRICES),
            _ => None,
        }
    }

    /// In how many blocks the machine's tile unit takes rows, the last of which may be partly empty; what
    /// is left is better done by the vector unit.
    pub fn tile_blocks(self, rows: usize) -> usize {
        let Some([fewest, fewest_more]) = self.fewest_tile_rows() else { return 0 };
        let (full, rest) = (rows / blocked::BLOCK_ROWS, rows % blocked::BLOCK_ROWS);
        full + usize::from(rest >= if full == 0 { fewest } else { fewest_more })
    }

    /// The most blocks that [`Kernels::tile_blocks`] can be of `rows` rows in `parts` parts, each by itself.
    pub fn most_tile_blocks(self, rows: usize, parts: usize) -> usize {
        let Some([fewest, fewest_more]) = self.fewest_tile_rows() else { return 0 };
        rows / blocked::BLOCK_ROWS + parts.min(rows / fewest.min(fewest_more))
    }

    /// Runs a kernel, compiled for the chosen instruction set.
    #[inline]
    pub fn run<K: Compiled>(self, kernel: K) -> K::Output {
        kernel.run_on(self)
    }

    /// The same, compiled where it is called.
    fn dispatch<K: Kernel>(self, kernel: K) -> K::Output {
        match self.unit {
            Unit::Portable(unit) => unit.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2(unit) => unit.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Unit::AvxVnni(unit) => unit.lanes().vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Unit::Avx512(unit) | Unit::Amx(unit, _) => unit.vectorize(kernel),
            #[cfg(target_arch = "aarch64")]
            Unit::Neon(unit) | Unit::NeonI8mm(unit, _) => unit.vectorize(kernel),
        }
    }
}

/// A kernel that is compiled in this crate, once for every instruction set. A call of a generic function would
/// compile it again in every crate that makes one, which takes minutes for all of them.
pub trait Compiled: Kernel {
    /// Runs it with these kernels' instruction set.
    fn run_on(self, kernels: Kernels) -> Self::Output;
}

impl<T: chain::Stored> Compiled for dot::Dots<'_, T> {
    fn run_on(self, kernels: Kernels) {
        kernels.dispatch(self);
    }
}

impl<T: chain::Stored> Compiled for products::PackRows<'_, T> {
    fn run_on(self, kernels: Kernels) {
        kernels.dispatch(self);
    }
}

macro_rules! compiled {
    ($($kernel:ty),* $(,)?) => {$(
        impl Compiled for $kernel {
            fn run_on(self, kernels: Kernels) -> Self::Output {
                kernels.dispatch(self)
            }
        }
    )*};
}

compiled! {
    activate::Activate<'_>,
    add::Add<'_>,
    add::AddScaled<'_>,
    attention::Accumulate<'_>,
    attention::Scores<'_>,
    convert::FromBf16<'_>,
    convert::FromHalf<'_>,
    convert::ToBlocks<'_>,
    convert::ToHalf<'_>,
    index::IndexScores<'_>,
    integer::Multiply<'_>,
    integer::Pack<'_>,
    fade::Fade<'_>,
    low_rank::AddLowRank<'_>,
    many::LayKeys<'_>,
    many::LayValues<'_>,
    many::ManyScores<'_>,
    many::ManyValues<'_>,
    map::MapValues<'_>,
    norm::Center<'_>,
    norm::Norm<'_>,
    packed::MultiplyPacked<'_>,
    packed::UnpackTile<'_>,
    products::Products<'_>,
    quantize::Quantize<'_>,
    quantize::Remainder<'_>,
    recur::Convolve<'_>,
    recur::Delta<'_>,
    recur::Keep<'_>,
    recur::Scan<'_>,
    recur::UnitNorm<'_>,
    rope::Rotate<'_>,
    softmax::Finish<'_>,
    softmax::Merge<'_>,
    softmax::SoftmaxTiles<'_>,
    streams::Blend<'_>,
    streams::CorrectStream<'_>,
    streams::Dot<'_>,
    streams::Length<'_>,
    streams::Sparsify<'_>,
    unpack::Prefetch<'_>,
    unpack::Unpack<'_>,
    wkv::Wkv<'_>,
}
