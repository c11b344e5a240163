//! Kernels: WGSL texts with the sizes of a model written into them, and how many workgroups of each there are.
//!
//! A [`Source`] collects what one dispatch needs: constants, snippets, and the buffers that its text names.
//! One op is one folder, with its text, its Rust and its tests; all it does is to add to [`Kernels`].

pub(crate) mod activate;
pub(crate) mod adapters;
pub(crate) mod attention;
pub(crate) mod choose;
pub(crate) mod embed;
pub(crate) mod experts;
pub(crate) mod heads;
pub(crate) mod norm;
pub(crate) mod rows;
pub(crate) mod state;
pub(crate) mod streams;

use std::fmt::Write;

use gleed_model::arithmetic::PAGE;

use crate::launch::{Access, BindingsId, Buffer, KernelId, Kernels, Operand, Part, Run};
use crate::linear::{HalfRows, Layout, PackedWeight, Piece, Quantized, decode, half_weights};
use crate::step::{Counts, Items, header};
use crate::units::fragments::{FRAGMENTS, UNITS_ENABLED};
use experts::tiles::Tiles;

/// Columns of one row of a buffer on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub buffer: Buffer,
    /// The first column.
    pub offset: usize,
    /// How many columns.
    pub width: usize,
    /// Columns of the whole buffer: the distance of rows.
    pub stride: usize,
}

/// Which rows an op sees: all of the batch, or only those that want logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    All = 0,
    Wanted = 1,
}

/// How many workgroups a dispatch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grid {
    /// This many for each row.
    Rows(u32),
    /// `each` for every item of attention of this kind, as an outlook has it.
    Items { outlook: usize, kind: Items, each: u32 },
    /// `each` for every row whose spans of attention are merged, as an outlook has it.
    Merges { outlook: usize, each: u32 },
    /// This many for each sequence.
    Sequences(u32),
    /// This many for each sequence and each segment that its rows may have.
    Segments(u32),
    /// One in all.
    Once,
    /// `each` for every row and each of its slots for experts.
    Pairs { each: u32, slots: usize },
    /// This many for each tile of rows that meet the same expert.
    Tiles(u32, Tiles),
}

impl Grid {
    /// Rows from which on steps need it, about: the sooner, the fewer.
    pub fn rows(self) -> u32 {
        match self {
            Grid::Rows(_) | Grid::Sequences(_) | Grid::Segments(_) | Grid::Pairs { .. } => 1,
            Grid::Items { kind, .. } => match kind {
                Items::Near => 1,
                Items::Whole => 5,
                // A single row needs these too, when there are many positions before it.
                Items::Few | Items::Split => 8,
                Items::Tiles => 64,
            },
            Grid::Merges { .. } => 8,
            Grid::Once => 8,
            Grid::Tiles(_, tiles) => tiles.rows_needed() as u32,
        }
    }
}

/// One dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dispatch {
    pub kernel: KernelId,
    pub bindings: BindingsId,
    pub grid: Grid,
}

impl Dispatch {
    /// What is recorded of it in a step; nothing where there is no work.
    pub fn run(&self, counts: Counts) -> Option<Run> {
        let (x, y) = match self.grid {
            Grid::Rows(each) => (each, counts.rows),
            Grid::Items { outlook, kind, each } => (each, counts.pieces(outlook).items[kind as usize]),
            Grid::Merges { outlook, each } => (each, counts.pieces(outlook).merges),
            Grid::Sequences(each) => (each, counts.sequences),
            Grid::Segments(each) => (each * state::segments(counts) as u32, counts.sequences),
            Grid::Once => (1, counts.rows.min(1)),
            Grid::Pairs { each, slots } => (each, counts.rows * slots),
            Grid::Tiles(each, tiles) => (each, tiles.most(counts.rows)),
        };
        let Dispatch { kernel, bindings, .. } = *self;
        (x > 0 && y > 0).then_some(Run { kernel, bindings, groups: [x, y as u32] })
    }
}

