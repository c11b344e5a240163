//! `gleed validate`: holds the fast path against the reference on the user's own model.

use anyhow::{Result, bail};
use clap::Args;
use gleed_model::arithmetic::PAGE;
use gleed_model::compare::{self, Difference, LogitsDifference, NodeDifference, Recording};
use gleed_model::program::Op;
use gleed_model::{Arithmetic, Batch, Executor, KvType, Program, Reference, Row, reference};
use serde_json::{Value, json};

use crate::load::{self, Loaded, Options};
use crate::output::{self, Align, Style, Table};
use crate::progress::Progress;

/// Check the fast path against the plain reference, on your own model
#[derive(Args)]
pub struct Arguments {
    /// A path, a name from `gleed list`, or hf:owner/repository[:FORMAT]
    model: String,

    /// The text to run through both
    #[arg(long, default_value = TEXT)]
    prompt: String,

    /// Check the promise instead: one row at a time, chunks, company and threads must not change a bit
    #[arg(long, conflicts_with = "ops")]
    against_rows: bool,

    /// Check each op alone, on the same inputs: not a bit may differ
    #[arg(long)]
    ops: bool,

    /// The largest mean KL divergence from the reference that passes, in nats
    /// [default: 0.02 in q8 arithmetic, 0.000001 in f32]
    #[arg(long, value_name = "NATS")]
    tolerance: Option<f64>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    options: Options,
}

/// Long enough to cross a page of the KV cache, short enough for the slow reference.
const TEXT: &str = "The mill stood where the river bends. Every morning the miller opened the gate, and the \
water came down the old wooden channel, turned the wheel and went on its way to the sea. Nobody in the village \
could remember a time without its slow and steady sound, and when it stopped one night in March, they all woke.";

/// Runs the command; an error when the check fails.
pub fn run(arguments: Arguments) -> Result<()> {
    let loaded = load::open(&arguments.model)?;
    let tokens = tokens(&loaded, &arguments.prompt)?;
    if arguments.against_rows {
        against_rows(&arguments, &loaded, &tokens)
    } else if arguments.ops {
        ops_alone(&arguments, &loaded, &tokens)
    } else {
        against_reference(&arguments, &loaded, &tokens)
    }
}

fn tokens(loaded: &Loaded, text: &str) -> Result<Vec<u32>> {
    let tokenizer = load::tokenizer(&loaded.file)?;
    let tokens = tokenizer.encode_prompt(text, true, false);
    let (count, context) = (tokens.len(), loaded.model.config.context);
    if tokens.is_empty() {
        bail!("the prompt is empty: there is nothing to compare");
    }
    if count > context {
        bail!("the prompt has {count} tokens, more than the model's context of {context}");
    }
    Ok(tokens)
}

/// Rows `from..to` of one sequence over pages in an order of their own.
fn batch_of(tokens: &[u32], pages: &[u32], from: usize, to: usize) -> Batch {
    let mut batch = Batch::default();
    let table = batch.add_table(pages);
    for (position, &token) in tokens.iter().enumerate().take(to).skip(from) {
        batch.push(Row { table, position: position as u32, token, wants_logits: true });
    }
    batch
}

fn pages(tokens: usize) -> Vec<u32> {
    (0..tokens.div_ceil(PAGE) as u32).collect()
}

/// A reference for so many rows of one sequence.
fn options_for(arithmetic: Arithmetic, kv: KvType, rows: usize) -> reference::Options {
    let pages = rows.div_ceil(PAGE);
    reference::Options { arithmetic, rounds_to_groups: None, kv, max_rows: rows, pages }
}

