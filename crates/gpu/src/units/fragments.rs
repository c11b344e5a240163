//! How kernels on matrix units get at the elements of matrices: as lanes have them, in the device's own language
//! ([`spirv`](crate::units::spirv)), or by way of workgroup memory, in any language.

use crate::template::{Values, expand};

/// What kernels on matrix units begin with.
pub(crate) const UNITS_ENABLED: &str = "enable f16;\nenable wgpu_cooperative_matrix;\n";

/// The functions with which kernels on matrix units make and read matrices: of those for lanes only the types count.
pub(crate) const FRAGMENTS: &str = include_str!("fragments.wgsl");

/// How lanes get at elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fragments {
    /// Each lane has its elements where `fragments.wgsl` says.
    Lanes,
    /// Lanes share them, for matrices of this many outputs, rows and columns: 8 or 16.
    Shared(u32),
}

/// Lanes of a subgroup.
pub(crate) const LANES: usize = 32;

/// Elements of a matrix.
const ELEMENTS: usize = 256;

impl Fragments {
    /// A kernel in which lanes share elements; nothing for one that is to be completed as SPIR-V, or that has no matrices.
    pub fn shared_in(self, text: &str) -> Option<String> {
        let Fragments::Shared(side) = self else { return None };
        let (before, after) = text.split_once(FRAGMENTS)?;
        let (_, size) = text.split_once("@workgroup_size(")?;
        let threads: usize = size.split(')').next()?.parse().ok()?;
        let values = Values::default()
            .switch("SIXTEEN", side == 16)
            .switch("EIGHT", side == 8)
            .set("ELEMENTS", ELEMENTS * threads.div_ceil(LANES));
        Some(before.to_string() + &expand(include_str!("fragments_shared.wgsl"), &values) + after)
    }

    /// What workgroups of `threads` threads with `memory` bytes of memory have room for.
    pub fn room(self, memory: u32, threads: u32) -> Room {
        let (subgroups, each) = match self {
            Fragments::Lanes => (threads as usize / LANES, 0),
            // So few that each has registers enough on any device: who starts a kernel is not told how many it needs.
            Fragments::Shared(_) => (8.min(threads as usize / LANES), ELEMENTS * (2 + 4)),
        };
        Room { memory: memory as usize, subgroups, each, loads_fours: self == Fragments::Lanes }
    }
}

/// Bytes of workgroup memory that layers need besides what grows with their sizes.
pub(crate) const LITTLE: usize = 1024;

/// What a workgroup on matrix units has room for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Bytes in all.
    memory: usize,
    subgroups: usize,
    /// Bytes that each subgroup needs for its matrices.
    each: usize,
    /// Whether matrices can be loaded from memory that is vectors of four halves, which not all languages can say.
    loads_fours: bool,
}

impl Room {
    /// Whether matrices can be loaded from `bytes` bytes of vectors.
    pub fn loads_fours(self, bytes: usize) -> bool {
        self.loads_fours && bytes <= self.memory
    }

    /// Subgroups, at most `most`, of which each needs `each` bytes, and all of them `together` bytes more.
    pub fn subgroups(self, most: usize, each: usize, together: usize) -> usize {
        let memory = self.memory.saturating_sub(together);
        most.min(self.subgroups).min(memory / (each + self.each).max(1))
    }
}
