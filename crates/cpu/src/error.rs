//! Why an executor cannot be made.

use crate::kernels::Isa;

/// Why an executor cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file holds no model that could be run.
    #[error(transparent)]
    Model(#[from] gleed_model::Error),
    /// The order of operations is another device's.
    #[error("the CPU has no arithmetic in {arithmetic}, which is for a GPU's matrix units; use q8 or f32")]
    Arithmetic {
        /// What was asked for.
        arithmetic: gleed_model::Arithmetic,
    },
    /// The program names a tensor that the file does not have.
    #[error("tensor {name} is missing")]
    MissingTensor {
        /// The tensor.
        name: String,
    },
    /// A tensor is not what the program says.
    #[error("tensor {name}: expected {expected}, has {found}")]
    Tensor {
        /// The tensor.
        name: String,
        /// Rows, columns and format in the program.
        expected: String,
        /// Shape and format in the file.
        found: String,
    },
    /// A forced instruction set that this machine does not have.
    #[error("this machine does not have {isa}; it has {available}")]
    Isa {
        /// What was asked for.
        isa: Isa,
        /// What there is.
        available: String,
    },
    /// Something that is too large to be allocated.
    #[error("{what} do not fit in memory; use fewer rows or a smaller context")]
    Memory {
        /// What it is for.
        what: &'static str,
    },
    /// A thread that could not be started.
    #[error("cannot start {threads} threads: {source}")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// Why not.
        source: std::io::Error,
    },
    /// A program that this executor cannot run.
    #[error("node {node} ({kind}): {what}")]
    Program {
        /// The index of the node.
        node: usize,
        /// The kind of its op.
        kind: &'static str,
        /// What is wrong.
        what: String,
    },
}
