//! `--ops`: each fused op on the same inputs as the reference's, in the same arithmetic.

use anyhow::Result;
use gleed_model::compare::{self, NodeDifference};
use gleed_model::program::Op;
use gleed_model::{Arithmetic, Executor, KvType, Reference, reference as plain};
use serde_json::json;

use super::{Arguments, REFERENCE_ROWS, batch, cells, difference, print_kernels, reference_options, verdict};
use crate::load::Loaded;
use crate::output::{self, Align, Table};
use crate::progress::Progress;

/// How far the result of an op may be from the reference's, as a share of the largest, on a device that has an order
/// of its own. What lies between two values that the KV cache can store may be stored as either, so that
/// attention may be a step of f16 away, or a quarter of one of q8_0, of which many are added up.
fn other_order(op: &Op, kv: KvType) -> f32 {
    match (op, kv) {
        (Op::Attention { .. }, KvType::F16) => 1.0 / 1024.0,
        (Op::Attention { .. }, KvType::Q8_0) => 1.0 / 512.0,
        _ => 2e-5,
    }
}

/// Runs the check.
pub fn run(arguments: &Arguments, loaded: &Loaded, tokens: &[u32]) -> Result<()> {
    let options = &arguments.options;
    let rows = REFERENCE_ROWS.min(tokens.len());
    let mut executor = loaded.executor(options, tokens.len(), tokens.len())?;
    let program = executor.program().clone();
    let progress = Progress::new("ops", program.nodes.len() as u64);
    let made_for = reference_options(executor.arithmetic(), options.kv, rows);
    // An order of its own comes with blocks of activations of its own.
    let first_other = executor.other_order_from();
    let rounds_to_groups = first_other.filter(|_| executor.arithmetic() == Arithmetic::Q8);
    let made_for = plain::Options { rounds_to_groups, ..made_for };
    let mut reference = Reference::new(loaded.file.clone(), program.clone(), made_for)?;
    let (all, first) = (batch(tokens, rows), batch(&tokens[..rows], rows));
    let found =
        compare::ops_of_first_rows(&mut executor, &mut reference, &all, &first, || progress.advance(1))?;
    let kernels = executor.kernels();
    progress.finish();
    let is_wrong = |f: &&NodeDifference| match first_other {
        // NaN must not pass.
        Some(first) if f.node >= first => {
            let allowed = other_order(&program.nodes[f.node].op, options.kv);
            f.difference.relative.is_nan() || f.difference.relative > allowed
        }
        _ => f.difference.bits > 0,
    };
    let wrong = found.iter().filter(is_wrong).count();
    let line = |f: &NodeDifference| {
        let node = &program.nodes[f.node];
        (node.op.kind(), node.labels.join(" + "))
    };
    if arguments.json {
        let op = |f: &NodeDifference| {
            let (kind, ops) = line(f);
            json!({ "kind": kind, "ops": ops, "buffer": f.buffer, "difference": difference(&f.difference) })
        };
        output::print_json(&json!({
            "model": loaded.name,
            "rows": rows,
            "rows_together": tokens.len(),
            "ops": found.iter().map(op).collect::<Vec<_>>(),
            "kernels": kernels,
            "passed": wrong == 0,
        }))?;
    } else {
        let mut table = Table::new(&[
            ("op", Align::Left),
            ("max difference", Align::Right),
            ("relative", Align::Right),
            ("other bits", Align::Right),
            ("of", Align::Left),
        ]);
        for f in &found {
            let (kind, ops) = line(f);
            let mut row = cells(kind, &f.difference).to_vec();
            row.push((ops, None));
            table.row(row);
        }
        output::print(table.render(output::colour(&std::io::stdout())))?;
        print_kernels(&kernels)?;
    }
    verdict(wrong == 0, arguments.json, || format!("{wrong} of {} results differ", found.len()))
}
