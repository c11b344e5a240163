//! Which kernels multiply with each matrix of a program, for people to read. Nothing is loaded for the answer.

use gleed_model::Arithmetic;
use gleed_model::program::{Op, Program, WeightId};

use super::layers::{has_integers, of_integers};
use crate::linear::{Combination, InputKind, Layout, LinearSpec, Packing, Tiling};
use crate::{Facts, Gpu, Options};

/// The kernels that multiply with a matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightKernels {
    /// The tensor.
    pub weight: String,
    /// What is multiplied, and the tilings from which each step takes one by its number of rows.
    pub kernels: String,
}

/// The kernels of every matrix that linear layers of a program have, each once.
pub fn kernels_of(gpu: &Gpu, program: &Program, options: Options) -> Vec<WeightKernels> {
    let (facts, mut all) = (gpu.facts(), Vec::<(WeightId, WeightKernels)>::new());
    for op in program.nodes.iter().map(|node| &node.op) {
        for id in op.matrices() {
            if all.iter().all(|(known, _)| *known != id) {
                let kernels = kernels(&facts, program, options, op, id);
                all.push((id, WeightKernels { weight: program.weights[id].name.clone(), kernels }));
            }
        }
    }
    all.into_iter().map(|(_, kernels)| kernels).collect()
}

fn kernels(facts: &Facts, program: &Program, options: Options, op: &Op, id: WeightId) -> String {
    if let Op::ExpertLinear { .. } = op {
        return match options.arithmetic {
            Arithmetic::F16 => "f16: few rows by themselves, tiles of 8, 16 or 32 rows of an expert",
            Arithmetic::Q8 | Arithmetic::F32 => "f32: each row with the experts it chose",
        }
        .to_string();
    }
    let integers =
        options.arithmetic == Arithmetic::Q8 && has_integers(program, id) && of_integers(program, op);
    let layout = |id: WeightId| (Layout::of(program.weights[id].format).0, false);
    let (first, second) = match op {
        Op::GatedLinear { activation, gate, up, .. } => {
            (gate.weight, Some((layout(up.weight), Combination::Gated(*activation))))
        }
        _ => (id, None),
    };
    if options.arithmetic == Arithmetic::F16 {
        let groups = Packing::new("", program.weights[id].format, 0, program.weights[id].columns);
        let groups = groups.map_or(0, |packing| packing.for_halves().groups());
        let tilings: Vec<String> =
            Tiling::halves(groups as u32, facts.room()).iter().map(Tiling::to_string).collect();
        return format!("f16: {}", tilings.join(", "));
    }
    let input = if integers { InputKind::Integers } else { InputKind::Aligned };
    let spec =
        LinearSpec { first: layout(first), second, input, normed: false, requantizes: false, known: None };
    let tilings = match integers {
        true => Tiling::integers(facts),
        false => Tiling::floats(facts),
    };
    let tilings = Tiling::of_layer(&Tiling::needed(tilings, options.max_rows), spec);
    let tilings: Vec<String> = tilings.iter().map(Tiling::to_string).collect();
    format!("{}: {}", if integers { "int8" } else { "f32" }, tilings.join(", "))
}
