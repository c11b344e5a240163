//! Why something could not be measured.

use std::path::PathBuf;

use gleed_cpu::Isa;
use gleed_model::StepError;

/// The result of this crate's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A peer that is not there.
    #[error("{}: no such program; a peer is the path of llama-bench", path.display())]
    NoPeer {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A peer without one of its tools.
    #[error("there is no {tool} beside {}", bench.display())]
    NoTool {
        /// The tool.
        tool: &'static str,
        /// The peer's `llama-bench`.
        bench: PathBuf,
    },
    /// A process that could not be started or heard.
    #[error("{program}: {source}")]
    Process {
        /// The program.
        program: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A process that ended badly.
    #[error("{program} failed: {said}")]
    Failed {
        /// The program.
        program: String,
        /// How it ended, and the last line it said.
        said: String,
    },
    /// A process whose output is not what it should be.
    #[error("{program} {what}")]
    Output {
        /// The program.
        program: String,
        /// What is wrong.
        what: String,
    },
    /// A test that the runner was not made for.
    #[error("{test}: there is no room for its positions; make the executor and the runner for it")]
    NoRoom {
        /// The test.
        test: String,
    },
    /// An instruction set that this machine does not have.
    #[error("this machine does not have {0}, so its limits cannot be measured")]
    Isa(Isa),
    /// A step that the executor refused.
    #[error(transparent)]
    Step(#[from] StepError),
    /// An answer that the engine could not give.
    #[error(transparent)]
    Engine(#[from] gleed_engine::Error),
    /// A kernel that cannot be measured.
    #[error(transparent)]
    Cpu(#[from] gleed_cpu::Error),
    /// A GPU that cannot be measured.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Gpu(#[from] gleed_gpu::Error),
}
