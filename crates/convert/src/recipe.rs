//! How one tensor is made of what a checkpoint holds: which rows of which source tensors, in which order, with which
//! change of their values, in which type. Everything has been checked when a recipe exists, so that making cannot fail.

use std::sync::Arc;

use gleed_gguf::{Bytes, Format, Make};

/// Where the data of one source tensor lies.
#[derive(Clone)]
pub struct Source {
    /// The number of its file in the folder.
    pub file: usize,
    /// The file.
    pub bytes: Arc<Bytes>,
    /// Where its data starts in the file.
    pub offset: usize,
    /// How many bytes its data takes.
    pub length: usize,
}

impl Source {
    /// Lets its pages be dropped from memory.
    pub fn release(&self) {
        self.bytes.release(self.offset..self.offset + self.length);
    }
}

/// Which row of a source a row is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// The same one.
    AsIs,
    /// Of every head, this many rows long, the second half's rows go between those of the first: rotary pairs side by
    /// side instead of half a head apart.
    Paired(usize),
    /// Of every `of` rows, the `count` from `first` on.
    Part {
        /// The first row taken.
        first: usize,
        /// How many are taken.
        count: usize,
        /// Of how many.
        of: usize,
    },
    /// Every `step`-th row from `first` on.
    Every {
        /// The first row taken.
        first: usize,
        /// How far the next one is.
        step: usize,
    },
    /// Of groups of `rows` rows, first one part of each, then another, then a third.
    Gathered {
        /// How many groups there are.
        groups: usize,
        /// How many rows a group has.
        rows: usize,
        /// Where each part begins in a group, and how many rows it has.
        parts: [(usize, usize); 3],
    },
    /// The same one, and zeros after this many.
    Padded(usize),
    /// Heads by group become the first of every group, then the second, and so on.
    Tiled(Tiled),
    /// The same with columns.
    TiledColumns(Tiled),
    /// Columns become rows.
    Transposed(Transposed),
}

/// Heads by group become the first of every group, then the second, and so on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tiled {
    /// How many rows before the heads stay where they are.
    pub kept: usize,
    /// How many groups there are.
    pub groups: usize,
    /// How many heads a group has.
    pub each: usize,
    /// How many rows a head has.
    pub head: usize,
}

impl Tiled {
    fn source(&self, place: usize) -> usize {
        let Some(place) = place.checked_sub(self.kept) else { return place };
        let (head, within) = (place / self.head, place % self.head);
        self.kept + (head % self.groups * self.each + head / self.groups) * self.head + within
    }
}

/// Columns of matrices that follow each other become rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transposed {
    /// How many columns a matrix of the source has.
    pub columns: usize,
    /// Which of them become rows of the result: every `step`-th from here on.
    pub from: usize,
    /// How far the next one is.
    pub step: usize,
    /// How many of them.
    pub taken: usize,
    /// How many rows a matrix of the source has.
    pub rows: usize,
    /// The first of its rows that is taken; as many follow as a row of the result has values.
    pub first: usize,
}

/// What becomes of each value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Nothing.
    None,
    /// Something is added.
    Plus(f32),
    /// −eˣ, as decays are kept.
    NegativeExp,
    /// It is multiplied, by one factor after the other.
    Times(Factors),
}

/// Two factors of all rows, and then one of each part of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    pub all: [f32; 2],
    /// How many rows a part has, and its factor.
    pub parts: [(usize, f32); 5],
}

impl Factors {
    /// Those of a row, in their order.
    fn of(&self, row: usize) -> [f32; 3] {
        let mut rest = row;
        let part = self.parts.iter().find(|(rows, _)| {
            let here = rest < *rows;
            rest = rest.saturating_sub(*rows);
            here
        });
        [self.all[0], self.all[1], part.map_or(1.0, |(_, factor)| *factor)]
    }
}

/// How a tensor is made.
#[derive(Clone)]
pub struct Recipe {
    /// The tensors whose rows follow each other, all of one shape.
    pub sources: Vec<Source>,
    /// The type of the sources: F32, F16 or BF16.
    pub from: Format,
    /// The type of the result, one of the same.
    pub to: Format,
    /// Values in a row of the result.
    pub columns: usize,
    /// Rows of the result that each source gives.
    pub rows: usize,
    /// Which row of a source a row is.
    pub order: Order,
    /// What becomes of each value.
    pub change: Change,
}

