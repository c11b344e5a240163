//! The kernels of linear layers: one for each kind of layer and tiling.

use std::cell::RefCell;
use std::sync::Arc;

use super::layer::Shape;
use super::shader::{InputKind, LinearSpec, source};
use super::tiling::Tiling;
use crate::facts::Facts;
use crate::launch::{Access, BindingsId, Buffer, KernelId, Kernels, Operand, Part};

/// The tilings that a device's linear layers come in, and what is known of their kernels.
#[derive(Debug)]
pub struct LinearKernels {
    tilings: Vec<Tiling>,
    integer_tilings: Vec<Tiling>,
    /// Those for inputs of halves, where they are not all that there are.
    half_tilings: Option<Vec<Tiling>>,
    /// The WGSL of a layer in one tiling: tests have texts of their own.
    source: fn(LinearSpec, Tiling) -> String,
    /// Bound where layers do not write for the next one; none on devices where none can.
    unused: Option<Buffer>,
    /// The kernels of the layers so far.
    known: RefCell<Vec<(LinearSpec, Tiled)>>,
}

/// A kernel for each tiling.
pub(super) type Tiled = Arc<[(Tiling, KernelId)]>;

impl LinearKernels {
    /// Kernels of these tilings, fewest rows first, such as [`Tiling::ALL`]; those for inputs of integers such
    /// as [`Tiling::INTEGERS`].
    pub fn new(kernels: &mut Kernels, tilings: &[Tiling], integer_tilings: &[Tiling]) -> LinearKernels {
        let facts = &kernels.facts;
        let requantizes = facts.storage_bindings >= 9
            && facts.workgroup_memory >= Tiling::REQUANTIZING_BYTES
            && facts.workgroup_threads >= Tiling::REQUANTIZING_THREADS;
        let half_tilings = facts.fragments.is_none().then(Vec::new);
        let unused = requantizes.then(|| kernels.storage("nothing for the next layer", 4));
        let [tilings, integer_tilings] = [tilings, integer_tilings].map(<[Tiling]>::to_vec);
        LinearKernels { tilings, integer_tilings, half_tilings, source, unused, known: RefCell::default() }
    }

    /// The same kernels, of these tilings for inputs of halves instead of all.
    pub fn with_halves(self, tilings: Vec<Tiling>) -> LinearKernels {
        LinearKernels { half_tilings: Some(tilings), ..self }
    }

    /// The same kernels, of one tiling for inputs of integers or halves and with other texts.
    #[cfg(test)]
    pub(super) fn with_texts(
        self,
        tiling: Tiling,
        source: fn(LinearSpec, Tiling) -> String,
    ) -> LinearKernels {
        LinearKernels { integer_tilings: vec![tiling], half_tilings: Some(vec![tiling]), source, ..self }
    }

    /// Whether layers of such an input can write their results for the next one too.
    pub(super) fn can_requantize(&self, input: InputKind) -> bool {
        let few = || self.integer_tilings.iter().any(|tiling| tiling.requantizes());
        self.unused.is_some() && (input.is_single() || input == InputKind::Integers && few())
    }

    /// Why there is no kernel for a layer.
    pub(super) fn lack(facts: &Facts, spec: LinearSpec) -> String {
        if spec.half_groups() > 0 {
            return "it has no matrix units that multiply halves as expected".to_string();
        }
        let of = if spec.input == InputKind::Integers { "integers" } else { "floats" };
        let Facts { workgroup_threads: threads, workgroup_memory: bytes, .. } = facts;
        format!("none for {of} fits into workgroups of {threads} threads with {bytes} bytes of memory")
    }

    /// The kernels of a layer, one for each tiling that it may need. Layers that are alike share them.
    pub(super) fn of_layer(&self, kernels: &mut Kernels, spec: LinearSpec) -> Tiled {
        if let Some((_, tiled)) = self.known.borrow().iter().find(|(other, _)| *other == spec) {
            return Arc::clone(tiled);
        }
        let room = kernels.facts.room();
        let in_halves = |all: &dyn Fn() -> Vec<Tiling>| self.half_tilings.clone().unwrap_or_else(all);
        let tilings = match spec.input {
            InputKind::Integers => Tiling::of_layer(&self.integer_tilings, spec),
            InputKind::Aligned | InputKind::Unaligned => Tiling::of_layer(&self.tilings, spec),
            InputKind::Halves(groups) => in_halves(&|| Tiling::halves(groups, room)),
            InputKind::Single(groups) | InputKind::SingleNormed(groups) => {
                in_halves(&|| vec![Tiling::single(groups, spec.is_gated(), room)])
            }
        };
        let kernel = |tiling| {
            // All loops end, and every index is below the length that it indexes: outputs, groups and rows are clamped to the
            // shape, which `Linear` has checked against the buffers that it binds.
            (tiling, kernels.kernel("a linear layer", (self.source)(spec, tiling), self.slots()))
        };
        let tiled: Tiled = tilings.into_iter().map(kernel).collect();
        self.known.borrow_mut().push((spec, Arc::clone(&tiled)));
        tiled
    }

    /// Both planes of two matrices and their biases, an input, an output, the shape, the number of rows, and where results
    /// go for the next layer.
    pub(super) fn slots(&self) -> Vec<Access> {
        let mut slots = vec![Access::Reads; 7];
        slots.extend([Access::Writes, Access::Uniform, Access::Uniform]);
        slots.extend(self.unused.map(|_| Access::Writes));
        slots
    }

    /// Binds those.
    pub(super) fn bind(
        &self,
        kernels: &mut Kernels,
        name: &str,
        [weights, operands]: [&[Part]; 2],
        rounded: Option<Buffer>,
        (shape, batch): (Shape, Buffer),
    ) -> BindingsId {
        let rounded = self.unused.map(|unused| rounded.unwrap_or(unused).whole());
        let shape = Operand::Words(bytemuck::cast_slice(&[shape]).to_vec());
        let all = weights.iter().chain(operands).copied().map(Operand::Part);
        let all = all.chain([shape, Operand::Part(batch.whole())]).chain(rounded.map(Operand::Part));
        kernels.bind(name, self.slots(), all.collect())
    }
}
