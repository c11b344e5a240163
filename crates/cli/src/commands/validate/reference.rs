//! The default: everything that the fast path computes, against f32 arithmetic and an f32 KV cache, layer by layer.

use anyhow::Result;
use gleed_model::compare::{self, Difference, LogitsDifference, NodeDifference, Recording};
use gleed_model::{Arithmetic, Executor, KvType, Program, Reference};
use serde_json::json;

use super::{Arguments, REFERENCE_ROWS, batch, cells, difference, print_kernels, reference_options, verdict};
use crate::load::Loaded;
use crate::output::{self, Align, Table};
use crate::progress::Progress;

/// Runs the check.
pub fn run(arguments: &Arguments, loaded: &Loaded, tokens: &[u32]) -> Result<()> {
    let rows = REFERENCE_ROWS.min(tokens.len());
    let program = loaded.model.program.clone();
    let progress = Progress::new("reference", program.nodes.len() as u64);
    let made_for = reference_options(Arithmetic::F32, KvType::F32, rows);
    let mut reference = Reference::new(loaded.file.clone(), program, made_for)?;
    let recording = Recording::of(&mut reference, &batch(&tokens[..rows], rows), || progress.advance(1))?;
    progress.finish();
    let mut executor = loaded.executor(&arguments.options, tokens.len(), tokens.len())?;
    let found = compare::against_recording(&mut executor, &batch(tokens, rows), &recording)?;
    let kernels = executor.kernels();
    let mut logits = LogitsDifference::default();
    for row in 0..rows {
        logits.add(executor.logits(row), reference.logits(row));
    }
    let tolerance = arguments.tolerance.unwrap_or(match executor.arithmetic() {
        Arithmetic::Q8 => 0.02,
        Arithmetic::F32 => 1e-6,
        Arithmetic::F16 => 1e-4,
    });
    // NaN must not pass.
    let divergence = logits.divergence(executor.program());
    let passed = divergence <= tolerance;
    let layers = by_layer(&found, executor.program());
    let first = found.iter().find(|f| f.difference.bits > 0);
    let first = first.map(|f| executor.program().nodes[f.node].labels.join(" + "));
    if arguments.json {
        let layer = |(name, d): &(String, Difference)| json!({ "layer": name, "difference": difference(d) });
        output::print_json(&json!({
            "model": loaded.name,
            "rows": rows,
            "rows_together": tokens.len(),
            "layers": layers.iter().map(layer).collect::<Vec<_>>(),
            "logits": {
                "difference": difference(&logits.difference), "same_top": logits.same_top,
                "kl_divergence": divergence, "mean_kl_divergence": logits.mean_divergence(),
            },
            "first_difference": first,
            "kernels": kernels,
            "tolerance": tolerance,
            "passed": passed,
        }))?;
    } else {
        let mut table = Table::new(&[
            ("layer", Align::Left),
            ("max difference", Align::Right),
            ("relative", Align::Right),
            ("other bits", Align::Right),
        ]);
        for (name, d) in &layers {
            table.row(cells(name, d));
        }
        table.row(cells("logits", &logits.difference));
        output::print(table.render(output::colour(&std::io::stdout())))?;
        let mean = logits.mean_divergence();
        let measured = match executor.program().has_experts() {
            true => format!("KL divergence {divergence:.3e} nats in the middle row, {mean:.3e} in the mean"),
            false => format!("mean KL divergence {mean:.3e} nats"),
        };
        output::print_line(format!(
            "same most likely token in {} of {} rows; {measured} (at most {tolerance:e} passes)",
            logits.same_top, logits.rows
        ))?;
        output::print_line(match &first {
            Some(label) => format!("first op that differs at all: {label}"),
            None => "every bit is that of the reference".to_string(),
        })?;
        print_kernels(&kernels)?;
    }
    verdict(passed, arguments.json, || {
        format!("KL divergence {divergence:.3e} is past the tolerance of {tolerance:e}")
    })
}

/// The residual stream at the end of each layer: the last comparison of buffer `x` in it.
fn by_layer(found: &[NodeDifference], program: &Program) -> Vec<(String, Difference)> {
    let mut layers: Vec<(String, Difference)> = Vec::new();
    for f in found.iter().filter(|f| f.buffer == "x") {
        // A fused residual stands for the layer whose residual it adds.
        let label = &program.nodes[f.node].labels[0];
        let name = match label.strip_prefix("blk.").and_then(|l| l.split('.').next()) {
            Some(layer) => format!("layer {layer}"),
            None => label.clone(),
        };
        match layers.last_mut() {
            Some(last) if last.0 == name => last.1 = f.difference,
            _ => layers.push((name, f.difference)),
        }
    }
    layers
}
