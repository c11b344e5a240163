//! Which device computes: what `--device` means, and a model's executor on it.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::time::Instant;

use gleed_cpu::{Cpu, Isa};
#[cfg(feature = "gpu")]
use gleed_gpu::GpuExecutor;
#[cfg(feature = "gpu")]
use gleed_model::Joined;
use gleed_model::adapters::Adapter;
use gleed_model::chain::Chain;
use gleed_model::executor::{Buffers, Observer};
use gleed_model::groups::PageGroup;
use gleed_model::program::Program;
use gleed_model::{Arithmetic, Batch, Executor, KvType, StepError};
use serde_json::{Map, Value, json};

use crate::load::Loaded;

/// What the user asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// A real GPU where there is one and the model fits on it, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The best real GPU.
    Gpu,
    /// An adapter by its number or a part of its name; a software one only this way.
    Named(String),
}

impl FromStr for Device {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Device, Infallible> {
        Ok(match text {
            "auto" => Device::Auto,
            "cpu" => Device::Cpu,
            "gpu" => Device::Gpu,
            name => Device::Named(name.to_string()),
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Device::Auto => "auto",
            Device::Cpu => "cpu",
            Device::Gpu => "gpu",
            Device::Named(name) => name,
        })
    }
}

/// A model on a device.
pub struct Placed {
    /// Its executor.
    on: On,
    /// The order of operations.
    arithmetic: Arithmetic,
    /// How keys and values are kept.
    kv: KvType,
    /// Why it is on the CPU although there is a GPU and the user did not ask for the CPU by name.
    fallback: Option<String>,
}

/// An executor on one device or two.
pub enum On {
    /// On the CPU.
    Cpu(Box<Cpu>),
    /// On a GPU.
    #[cfg(feature = "gpu")]
    Gpu(Box<GpuExecutor>),
    /// The first layers on the CPU and the last ones on a GPU, in the same arithmetic.
    #[cfg(feature = "gpu")]
    Split(Box<Joined<Cpu, GpuExecutor>>),
}

impl Placed {
    /// A model on a device, in an order of operations and with such keys and values.
    pub fn new(on: On, arithmetic: Arithmetic, kv: KvType) -> Placed {
        Placed { on, arithmetic, kv, fallback: None }
    }

    /// The same, on the CPU for a reason other than that there is no GPU.
    #[cfg(feature = "gpu")]
    pub fn instead_of_gpu(self, why: String) -> Placed {
        Placed { fallback: Some(why), ..self }
    }

    /// What reports for programs say of a run: which model from which file (none for the one in this binary), on
    /// what, in which numbers.
    pub fn report(&self, loaded: &Loaded) -> Map<String, Value> {
        let cpu = self.cpu();
        let file = Some(loaded.file.name()).filter(|name| *name != gleed_hub::EMBEDDED_NAME);
        let facts = [
            ("model", json!(loaded.name)),
            ("model_file", json!(file)),
            ("device", json!(self.to_string())),
            ("fallback", json!(self.fallback)),
            ("arithmetic", json!(self.arithmetic.to_string())),
            ("kv", json!(self.kv.to_string())),
            ("isa", json!(cpu.map(|(isa, _)| isa.to_string()))),
            ("threads", json!(cpu.map(|(_, threads)| threads))),
        ];
        let mut facts: Map<String, Value> =
            facts.into_iter().map(|(name, fact)| (name.to_string(), fact)).collect();
        if !loaded.adapters.is_empty() {
            let told = |adapter: &Adapter| json!({ "path": adapter.info.name, "scale": adapter.info.scale });
            facts.insert("lora".to_string(), loaded.adapters.iter().map(told).collect());
        }
        facts
    }