impl Recipe {
    /// The source that is the tensor itself, if no byte differs and its values are aligned.
    pub fn plain(&self) -> Option<&Source> {
        let [source] = &self.sources[..] else { return None };
        let same = self.from == self.to && self.order == Order::AsIs && self.change == Change::None;
        (same && source.offset.is_multiple_of(width(self.from))).then_some(source)
    }

    fn source_row(&self, row: usize) -> usize {
        match self.order {
            Order::AsIs | Order::Padded(_) | Order::Transposed(_) | Order::TiledColumns(_) => row,
            Order::Tiled(tiled) => tiled.source(row),
            Order::Paired(head) => {
                let (start, pair, second) = (row - row % head, row % head / 2, row % 2);
                start + second * (head / 2) + pair
            }
            Order::Part { first, count, of } => row / count * of + first + row % count,
            Order::Every { first, step } => row * step + first,
            Order::Gathered { groups, rows, parts } => {
                let mut rest = row;
                for (start, length) in parts {
                    if rest < groups * length {
                        return rest / length * rows + start + rest % length;
                    }
                    rest -= groups * length;
                }
                row
            }
        }
    }

    /// One row of the result, as bytes of the sources' type.
    fn gather<'a>(&'a self, row: usize, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let source = &self.sources[row / self.rows];
        let data = &source.bytes[source.offset..];
        let (row, width) = (row % self.rows, width(self.from));
        if let Order::TiledColumns(tiled) = self.order {
            let data = &data[row * self.columns * width..][..self.columns * width];
            scratch.clear();
            for column in (0..self.columns).map(|column| tiled.source(column)) {
                scratch.extend_from_slice(&data[column * width..][..width]);
            }
            return scratch;
        }
        if let Order::Padded(known) = self.order
            && row >= known
        {
            scratch.clear();
            scratch.resize(self.columns * width, 0);
            return scratch;
        }
        let Order::Transposed(Transposed { columns, from, step, taken, rows, first }) = self.order else {
            let length = self.columns * width;
            return &data[self.source_row(row) * length..][..length];
        };
        scratch.clear();
        let (matrix, column) = (row / taken, from + row % taken * step);
        for line in first..first + self.columns {
            let at = ((matrix * rows + line) * columns + column) * width;
            scratch.extend_from_slice(&data[at..at + width]);
        }
        scratch
    }
}

impl Make for Recipe {
    fn release(&self) {
        self.sources.iter().for_each(Source::release);
    }

    fn make(&self, start: usize, out: &mut [u8]) {
        let length = self.columns * width(self.to);
        if length == 0 {
            return;
        }
        let (mut scratch, mut values) = (Vec::new(), vec![0.0; self.columns]);
        for (row, out) in (start / length..).zip(out.chunks_exact_mut(length)) {
            let bytes = self.gather(row, &mut scratch);
            if self.from == self.to && self.change == Change::None {
                out.copy_from_slice(bytes);
                continue;
            }
            self.from.decode(bytes, &mut values);
            match self.change {
                Change::None => {}
                Change::Plus(more) => values.iter_mut().for_each(|value| *value += more),
                Change::Times(factors) => {
                    let factors = factors.of(row % self.rows);
                    values.iter_mut().for_each(|value| factors.iter().for_each(|factor| *value *= factor));
                }
                Change::NegativeExp => values.iter_mut().for_each(|value| *value = -value.exp()),
            }
            encode(self.to, &values, out);
        }
    }
}

/// Bytes of a value of one of the three types.
pub fn width(format: Format) -> usize {
    format.block_bytes()
}

fn encode(format: Format, values: &[f32], out: &mut [u8]) {
    match format {
        Format::F16 => {
            for (value, out) in values.iter().zip(out.as_chunks_mut().0) {
                *out = half::f16::from_f32(*value).to_le_bytes();
            }
        }
        Format::BF16 => {
            for (value, out) in values.iter().zip(out.as_chunks_mut().0) {
                *out = half::bf16::from_f32(*value).to_le_bytes();
            }
        }
        _ => {
            for (value, out) in values.iter().zip(out.as_chunks_mut().0) {
                *out = value.to_le_bytes();
            }
        }
    }
}
