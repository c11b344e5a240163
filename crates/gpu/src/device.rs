//! Adapters and devices: what GPUs there are, what they can do, and opening one.
//!
//! Errors of an open device never panic: those of an operation are caught by [`Gpu::scoped`], all others
//! (a lost device among them) are kept and given out by [`Gpu::check`].

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gleed_model::Arithmetic;

use crate::compiler::{Compiled, Compiler};
use crate::facts::Facts;
use crate::kernel_file::KernelFile;
use crate::units::fragments::Fragments;
use crate::units::matrices::MatrixShape;
use crate::{Error, Result, lost, units, vulkan};

/// What kind of device an adapter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the CPU's memory.
    Integrated,
    /// A GPU lent by a virtual machine.
    Virtual,
    /// Not a GPU: a driver that computes on the CPU.
    Software,
    /// The driver does not say.
    Other,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Discrete => "discrete",
            Kind::Integrated => "integrated",
            Kind::Virtual => "virtual",
            Kind::Software => "software",
            Kind::Other => "other",
        })
    }
}

/// An adapter, as its driver describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterInfo {
    /// Its place in [`adapters`].
    pub index: usize,
    /// Its name, such as `NVIDIA H200`.
    pub name: String,
    /// The interface it is reached through: Vulkan, Metal or DX12.
    pub backend: wgpu::Backend,
    /// What kind of device it is.
    pub kind: Kind,
    /// The driver and its version.
    pub driver: String,
    /// Whether shaders compute with 16-bit floats.
    pub f16: bool,
    /// The smallest and largest subgroup, where shaders have subgroups.
    pub subgroups: Option<(u32, u32)>,
    /// The products of matrices that it computes in one instruction; empty when there are none.
    pub cooperative_matrices: Vec<MatrixShape>,
    /// Whether it can time what it does.
    pub timestamps: bool,
    /// Bytes of the largest buffer.
    pub largest_buffer: u64,
    /// Bytes of a buffer that one shader can see through one binding.
    pub largest_binding: u64,
    /// Bytes of memory, where the driver says.
    pub memory: Option<u64>,
    /// Multiprocessors, where the driver says.
    pub multiprocessors: Option<u32>,
}

impl AdapterInfo {
    fn new(index: usize, adapter: &wgpu::Adapter) -> AdapterInfo {
        let (info, limits, features) = (adapter.get_info(), adapter.limits(), adapter.features());
        let kind = match info.device_type {
            wgpu::DeviceType::DiscreteGpu => Kind::Discrete,
            wgpu::DeviceType::IntegratedGpu => Kind::Integrated,
            wgpu::DeviceType::VirtualGpu => Kind::Virtual,
            wgpu::DeviceType::Cpu => Kind::Software,
            wgpu::DeviceType::Other => Kind::Other,
        };
        let has = |feature| features.contains(feature);
        let matrices = match has(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
            true => adapter.cooperative_matrix_properties(),
            false => vec![],
        };
        AdapterInfo {
            index,
            name: info.name,
            backend: info.backend,
            kind,
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_string(),
            f16: has(wgpu::Features::SHADER_F16),
            subgroups: has(wgpu::Features::SUBGROUP)
                .then_some((info.subgroup_min_size, info.subgroup_max_size)),
            cooperative_matrices: matrices.iter().map(MatrixShape::of).collect(),
            timestamps: has(wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES),
            largest_buffer: limits.max_buffer_size,
            largest_binding: limits.max_storage_buffer_binding_size,
            memory: vulkan::memory(adapter),
            multiprocessors: vulkan::multiprocessors(adapter),
        }
    }

    /// Whether it is no GPU at all.
    pub fn is_software(&self) -> bool {
        self.kind == Kind::Software
    }

    /// Which adapter is to be preferred: the higher, the better.
    fn rank(&self) -> usize {
        match self.kind {
            Kind::Discrete => 4,
            Kind::Integrated => 3,
            Kind::Virtual => 2,
            Kind::Other => 1,
            Kind::Software => 0,
        }
    }
}

impl fmt::Display for AdapterInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.name, self.backend, self.kind)
    }
}

/// Which adapter to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection<'a> {
    /// The best real GPU; never a software adapter.
    Best,
    /// The best real GPU, or a software adapter when there is none.
    BestOrSoftware,
    /// The adapter of this index, where it is digits alone; else the first whose name contains this text, in either
    /// case.
    Named(&'a str),
}

fn instance() -> wgpu::Instance {
    let backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends,
        flags: wgpu::InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    })
}

