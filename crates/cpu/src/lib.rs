//! How does a CPU compute it? The batched executor, its thread pool and kernels.

pub mod kernels;
