//! `gleed bench`: how fast is this model on this machine, where does the time go, and how does that
//! compare with a peer?

mod kernels;
mod limits;
mod measure;
mod ops;
mod peer;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use gleed_model::Executor;
use serde::Serialize;
use serde_json::json;

use crate::load::{self, Loaded, Options};
use crate::output::{self, Align, Table};
use crate::progress::Progress;
use measure::{Spread, Test};

/// Measure how fast a model runs here
#[derive(Args)]
pub struct Arguments {
    /// A path, a name from `gleed list`, or hf:owner/repository/file.gguf
    model: String,

    /// Prompt lengths to process, each in one go [default: 512, or the context if that is less]
    #[arg(short, long, value_delimiter = ',', value_name = "N,…")]
    prompt: Option<Vec<usize>>,

    /// Numbers of tokens to generate, one at a time [default: 128, or the context if that is less]
    #[arg(short = 'n', long, value_delimiter = ',', value_name = "N,…")]
    generate: Option<Vec<usize>>,

    /// Positions that the sequence holds already when the measurement starts
    #[arg(short, long, value_delimiter = ',', default_value = "0", value_name = "N,…")]
    depth: Vec<usize>,

    /// How often each test is measured, after one round of warm-up
    #[arg(short, long, default_value_t = 5)]
    repetitions: usize,

    /// Run this llama-bench on the same file, in turn with ours, and print the ratio
    #[arg(long, value_name = "PATH")]
    against: Option<PathBuf>,

    /// Also compute each prompt one token at a time, and say what the batch gains
    #[arg(long)]
    per_token: bool,

    /// Show where the time of each test goes, op by op
    #[arg(long)]
    ops: bool,

    /// Time each linear kernel over the model's own shapes and several row counts
    #[arg(long)]
    kernels: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    options: Options,
}

/// One measured test.
#[derive(Serialize)]
struct Measured {
    test: String,
    /// Tokens per second.
    median: f64,
    low: f64,
    high: f64,
    runs: Vec<f64>,
    /// Seconds until the first token after the prompt (prompt tests only).
    #[serde(skip_serializing_if = "Option::is_none")]
    first_token_seconds: Option<f64>,
    /// Share of the measured memory limit that the weights and KV reads come to (generation only).
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_token: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_gain: Option<f64>,
    /// The peer's median in the same rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
}

/// A column that is shown when a result has it: its name, its value and how that is written.
type Column = (&'static str, fn(&Measured) -> Option<f64>, fn(f64) -> String);

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    if arguments.repetitions == 0 {
        bail!("--repetitions must be at least 1");
    }
    let loaded = load::open(&arguments.model)?;
    if arguments.kernels {
        return kernels::run(&loaded, &arguments.options, arguments.json);
    }
    let tests = tests(&arguments, &loaded)?;
    let longest = tests.iter().map(|t| t.depth + t.tokens()).max().unwrap_or(1);
    let mut executor = loaded.executor(&arguments.options, longest, measure::MAX_ROWS)?;
    let mut peer = match &arguments.against {
        Some(path) => Some(peer::Peer::new(path, &loaded.file, &arguments.options)?),
        None => None,
    };
    let per_round = tests.len() * if peer.is_some() { 2 } else { 1 };
    let progress = Progress::new("bench", (per_round * (arguments.repetitions + 1)) as u64);
    let mut ours = vec![Vec::new(); tests.len()];
    let mut theirs = vec![Vec::new(); tests.len()];
    for round in 0..=arguments.repetitions {
        for (index, test) in tests.iter().enumerate() {
            progress.message(test.name());
            let rate = measure::run(&mut executor, test)?;
            progress.advance(1);
            if round > 0 {
                ours[index].push(rate);
            }
            if let Some(peer) = &mut peer {
                // The peer warms itself up in every call.
                if round > 0 {
                    theirs[index].push(peer.run(test)?);
                }
                progress.advance(1);
            }
        }
    }
    progress.finish();
    // Before the memory limit is measured, which takes memory of its own.
    let peak = limits::peak_memory();
    let memory_limit = limits::memory_read(arguments.options.threads);

    let mut results = Vec::new();
    for (index, test) in tests.iter().enumerate() {
        let spread = Spread::of(&ours[index]);
        let peer = (!theirs[index].is_empty()).then(|| Spread::of(&theirs[index]).median);
        let per_token = match (arguments.per_token, test.is_prompt()) {
            (true, true) => Some(measure::per_token(&mut executor, test)?),
            _ => None,
        };
        let bytes = measure::bytes_per_token(executor.program(), arguments.options.kv, test);
        results.push(Measured {
            test: test.name(),
            median: spread.median,
            low: spread.low,
            high: spread.high,
            runs: ours[index].clone(),
            first_token_seconds: test.is_prompt().then(|| test.tokens() as f64 / spread.median),
            memory_share: (!test.is_prompt()).then(|| spread.median * bytes as f64 / memory_limit),
            per_token,
            batch_gain: per_token.map(|rate| spread.median / rate),
            peer,
            ratio: peer.map(|peer| spread.median / peer),
        });
    }
    let ops = match arguments.ops {
        true => Some(ops::run(&mut executor, &tests)?),
        false => None,
    };
    if arguments.json {
        return output::print_json(&json!({
            "model": loaded.name,
            "arithmetic": arguments.options.arithmetic.to_string(),
            "kv": arguments.options.kv.to_string(),
            "isa": executor.isa().to_string(),
            "threads": executor.threads(),
            "memory_limit_bytes_per_second": memory_limit,
            "peak_memory_bytes": peak,
            "peer": peer.as_ref().map(|p| p.description()),
            "results": results,
            "ops": ops.as_ref().map(|ops| ops.json()),
        }));
    }
    output::note(format!(
        "{}: {} arithmetic, {} KV, {}, {} threads; memory limit {:.1} GB/s{}",
        loaded.name,
        arguments.options.arithmetic,
        arguments.options.kv,
        executor.isa(),
        executor.threads(),
        memory_limit / 1e9,
        peak.map(|p| format!("; peak memory {}", output::human_bytes(p))).unwrap_or_default(),
    ));
    if let Some(peer) = &peer {
        output::note(format!("against {}", peer.description()));
    }
    print_results(&results)?;
    match ops {
        Some(ops) => ops.print(),
        None => Ok(()),
    }
}