fn enumerate() -> Vec<(wgpu::Adapter, AdapterInfo)> {
    let adapters = pollster::block_on(instance().enumerate_adapters(wgpu::Backends::all()));
    let describe = |(index, adapter)| {
        let info = AdapterInfo::new(index, &adapter);
        (adapter, info)
    };
    adapters.into_iter().enumerate().map(describe).collect()
}

/// Whether there may be a real GPU. This does not wake any driver, which can take longer than starting to
/// talk on the CPU.
pub fn may_be_there() -> bool {
    if !cfg!(target_os = "linux") {
        return true;
    }
    // The kernel has a file for each: of all open drivers, of NVIDIA's, and of Windows below.
    let of_open_drivers = std::fs::read_dir("/dev/dri").into_iter().flatten().flatten();
    let mut names = of_open_drivers.map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with("renderD"))
        || ["/dev/nvidiactl", "/dev/dxg"].iter().any(|path| std::path::Path::new(path).exists())
}

/// All adapters of this machine, software ones among them.
pub fn adapters() -> Vec<AdapterInfo> {
    enumerate().into_iter().map(|(_, info)| info).collect()
}

fn choose(adapters: &[AdapterInfo], choice: Selection) -> Result<usize> {
    let listed = || match adapters {
        [] => "none".to_string(),
        all => all.iter().map(|a| format!("{} {a}", a.index)).collect::<Vec<_>>().join("; "),
    };
    let best = |software: bool| {
        let usable = adapters.iter().filter(|a| software || !a.is_software());
        // Of equals the first.
        usable.rev().max_by_key(|a| a.rank()).map(|a| a.index)
    };
    match choice {
        Selection::Best | Selection::BestOrSoftware => {
            best(choice == Selection::BestOrSoftware).ok_or_else(|| Error::NoAdapter {
                found: format!("adapters found: {}", listed()),
                advice: "Install the vendor's Vulkan driver (a Mac has Metal, Windows DX12), or use the CPU.",
            })
        }
        Selection::Named(name) => {
            let lower = name.to_lowercase();
            // Digits alone are a number, even where there is no such adapter: names are full of digits.
            let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
            let index = if is_number {
                name.parse::<usize>().ok().filter(|index| *index < adapters.len())
            } else {
                adapters.iter().position(|a| a.name.to_lowercase().contains(&lower))
            };
            index.ok_or_else(|| Error::UnknownAdapter { asked: name.to_string(), available: listed() })
        }
    }
}

/// Features that are used where an adapter has them.
fn useful_features() -> wgpu::Features {
    wgpu::Features::SHADER_F16
        | wgpu::Features::SUBGROUP
        | wgpu::Features::SUBGROUP_BARRIER
        | wgpu::Features::TIMESTAMP_QUERY
        | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS
        | wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES
        | wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX
        | wgpu::Features::PASSTHROUGH_SHADERS
        | wgpu::Features::PIPELINE_CACHE
}

/// The first error that no scope caught.
pub(crate) type Failure = Arc<Mutex<Option<Error>>>;

/// An open device and its queue.
#[derive(Debug, Clone)]
pub struct Gpu {
    /// The device.
    pub device: wgpu::Device,
    /// Its queue.
    pub queue: wgpu::Queue,
    /// What it is.
    pub info: AdapterInfo,
    failure: Failure,
    /// The kernels: whatever runs on the device shares them.
    pub(crate) compiler: Arc<Compiler>,
    opened: Opened,
}

/// What opening a device took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Opened {
    /// Finding the adapters and opening one.
    pub device: Duration,
    /// Trying out its matrix units.
    pub probe: Duration,
}

impl Gpu {
    /// Opens an adapter with all useful features that it has, and with its own limits.
    pub fn open(choice: Selection) -> Result<Gpu> {
        Gpu::open_with(choice, None)
    }

