//! `gleed devices`: the GPUs of this machine and what each can do.

use anyhow::Result;
use clap::Args;
use gleed_gpu::AdapterInfo;
use serde_json::{Value, json};

use crate::output::{self, Align, Table};

/// Show the GPUs of this machine
#[derive(Args)]
pub struct Arguments {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    let adapters = gleed_gpu::adapters();
    if arguments.json {
        return output::print_json(
            &json!({ "devices": adapters.iter().map(for_programs).collect::<Vec<_>>() }),
        );
    }
    if adapters.is_empty() {
        output::note("there is no GPU that Vulkan, Metal or DX12 could use; models run on the CPU");
        return Ok(());
    }
    let mut table = Table::new(&[
        ("number", Align::Right),
        ("name", Align::Left),
        ("interface", Align::Left),
        ("kind", Align::Left),
        ("memory", Align::Right),
        ("features", Align::Left),
    ]);
    for adapter in &adapters {
        let memory = adapter.memory.map(output::human_bytes).unwrap_or_default();
        let cells = [
            adapter.index.to_string(),
            adapter.name.clone(),
            adapter.backend.to_string(),
            adapter.kind.to_string(),
            memory,
            features(adapter).join(", "),
        ];
        table.row(cells.map(|cell| (cell, None)).to_vec());
    }
    output::print(table.render(output::colour(&std::io::stdout())))?;
    if adapters.iter().all(AdapterInfo::is_software) {
        output::note("these are software: models run on the CPU unless --device names one");
    }
    Ok(())
}

/// What kernels make use of.
fn features(adapter: &AdapterInfo) -> Vec<String> {
    let mut features = Vec::new();
    if adapter.f16 {
        features.push("f16".to_string());
    }
    if let Some((smallest, largest)) = adapter.subgroups {
        features.push(match smallest == largest {
            true => format!("subgroups of {smallest}"),
            false => format!("subgroups of {smallest} to {largest}"),
        });
    }
    if !adapter.cooperative_matrices.is_empty() {
        features.push("cooperative matrices".to_string());
    }
    if gleed_gpu::linear::half_units(adapter) {
        features.push("matrices of halves".to_string());
    }
    if adapter.timestamps {
        features.push("timestamps".to_string());
    }
    features
}

fn for_programs(adapter: &AdapterInfo) -> Value {
    json!({
        "number": adapter.index,
        "name": adapter.name,
        "interface": adapter.backend.to_string(),
        "kind": adapter.kind.to_string(),
        "driver": adapter.driver,
        "software": adapter.is_software(),
        "memory_bytes": adapter.memory,
        "largest_buffer_bytes": adapter.largest_buffer,
        "largest_binding_bytes": adapter.largest_binding,
        "features": features(adapter),
    })
}
