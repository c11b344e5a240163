//! The ops: how each one's work is cut up, spread over the threads and given to kernels.

pub(crate) mod adapters;
mod attention;
mod choose;
mod experts;
mod floats;
mod kv;
mod linear;
mod pool;
mod rows;
mod state;
mod streams;

use gleed_model::Batch;
use gleed_model::program::{Op, Program};

use crate::cache::LayerCache;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::state::StateMemory;
use crate::weights::Weights;

/// Everything that an op reads and does not change.
#[derive(Clone, Copy)]
pub(crate) struct Fixed<'a> {
    pub program: &'a Program,
    pub weights: &'a Weights,
    pub batch: &'a Batch,
}

/// Runs one op over the live rows, of which there must be one at least.
pub(crate) fn run(
    fixed: Fixed,
    plan: &Plan,
    op: &Op,
    machine: &mut Machine,
    caches: &mut [LayerCache],
    states: &mut [StateMemory],
) {
    match *op {
        Op::Input { ref views } => rows::input(fixed, machine, views),
        Op::Embed { table, out } => rows::embed(fixed, machine, table, out),
        Op::AddPositions { table, x } => rows::add_positions(fixed, machine, table, x),
        Op::AddVector { table, x } => rows::add_vector(fixed, machine, table, x),
        Op::Norm { norm, heads, input, out } => rows::norm(fixed, machine, norm, heads, input, out),
        Op::Center { heads, input, out } => rows::center(machine, heads, input, out),
        Op::Linear { ref parts, input, out } => linear::linear(fixed, plan, machine, parts, None, input, out),
        Op::GatedLinear { activation, gate, up, input, out } => {
            linear::linear(fixed, plan, machine, &[gate, up], Some(activation), input, out);
        }
        Op::Rope { rope, heads, x } => rows::rope(fixed, machine, rope, heads, x),
        Op::KvWrite { cache, key, value } => kv::write(fixed, machine, &mut caches[cache], key, value),
        Op::RopeKvWrite { cache, query_rope, key_rope, query_norm, key_norm, query, key, value, .. } => {
            let rotation = kv::Rotation { query_rope, key_rope, query_norm, key_norm };
            kv::rope_write(fixed, plan, machine, &mut caches[cache], rotation, [query, key, value]);
        }
        Op::Choose { indexer, query, weights, out } => {
            choose::choose(fixed, machine, &caches[indexer.cache], indexer, [query, weights], out);
        }
        Op::Attention { attention, query, out } => {
            attention::attention(fixed, plan, machine, &caches[attention.cache], attention, query, out);
        }
        Op::Activate { activation, gate, up, out } => rows::activate(machine, activation, gate, up, out),
        Op::Add { x, y } => rows::add(machine, x, y),
        Op::Map { map, x } => rows::map(machine, map, x),
        Op::Unzip { heads, input, ref outs } => rows::unzip(machine, heads, input, outs),
        Op::Zip { heads, first, second, out } => rows::zip(machine, heads, first, second, out),
        Op::UnitNorm { heads, epsilon, like, x } => rows::unit_norm(machine, heads, epsilon, like, x),
        Op::ScaleColumns { weight, input, out } => streams::scale_columns(fixed, machine, weight, input, out),
        Op::Blend { shares, x, y, out } => streams::blend(fixed, machine, shares, [x, y], out),
        Op::Dot { heads, x, y, out } => streams::dot(machine, heads, [x, y], out),
        Op::Sparsify { spread, x } => streams::sparsify(machine, spread, x),
        Op::MixStreams { coefficients, input, out } => streams::mix(machine, coefficients, input, out),
        Op::CorrectStreams { coefficients, truth, input, out } => {
            streams::correct(machine, coefficients, truth, input, out);
        }
        Op::Shift { state, input, out } => {
            state::shift(fixed, plan, machine, &mut states[state], (input, out));
        }
        Op::Convolve { convolution, input, out } => {
            let memory = &mut states[convolution.state];
            state::convolve(fixed, plan, machine, memory, convolution, (input, out));
        }
        Op::Scan { scan, x, dt, b, c, out } => {
            state::scan(fixed, plan, machine, &mut states[scan.state], scan, ([x, dt, b, c], out));
        }
        Op::Keep { decay, x } => state::keep(fixed, machine, decay, x),
        Op::DeltaRule { rule, query, key, value, alpha, beta, out } => {
            let inputs = [query, key, value, alpha, beta];
            state::delta_rule(fixed, plan, machine, &mut states[rule.state], rule, (inputs, out));
        }
        Op::Wkv { wkv, query, kept, key, value, asked, removed, out } => {
            let inputs = [query, kept, key, value, asked, removed];
            state::wkv(fixed, plan, machine, &mut states[wkv.state], wkv, (inputs, out));
        }
        Op::Gate { activation, gate, x } => experts::gate(machine, activation, gate, x),
        Op::Route { routing, scores, out } => experts::route(fixed, machine, routing, scores, out),
        Op::ExpertLinear { ref parts, choice, input, .. } => {
            experts::linear(fixed, plan, machine, parts, choice, input);
        }
        Op::Weigh { choice, input, out } => experts::weigh(machine, choice, input, out),
        Op::Combine { choice, weighted, input, out } => {
            experts::combine(machine, choice, weighted, input, out);
        }
        Op::AddNorm { x, y, norm, out } => rows::add_norm(fixed, machine, x, y, norm, out),
        Op::AdapterScales { out } => adapters::scales(fixed, machine, out),
        Op::AddLowRank { ref parts, choice, scales, input, x } => {
            adapters::add(fixed, plan, machine, parts, choice, [scales, input, x]);
        }
        Op::Gather { ref views } => rows::gather(fixed, machine, views),
        Op::Pool { x } => pool::pool(fixed, machine, x),
    }
}