    /// The same; compiled kernels are kept in a file in `folder`, which is made when it is needed. Not all devices can
    /// give out what they compiled.
    pub fn open_with(choice: Selection, folder: Option<&Path>) -> Result<Gpu> {
        let start = Instant::now();
        let mut all = enumerate();
        let infos: Vec<AdapterInfo> = all.iter().map(|(_, info)| info.clone()).collect();
        let (adapter, info) = all.swap_remove(choose(&infos, choice)?);
        let required_features = adapter.features() & useful_features();
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("gleed"),
            required_features,
            required_limits: adapter.limits(),
            // SAFETY: the only experimental features asked for are cooperative matrices and SPIR-V for them, whose
            // kernels keep to the shapes that the adapter lists and are tested against plain ones.
            experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
            memory_hints: wgpu::MemoryHints::Performance,
            trace: wgpu::Trace::Off,
        };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))
            .map_err(|e| Error::Open { adapter: info.name.clone(), reason: e.to_string() })?;
        let failure = Failure::default();
        let file = folder.and_then(|folder| KernelFile::open(&device, &adapter.get_info(), folder));
        let compiler = Arc::new(Compiler::new(device.clone(), &info.name, Arc::clone(&failure), file));
        let mut gpu = Gpu { device, queue, info, failure, compiler, opened: Opened::default() };
        gpu.keep_errors();
        gpu.opened.device = start.elapsed();
        units::find(&mut gpu)?;
        gpu.opened.probe = start.elapsed() - gpu.opened.device;
        gpu.check()?;
        Ok(gpu)
    }

    /// What opening it took.
    pub fn opened(&self) -> Opened {
        self.opened
    }

    /// The kernels that have been compiled for it.
    pub fn compiled(&self) -> Compiled {
        self.compiler.compiled()
    }

    /// Errors that no caller waits for are kept instead of ending the process.
    fn keep_errors(&self) {
        let (failure, adapter) = (Arc::clone(&self.failure), self.info.name.clone());
        let handler = move |error: wgpu::Error| {
            keep(&failure, describe(&adapter, "a command that should have been valid", &error));
        };
        self.device.on_uncaptured_error(Arc::new(handler));
        let (failure, adapter) = (Arc::clone(&self.failure), self.info.name.clone());
        self.device.set_device_lost_callback(move |reason, message| {
            if reason != wgpu::DeviceLostReason::Destroyed {
                let (adapter, what) = (adapter.clone(), "the device was lost".to_string());
                keep(&failure, Error::Device { adapter, what, reason: message });
            }
        });
    }

    /// Does something with the device and gives out its errors; `what` is for the message.
    pub fn scoped<T>(&self, what: &str, f: impl FnOnce() -> T) -> Result<T> {
        scoped(&self.device, &self.info.name, &self.failure, what, f)
    }

    /// The first error that no scope caught, such as the loss of the device.
    pub fn check(&self) -> Result<()> {
        check(&self.failure)
    }

    /// The order of operations for who asks for none: halves where lanes have the elements of matrices, which take prompts
    /// and many sequences fastest, else integers.
    pub fn arithmetic(&self) -> Arithmetic {
        if self.fragments() == Some(Fragments::Lanes) { Arithmetic::F16 } else { Arithmetic::Q8 }
    }

    /// How kernels on matrix units get at the elements of matrices; nothing where there are no such units.
    pub(crate) fn fragments(&self) -> Option<Fragments> {
        self.compiler.fragments()
    }

    /// What planning asks of it.
    pub fn facts(&self) -> Facts {
        let limits = self.device.limits();
        Facts {
            adapter: self.info.name.clone(),
            software: self.info.is_software(),
            multiprocessors: self.info.multiprocessors,
            workgroup_memory: limits.max_compute_workgroup_storage_size,
            workgroup_threads: limits.max_compute_invocations_per_workgroup,
            storage_bindings: limits.max_storage_buffers_per_shader_stage,
            largest_binding: limits.max_storage_buffer_binding_size,
            largest_buffer: limits.max_buffer_size,
            fragments: self.fragments(),
        }
    }

    /// Bytes of memory that nothing uses yet, where the driver says; else all there are, where it says that.
    pub fn free_memory(&self) -> Option<u64> {
        let (free, all) = (vulkan::free_memory(&self.device), self.info.memory);
        free.into_iter().chain(all).min()
    }

    /// Waits until everything submitted is done.
    pub fn wait(&self) -> Result<()> {
        self.wait_for(wgpu::PollType::wait_indefinitely())
    }

    /// Waits for what the poll asks for.
    pub(crate) fn wait_for(&self, poll: wgpu::PollType) -> Result<()> {
        let wait = lost::waited(|| self.device.poll(poll)).and_then(|wait| wait.map_err(|e| e.to_string()));
        // Why a device was lost is known from the callback.
        self.check()?;
        let what = "waiting for the device".to_string();
        wait.map_err(|reason| Error::Device { adapter: self.info.name.clone(), what, reason })?;
        Ok(())
    }
}

