//! Kernels: WGSL texts with the sizes of a model written into them, compiled once per distinct text.
//!
//! A [`Source`] collects what one dispatch needs: constants, snippets, and the buffers that its text names.
//! One op is one file, beside the file of its text; [`Kernels`] compiles and binds them.

pub(crate) mod activate;
pub(crate) mod attention;
pub(crate) mod choose;
pub(crate) mod embed;
pub(crate) mod heads;
pub(crate) mod norm;
pub(crate) mod rows;

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::linear::{Layout, PackedWeight, Piece, Quantized, decode};
use crate::step::{Items, header};
use crate::{Gpu, Result};

/// The first binding of a kernel's arrays; those below are a packed matrix's.
const FIRST_BINDING: u32 = 2;

/// Columns of one row of a buffer on the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub buffer: &'a wgpu::Buffer,
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
    /// So many for each row.
    Rows(u32),
    /// So many for each item of attention of this kind.
    Items(Items, u32),
    /// So many for each row whose spans of attention are merged.
    Merges(u32),
}

/// One dispatch, ready to be recorded.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub pipeline: wgpu::ComputePipeline,
    pub bindings: wgpu::BindGroup,
    pub grid: Grid,
}

/// What one dispatch is made of.
pub(crate) struct Source<'a> {
    name: &'static str,
    constants: String,
    text: String,
    matrix: Vec<wgpu::BindingResource<'a>>,
    bindings: Vec<Binding<'a>>,
}

struct Binding<'a> {
    name: &'static str,
    element: &'static str,
    writes: bool,
    buffer: &'a wgpu::Buffer,
}

impl<'a> Source<'a> {
    pub fn new(name: &'static str, text: &str) -> Source<'a> {
        let (constants, text) = (String::new(), text.to_string());
        Source { name, constants, text, matrix: Vec::new(), bindings: Vec::new() }
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
    pub fn matrix(mut self, weight: &'a PackedWeight, piece: &'a Piece) -> Self {
        let packing = weight.packing();
        self.matrix.push(piece.low());
        if let Layout::Integers(_) = packing.layout() {
            self.matrix.push(piece.rest());
        }
        let (groups, rest) = (packing.groups(), packing.rest_row());
        self.define(format_args!(
            "struct MatrixShape {{ groups: u32, rest_a: u32 }}\nconst shape = MatrixShape({groups}u, {rest}u);\n"
        ));
        self.snippet(&decode::snippet(packing.layout(), 'a', 0))
    }

    /// Offset and stride of a place as constants, and its buffer, to be read.
    pub fn read_place(self, name: &'static str, prefix: &str, place: Place<'a>) -> Self {
        self.place(prefix, place).read(name, "f32", place.buffer)
    }

    /// The same, to be written.
    pub fn write_place(self, name: &'static str, prefix: &str, place: Place<'a>) -> Self {
        self.place(prefix, place).write(name, "f32", place.buffer)
    }

    /// Offset and stride of a place as constants.
    pub fn place(self, prefix: &str, place: Place) -> Self {
        self.size(&format!("{prefix}OFFSET"), place.offset).size(&format!("{prefix}STRIDE"), place.stride)
    }

    pub fn read(mut self, name: &'static str, element: &'static str, buffer: &'a wgpu::Buffer) -> Self {
        self.bindings.push(Binding { name, element, writes: false, buffer });
        self
    }

    pub fn write(mut self, name: &'static str, element: &'static str, buffer: &'a wgpu::Buffer) -> Self {
        self.bindings.push(Binding { name, element, writes: true, buffer });
        self
    }

    /// A buffer of integers, and what writes so many quads of each workgroup there.
    pub fn put_integers(self, integers: &'a Quantized, quads: usize) -> Self {
        self.size("BLOCK_QUADS", quads)
            .snippet(include_str!("integers.wgsl"))
            .snippet(include_str!("put_integers.wgsl"))
            .write("integers", "u32", integers.buffer())
    }

    /// The rows of the step, for kernels that look at them.
    pub fn step(self, step: &'a wgpu::Buffer, list: List) -> Self {
        self.size("LIST", list as usize)
            .size("FIRST_ROW", header::WORDS)
            .read("step", "u32", step)
            .snippet(include_str!("step.wgsl"))
    }

    /// The whole text. A buffer that is written must be bound only once, so all names for it become one.
    fn finish(mut self) -> (String, Vec<wgpu::BindGroupEntry<'a>>) {
        let mut written: Vec<(&str, &wgpu::Buffer)> = Vec::new();
        for binding in self.bindings.iter().filter(|b| b.writes) {
            if written.iter().all(|(_, buffer)| *buffer != binding.buffer) {
                written.push((binding.name, binding.buffer));
            }
        }
        let mut text = std::mem::take(&mut self.text);
        self.bindings.retain(|binding| match written.iter().find(|(_, buffer)| *buffer == binding.buffer) {
            Some((name, _)) if *name != binding.name => {
                text = rename(&text, binding.name, name);
                false
            }
            _ => true,
        });
        let mut entries: Vec<_> =
            self.matrix.into_iter().zip(0..).map(|(resource, binding)| entry(binding, resource)).collect();
        for (Binding { name, element, writes, buffer }, binding) in self.bindings.iter().zip(FIRST_BINDING..)
        {
            let access = if *writes { "read_write" } else { "read" };
            self.constants.push_str(&format!(
                "@group(0) @binding({binding}) var<storage, {access}> {name}: array<{element}>;\n"
            ));
            entries.push(entry(binding, buffer.as_entire_binding()));
        }
        (self.constants + &text, entries)
    }
}

fn entry(binding: u32, resource: wgpu::BindingResource) -> wgpu::BindGroupEntry {
    wgpu::BindGroupEntry { binding, resource }
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

/// Compiles kernels, and remembers their texts.
pub(crate) struct Kernels {
    pub gpu: Gpu,
    /// Words of a row of the step.
    row_words: usize,
    texts: BTreeSet<String>,
}

impl Kernels {
    pub fn new(gpu: Gpu, row_words: usize) -> Kernels {
        Kernels { gpu, row_words, texts: BTreeSet::new() }
    }

    /// All texts that have been compiled.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    /// Compiles a source unless its text is known already, and binds its buffers.
    pub fn dispatch(&mut self, source: Source, grid: Grid) -> Result<Dispatch> {
        let name = source.name;
        let (text, entries) = source.size("ROW_WORDS", self.row_words).finish();
        // SAFETY: kernels keep to the bounds of what they bind by their sizes, which are checked when a program
        // is planned, and by the rows of a step, which are checked before it is run; their loops end.
        let pipeline = unsafe { self.gpu.pipeline(name, &text, None)? };
        self.texts.insert(text);
        let bindings = self.gpu.scoped(&format!("binding {name}"), || {
            self.gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(name),
                layout: &pipeline.get_bind_group_layout(0),
                entries: &entries,
            })
        })?;
        Ok(Dispatch { pipeline, bindings, grid })
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
