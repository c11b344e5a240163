//! What a device is to do, as plain data that knows no interface to one: buffers by their numbers, kernels by their
//! texts, and what each of these binds. Planning fills it in; the module `bind` has wgpu do it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::facts::Facts;
use crate::step::header;

/// A buffer on a device: its number, and how large it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Buffer {
    number: u32,
    bytes: u64,
}

impl Buffer {
    pub(crate) fn number(self) -> usize {
        self.number as usize
    }

    /// Its bytes.
    pub fn size(self) -> u64 {
        self.bytes
    }

    pub(crate) fn whole(self) -> Part {
        self.part(0, self.bytes)
    }

    pub(crate) fn part(self, offset: u64, bytes: u64) -> Part {
        Part { buffer: self, offset, bytes }
    }
}

/// Some bytes of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub buffer: Buffer,
    pub offset: u64,
    pub bytes: u64,
}

/// What a buffer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Kernels read and write it, all of it through one binding.
    Storage,
    /// Kernels read it, some of it through each binding.
    Weights,
    /// Four words that kernels read as constants.
    Uniform,
}

/// A buffer that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// For messages.
    pub what: String,
    pub bytes: u64,
    pub purpose: Purpose,
}

/// How a kernel uses a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Reads,
    Writes,
    /// Words that are the same for all.
    Uniform,
}

/// A kernel: the access of each of its bindings, which have no gaps, is part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// For messages.
    pub name: &'static str,
    /// WGSL.
    pub text: Arc<str>,
    pub slots: Vec<Access>,
}

/// What is bound to a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operand {
    Part(Part),
    /// Constants of a launch.
    Words(Vec<u32>),
}

/// What is bound to the slots of a kernel, or of several that have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bindings {
    /// For messages.
    pub what: String,
    pub slots: Vec<Access>,
    pub operands: Vec<Operand>,
}

/// The number of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KernelId(u32);

/// The number of what is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BindingsId(u32);

impl KernelId {
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

impl BindingsId {
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

/// A launch that is about to be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub(crate) kernel: KernelId,
    pub(crate) bindings: BindingsId,
    /// Workgroups along both axes.
    pub(crate) groups: [u32; 2],
}

/// Buffers, kernels and bindings for a device of which these facts are known.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernels {
    pub(crate) facts: Facts,
    /// Words of each header of a step, and of a row.
    pub(crate) header_words: usize,
    pub(crate) row_words: usize,
    buffers: Vec<Reserved>,
    kernels: Vec<Kernel>,
    known: HashMap<Arc<str>, KernelId>,
    bindings: Vec<Bindings>,
}

impl Kernels {
    /// For steps of one outlook with `row_words` words of a row.
    pub fn new(facts: Facts, row_words: usize) -> Kernels {
        let (buffers, kernels, known, bindings) = (vec![], vec![], HashMap::new(), vec![]);
        Kernels { facts, header_words: header::words(1), row_words, buffers, kernels, known, bindings }
    }

    /// The same for steps with `header_words` words of a header.
    pub(crate) fn with_header_words(self, header_words: usize) -> Kernels {
        Kernels { header_words, ..self }
    }

    /// A buffer that kernels read and write; `what` is for messages.
    pub fn storage(&mut self, what: &str, bytes: u64) -> Buffer {
        self.reserve(what, bytes, Purpose::Storage)
    }

    /// One of four words that kernels read as constants.
    pub fn uniform(&mut self, what: &str) -> Buffer {
        self.reserve(what, 16, Purpose::Uniform)
    }

    pub(crate) fn reserve(&mut self, what: &str, bytes: u64, purpose: Purpose) -> Buffer {
        // What is too large for that is too large for any device.
        let bytes = bytes.max(4).checked_next_multiple_of(4).unwrap_or(bytes);
        let number = self.buffers.len() as u32;
        self.buffers.push(Reserved { what: what.to_string(), bytes, purpose });
        Buffer { number, bytes }
    }

    /// The kernel of a text, which there is once.
    ///
    /// The caller promises that its loops end, and that its indices are below the lengths of what they index: neither
    /// is checked on the device.
    pub(crate) fn kernel(&mut self, name: &'static str, text: String, slots: Vec<Access>) -> KernelId {
        if let Some(known) = self.known.get(&*text) {
            debug_assert_eq!(self.kernels[known.number()].slots, slots, "bindings are a part of the text");
            return *known;
        }
        let (id, text) = (KernelId(self.kernels.len() as u32), Arc::from(text));
        self.known.insert(Arc::clone(&text), id);
        self.kernels.push(Kernel { name, text, slots });
        id
    }

    /// Binds operands to slots; `what` is for messages.
    pub(crate) fn bind(&mut self, what: &str, slots: Vec<Access>, operands: Vec<Operand>) -> BindingsId {
        self.bindings.push(Bindings { what: what.to_string(), slots, operands });
        BindingsId(self.bindings.len() as u32 - 1)
    }

    pub(crate) fn all_buffers(&self) -> &[Reserved] {
        &self.buffers
    }

    pub(crate) fn all_kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    pub(crate) fn all_bindings(&self) -> &[Bindings] {
        &self.bindings
    }
}
