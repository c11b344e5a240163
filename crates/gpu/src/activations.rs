//! Where the activations of a program are.

use gleed_model::program::{Program, View};

use crate::kernels::{List, Place};
use crate::launch::{Buffer, Kernels};

/// Columns that a row takes on the device: whole vectors of four, as linear layers read them.
pub(crate) fn stride(width: usize) -> usize {
    width.next_multiple_of(4)
}

/// The activations of a program: `[row][stride]` for each of its buffers.
#[derive(Debug, PartialEq)]
pub(crate) struct Activations {
    buffers: Vec<Activation>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Activation {
    stride: usize,
    /// Of all rows.
    all: Buffer,
    /// Of the wanted rows, where a gather moves them; else the same.
    wanted: Buffer,
}

/// Rows that each buffer has room for.
pub(crate) fn rows_of(program: &Program, buffer: usize, max_rows: usize, logits_rows: usize) -> usize {
    if buffer == program.logits.buffer { logits_rows } else { max_rows }
}

/// Bytes of all activations.
pub(crate) fn bytes(program: &Program, gathered: &[View], max_rows: usize, logits_rows: usize) -> u64 {
    let buffers = program.buffers.iter().enumerate().map(|(index, buffer)| {
        let copies = if gathered.iter().any(|view| view.buffer == index) { 2 } else { 1 };
        let rows = rows_of(program, index, max_rows, logits_rows) as u64;
        rows.saturating_mul(4 * copies * stride(buffer.width) as u64)
    });
    buffers.fold(0, u64::saturating_add)
}

impl Activations {
    /// Buffers for `max_rows` rows, that of the logits for `logits_rows`; those of `gathered` views twice.
    pub fn new(
        kernels: &mut Kernels,
        program: &Program,
        gathered: &[View],
        max_rows: usize,
        logits_rows: usize,
    ) -> Activations {
        let buffers = program.buffers.iter().enumerate().map(|(index, buffer)| {
            let rows = rows_of(program, index, max_rows, logits_rows) as u64;
            let stride = stride(buffer.width);
            let bytes = rows.saturating_mul(4 * stride as u64);
            let what = format!("the activations {} of {rows} rows", buffer.name);
            let all = kernels.storage(&what, bytes);
            let moves = gathered.iter().any(|view| view.buffer == index);
            let wanted = if moves { kernels.storage(&what, bytes) } else { all };
            Activation { stride, all, wanted }
        });
        Activations { buffers: buffers.collect() }
    }

    pub fn place(&self, view: View, list: List) -> Place {
        let Activation { stride, all, wanted } = self.buffers[view.buffer];
        let buffer = match list {
            List::All => all,
            List::Wanted => wanted,
        };
        Place { buffer, offset: view.offset, width: view.width, stride }
    }
}
