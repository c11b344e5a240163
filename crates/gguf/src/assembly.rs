//! Tensors of a model that is put together in memory: each lies in some file as it is, or is made of what files
//! hold, a stretch at a time or whole and kept.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use crate::TensorSpec;

/// One tensor of a model that [`Gguf::assemble`](crate::Gguf::assemble) puts together.
pub struct Piece {
    /// What the tensor table says about it.
    pub spec: TensorSpec,
    /// Where its data comes from.
    pub place: Place,
}

/// Where the data of a tensor comes from.
pub enum Place {
    /// It lies in a file as it is.
    In {
        /// The number of the file.
        file: usize,
        /// Where the data starts in it, in bytes.
        offset: usize,
    },
    /// It is made.
    Made(Box<dyn Make>),
}

/// Makes the data of a tensor.
pub trait Make: Send + Sync {
    /// Writes the tensor's bytes from `start` on, as many as `out` takes. Both are whole rows.
    fn make(&self, start: usize, out: &mut [u8]);

    /// Tells the system that what the tensor is made of can be dropped from memory, where it is a file's.
    fn release(&self);
}

/// A tensor that is made when it is read.
pub(crate) struct Made {
    make: Box<dyn Make>,
    bytes: usize,
    kept: OnceLock<Vec<u8>>,
}

impl Made {
    /// One of `bytes` bytes.
    pub fn new(make: Box<dyn Make>, bytes: usize) -> Made {
        Made { make, bytes, kept: OnceLock::new() }
    }

    /// All of it, made once.
    pub fn data(&self) -> &[u8] {
        self.kept.get_or_init(|| {
            let mut data = vec![0; self.bytes];
            self.make.make(0, &mut data);
            // Here twice otherwise.
            self.make.release();
            data
        })
    }

    /// Lets what it is made of be dropped from memory.
    pub fn release(&self) {
        self.make.release();
    }

    /// A part of it, made for this call unless all of it is there.
    pub fn stretch(&self, range: Range<usize>) -> Cow<'_, [u8]> {
        match self.kept.get() {
            Some(data) => Cow::Borrowed(&data[range]),
            None => {
                let mut data = vec![0; range.len()];
                self.make.make(range.start, &mut data);
                Cow::Owned(data)
            }
        }
    }
}