    fn inner(&self) -> &dyn Executor {
        match &self.on {
            On::Cpu(cpu) => &**cpu,
            #[cfg(feature = "gpu")]
            On::Gpu(gpu) => &**gpu,
            #[cfg(feature = "gpu")]
            On::Split(both) => &**both,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Executor {
        match &mut self.on {
            On::Cpu(cpu) => &mut **cpu,
            #[cfg(feature = "gpu")]
            On::Gpu(gpu) => &mut **gpu,
            #[cfg(feature = "gpu")]
            On::Split(both) => &mut **both,
        }
    }

    /// The order of operations.
    pub fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// The node from which on a GPU computes, in an order of its own; what is before it, or all where there is
    /// none, has the reference's bits.
    pub fn other_order_from(&self) -> Option<usize> {
        match &self.on {
            On::Cpu(..) => None,
            #[cfg(feature = "gpu")]
            On::Gpu(_) => Some(0),
            #[cfg(feature = "gpu")]
            On::Split(both) => Some(both.cut()),
        }
    }

    /// The instruction set and the number of threads, where all is on a CPU.
    pub fn cpu(&self) -> Option<(Isa, usize)> {
        match &self.on {
            On::Cpu(cpu) => Some((cpu.isa(), cpu.threads())),
            #[cfg(feature = "gpu")]
            On::Gpu(_) | On::Split(_) => None,
        }
    }

    /// The GPU, where all is on one.
    #[cfg(feature = "gpu")]
    pub fn gpu(&self) -> Option<&gleed_gpu::Gpu> {
        match &self.on {
            On::Gpu(gpu) => Some(gpu.gpu()),
            On::Cpu(..) | On::Split(_) => None,
        }
    }

    /// The threads of the CPU that computes all of the model or its first layers.
    pub fn threads(&self) -> Option<usize> {
        match &self.on {
            On::Cpu(cpu) => Some(cpu.threads()),
            #[cfg(feature = "gpu")]
            On::Gpu(_) => None,
            #[cfg(feature = "gpu")]
            On::Split(both) => Some(both.first().threads()),
        }
    }

    /// What has computed: the kernels of a CPU that have run; of a GPU, how its largest steps are cut.
    pub fn kernels(&self) -> Vec<String> {
        let of_cpu = |cpu: &Cpu| -> Vec<String> { cpu.counters().into_keys().collect() };
        match &self.on {
            On::Cpu(cpu) => of_cpu(cpu),
            #[cfg(feature = "gpu")]
            On::Gpu(gpu) => of_gpu(gpu),
            #[cfg(feature = "gpu")]
            On::Split(both) => [of_cpu(both.first()), of_gpu(both.second())].concat(),
        }
    }

    /// Makes everything that steps of any size need, so that none of them waits: for a measurement.
    pub fn prepare(&mut self) -> anyhow::Result<()> {
        match &mut self.on {
            On::Cpu(_) => Ok(()),
            #[cfg(feature = "gpu")]
            On::Gpu(gpu) => Ok(gpu.compile_all()?),
            #[cfg(feature = "gpu")]
            On::Split(both) => Ok(both.second_mut().compile_all()?),
        }
    }

    /// Tells, whenever it is asked, what the start took on a GPU; null without one.
    pub fn start(&self) -> Box<dyn Fn() -> Value> {
        match &self.on {
            On::Cpu(_) => Box::new(|| Value::Null),
            #[cfg(feature = "gpu")]
            On::Gpu(gpu) => watched(gpu.start_watch()),
            #[cfg(feature = "gpu")]
            On::Split(both) => watched(both.second().start_watch()),
        }
    }

    /// Runs a step and adds the seconds of each node: of a CPU by our clock, of a GPU by its own.
    pub fn time_step(&mut self, batch: &Batch, nodes: &mut [f64]) -> Result<(), StepError> {
        match &mut self.on {
            On::Cpu(cpu) => cpu.step(batch, &mut Clock { last: Instant::now(), nodes }),
            #[cfg(feature = "gpu")]
            On::Gpu(gpu) => {
                let times = gpu.time_nodes(batch)?;
                nodes.iter_mut().zip(times).for_each(|(sum, time)| *sum += time.as_secs_f64());
                Ok(())
            }
            #[cfg(feature = "gpu")]
            On::Split(both) => {
                let (first, second) = nodes.split_at_mut(both.cut());
                let mut clock = Clock { last: Instant::now(), nodes: first };
                let (gpu, handed) = both.run_first(batch, &mut clock)?;
                let times = gpu.time_nodes(handed)?;
                // The first one only brings what the CPU has computed.
                second.iter_mut().zip(&times[1..]).for_each(|(sum, time)| *sum += time.as_secs_f64());
                Ok(())
            }
        }
    }
}

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.on {
            On::Cpu(cpu) => write!(f, "{}, {} threads", cpu.isa(), cpu.threads()),
            #[cfg(feature = "gpu")]
            On::Gpu(gpu) => write!(f, "{}", gpu.gpu().info),
            #[cfg(feature = "gpu")]
            On::Split(both) => {
                let (cpu, gpu, layers) = (both.first(), both.second(), both.program().layers());
                let on_cpu = cpu.program().layers();
                let threads = cpu.threads();
                write!(f, "{on_cpu} of {layers} layers on the CPU ({}, {threads} threads), ", cpu.isa())?;
                write!(f, "{} and the head on {}", layers - on_cpu, gpu.gpu().info)
            }
        }
    }
}

