//! Which instruction set the kernels use: found out at run time, or forced.

use std::fmt;
use std::str::FromStr;

/// A family of kernels, named after the instructions they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust: runs everywhere.
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// The same with AVX-VNNI's dot products of bytes for many rows.
    AvxVnni,
    /// x86-64 with AVX-512 F, BW, VL, DQ and VNNI.
    Avx512,
    /// The same with AMX for many rows.
    Amx,
    /// 64-bit ARM with NEON and its dot products of bytes.
    Neon,
    /// The same with products of matrices of bytes for many rows.
    NeonI8mm,
}

impl Isa {
    /// Every instruction set there are kernels for, of each architecture slowest first.
    pub const ALL: [Isa; 7] =
        [Isa::Portable, Isa::Avx2, Isa::AvxVnni, Isa::Avx512, Isa::Amx, Isa::Neon, Isa::NeonI8mm];

    /// The fastest one that this machine has.
    pub fn detect() -> Isa {
        Isa::available().last().unwrap_or(Isa::Portable)
    }

    /// All that this machine has, slowest first.
    pub fn available() -> impl Iterator<Item = Isa> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// Whether this machine has it.
    pub fn is_available(self) -> bool {
        match self {
            Isa::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => super::avx2::Avx2::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni => super::avx_vnni::AvxVnni::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => super::avx512::Avx512::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Amx => super::amx::Amx::detect().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::AvxVnni | Isa::Avx512 | Isa::Amx => false,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => super::neon::Neon::detect().is_some(),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonI8mm => super::neon::Matrices::detect().is_some(),
            #[cfg(not(target_arch = "aarch64"))]
            Isa::Neon | Isa::NeonI8mm => false,
        }
    }

    /// The name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::AvxVnni => "avx-vnni",
            Isa::Avx512 => "avx512",
            Isa::Amx => "amx",
            Isa::Neon => "neon",
            Isa::NeonI8mm => "neon-i8mm",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Isa {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Isa::ALL.into_iter().find(|isa| isa.name() == name).ok_or_else(|| {
            format!("unknown instruction set {name}; known: {}", Isa::ALL.map(Isa::name).join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for isa in Isa::ALL {
            assert_eq!(isa.to_string().parse::<Isa>(), Ok(isa));
        }
        assert!(
            "sse9"
                .parse::<Isa>()
                .unwrap_err()
                .contains("portable, avx2, avx-vnni, avx512, amx, neon, neon-i8mm")
        );
    }

    #[test]
    fn portable_is_always_there_and_the_detected_one_is_available() {
        assert!(Isa::available().any(|isa| isa == Isa::Portable));
        assert!(Isa::detect().is_available());
    }
}