/// [`Gpu::scoped`], for those that have no more of a device than this.
pub(crate) fn scoped<T>(
    device: &wgpu::Device,
    adapter: &str,
    failure: &Failure,
    what: &str,
    f: impl FnOnce() -> T,
) -> Result<T> {
    let filters =
        [wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::Internal];
    let scopes = filters.map(|filter| device.push_error_scope(filter));
    let result = f();
    // Scopes end in the reverse order; each is looked at, so that none is left open.
    let mut error = None;
    for scope in scopes.into_iter().rev() {
        error = error.or(pollster::block_on(scope.pop()));
    }
    match error {
        Some(error) => Err(describe(adapter, what, &error)),
        None => check(failure).map(|()| result),
    }
}

fn check(failure: &Failure) -> Result<()> {
    failure.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err)
}

fn keep(failure: &Mutex<Option<Error>>, error: Error) {
    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
}

fn describe(adapter: &str, what: &str, error: &wgpu::Error) -> Error {
    let (adapter, what) = (adapter.to_string(), what.to_string());
    match error {
        wgpu::Error::OutOfMemory { .. } => Error::OutOfMemory { adapter, what },
        error => Error::Device { adapter, what, reason: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::half_units;
    use crate::units::matrices::Element;

    fn adapter(index: usize, name: &str, kind: Kind) -> AdapterInfo {
        AdapterInfo {
            index,
            name: name.to_string(),
            backend: wgpu::Backend::Vulkan,
            kind,
            driver: String::new(),
            f16: false,
            subgroups: None,
            cooperative_matrices: vec![],
            timestamps: false,
            largest_buffer: 0,
            largest_binding: 0,
            memory: None,
            multiprocessors: None,
        }
    }

    #[test]
    fn the_best_real_one_is_chosen() {
        let kinds = [Kind::Software, Kind::Integrated, Kind::Discrete, Kind::Discrete];
        let all: Vec<_> =
            kinds.iter().enumerate().map(|(i, kind)| adapter(i, &format!("Card {i}"), *kind)).collect();
        assert_eq!(choose(&all, Selection::Best), Ok(2));
        assert_eq!(choose(&all, Selection::BestOrSoftware), Ok(2));
        assert_eq!(choose(&all[..2], Selection::Best), Ok(1));
        assert_eq!(choose(&all[..1], Selection::BestOrSoftware), Ok(0));
        assert!(matches!(choose(&all[..1], Selection::Best), Err(Error::NoAdapter { .. })));
        assert!(matches!(choose(&[], Selection::BestOrSoftware), Err(Error::NoAdapter { .. })));
    }

    #[test]
    fn matrix_units_are_known_by_their_shapes() {
        let halves =
            |side, k| MatrixShape { m: side, n: side, k, operands: Element::F16, sums: Element::F32 };
        let with = |shapes: &[MatrixShape]| AdapterInfo {
            f16: true,
            subgroups: Some((32, 32)),
            cooperative_matrices: shapes.to_vec(),
            ..adapter(0, "Card", Kind::Discrete)
        };
        let card = with(&[halves(16, 8), halves(16, 16)]);
        assert_eq!(card.cooperative_matrices[1].to_string(), "16x16x16 f16 to f32");
        let any_lanes = |card: AdapterInfo| AdapterInfo { subgroups: Some((4, 64)), ..card };
        let mac = AdapterInfo { backend: wgpu::Backend::Metal, ..any_lanes(with(&[halves(8, 8)])) };
        assert!([&card, &mac, &with(&[halves(8, 8)])].into_iter().all(half_units));
        let others = [
            AdapterInfo { f16: false, ..card.clone() },
            any_lanes(card),
            with(&[halves(16, 8)]),
            with(&[MatrixShape { sums: Element::F16, ..halves(16, 16) }]),
        ];
        assert!(others.iter().all(|other| !half_units(other)));
    }

    #[test]
    fn names_and_numbers_find_adapters() {
        let all = [adapter(0, "llvmpipe", Kind::Software), adapter(1, "GeForce 7", Kind::Discrete)];
        assert_eq!(choose(&all, Selection::Named("0")), Ok(0));
        assert_eq!(choose(&all, Selection::Named("geforce")), Ok(1));
        assert_eq!(choose(&all, Selection::Named("force 7")), Ok(1));
        for number in ["7", "2", "99999999999999999999"] {
            let error = choose(&all, Selection::Named(number)).unwrap_err().to_string();
            assert!(error.contains(number) && error.contains("1 GeForce 7"), "{error}");
        }
        let error = choose(&all, Selection::Named("radeon")).unwrap_err().to_string();
        assert!(error.contains("radeon") && error.contains("1 GeForce 7"), "{error}");
    }
}
