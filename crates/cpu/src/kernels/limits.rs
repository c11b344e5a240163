//! What the machine itself can do: loops that do nothing but read memory, or nothing but arithmetic, with
//! the instructions of the kernels. `gleed bench` times them to know how far a kernel is from the limit.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
use std::hint::black_box;

use gleed_model::arithmetic::LANES;

use super::Kernels;
#[cfg(target_arch = "x86_64")]
use super::avx_vnni::DOTS_ROUND;
#[cfg(target_arch = "aarch64")]
use super::neon::MATRIX_ROUND;
use super::simd::{Kernel, Simd};
use super::tile::Line;

/// Places from which a thread reads at once. One sequential stream does not fill the memory's queues: on
/// a Xeon of 2023 two threads read 19 GB/s so, and 30 GB/s in eight streams each.
const STREAMS: usize = 8;

/// How far ahead of a stream its lines are asked for.
const AHEAD_LINES: usize = 64;

/// Lines of weights that the arithmetic loops multiply with: they stay in the innermost cache.
const WEIGHTS: usize = 16;

/// A kind of arithmetic that kernels spend their time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// f32 multiply-adds of the vector unit.
    F32,
    /// Dot products of bytes on the vector unit.
    Int8,
    /// Dot products of bytes on the tile unit, or in products of matrices.
    Int8Tiles,
}

impl Kernels {
    /// Reads all lines and returns something made of them.
    pub fn read_all(self, lines: &[Line]) -> i32 {
        self.dispatch(Read { lines })
    }

    /// Does at least `operations` operations (a multiply-add is two) and returns how many it did; `None`
    /// where these kernels have no such unit.
    pub fn compute(self, arithmetic: Arithmetic, operations: u64) -> Option<u64> {
        match arithmetic {
            Arithmetic::F32 => Some(self.dispatch(MultiplyAdds { operations })),
            Arithmetic::Int8 => Some(match self.unit {
                #[cfg(target_arch = "x86_64")]
                super::Unit::AvxVnni(vnni) => {
                    let rounds = rounds(operations, 2 * DOTS_ROUND);
                    vnni.multiply_only(rounds);
                    rounds * 2 * DOTS_ROUND as u64
                }
                _ => self.dispatch(Dots { operations }),
            }),
            Arithmetic::Int8Tiles => match self.unit {
                #[cfg(target_arch = "x86_64")]
                super::Unit::Amx(_, amx) => Some(tile_products(amx, operations)),
                #[cfg(target_arch = "aarch64")]
                super::Unit::NeonI8mm(_, matrices) => {
                    let rounds = rounds(operations, 2 * MATRIX_ROUND);
                    black_box(matrices.multiply_only(rounds));
                    Some(rounds * 2 * MATRIX_ROUND as u64)
                }
                _ => None,
            },
        }
    }
}

/// Reads lines in several streams.
struct Read<'a> {
    lines: &'a [Line],
}

impl Kernel for Read<'_> {
    type Output = i32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> i32 {
        let part = self.lines.len() / STREAMS;
        let mut bits = [s.to_i32(0); STREAMS];
        if part > 0 {
            let streams: [&[Line]; STREAMS] = std::array::from_fn(|i| &self.lines[i * part..][..part]);
            for line in 0..part {
                let ahead = (line + AHEAD_LINES).min(part - 1);
                for (stream, bits) in streams.iter().zip(&mut bits) {
                    s.prefetch(&bytemuck::bytes_of(&stream[ahead])[0]);
                    *bits = s.or(*bits, s.load_i32(&stream[line].0));
                }
            }
        }
        for line in &self.lines[part * STREAMS..] {
            bits[0] = s.or(bits[0], s.load_i32(&line.0));
        }
        let all = bits.into_iter().reduce(|a, b| s.or(a, b)).expect("there are streams");
        let mut out = [0; LANES];
        s.store_i32(all, &mut out);
        out.into_iter().fold(0, |a, b| a | b)
    }
}

/// How many rounds of `each` operations make at least `operations`.
#[inline(always)]
fn rounds(operations: u64, each: usize) -> u64 {
    operations.div_ceil(each as u64).max(1)
}

/// f32 multiply-adds in enough independent sums to hide their latency.
struct MultiplyAdds {
    operations: u64,
}

impl Kernel for MultiplyAdds {
    type Output = u64;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u64 {
        if S::WIDE {
            multiply_adds::<S, 12>(s, self.operations)
        } else {
            multiply_adds::<S, 5>(s, self.operations)
        }
    }
}