/// What one dispatch is made of.
pub(crate) struct Source {
    name: &'static str,
    constants: String,
    text: String,
    matrix: Vec<Part>,
    bindings: Vec<Binding>,
    /// Whether buffers that are only read are bound once too.
    shares_reads: bool,
    /// What it binds of a step.
    rows: Option<Rows>,
}

/// The words of a step from the header of a list of rows on.
struct Rows {
    step: Buffer,
    list: List,
    records: Records,
}

struct Binding {
    name: &'static str,
    element: &'static str,
    access: Access,
    buffer: Buffer,
    /// The first of its bytes that is bound.
    offset: u64,
}

/// How a kernel finds the records of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Records {
    /// It does not look at them.
    None,
    /// By the header, so that it is one kernel for both lists and every number of outlooks.
    Named,
    /// Those of all rows are at a known place, which a single row need not wait for.
    Known,
}

impl Source {
    pub fn new(name: &'static str, text: &str) -> Source {
        let (constants, text) = (String::new(), text.to_string());
        let (matrix, bindings) = (Vec::new(), Vec::new());
        Source { name, constants, text, matrix, bindings, shares_reads: false, rows: None }
    }

    fn define(&mut self, definition: std::fmt::Arguments) {
        self.constants.write_fmt(definition).expect("writing to a string does not fail");
    }

    pub fn size(mut self, name: &str, value: usize) -> Self {
        self.define(format_args!("const {name} = {value}u;\n"));
        self
    }

    pub fn float(mut self, name: &str, value: f32) -> Self {
        self.define(format_args!("const {name} = {value:?}f;\n"));
        self
    }

    pub fn flag(mut self, name: &str, value: bool) -> Self {
        self.define(format_args!("const {name} = {value};\n"));
        self
    }