fn tests(arguments: &Arguments, loaded: &Loaded) -> Result<Vec<Test>> {
    let context = loaded.model.config.context;
    let mut tests = Vec::new();
    for &depth in &arguments.depth {
        let or_default = |asked: &Option<Vec<usize>>, usual: usize| {
            let asked = asked.clone().unwrap_or_else(|| vec![usual.min(context.saturating_sub(depth))]);
            asked.into_iter().filter(|n| *n > 0)
        };
        tests.extend(or_default(&arguments.prompt, 512).map(|n| Test::prompt(n, depth)));
        tests.extend(or_default(&arguments.generate, 128).map(|n| Test::generate(n, depth)));
    }
    if tests.is_empty() {
        bail!("nothing to measure: give -p or -n a number above 0, and -d one below {context}");
    }
    if let Some(test) = tests.iter().find(|t| t.depth + t.tokens() > context) {
        let needs = test.depth + test.tokens();
        bail!("{} needs {needs} positions, more than the model's context of {context}", test.name());
    }
    Ok(tests)
}

fn print_results(results: &[Measured]) -> Result<()> {
    let mut columns = vec![("test", Align::Left), ("tokens/s", Align::Right), ("spread", Align::Right)];
    let any = |f: fn(&Measured) -> Option<f64>| results.iter().any(|r| f(r).is_some());
    let optional: [Column; 6] = [
        ("first token", |r| r.first_token_seconds, |s| format!("{:.0} ms", s * 1e3)),
        ("of memory", |r| r.memory_share, |s| format!("{:.0} %", s * 100.0)),
        ("per token", |r| r.per_token, |s| format!("{s:.1}")),
        ("gain", |r| r.batch_gain, |s| format!("{s:.1} ×")),
        ("peer", |r| r.peer, |s| format!("{s:.1}")),
        ("ratio", |r| r.ratio, |s| format!("{s:.2} ×")),
    ];
    let shown: Vec<_> = optional.into_iter().filter(|(_, value, _)| any(*value)).collect();
    columns.extend(shown.iter().map(|(name, _, _)| (*name, Align::Right)));
    let mut table = Table::new(&columns);
    for r in results {
        let spread = (r.high - r.low) / r.median / 2.0 * 100.0;
        let mut cells = vec![r.test.clone(), format!("{:.1}", r.median), format!("± {spread:.0} %")];
        cells.extend(shown.iter().map(|(_, value, show)| value(r).map(show).unwrap_or_default()));
        table.row(cells.into_iter().map(|c| (c, None)));
    }
    output::print(table.render(output::colour(&std::io::stdout())))
}
