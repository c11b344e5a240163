//! How keys and values are stored in the cache, and what a stored value is worth.

use half::f16;

use crate::arithmetic::{BLOCK, quantize};

/// The element type of the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(non_camel_case_types, reason = "the name of the block format")]
pub enum KvType {
    /// 32 bits, exact.
    F32,
    /// 16 bits, rounded to nearest even.
    #[default]
    F16,
    /// 8 bits and one f16 scale for every 32 values of a head (fewer in a last, shorter block).
    Q8_0,
}

impl KvType {
    /// Replaces each value of one head's key or value vector by what the cache would give back.
    pub fn round(self, head: &mut [f32]) {
        match self {
            KvType::F32 => {}
            KvType::F16 => head.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32()),
            KvType::Q8_0 => {
                let mut q = [0i8; BLOCK];
                for block in head.chunks_mut(BLOCK) {
                    let scale = f16::from_f32(quantize(block, &mut q)).to_f32();
                    for (x, q) in block.iter_mut().zip(q) {
                        *x = f32::from(q) * scale;
                    }
                }
            }
        }
    }

    /// Bytes that a vector of `dim` values takes.
    pub fn bytes(self, dim: usize) -> usize {
        match self {
            KvType::F32 => 4 * dim,
            KvType::F16 => 2 * dim,
            KvType::Q8_0 => dim + 2 * dim.div_ceil(BLOCK),
        }
    }
}

impl std::str::FromStr for KvType {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "f32" => Ok(KvType::F32),
            "f16" => Ok(KvType::F16),
            "q8_0" => Ok(KvType::Q8_0),
            _ => Err(format!("unknown KV type {name}; known: f32, f16, q8_0")),
        }
    }
}

impl std::fmt::Display for KvType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            KvType::F32 => "f32",
            KvType::F16 => "f16",
            KvType::Q8_0 => "q8_0",
        })
    }
}
