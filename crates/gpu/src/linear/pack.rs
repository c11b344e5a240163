//! Packing: rows of a tensor, as the file has them, become words of the low and the rest plane.

use gleed_gguf::{Format, Groups, Unpacked};
use half::f16;

use super::layout::{Factors, GROUP, Integers, Layout, SUPER_BLOCK, SUPER_BLOCK_WORDS, Scales};
use crate::{Error, Result};

/// How a matrix is packed: its format, its shape, and the layout that follows from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    format: Format,
    layout: Layout,
    converted: bool,
    rows: usize,
    columns: usize,
    file_row: usize,
}

/// Packed rows, as many as are interleaved after as many others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Packed {
    /// Words of the low plane.
    pub low: Vec<u32>,
    /// Words of the rest plane.
    pub rest: Vec<u32>,
}

impl Packing {
    /// The packing of a matrix; `name` is for the message when its columns are not whole blocks.
    pub fn new(name: &str, format: Format, rows: usize, columns: usize) -> Result<Packing> {
        let (layout, converted) = Layout::of(format);
        let file_row = format.row_bytes(columns).map_err(|error| Error::Tensor {
            name: name.to_string(),
            expected: format!("whole blocks of {format} in a row"),
            found: error.to_string(),
        })?;
        if columns == 0 {
            let (name, expected) = (name.to_string(), "at least one column".to_string());
            return Err(Error::Tensor { name, expected, found: "none".to_string() });
        }
        Ok(Packing { format, layout, converted, rows, columns, file_row })
    }

    /// The layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Whether the values are stored in more bits than in the file, because no kernel reads its format.
    pub fn converted(&self) -> bool {
        self.converted
    }

    /// Bytes of a row in the file.
    pub(crate) fn file_row(&self) -> usize {
        self.file_row
    }

    /// Rows: outputs of the linear layer.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns: inputs of the linear layer.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Groups of 32 columns in a row; the last may be partly padding.
    pub(crate) fn groups(&self) -> usize {
        self.columns.div_ceil(GROUP)
    }

    /// Words of a row in the low plane.
    pub(crate) fn low_row(&self) -> usize {
        self.groups() * self.layout.low_words()
    }

    /// Words of a row in the rest plane.
    pub(crate) fn rest_row(&self) -> usize {
        self.layout.rest_words(self.groups())
    }

    /// Rows with those that they are padded to.
    pub(crate) fn padded(&self, rows: usize) -> usize {
        rows.next_multiple_of(self.layout.together())
    }

    /// Bytes of device memory that all rows take, but for the padding between planes.
    pub fn bytes(&self) -> u64 {
        (self.padded(self.rows) * (self.low_row() + self.rest_row()) * 4) as u64
    }

    /// Packs some rows, each as the file has it; several threads share them.
    pub fn pack(&self, rows: &[&[u8]]) -> Packed {
        let (together, padded) = (self.layout.together(), self.padded(rows.len()));
        let mut packed =
            Packed { low: vec![0; padded * self.low_row()], rest: vec![0; padded * self.rest_row()] };
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        // A thread has at least a quarter of a million values to pack, or it is not worth starting.
        let share = rows.len().div_ceil(threads).max((1 << 18) / self.columns).max(1);
        let share = share.next_multiple_of(together);
        std::thread::scope(|scope| {
            let (mut low, mut rest) = (&mut packed.low[..], &mut packed.rest[..]);
            let mut shares = rows.chunks(share).peekable();
            while let Some(own) = shares.next() {
                let padded = self.padded(own.len());
                let (own_low, other_low) = low.split_at_mut(padded * self.low_row());
                let (own_rest, other_rest) = rest.split_at_mut(padded * self.rest_row());
                (low, rest) = (other_low, other_rest);
                let mut pack = move || self.pack_some(own, own_low, own_rest);
                if shares.peek().is_some() { drop(scope.spawn(pack)) } else { pack() }
            }
        });
        packed
    }

    fn pack_some(&self, rows: &[&[u8]], low: &mut [u32], rest: &mut [u32]) {
        let mut room = Room::new(self.format.groups(), self.columns);
        let (mut row_low, mut row_rest) = (vec![0; self.low_row()], vec![0; self.rest_row()]);
        for (row, bytes) in rows.iter().enumerate() {
            row_low.fill(0);
            row_rest.fill(0);
            self.pack_row(&mut room, bytes, &mut row_low, &mut row_rest);
            self.interleave(row, self.layout.vector_words(), &row_low, low);
            self.interleave(row, 1, &row_rest, rest);
        }
    }

    /// Puts the words of a row where they are among those of the rows beside it.
    fn interleave(&self, row: usize, vector: usize, words: &[u32], plane: &mut [u32]) {
        let together = self.layout.together();
        let (tile, own) = (row / together, row % together);
        let tile = &mut plane[tile * together * words.len()..][..together * words.len()];
        for (words, vectors) in words.chunks(vector).zip(tile.chunks_mut(together * vector)) {
            vectors[own * vector..][..vector].copy_from_slice(words);
        }
    }

