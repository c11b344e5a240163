//! Kernels are compiled when they are needed, or before that on threads of their own: while weights are on their way to
//! the device, and beside the first steps. Each text is compiled once, however many ask for it.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::device::{Failure, scoped};
use crate::kernel_file::KernelFile;
use crate::units::fragments::Fragments;
use crate::units::spirv;
use crate::{Error, Result};

/// Kernels of a device that are compiled so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compiled {
    /// How many there are.
    pub kernels: usize,
    /// How many of them the file of kernels had.
    pub from_file: usize,
    /// The time that all threads together took for them.
    pub took: Duration,
}

/// A kernel that is compiled, or will be when it is needed.
#[derive(Clone)]
pub(crate) struct Pipeline(Arc<Job>);

struct Job {
    name: &'static str,
    text: Arc<str>,
    layout: wgpu::PipelineLayout,
    /// Whether a thread has it in hand.
    begun: AtomicBool,
    made: OnceLock<Result<wgpu::ComputePipeline>>,
    workshop: Arc<Workshop>,
}

impl Pipeline {
    /// The compiled kernel; if it is not compiled yet this compiles it, or waits for the thread that does.
    pub fn get(&self) -> Result<&wgpu::ComputePipeline> {
        let made = self.0.made.get_or_init(|| {
            self.0.begun.store(true, Ordering::Relaxed);
            self.0.workshop.compile(&self.0)
        });
        made.as_ref().map_err(Clone::clone)
    }

    pub fn is_made(&self) -> bool {
        self.0.made.get().is_some()
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("name", &self.0.name).field("made", &self.is_made()).finish()
    }
}

/// When kernels that are not asked for yet are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Before all others: something waits for them.
    Now,
    /// When nothing waits, with half of the cores.
    Ahead,
}

/// The kernels of a device and the threads that compile them. Kernels whose turn has not come when it is dropped are not
/// compiled; those that threads have in hand are waited for, as a driver must not be left while it works.
pub(crate) struct Compiler {
    known: Mutex<HashMap<Arc<str>, Pipeline>>,
    workshop: Arc<Workshop>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Compiler {
    pub fn new(device: wgpu::Device, adapter: &str, failure: Failure, file: Option<KernelFile>) -> Compiler {
        let adapter = adapter.to_string();
        let fragments = OnceLock::new();
        let (queues, compiled) = (Mutex::default(), Mutex::default());
        let workshop = Arc::new(Workshop { device, adapter, failure, file, fragments, queues, compiled });
        Compiler { known: Mutex::default(), workshop, threads: Mutex::default() }
    }

    /// The kernel of a WGSL text; `name` is for messages.
    ///
    /// # Safety
    /// Its loops must end, and every index be below the length that it indexes: neither is checked. Its bindings must be
    /// those of the layout.
    pub unsafe fn pipeline(
        &self,
        name: &'static str,
        text: &Arc<str>,
        layout: &wgpu::PipelineLayout,
    ) -> Pipeline {
        let mut known = lock(&self.known);
        if let Some(pipeline) = known.get(text) {
            return pipeline.clone();
        }
        let pipeline = Pipeline(Arc::new(Job {
            name,
            text: Arc::clone(text),
            layout: layout.clone(),
            begun: AtomicBool::new(false),
            made: OnceLock::new(),
            workshop: Arc::clone(&self.workshop),
        }));
        known.insert(Arc::clone(text), pipeline.clone());
        pipeline
    }

    /// Has kernels compiled by other threads, in this order.
    pub fn begin(&self, pipelines: impl IntoIterator<Item = Pipeline>, turn: Turn) {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let mut queues = lock(&self.workshop.queues);
        let new = pipelines.into_iter().filter(|pipeline| !pipeline.is_made());
        let wanted = match turn {
            // Beside those that are busy with others.
            Turn::Now => {
                queues.now.extend(new);
                (queues.threads + queues.now.len()).min(2 * cores)
            }
            Turn::Ahead => {
                queues.ahead.extend(new);
                queues.ahead.len().min(cores.div_ceil(2))
            }
        };
        let mut threads = lock(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        while queues.threads < wanted {
            let workshop = Arc::clone(&self.workshop);
            let thread = std::thread::Builder::new().name("gleed kernels".to_string());
            // Without a thread, kernels are compiled when they are needed.
            let Ok(thread) = thread.spawn(move || workshop.work()) else { break };
            queues.threads += 1;
            threads.push(thread);
        }
    }

    /// How kernels on matrix units get at elements, once that is known.
    pub fn fragments(&self) -> Option<Fragments> {
        self.workshop.fragments.get().copied()
    }

    /// Says how they do, once.
    pub fn set_fragments(&self, fragments: Fragments) {
        let known = *self.workshop.fragments.get_or_init(|| fragments);
        debug_assert_eq!(known, fragments, "a device's units are asked once");
    }

    /// What has been compiled.
    pub fn compiled(&self) -> Compiled {
        *lock(&self.workshop.compiled)
    }
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler").field("compiled", &self.compiled()).finish_non_exhaustive()
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        {
            let mut queues = lock(&self.workshop.queues);
            queues.now.clear();
            queues.ahead.clear();
        }
        for thread in lock(&self.threads).drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
        self.workshop.save();
    }
}

/// What threads share. It has no reference to the threads, nor to what is compiled already.
struct Workshop {
    device: wgpu::Device,
    adapter: String,
    failure: Failure,
    file: Option<KernelFile>,
    fragments: OnceLock<Fragments>,
    queues: Mutex<Queues>,
    compiled: Mutex<Compiled>,
}

#[derive(Default)]
struct Queues {
    now: VecDeque<Pipeline>,
    ahead: VecDeque<Pipeline>,
    threads: usize,
}

impl Workshop {
    /// What each thread does: all that waits, then no more.
    fn work(&self) {
        while let Some(pipeline) = self.next() {
            if !pipeline.0.begun.swap(true, Ordering::Relaxed) {
                // Who needs it sees the error; a driver's panic comes again there.
                let _ = catch_unwind(AssertUnwindSafe(|| pipeline.get().is_ok()));
            }
        }
    }