impl Executor for Placed {
    fn program(&self) -> &Program {
        self.inner().program()
    }

    fn max_rows(&self) -> usize {
        self.inner().max_rows()
    }

    fn page_groups(&self) -> &[PageGroup] {
        self.inner().page_groups()
    }

    fn slot_count(&self) -> usize {
        self.inner().slot_count()
    }

    fn step(&mut self, batch: &Batch, observer: &mut dyn Observer) -> Result<(), StepError> {
        self.inner_mut().step(batch, observer)
    }

    fn logits(&self, index: usize) -> &[f32] {
        self.inner().logits(index)
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) {
        self.inner_mut().copy_page(group, from, to);
    }

    fn chain(&mut self) -> Option<&mut dyn Chain> {
        self.inner_mut().chain()
    }
}

/// How a GPU computes its largest steps.
#[cfg(feature = "gpu")]
fn of_gpu(gpu: &GpuExecutor) -> Vec<String> {
    let rows = gpu.max_rows();
    let (units, norms) = (gpu.layers_on_matrix_units(rows), gpu.norms_in_layers(rows));
    vec![format!(
        "{units} linear layers on matrix units and {norms} norms within layers, in steps of {rows} rows"
    )]
}

/// A GPU's start for programs.
#[cfg(feature = "gpu")]
fn watched(watch: gleed_gpu::StartWatch) -> Box<dyn Fn() -> Value> {
    Box::new(move || {
        let start = watch.start();
        json!({
            "open_seconds": start.opened.device.as_secs_f64(),
            "probe_seconds": start.opened.probe.as_secs_f64(),
            "load_seconds": start.loading.as_secs_f64(),
            "allocate_seconds": start.allocating.as_secs_f64(),
            "plan_seconds": start.planning.as_secs_f64(),
            "upload_seconds": start.uploading.as_secs_f64(),
            "uploaded_bytes": start.uploaded_bytes,
            "pack_thread_seconds": start.packing.as_secs_f64(),
            "copy_thread_seconds": start.copying.as_secs_f64(),
            "kernels": start.kernels,
            "kernels_compiled": start.compiled.kernels,
            "kernels_from_file": start.compiled.from_file,
            "compile_thread_seconds": start.compiled.took.as_secs_f64(),
            "first_step_seconds": start.first_step.map(|time| time.as_secs_f64()),
            "waited_for_kernels_seconds": start.waited.as_secs_f64(),
        })
    })
}

/// Looks at the time after each node.
struct Clock<'a> {
    last: Instant,
    nodes: &'a mut [f64],
}

impl Observer for Clock<'_> {
    fn start(&mut self) {
        self.last = Instant::now();
    }

    fn after(&mut self, node: usize, _buffers: &dyn Buffers) {
        let now = Instant::now();
        self.nodes[node] += (now - self.last).as_secs_f64();
        self.last = now;
    }
}
