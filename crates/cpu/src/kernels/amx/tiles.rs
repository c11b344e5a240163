//! The instructions of the tile unit, as macros because a tile register's name is part of an instruction.
//! Their user has a proof that the processor has them, and has configured the tiles first.

/// The shapes of the tile registers, as the processor reads them.
#[repr(C, align(64))]
pub(super) struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Shapes {
    /// Results in tiles 0 to 3, activations in 4 and 5, weights in 6 and 7; `columns` columns at a time.
    pub const fn new(columns: usize) -> Shapes {
        let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
        let mut i = 0;
        while i < 4 {
            (row_bytes[i], rows[i]) = (64, 16);
            i += 1;
        }
        while i < 6 {
            (row_bytes[i], rows[i]) = (columns as u16, 16);
            (row_bytes[2 + i], rows[2 + i]) = (64, (columns / 4) as u8);
            i += 1;
        }
        Shapes { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows }
    }
}

/// Sets the shapes of the tiles, and all of them to zero.
macro_rules! configure {
    ($columns:expr) => {{
        static SHAPES: Shapes = Shapes::new($columns);
        // SAFETY: who calls this has a proof that the instruction is there; the shapes are within its limits.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const SHAPES, options(nostack, readonly)) };
    }};
}

/// Clears the tiles, so that the processor need not keep them.
macro_rules! release {
    () => {
        // SAFETY: as for `configure`; nothing uses the tiles after this.
        unsafe { asm!("tilerelease", options(nostack, nomem)) }
    };
}

/// Loads a tile from an array that is as large as its shape, `$row_bytes` bytes from row to row.
macro_rules! load_tile {
    ($tile:tt, $from:expr, $row_bytes:expr) => {{
        // SAFETY: as for `configure`; the array is as large as the shape.
        unsafe {
            asm!(
                concat!("tileloadd ", $tile, ", [{from} + {row}]"),
                from = in(reg) $from.as_ptr(),
                row = in(reg) $row_bytes,
                out($tile) _,
                options(nostack, readonly),
            );
        }
    }};
}

/// Adds the products of a tile of activations and one of weights to one of results.
macro_rules! multiply {
    ($results:tt, $x:tt, $weights:tt) => {
        // SAFETY: as for `configure`; the shapes go together.
        unsafe {
            asm!(
                concat!("tdpbssd ", $results, ", ", $x, ", ", $weights),
                out($results) _,
                options(nostack, nomem)
            )
        }
    };
}

/// Sets a tile to zero.
macro_rules! clear {
    ($tile:tt) => {
        // SAFETY: as for `configure`.
        unsafe { asm!(concat!("tilezero ", $tile), out($tile) _, options(nostack, nomem)) }
    };
}

/// Stores a tile of results: a line per row.
macro_rules! store {
    ($tile:tt, $out:expr) => {{
        let out: &mut Products = $out;
        // SAFETY: as for `configure`; a result is sixteen rows of 64 bytes.
        unsafe {
            asm!(
                concat!("tilestored [{out} + {line}], ", $tile),
                line = in(reg) size_of::<Line>(),
                out = in(reg) out.as_mut_ptr(),
                options(nostack),
            );
        }
    }};
}

pub(super) use {clear, configure, load_tile, multiply, release, store};