    /// The next kernel to compile; if there is none, the thread counts itself off.
    fn next(&self) -> Option<Pipeline> {
        let mut queues = lock(&self.queues);
        let next = queues.now.pop_front().or_else(|| queues.ahead.pop_front());
        if next.is_none() {
            queues.threads -= 1;
            if queues.threads == 0 {
                drop(queues);
                self.save();
            }
        }
        next
    }

    fn save(&self) {
        self.file.iter().for_each(KernelFile::save);
    }

    fn compile(&self, job: &Job) -> Result<wgpu::ComputePipeline> {
        let start = Instant::now();
        let Job { name, text, layout, .. } = job;
        let what = format!("compiling {name}");
        // Where the device's lanes share elements of matrices, the kernel says so in WGSL. Those that WGSL has no words for
        // are completed here.
        let shared = self.fragments.get().and_then(|fragments| fragments.shared_in(text));
        let text: &str = shared.as_deref().unwrap_or(text);
        let translated = spirv::is_needed(text).then(|| spirv::translate(text)).transpose();
        let translated = translated.map_err(|reason| {
            let adapter = self.adapter.clone();
            Error::Device { adapter, what: what.clone(), reason }
        })?;
        let pipeline = scoped(&self.device, &self.adapter, &self.failure, &what, || {
            // SAFETY: what was promised when the kernel was ordered.
            let module = unsafe { self.module(name, text, translated) };
            self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(name),
                layout: Some(layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    constants: &[],
                    // What is read of workgroup memory has been written.
                    zero_initialize_workgroup_memory: false,
                },
                cache: self.file.as_ref().map(KernelFile::cache),
            })
        })?;
        let from_file = self.file.as_ref().is_some_and(|file| file.made(text));
        let mut compiled = lock(&self.compiled);
        compiled.kernels += 1;
        compiled.from_file += usize::from(from_file);
        compiled.took += start.elapsed();
        Ok(pipeline)
    }

    /// The module of a WGSL text, or of the SPIR-V that was made of it.
    ///
    /// # Safety
    /// As [`Compiler::pipeline`]; and the SPIR-V must be valid, with the same bindings.
    unsafe fn module(&self, name: &str, text: &str, translated: Option<Vec<u32>>) -> wgpu::ShaderModule {
        let Some(words) = translated else {
            let source = wgpu::ShaderSource::Wgsl(text.into());
            let descriptor = wgpu::ShaderModuleDescriptor { label: Some(name), source };
            let checks = wgpu::ShaderRuntimeChecks::unchecked();
            // SAFETY: what the caller promises.
            return unsafe { self.device.create_shader_module_trusted(descriptor, checks) };
        };
        // The size of workgroups is for other backends.
        let main = wgpu::PassthroughShaderEntryPoint { name: "main".into(), workgroup_size: (0, 0, 0) };
        let descriptor = wgpu::ShaderModuleDescriptorPassthrough {
            label: Some(name),
            spirv: Some(words.into()),
            entry_points: vec![main].into(),
            ..Default::default()
        };
        // SAFETY: what the caller promises.
        unsafe { self.device.create_shader_module_passthrough(descriptor) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