    /// More text, such as the functions that a kernel calls.
    pub fn snippet(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    /// Some rows of a packed matrix, and the functions that read it: `load_a`, `ready_a` and `quad_a_0` to
    /// `quad_a_7`.
    pub fn matrix(mut self, weight: &PackedWeight, piece: &Piece) -> Self {
        let packing = weight.packing();
        self.matrix.push(piece.low());
        if let Layout::Integers(_) | Layout::Halves(_) = packing.layout() {
            self.matrix.push(piece.rest());
        }
        let (groups, rest) = (packing.groups(), packing.rest_row());
        self.define(format_args!(
            "struct MatrixShape {{ groups: u32, rest_a: u32 }}\nconst shape = MatrixShape({groups}u, {rest}u);\n"
        ));
        self.snippet(&decode::snippet(packing.layout(), 'a', 0))
    }

    /// Some rows of a matrix that is packed for matrix units of halves, as matrix `m`, and the functions that read it with
    /// `ahead` groups ahead. All matrices come before anything else that is bound.
    pub fn half_matrix(mut self, weight: &PackedWeight, piece: &Piece, m: char, ahead: usize) -> Self {
        let Layout::Halves(layout) = weight.packing().layout() else {
            unreachable!("matrices of an arithmetic of halves are packed for it")
        };
        let first = self.matrix.len() as u32;
        self.matrix.extend([piece.low(), piece.rest()]);
        self.snippet(&half_weights::snippet(layout, m, first, weight.packing().groups(), ahead))
    }

    /// Offset and stride of a place as constants, and its buffer, to be read.
    pub fn read_place(self, name: &'static str, prefix: &str, place: Place) -> Self {
        self.place(prefix, place).read(name, "f32", place.buffer)
    }

    /// The same, to be written.
    pub fn write_place(self, name: &'static str, prefix: &str, place: Place) -> Self {
        self.place(prefix, place).write(name, "f32", place.buffer)
    }

    /// Offset and stride of a place as constants.
    pub fn place(self, prefix: &str, place: Place) -> Self {
        self.size(&format!("{prefix}OFFSET"), place.offset).size(&format!("{prefix}STRIDE"), place.stride)
    }

    pub fn read(mut self, name: &'static str, element: &'static str, buffer: Buffer) -> Self {
        self.bindings.push(Binding { name, element, access: Access::Reads, buffer, offset: 0 });
        self
    }

    /// A uniform buffer whose first word is a number.
    pub fn number(mut self, name: &'static str, buffer: Buffer) -> Self {
        self.bindings.push(Binding {
            name,
            element: "vec4<u32>",
            access: Access::Uniform,
            buffer,
            offset: 0,
        });
        self
    }

    pub fn write(mut self, name: &'static str, element: &'static str, buffer: Buffer) -> Self {
        self.bindings.push(Binding { name, element, access: Access::Writes, buffer, offset: 0 });
        self
    }

    /// Binds every buffer once, for kernels that read many views, several of which may be of one buffer; all must have
    /// the same elements.
    pub fn sharing_reads(self) -> Self {
        Source { shares_reads: true, ..self }
    }

    /// A buffer of integers, and what writes `quads` quads of each workgroup there.
    pub fn put_integers(self, integers: Quantized, quads: usize) -> Self {
        self.size("BLOCK_QUADS", quads)
            .snippet(include_str!("../common/integers.wgsl"))
            .snippet(include_str!("../common/put_integers.wgsl"))
            .write("integers", "u32", integers.buffer())
    }

    /// A buffer of halves, and what writes rows of `columns` columns there.
    pub fn put_halves(self, halves: HalfRows, columns: usize) -> Self {
        self.with_f16()
            .size("HALF_QUADS", 2 * HalfRows::stride(columns) as usize)
            .size("HALF_FACTORS", 2 * halves.factors())
            .size("HALF_GROUPS", 2 * halves.group_factors())
            .snippet(include_str!("../common/half_factor.wgsl"))
            .snippet(include_str!("../common/round_twice.wgsl"))
            .snippet(include_str!("../common/put_halves.wgsl"))
            .write("halves", "vec2<u32>", halves.buffer())
    }

    /// A buffer of halves, and what writes the values of a single row there.
    pub fn put_values(self, halves: HalfRows) -> Self {
        self.size("WRITTEN_FACTORS", 4 * halves.group_factors())
            .snippet(include_str!("../common/put_values.wgsl"))
            .write("written", "u32", halves.buffer())
    }

    /// What kernels with halves need.
    pub fn with_f16(mut self) -> Self {
        self.constants.insert_str(0, "enable f16;\n");
        self
    }

    /// What kernels on matrix units of halves need.
    pub fn on_units(mut self) -> Self {
        self.constants.insert_str(0, UNITS_ENABLED);
        self.snippet(FRAGMENTS)
    }

    /// The same with another text in all: constants and functions.
    #[cfg(test)]
    pub fn with_text(mut self, change: impl Fn(String) -> String) -> Self {
        let text = self.constants + &self.text;
        (self.constants, self.text) = (change(text), String::new());
        self
    }

    /// What the step says of a list of rows, from its header on.
    pub fn list(mut self, step: Buffer, list: List) -> Self {
        self.rows = Some(Rows { step, list, records: Records::None });
        self.size("PAGE", PAGE).read("step", "u32", step)
    }

    /// The same, for kernels that look at rows.
    pub fn rows(self, step: Buffer, list: List) -> Self {
        self.with_records(step, list, Records::Named)
    }

    /// The same, for kernels that a single row waits for.
    pub fn known_rows(self, step: Buffer, list: List) -> Self {
        self.with_records(step, list, Records::Known)
    }

    fn with_records(self, step: Buffer, list: List, records: Records) -> Self {
        let source = self.list(step, list).snippet(include_str!("../common/step.wgsl"));
        Source { rows: Some(Rows { step, list, records }), ..source }
    }

    /// With what the kernels of a program know of its steps: words of each header, and of a row.
    pub fn placed(mut self, header_words: usize, row_words: usize) -> Self {
        let Some(Rows { step, list, records }) = self.rows.take() else { return self };
        let header = list as usize * header_words;
        for binding in self.bindings.iter_mut().filter(|binding| binding.buffer == step) {
            binding.offset = 4 * header as u64;
        }
        let first = match (records, list) {
            (Records::None, _) => return self,
            (Records::Known, List::All) => format!("{}u", 2 * header_words),
            (Records::Named, _) | (Records::Known, List::Wanted) => format!("step[{}]", header::ROWS),
        };
        self.size("ROW_WORDS", row_words)
            .snippet(&format!("fn first_record() -> u32 {{ return {first}; }}\n"))
    }

    /// The whole text, what it binds, and what is bound. A buffer that is written must be bound only once, so all names for
    /// it become one.
    fn finish(mut self) -> (String, Vec<Access>, Vec<Operand>) {
        let mut written: Vec<(&str, Buffer)> = Vec::new();
        let with = |access| self.bindings.iter().filter(move |binding| binding.access == access);
        let reads = with(Access::Reads).filter(|_| self.shares_reads);
        for binding in with(Access::Writes).chain(reads) {
            if written.iter().all(|(_, buffer)| *buffer != binding.buffer) {
                written.push((binding.name, binding.buffer));
            }
        }
        let text = &mut self.text;
        self.bindings.retain(|binding| match written.iter().find(|(_, buffer)| *buffer == binding.buffer) {
            Some((name, _)) if *name != binding.name => {
                *text = rename(text, binding.name, name);
                false
            }
            _ => true,
        });
        let mut slots = vec![Access::Reads; self.matrix.len()];
        let mut operands: Vec<Operand> = self.matrix.into_iter().map(Operand::Part).collect();
        // Without gaps, which not all kernels' bindings are renumbered by.
        for (bound, binding) in self.bindings.iter().zip(slots.len()..) {
            let Binding { name, element, access, buffer, offset } = bound;
            let variable = match access {
                Access::Reads => format!("var<storage, read> {name}: array<{element}>"),
                Access::Writes => format!("var<storage, read_write> {name}: array<{element}>"),
                Access::Uniform => format!("var<uniform> {name}: {element}"),
            };
            self.constants.push_str(&format!("@group(0) @binding({binding}) {variable};\n"));
            operands.push(Operand::Part(buffer.part(*offset, buffer.size() - offset)));
            slots.push(*access);
        }
        (self.constants + &self.text, slots, operands)
    }
}

/// Replaces the array `from` by the array `to` in a text.
fn rename(text: &str, from: &str, to: &str) -> String {
    let pattern = format!("{from}[");
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(&pattern) {
        let whole_word = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        result.push_str(&rest[..at]);
        result.push_str(if whole_word { to } else { from });
        result.push('[');
        rest = &rest[at + pattern.len()..];
    }
    result.push_str(rest);
    result
}

impl Kernels {
    /// The kernel of a source, with its buffers bound.
    pub(crate) fn dispatch(&mut self, source: Source, grid: Grid) -> Dispatch {
        let name = source.name;
        let (text, slots, operands) = source.placed(self.header_words, self.row_words).finish();
        // Kernels keep to the bounds of what they bind by their sizes, which are checked when a program is planned, and by
        // the rows of a step, which are checked before it is run; their loops end.
        let kernel = self.kernel(name, text, slots.clone());
        Dispatch { kernel, bindings: self.bind(name, slots, operands), grid }
    }
}

#[cfg(test)]
mod tests {
    use super::rename;

    #[test]
    fn only_whole_names_are_renamed() {
        assert_eq!(rename("y[1] + key[y[2]] + y", "y", "out"), "out[1] + key[out[2]] + y");
        assert_eq!(rename("y_y[0]y[", "y", "z"), "y_y[0]z[");
    }
}
