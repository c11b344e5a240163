//! What the dispatches of a program bind: the buffers of all of it, which are settled before any dispatch is.

use gleed_gguf::Gguf;
use gleed_model::Arithmetic;
use gleed_model::groups::PageGroup;
use gleed_model::program::{KvLayer, Program};

use super::{Sizes, gathered};
use crate::activations::Activations;
use crate::cache::{self, LayerCache};
use crate::kernels::experts::tiles::ExpertRows;
use crate::launch::{Buffer, Kernels};
use crate::linear::{HalfRows, LinearKernels, Quantized, Tiling};
use crate::state::LayerState;
use crate::step::Outlook;
use crate::units::fragments::Room;
use crate::weights::{Contents, Weights};
use crate::{Options, Result};

/// How many rows linear layers have: one uniform buffer for each list, and one for the logits.
#[derive(Debug, PartialEq)]
pub(crate) struct RowCounts {
    pub lists: [Buffer; 2],
    pub logits: Buffer,
}

/// What the dispatches of a program bind.
pub(crate) struct Resources {
    /// The rows of a step.
    pub step: Buffer,
    /// By which the step cuts attention.
    pub outlooks: Vec<Outlook>,
    /// Rows of a sequence that one workgroup of attention takes.
    pub attention_rows: usize,
    /// Where a row's scales of adapters begin after its fixed words, and where its angles do.
    pub first_scale: usize,
    pub first_angle: usize,
    pub weights: Weights,
    pub activations: Activations,
    pub page_groups: Vec<PageGroup>,
    pub caches: Vec<LayerCache>,
    pub states: Vec<LayerState>,
    /// Partial results of attention.
    pub partials: Buffer,
    /// What indexers score.
    pub index_scores: Buffer,
    /// Room for one page, on its way from one place of a cache to another.
    pub page: Buffer,
    /// Room for the inputs of as many rows of logits as are computed at once, on their way to the beginning of their
    /// buffer.
    pub inputs: Buffer,
    pub linear: LinearKernels,
    /// Where activations become integers, in arithmetic of integers: those that norms write, and others.
    pub quantized: Option<[Quantized; 2]>,
    /// Where they become halves, in arithmetic of halves: the same.
    pub halves: Option<[HalfRows; 2]>,
    /// Where rows are as experts read them, in arithmetic of halves.
    pub expert_rows: Option<ExpertRows>,
    /// Bytes of memory that a workgroup may have, and what it has room for on matrix units.
    pub workgroup_memory: usize,
    pub room: Room,
    pub row_counts: RowCounts,
    /// The tokens that the device chose last, one per row.
    pub chosen: Buffer,
    /// What the steps of a link bring.
    pub brought: Buffer,
}

impl Resources {
    /// Those of a program whose weights are in a file; and what is to be written to the weights.
    pub fn new<'f>(
        kernels: &mut Kernels,
        sizes: &Sizes,
        file: &'f Gguf,
        program: &Program,
        options: Options,
    ) -> Result<(Resources, Contents<'f>)> {
        let Options { arithmetic, kv, max_rows, slots, .. } = options;
        let (groups, page_groups) = cache::page_groups(program, options);
        let activations = Activations::new(kernels, program, gathered(program), max_rows, sizes.logits_rows);
        let cache = |(index, layer): (usize, &KvLayer)| {
            let group = groups.of_cache(index);
            LayerCache::new(kernels, *layer, kv, group, page_groups[group].pages)
        };
        let caches = program.caches.iter().enumerate().map(cache).collect();
        let states = program.states.iter().map(|layer| LayerState::new(kernels, *layer, slots)).collect();
        let (weights, contents) = Weights::new(kernels, file, program, arithmetic)?;
        let tilings = [Tiling::floats(&kernels.facts), Tiling::integers(&kernels.facts)];
        let [floats, integers] = tilings.map(|all| Tiling::needed(all, max_rows));
        let mut count = || kernels.uniform("how many rows there are");
        let row_counts = RowCounts { lists: [count(), count()], logits: count() };
        let (columns, half_columns) = (sizes.integer_columns, sizes.half_columns);
        let resources = Resources {
            step: kernels.storage("the rows of a step", sizes.step_bytes),
            outlooks: sizes.outlooks.clone(),
            attention_rows: sizes.attention_rows,
            first_scale: sizes.capacity.first_scale(),
            first_angle: sizes.capacity.first_angle(),
            weights,
            activations,
            page_groups,
            caches,
            states,
            partials: kernels.storage("the spans of attention", sizes.partial_bytes),
            index_scores: kernels.storage("the scores of indexers", sizes.index_bytes),
            page: kernels.storage("a page", sizes.page_bytes),
            inputs: kernels.storage("the inputs of logits", sizes.input_bytes),
            linear: LinearKernels::new(kernels, &floats, &integers),
            quantized: (columns > 0).then(|| [(); 2].map(|()| Quantized::new(kernels, max_rows, columns))),
            halves: (half_columns > 0)
                .then(|| [(); 2].map(|()| HalfRows::new(kernels, max_rows, half_columns))),
            expert_rows: match arithmetic {
                Arithmetic::F16 => ExpertRows::new(kernels, program, max_rows),
                Arithmetic::Q8 | Arithmetic::F32 => None,
            },
            workgroup_memory: kernels.facts.workgroup_memory as usize,
            room: kernels.facts.room(),
            row_counts,
            chosen: kernels.storage("the chosen tokens", 4 * max_rows as u64),
            brought: kernels.storage("the steps of a link", sizes.link_bytes),
        };
        Ok((resources, contents))
    }
}