/// The default: everything that the fast path computes, against f32 arithmetic and an f32 KV cache.
fn against_reference(arguments: &Arguments, loaded: &Loaded, tokens: &[u32]) -> Result<()> {
    let program = loaded.model.program.clone();
    let batch = batch_of(tokens, &pages(tokens.len()), 0, tokens.len());
    let progress = Progress::new("reference", program.nodes.len() as u64);
    let made_for = options_for(Arithmetic::F32, KvType::F32, tokens.len());
    let mut reference = Reference::new(loaded.file.clone(), program, made_for)?;
    let recording = Recording::of(&mut reference, &batch, || progress.advance(1))?;
    progress.finish();
    let mut executor = loaded.executor(&arguments.options, tokens.len(), tokens.len())?;
    let found = compare::against_recording(&mut executor, &batch, &recording)?;
    let mut logits = LogitsDifference::default();
    for row in 0..tokens.len() {
        logits.add(executor.logits(row), reference.logits(row));
    }
    let tolerance = arguments.tolerance.unwrap_or(match executor.arithmetic() {
        _ if arguments.options.matrix_units => 0.02,
        Arithmetic::Q8 => 0.02,
        Arithmetic::F32 => 1e-6,
    });
    // NaN must not pass.
    let passed = logits.kl_divergence <= tolerance;
    let layers = by_layer(&found, executor.program());
    let first = found.iter().find(|f| f.difference.bits > 0);
    let first = first.map(|f| executor.program().nodes[f.node].labels.join(" + "));
    if arguments.json {
        let layer = |(name, d): &(String, Difference)| json!({ "layer": name, "difference": difference(d) });
        output::print_json(&json!({
            "model": loaded.name,
            "rows": tokens.len(),
            "layers": layers.iter().map(layer).collect::<Vec<_>>(),
            "logits": {
                "difference": difference(&logits.difference), "same_top": logits.same_top,
                "kl_divergence": logits.kl_divergence,
            },
            "first_difference": first,
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
        output::print_line(format!(
            "same most likely token in {} of {} rows; mean KL divergence {:.3e} nats (at most {tolerance:e} passes)",
            logits.same_top, logits.rows, logits.kl_divergence
        ))?;
        output::print_line(match &first {
            Some(label) => format!("first op that differs at all: {label}"),
            None => "every bit is that of the reference".to_string(),
        })?;
    }
    verdict(passed, arguments.json, || {
        format!("KL divergence {:.3e} is past the tolerance of {tolerance:e}", logits.kl_divergence)
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

fn cells(name: &str, d: &Difference) -> [(String, Option<Style>); 4] {
    [name.to_string(), format!("{:.3e}", d.absolute), format!("{:.3e}", d.relative), d.bits.to_string()]
        .map(|c| (c, None))
}

fn difference(d: &Difference) -> Value {
    json!({ "absolute": d.absolute, "relative": d.relative, "other_bits": d.bits })
}

fn verdict(passed: bool, quiet: bool, why: impl FnOnce() -> String) -> Result<()> {
    match passed {
        true if quiet => Ok(()),
        true => output::print_line("passed"),
        false => bail!("validation failed: {}", why()),
    }
}

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

/// `--ops`: each fused op on the same inputs as the reference's, in the same arithmetic.
fn ops_alone(arguments: &Arguments, loaded: &Loaded, tokens: &[u32]) -> Result<()> {
    let options = &arguments.options;
    let mut executor = loaded.executor(options, tokens.len(), tokens.len())?;
    let program = executor.program().clone();
    let batch = batch_of(tokens, &pages(tokens.len()), 0, tokens.len());
    let progress = Progress::new("ops", program.nodes.len() as u64);
    let made_for = options_for(executor.arithmetic(), options.kv, tokens.len());
    // An order of its own comes with blocks of activations of its own.
    let first_other = executor.other_order_from();
    let rounds_to_groups = first_other.filter(|_| executor.arithmetic() == Arithmetic::Q8);
    let made_for = reference::Options { rounds_to_groups, ..made_for };
    let mut reference = Reference::new(loaded.file.clone(), program.clone(), made_for)?;
    let found = compare::ops_alone(&mut executor, &mut reference, &batch, || progress.advance(1))?;
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
            "model": loaded.name, "rows": tokens.len(), "ops": found.iter().map(op).collect::<Vec<_>>(),
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
    }
    verdict(wrong == 0, arguments.json, || format!("{wrong} of {} results differ", found.len()))
}

/// `--against-rows`: the bits of every row's logits, computed in every company that we can think of.
fn against_rows(arguments: &Arguments, loaded: &Loaded, tokens: &[u32]) -> Result<()> {
    let options = &arguments.options;
    let one_thread = Options { threads: Some(1), ..options.clone() };
    let n = tokens.len();
    let mut executor = loaded.executor(options, n, n)?;
    let truth = chunked(&mut executor, tokens, n)?;
    let mut checks: Vec<(String, Vec<Vec<u32>>)> = Vec::new();
    let chunks = [1, 2, 3, 7, 16, 64].into_iter().filter(|c| *c < n);
    let progress = Progress::new("rows", chunks.clone().count() as u64 + 2);
    for chunk in chunks {
        checks.push((format!("chunks of {chunk}"), chunked(&mut executor, tokens, chunk)?));
        progress.advance(1);
    }
    drop(executor);
    let mut executor = loaded.executor(&one_thread, n, n)?;
    checks.push(("one thread".to_string(), chunked(&mut executor, tokens, n)?));
    drop(executor);
    progress.advance(1);
    checks.push(("in company of two other sequences".to_string(), in_company(loaded, options, tokens)?));
    progress.finish();
    let mut table = Table::new(&[
        ("computed in", Align::Left),
        ("rows", Align::Right),
        ("rows that differ", Align::Right),
    ]);
    let mut wrong = 0;
    let mut results = Vec::new();
    for (name, bits) in &checks {
        let differ = bits.iter().zip(&truth).filter(|(a, b)| a != b).count();
        wrong += differ;
        results.push(json!({ "computed_in": name, "rows": n, "rows_that_differ": differ }));
        table.row([name.clone(), n.to_string(), differ.to_string()].map(|c| (c, None)));
    }
    if arguments.json {
        output::print_json(&json!({ "model": loaded.name, "checks": results, "passed": wrong == 0 }))?;
    } else {
        output::print(table.render(output::colour(&std::io::stdout())))?;
    }
    verdict(wrong == 0, arguments.json, || "a row's result depended on its company".to_string())
}

/// The bits of all logits, `chunk` rows a step.
fn chunked(executor: &mut dyn Executor, tokens: &[u32], chunk: usize) -> Result<Vec<Vec<u32>>> {
    let pages = pages(tokens.len());
    let mut bits = Vec::new();
    for from in (0..tokens.len()).step_by(chunk) {
        let to = tokens.len().min(from + chunk);
        executor.step(&batch_of(tokens, &pages, from, to), &mut ())?;
        bits.extend((0..to - from).map(|row| to_bits(executor.logits(row))));
    }
    Ok(bits)
}

/// The same, with rows of two other sequences between the rows, some of which want no logits, and with
/// the pages of the three sequences interleaved.
fn in_company(loaded: &Loaded, options: &Options, tokens: &[u32]) -> Result<Vec<Vec<u32>>> {
    const CHUNK: usize = 5;
    let per_sequence = tokens.len().div_ceil(PAGE);
    let mut executor = loaded.executor(options, 3 * per_sequence * PAGE, 3 * CHUNK)?;
    let other: Vec<u32> = tokens.iter().rev().copied().collect();
    let mut bits = Vec::new();
    for from in (0..tokens.len()).step_by(CHUNK) {
        let to = tokens.len().min(from + CHUNK);
        let mut batch = Batch::default();
        let tables: Vec<u32> = (0..3u32)
            .map(|s| batch.add_table(&(0..per_sequence as u32).map(|p| 3 * p + s).collect::<Vec<_>>()))
            .collect();
        let mut ours = Vec::new();
        let mut wanted = 0;
        for position in from..to {
            for (sequence, &table) in tables.iter().enumerate() {
                let token = if sequence == 1 { tokens[position] } else { other[position] };
                // The middle sequence is the one we watch; of the others every second row wants logits.
                let wants_logits = sequence == 1 || position % 2 == 0;
                if sequence == 1 {
                    ours.push(wanted);
                }
                wanted += usize::from(wants_logits);
                batch.push(Row { table, position: position as u32, token, wants_logits });
            }
        }
        executor.step(&batch, &mut ())?;
        bits.extend(ours.iter().map(|&index| to_bits(executor.logits(index))));
    }
    Ok(bits)
}

fn to_bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|l| l.to_bits()).collect()
}
