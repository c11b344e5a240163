//! The kernels: one op per file, written once against the sixteen lanes of [`simd::Simd`] and compiled
//! for every instruction set. All `unsafe` code of this crate is in this folder.
//!
//! Every kernel computes exactly what `gleed_model::arithmetic` defines, bit for bit, so that nothing
//! depends on the instruction set.

pub mod activate;
pub mod add;
pub mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod convert;
pub mod dot;
pub mod integer;
mod isa;
mod math;
pub mod norm;
pub mod packed;
pub(crate) mod pool;
mod portable;
pub mod quantize;
pub mod rope;
pub(crate) mod shared;
pub mod simd;
pub mod unpack;

pub use isa::Isa;
use simd::{Kernel, Simd};

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
    Avx512(avx512::Avx512),
}

impl Kernels {
    /// The kernels of an instruction set; `None` where the machine does not have it.
    pub fn new(isa: Isa) -> Option<Kernels> {
        let unit = match isa {
            Isa::Portable => Some(Unit::Portable(portable::Portable)),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::Avx2::detect().map(Unit::Avx2),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::Avx512::detect().map(Unit::Avx512),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => None,
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
            Unit::Avx512(_) => Isa::Avx512,
        }
    }

    /// Runs a kernel, compiled for the chosen instruction set.
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.unit {
            Unit::Portable(unit) => unit.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2(unit) => unit.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Unit::Avx512(unit) => unit.vectorize(kernel),
        }
    }
}
