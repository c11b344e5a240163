//! The executor on a GPU and what it is made of, as others see it: one test binary, whose tests share a device and so
//! the kernels that it has compiled.

mod adapters;
mod common;
mod device;
mod executor;
mod joined;
mod norms;
mod numbers;
mod ops;
mod promise;
mod shaders;
mod start;