#[inline(always)]
fn multiply_adds<S: Simd, const SUMS: usize>(s: S, operations: u64) -> u64 {
    let each = SUMS * LANES * 2;
    let rounds = rounds(operations, each);
    // A factor below one and a small term keep the sums away from infinities and denormal numbers.
    let (factor, term) = (s.splat(black_box(0.5)), s.splat(black_box(1.0)));
    let mut sums = [s.splat(1.0); SUMS];
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = s.mul_add(*sum, factor, term);
        }
    }
    let total = sums.into_iter().reduce(|a, b| s.add(a, b)).expect("there are sums");
    black_box(s.fold(total));
    rounds * each as u64
}

/// Dot products of bytes: each line of weights with several activations, as a linear kernel has it.
struct Dots {
    operations: u64,
}

impl Kernel for Dots {
    type Output = u64;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u64 {
        if S::WIDE { dots::<S, 12>(s, self.operations) } else { dots::<S, 4>(s, self.operations) }
    }
}

#[inline(always)]
fn dots<S: Simd, const ROWS: usize>(s: S, operations: u64) -> u64 {
    // Four bytes a lane, a multiplication and an addition each.
    let each = WEIGHTS * ROWS * LANES * 4 * 2;
    let rounds = rounds(operations, each);
    let lines = [[0x0102_0304i32; LANES]; WEIGHTS];
    let activations: [i32; ROWS] = std::array::from_fn(|row| black_box(0x0101_0101 * (row as i32 % 3)));
    let mut sums = [s.to_i32(0); ROWS];
    for _ in 0..rounds {
        // Seen anew in every round, so that no product is computed ahead of the loop.
        for line in black_box(&lines) {
            let weights = s.load_i32(line);
            for (sum, x) in sums.iter_mut().zip(activations) {
                *sum = s.dot4_unsigned(*sum, weights, x);
            }
        }
    }
    let mut out = [0; LANES];
    for sum in sums {
        s.store_i32(sum, &mut out);
        black_box(&out);
    }
    rounds * each as u64
}

/// Products of whole tiles, sixteen rows times sixteen rows of 64 bytes, into four results in turn.
#[cfg(target_arch = "x86_64")]
fn tile_products(_proof: super::amx::Amx, operations: u64) -> u64 {
    const RESULTS: usize = 4;
    let each = RESULTS * 16 * 16 * 64 * 2;
    let rounds = rounds(operations, each);
    // Palette 1, then from byte 16 the bytes of each tile's rows, from byte 48 its number of rows.
    let mut shapes = Line([0; LANES]);
    let bytes = bytemuck::bytes_of_mut(&mut shapes);
    bytes[0] = 1;
    for tile in 0..8 {
        bytes[16 + 2 * tile] = 64;
        bytes[48 + tile] = 16;
    }
    // SAFETY: an `Amx` value proves that the instructions are there; the shapes are the largest of
    // palette 1, no memory but them is read, and all tiles used are named.
    unsafe {
        asm!(
            "ldtilecfg [{shapes}]",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "tilezero tmm4",
            "tilezero tmm5",
            "tilezero tmm6",
            "tilezero tmm7",
            "2:",
            "tdpbssd tmm0, tmm4, tmm6",
            "tdpbssd tmm1, tmm4, tmm7",
            "tdpbssd tmm2, tmm5, tmm6",
            "tdpbssd tmm3, tmm5, tmm7",
            "dec {rounds}",
            "jnz 2b",
            "tilerelease",
            shapes = in(reg) &raw const shapes,
            rounds = inout(reg) rounds => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, readonly),
        );
    }
    rounds * each as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn every_line_is_read_once() {
        for isa in Isa::available() {
            let kernels = Kernels::new(isa).unwrap();
            for count in [0, 1, 7, 8, 9, 64 * STREAMS, 1000] {
                let mut lines = vec![Line([0; LANES]); count];
                assert_eq!(kernels.read_all(&lines), 0, "{isa}, {count} lines");
                // A bit in any one line is seen.
                for index in [0, count / 3, count.saturating_sub(1)] {
                    let Some(line) = lines.get_mut(index) else { continue };
                    line.0[index % LANES] = 1 << 20;
                    assert_eq!(kernels.read_all(&lines), 1 << 20, "{isa}, line {index} of {count}");
                    lines[index] = Line([0; LANES]);
                }
            }
        }
    }

    #[test]
    fn at_least_what_was_asked_for_is_computed_on_units_that_are_there() {
        for isa in Isa::available() {
            let kernels = Kernels::new(isa).unwrap();
            for arithmetic in [Arithmetic::F32, Arithmetic::Int8, Arithmetic::Int8Tiles] {
                let done = kernels.compute(arithmetic, 1_000_000);
                let tiles = matches!(isa, Isa::Amx | Isa::NeonI8mm);
                assert_eq!(done.is_some(), arithmetic != Arithmetic::Int8Tiles || tiles);
                assert!(done.is_none_or(|done| (1_000_000..2_000_000).contains(&done)), "{isa}: {done:?}");
            }
        }
    }
}