    fn pack_row(&self, room: &mut Room, bytes: &[u8], low: &mut [u32], rest: &mut [u32]) {
        match self.layout {
            Layout::Integers(integers) => {
                self.format.unpack(bytes, room.unpacked());
                room.pack(integers, low, rest);
            }
            Layout::F32 => {
                room.values.resize(self.columns, 0.0);
                self.format.decode(bytes, &mut room.values);
                low.iter_mut().zip(&room.values).for_each(|(word, value)| *word = value.to_bits());
            }
            Layout::F16 | Layout::Bf16 => {
                for (word, pair) in low.iter_mut().zip(bytes.chunks(4)) {
                    let mut padded = [0; 4];
                    padded[..pair.len()].copy_from_slice(pair);
                    *word = u32::from_le_bytes(padded);
                }
            }
        }
    }
}

/// Room for one unpacked row.
struct Room {
    values: Vec<f32>,
    integers: Vec<i8>,
    factors: Vec<i8>,
    scales: Vec<f32>,
    min_factors: Vec<i8>,
    mins: Vec<f32>,
}

impl Room {
    fn new(groups: Option<Groups>, columns: usize) -> Room {
        let (integers, factors, scales, mins) = groups.map_or((0, 0, 0, false), |groups| {
            (columns, columns / groups.len, columns / groups.block, groups.mins)
        });
        Room {
            values: vec![],
            integers: vec![0; integers],
            factors: vec![0; factors],
            scales: vec![0.0; scales],
            min_factors: vec![0; if mins { factors } else { 0 }],
            mins: vec![0.0; if mins { scales } else { 0 }],
        }
    }

    fn unpacked(&mut self) -> Unpacked<'_> {
        Unpacked {
            integers: &mut self.integers,
            factors: &mut self.factors,
            scales: &mut self.scales,
            min_factors: &mut self.min_factors,
            mins: &mut self.mins,
        }
    }

    fn pack(&self, layout: Integers, low: &mut [u32], rest: &mut [u32]) {
        let (low_bits, extra_bits) = (layout.low_bits, layout.extra_bits as usize);
        let (groups, _) = self.integers.as_chunks::<GROUP>();
        let (extra, scales) = rest.split_at_mut(groups.len() * extra_bits);
        for (g, integers) in groups.iter().enumerate() {
            let low = &mut low[g * low_bits as usize..][..low_bits as usize];
            for (column, integer) in integers.iter().enumerate() {
                let stored = (i32::from(*integer) + layout.offset as i32) as u32;
                let (quad, byte) = (column / 4, column as u32 % 4);
                let (word, bit) = layout.low_at(quad);
                low[word] |= (stored & ((1 << low_bits) - 1)) << (8 * byte + bit);
                if extra_bits > 0 {
                    let (word, bit) = layout.extra_at(quad);
                    extra[g * extra_bits + word] |= stored >> low_bits << (8 * byte + bit);
                }
            }
        }
        match layout.scales {
            Scales::Half => {
                for (word, pair) in scales.iter_mut().zip(self.scales.chunks(2)) {
                    *word = halves(pair[0], pair.get(1).copied().unwrap_or(0.0));
                }
            }
            Scales::HalfMin => {
                for (word, (scale, min)) in scales.iter_mut().zip(self.scales.iter().zip(&self.mins)) {
                    *word = halves(*scale, *min);
                }
            }
            Scales::Float => {
                scales.iter_mut().zip(&self.scales).for_each(|(word, scale)| *word = scale.to_bits());
            }
            Scales::Super(factors) => {
                for (b, words) in scales.as_chunks_mut::<SUPER_BLOCK_WORDS>().0.iter_mut().enumerate() {
                    words[0] = match factors {
                        Factors::Whole | Factors::WideHalves => self.scales[b].to_bits(),
                        Factors::Halves => halves(self.scales[b], 0.0),
                        Factors::WholeMin | Factors::HalvesMin => halves(self.scales[b], self.mins[b]),
                    };
                    for g in 0..SUPER_BLOCK / GROUP {
                        let bits = self.factor_bits(factors, b * (SUPER_BLOCK / GROUP) + g);
                        words[1 + g / 2] |= bits << (g % 2 * 16);
                    }
                }
            }
        }
    }

    /// The 16 bits of a group's factors.
    fn factor_bits(&self, factors: Factors, group: usize) -> u32 {
        let byte = |bytes: &[i8], i: usize| u32::from(bytes[i] as u8);
        match factors {
            Factors::Whole => byte(&self.factors, group),
            Factors::WholeMin => byte(&self.factors, group) | byte(&self.min_factors, group) << 8,
            Factors::Halves | Factors::WideHalves => {
                byte(&self.factors, 2 * group) | byte(&self.factors, 2 * group + 1) << 8
            }
            Factors::HalvesMin => [2 * group, 2 * group + 1]
                .map(|g| byte(&self.factors, g) | byte(&self.min_factors, g) << 4)
                .iter()
                .rev()
                .fold(0, |bits, both| bits << 8 | both),
        }
    }
}

/// Two halves in a word, the first in the lower bits. Both come from halves, so nothing is lost.
fn halves(low: f32, high: f32) -> u32 {
    u32::from(f16::from_f32(low).to_bits()) | u32::from(f16::from_f32(high).to_bits()) << 16
}

#[cfg(test)]
mod tests;
