//! Packing: rows of a tensor, as the file has them, become words of the low and the rest plane.

use gleed_gguf::{Format, Groups, Unpacked};
use gleed_model::arithmetic::IntegerRow;
use half::f16;

use super::half_layout::{HalfLayout, pack_floats};

use super::layout::{Factors, GROUP, Integers, Layout, SUPER_BLOCK, SUPER_BLOCK_WORDS, Scales, place};
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

    /// The same of `rows` rows.
    pub(crate) fn with_rows(self, rows: usize) -> Packing {
        Packing { rows, ..self }
    }

    /// The same for matrix units of halves.
    pub fn for_halves(self) -> Packing {
        Packing { layout: Layout::Halves(HalfLayout::of(self.format)), ..self }
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
        self.layout.groups(self.columns)
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

    /// Packs some rows, each as the file has it.
    pub fn pack(&self, rows: &[&[u8]]) -> Packed {
        let mut packed = Packed::default();
        self.pack_into(rows, &mut packed);
        packed
    }

    /// The same, in the place of what was packed before.
    pub(super) fn pack_into(&self, rows: &[&[u8]], packed: &mut Packed) {
        let padded = self.padded(rows.len());
        for (plane, row) in [(&mut packed.low, self.low_row()), (&mut packed.rest, self.rest_row())] {
            plane.clear();
            plane.resize(padded * row, 0);
        }
        let (low, rest) = (&mut packed.low, &mut packed.rest);
        let mut room = Room::new(self.format.groups(), self.columns);
        let (mut row_low, mut row_rest) = (vec![0; self.low_row()], vec![0; self.rest_row()]);
        for (row, bytes) in rows.iter().enumerate() {
            row_low.fill(0);
            row_rest.fill(0);
            self.pack_row(&mut room, bytes, &mut row_low, &mut row_rest);
            if let Layout::Halves(halves) = self.layout {
                halves.interleave(row, [&row_low, &row_rest], [&mut *low, &mut *rest]);
                continue;
            }
            match self.layout.vector_words() {
                2 => self.interleave::<2>(row, &row_low, low),
                _ => self.interleave::<4>(row, &row_low, low),
            }
            self.interleave::<1>(row, &row_rest, rest);
        }
    }

    /// Puts the words of a row where they are among those of the rows beside it, `VECTOR` at a time.
    fn interleave<const VECTOR: usize>(&self, row: usize, words: &[u32], plane: &mut [u32]) {
        let together = self.layout.together();
        let (tile, own) = (row / together, row % together);
        let tile = &mut plane[tile * together * words.len()..][..together * words.len()];
        let (words, _) = words.as_chunks::<VECTOR>();
        let (vectors, _) = tile.as_chunks_mut::<VECTOR>();
        for (words, vector) in words.iter().zip(vectors.iter_mut().skip(own).step_by(together)) {
            *vector = *words;
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
            Layout::Halves(halves) => match self.format.groups() {
                Some(groups) => {
                    self.format.unpack(bytes, room.unpacked());
                    halves.pack_integers(room.row(groups), low, rest);
                }
                None => {
                    room.values.resize(self.columns, 0.0);
                    self.format.decode(bytes, &mut room.values);
                    pack_floats(&room.values, low, rest);
                }
            },
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
pub(super) struct Room {
    values: Vec<f32>,
    integers: Vec<i8>,
    factors: Vec<i8>,
    scales: Vec<f32>,
    min_factors: Vec<i8>,
    mins: Vec<f32>,
}

impl Room {
    pub(super) fn new(groups: Option<Groups>, columns: usize) -> Room {
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

    pub(super) fn unpacked(&mut self) -> Unpacked<'_> {
        Unpacked {
            integers: &mut self.integers,
            factors: &mut self.factors,
            scales: &mut self.scales,
            min_factors: &mut self.min_factors,
            mins: &mut self.mins,
        }
    }

    pub(super) fn row(&self, groups: Groups) -> IntegerRow<'_> {
        let Room { integers, factors, scales, min_factors, mins, .. } = self;
        IntegerRow { integers, factors, scales, min_factors, mins, block: groups.block, group: groups.len }
    }

    fn pack(&self, layout: Integers, low: &mut [u32], rest: &mut [u32]) {
        let (groups, _) = self.integers.as_chunks::<GROUP>();
        let (extra, scales) = rest.split_at_mut(groups.len() * layout.extra_bits as usize);
        let pack = match (layout.low_bits, layout.extra_bits) {
            (2, 0) => pack_groups::<2, 0>,
            (2, 1) => pack_groups::<2, 1>,
            (4, 0) => pack_groups::<4, 0>,
            (4, 1) => pack_groups::<4, 1>,
            (4, 2) => pack_groups::<4, 2>,
            (8, 0) => pack_groups::<8, 0>,
            bits => unreachable!("no layout has {bits:?} bits"),
        };
        pack(groups, layout.offset as u8, low, extra);
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

/// The low bits of groups of integers, and their extra bits: four columns at once, one in each byte of a word.
fn pack_groups<const LOW: u32, const EXTRA: u32>(
    groups: &[[i8; GROUP]],
    offset: u8,
    low: &mut [u32],
    extra: &mut [u32],
) {
    let in_all_bytes = |bits: u32| ((1 << bits) - 1) * 0x0101_0101;
    for (g, integers) in groups.iter().enumerate() {
        let low = &mut low[g * LOW as usize..][..LOW as usize];
        let extra = &mut extra[g * EXTRA as usize..][..EXTRA as usize];
        for (quad, integers) in integers.as_chunks::<4>().0.iter().enumerate() {
            let stored = u32::from_le_bytes(integers.map(|integer| (integer as u8).wrapping_add(offset)));
            let (word, bit) = place(LOW, quad);
            low[word] |= (stored & in_all_bytes(LOW)) << bit;
            if EXTRA > 0 {
                let (word, bit) = place(EXTRA, quad);
                extra[word] |= (stored >> LOW & in_all_bytes(EXTRA)) << bit;
            }
        }
    }
}

/// Two halves in a word, the first in the lower bits. Both come from halves, so nothing is lost.
fn halves(low: f32, high: f32) -> u32 {
    u32::from(f16::from_f32(low).to_bits()) | u32::from(f16::from_f32(high).to_bits()) << 16
}

#[cfg(test)]
mod tests;
