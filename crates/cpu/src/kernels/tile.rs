//! The units in which integer weights lie in memory: tiles of sixteen rows, a lane for each, in cache lines.

use gleed_model::arithmetic::LANES;

/// Rows of weights in a tile.
pub const TILE: usize = LANES;

/// A cache line: sixteen lanes of four bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Line(pub [i32; LANES]);

// SAFETY: sixteen integers without padding; all bit patterns, zeros among them, are valid.
unsafe impl bytemuck::Zeroable for Line {}
// SAFETY: as above, and the type is `Copy` and `repr(C)`.
unsafe impl bytemuck::Pod for Line {}
