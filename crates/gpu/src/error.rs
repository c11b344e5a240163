//! Why a GPU cannot be used, or an executor cannot be made on it.

/// The result of this crate's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a GPU cannot be used, or an executor cannot be made on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No adapter, or none that may be used.
    #[error("no usable GPU: {found}. {advice}")]
    NoAdapter {
        /// What there is instead.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// A name or number that no adapter has.
    #[error("no GPU is called {asked}; there are: {available}")]
    UnknownAdapter {
        /// What was asked for.
        asked: String,
        /// What there is.
        available: String,
    },
    /// The driver refused to open the device.
    #[error("{adapter} cannot be opened: {reason}")]
    Open {
        /// The adapter's name.
        adapter: String,
        /// What the driver said.
        reason: String,
    },
    /// Halves are asked for where no matrix units multiply them.
    #[error(
        "{adapter} has no matrix units that multiply halves as expected, which --arithmetic f16 needs; use q8 or f32"
    )]
    NoHalves {
        /// The adapter's name.
        adapter: String,
    },
    /// The device ran out of memory.
    #[error("{adapter} has no memory left for {what}; use fewer rows, a smaller context or a smaller model")]
    OutOfMemory {
        /// The adapter's name.
        adapter: String,
        /// What it was for.
        what: String,
    },
    /// Something larger than the device takes.
    #[error(
        "{what}: {} are more than the {} that {adapter} takes in one {unit}", size(*needed), size(*limit)
    )]
    Limit {
        /// What is too large.
        what: String,
        /// How large it is.
        needed: u64,
        /// How large it may be.
        limit: u64,
        /// One of what: buffer or binding.
        unit: &'static str,
        /// The adapter's name.
        adapter: String,
    },
    /// The model does not fit in what is free of the device's memory.
    #[error(
        "{adapter} has {} of memory free; weights {} + keys and values {} + buffers {} = {} are needed: use \
         fewer positions, fewer rows or a smaller model{}",
        size(*free), size(*weights), size(*kv), size(*buffers),
        size(weights.saturating_add(*kv).saturating_add(*buffers)), part(*layers)
    )]
    DoesNotFit {
        /// The adapter's name.
        adapter: String,
        /// Bytes that are free.
        free: u64,
        /// Bytes of weights.
        weights: u64,
        /// Bytes of the KV cache.
        kv: u64,
        /// Bytes of activations and everything else.
        buffers: u64,
        /// How many of the model's last layers would fit, if any.
        layers: usize,
    },
    /// Steps of more rows than a device takes.
    #[error("steps of {rows} rows: the limit is {limit}")]
    TooManyRows {
        /// Rows asked for.
        rows: usize,
        /// What there may be.
        limit: usize,
    },
    /// The device was lost, or refused an operation that should have been valid.
    #[error("{adapter}: {what}: {reason}")]
    Device {
        /// The adapter's name.
        adapter: String,
        /// What was attempted.
        what: String,
        /// What the driver said.
        reason: String,
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
    /// A matrix that no kernel multiplies on this device.
    #[error("tensor {tensor}: {adapter} has no kernel that multiplies it: {reason}")]
    NoKernel {
        /// The tensor.
        tensor: String,
        /// The adapter's name.
        adapter: String,
        /// Why none of those that there are fits.
        reason: String,
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

/// What part of a model would fit.
fn part(layers: usize) -> String {
    if layers == 0 { String::new() } else { format!(", or a part of it: `--gpu-layers {layers}` would fit") }
}

/// A number of bytes, for people.
fn size(bytes: u64) -> String {
    let (unit, name) = if bytes < 1 << 30 { (1 << 20, "MiB") } else { (1 << 30, "GiB") };
    format!("{:.1} {name}", bytes as f64 / f64::from(unit))
}
