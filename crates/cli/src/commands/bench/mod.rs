//! `gleed bench`: how fast is this model on this machine, where does the time go, how far is that from
//! what the machine can do, and how does it compare with a peer? And the same of servers.

mod guesses;
mod measurable;
mod server;
mod server_tables;
mod start;
mod tables;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use gleed_bench::{Limits, MAX_ROWS, Peer, Rounds, Runner, Settings, Test};
use gleed_engine::Speculation;
use gleed_model::program::Output;
use serde_json::json;

use crate::device::Placed;
use crate::load::{self, Loaded, Options};
use crate::models;
use crate::output;
use crate::progress::Progress;
use crate::speculation::Guessing;
use server::{Common, ServerArguments};

/// Measure how fast a model runs here, or a server answers
#[derive(Args)]
pub struct Arguments {
    /// A path, a name from `gleed list`, or `hf:owner/repository[:FORMAT]`
    #[arg(required_unless_present = "server")]
    model: Option<String>,

    /// Prompt lengths to process, each in one go [default: 512, or the context if that is less]
    #[arg(short, long, value_delimiter = ',', value_name = "N,…")]
    prompt: Option<Vec<usize>>,

    /// Numbers of tokens to generate, one at a time [default: 128, or the context if that is less]
    #[arg(short = 'n', long, value_delimiter = ',', value_name = "N,…")]
    generate: Option<Vec<usize>>,

    /// Positions that the sequence holds already when the measurement starts
    #[arg(short, long, value_delimiter = ',', default_value = "0", value_name = "N,…")]
    depth: Vec<usize>,

    /// Also generate in several sequences together, one token of each a step
    #[arg(short, long, value_delimiter = ',', value_name = "N,…")]
    sequences: Vec<usize>,

    /// How often each test is measured, each time after an untimed run [default: 5; a server's 1, or 3 with --against]
    #[arg(short, long)]
    repetitions: Option<usize>,

    /// Run this llama-bench on the same file, in turn with ours, and print the ratio; with --server, the address of
    /// another server
    #[arg(long, value_name = "PATH|URL")]
    against: Option<String>,

    /// More options for the peer, such as "-fa off"
    #[arg(
        long,
        value_name = "OPTIONS",
        requires = "against",
        allow_hyphen_values = true,
        default_value = ""
    )]
    against_options: String,

    /// Measure the start instead: from nothing to the first token, and the memory it takes
    #[arg(long, conflicts_with_all = ["prompt", "generate", "depth", "sequences", "per_token", "ops", "kernels", "plot"])]
    start: bool,

    /// Measure what guessing the next tokens gains instead: on an edit of a text and on a story, with guesses and without
    /// in turn
    #[arg(long, conflicts_with_all = ["prompt", "depth", "sequences", "against", "start", "per_token", "ops", "kernels", "plot"])]
    guesses: bool,

    /// A smaller model of the same vocabulary that guesses
    #[arg(long, value_name = "MODEL", requires = "guesses")]
    draft: Option<String>,

    /// When guesses are computed: auto (where that is faster) or always
    #[arg(long, value_name = "WHEN", requires = "guesses", default_value_t)]
    speculation: Speculation,

    /// Also compute each prompt one token at a time, and say what the batch gains
    #[arg(long)]
    per_token: bool,

    /// Show where the time of each test goes, op by op, and how far each is from the machine's limit
    #[arg(long)]
    ops: bool,

    /// Time each linear kernel over the model's own shapes and several row counts
    #[arg(long)]
    kernels: bool,

    /// Draw all tests against the machine's limits: a roofline, as an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    options: Options,

    #[command(flatten)]
    server: ServerArguments,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Result<()> {
    if arguments.repetitions == Some(0) {
        bail!("--repetitions must be at least 1");
    }
    if let Some(address) = &arguments.server.server {
        let Arguments { model, against, repetitions, plot, json, .. } = &arguments;
        let common = Common {
            model: model.as_deref(),
            against: against.as_deref(),
            rounds: *repetitions,
            plot: plot.as_ref(),
            json: *json,
        };
        return server::run(address, &arguments.server, &common);
    }
    let model = arguments.model.as_deref().unwrap_or_default();
    let repetitions = arguments.repetitions.unwrap_or(5);
    let mut peer = peer(model, &arguments)?;
    if arguments.start {
        return start::run(model, &arguments.options, repetitions, peer.as_mut(), arguments.json);
    }
    let mut loaded = load::open(model, &arguments.options.lora)?;
    if arguments.guesses {
        let Arguments { draft, speculation, options, generate, json, .. } = &arguments;
        let tokens = match generate.as_deref() {
            None => 128,
            Some([tokens]) => *tokens,
            Some(_) => bail!("--guesses takes one number of tokens to generate"),
        };
        let guessing = Guessing { draft: draft.clone(), speculation: *speculation };
        return guesses::run(loaded, &guessing, options, tokens, repetitions, *json);
    }
    if arguments.kernels {
        return kernels(&loaded, &arguments.options, arguments.json);
    }
    let kv = arguments.options.kv;
    let tests = tests(&arguments, &loaded)?;
    let positions = gleed_bench::positions_of(&tests);
    loaded.slots = gleed_bench::slots_of(&tests);
    // A device chooses the tokens of more than 64 sequences itself if it is told how many there are.
    loaded.sequences = tests.iter().map(|test| test.sequences).max().filter(|most| *most > 64);
    let mut executor = loaded.executor(&arguments.options, positions, MAX_ROWS)?;
    executor.prepare()?;
    let mut runner = Runner::new(executor, &tests);
    let settings = Settings { kv, repetitions, per_token: arguments.per_token };
    let rounds = with_bar("bench", |progress| {
        gleed_bench::rounds(&mut runner, &tests, settings, peer.as_mut(), progress)
    })?;
    let limits = rounds.limits.as_ref();
    let ops = match arguments.ops {
        true => Some(gleed_bench::profile(&mut runner, &tests, kv, limits)?),
        false => None,
    };
    let cpu = runner.executor.cpu();
    let warnings = match &mut peer {
        Some(peer) => {
            peer.look_closer();
            cpu.map(|(isa, _)| peer.warnings(isa)).unwrap_or_default()
        }
        None => Vec::new(),
    };
    if let Some(path) = &arguments.plot {
        let Some(limits) = limits else { bail!("--plot needs the limits of one device: use --device cpu") };
        let run = format!("{}, {kv} keys and values", runner.executor);
        let picture = gleed_bench::roofline(&loaded.name, &run, limits, &rounds.results);
        std::fs::write(path, picture).with_context(|| path.display().to_string())?;
    }
    if arguments.json {
        let found = json!({
            "limits": limits,
            "limit_samples": rounds.limit_samples,
            "peak_memory_bytes": rounds.peak_memory,
            "peer": peer.as_ref().map(Peer::json),
            "peer_options": peer.as_ref().map(Peer::options),
            "warnings": warnings,
            "results": rounds.results,
            "ops": ops,
        });
        return output::print_report(runner.executor.report(&loaded), found);
    }
    describe(model, &arguments, &runner.executor, &rounds, limits);
    peer.as_ref().and_then(Peer::describe).iter().for_each(output::note);
    warnings.iter().for_each(output::warning);
    for result in &rounds.results {
        if let Some(error) = &result.peer_error {
            output::warning(format!("{}: the peer was not measured: {error}", result.test));
        }
    }
    tables::results(&rounds.results)?;
    match ops {
        Some(profiles) => tables::ops(&profiles, limits, cpu.is_none()),
        None => Ok(()),
    }
}

/// `--kernels`: each linear kernel by itself.
fn kernels(loaded: &Loaded, options: &Options, as_json: bool) -> Result<()> {
    let settings = gleed_cpu::Options {
        arithmetic: options.arithmetic.unwrap_or_default(),
        kv: options.kv,
        threads: options.threads.unwrap_or(0),
        isa: options.isa,
        ..Default::default()
    };
    let times = with_bar("kernels", |progress| {
        gleed_bench::kernels(&loaded.file, &loaded.model.program, &settings, progress)
    })?;
    match as_json {
        true => output::print_json(&json!({ "model": loaded.name, "kernels": times })),
        false => tables::kernels(&times),
    }
}

/// Measures with a bar that shows how far it is.
fn with_bar<T>(label: &str, measure: impl FnOnce(gleed_bench::Progress<'_>) -> T) -> T {
    let bar = Progress::new(label, 0);
    let measured = measure(&mut |done, total, what| {
        bar.set_total(total as u64);
        bar.set(done as u64);
        bar.message(what);
    });
    bar.finish();
    measured
}

/// The peer that was asked for.
fn peer(model: &str, arguments: &Arguments) -> Result<Option<Peer>> {
    let Some(path) = &arguments.against else { return Ok(None) };
    let gleed_hub::Source::Path(model) = models::resolve(model)? else {
        bail!("--against needs a model in a file: name one by path");
    };
    let options = &arguments.options;
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = options.threads.unwrap_or_else(cores);
    Peer::new(Path::new(path), &model, threads, options.kv, &arguments.against_options)
        .map(Some)
        .context("--against")
}

/// Two lines about what was run, and what the machine can do.
fn describe(model: &str, arguments: &Arguments, executor: &Placed, rounds: &Rounds, limits: Option<&Limits>) {
    let peak = rounds.peak_memory.map(|p| format!(", peak memory {}", output::human_bytes(p)));
    output::note(format!(
        "{model}: {} arithmetic, {} KV, {}{}",
        executor.arithmetic(),
        arguments.options.kv,
        executor,
        peak.unwrap_or_default(),
    ));
    let Some(limits) = limits else { return };
    let rate = |amount: f64, unit: &str| match amount < 1e13 {
        true => format!("{:.0} G{unit}/s", amount / 1e9),
        false => format!("{:.1} T{unit}/s", amount / 1e12),
    };
    let tiles = limits.int8_tiles.map(|t| format!(", int8 tiles {}", rate(t, "OP"))).unwrap_or_default();
    let units = limits.f16_units.map(|u| format!(", f16 units {}", rate(u, "FLOP"))).unwrap_or_default();
    output::note(format!(
        "limits: memory {:.1} GB/s, f32 {}, int8 {}{tiles}{units}",
        limits.memory / 1e9,
        rate(limits.f32, "FLOP"),
        rate(limits.int8, "OP"),
    ));
}

/// What the flags ask to be measured.
fn tests(arguments: &Arguments, loaded: &Loaded) -> Result<Vec<Test>> {
    let context = loaded.model.config.context;
    if let Some(wrong) = arguments.sequences.iter().find(|n| !(1..=MAX_ROWS).contains(*n)) {
        bail!("--sequences {wrong}: a step takes 1 to {} sequences", MAX_ROWS);
    }
    let mut tests = Vec::new();
    let generates = loaded.model.program.output == Output::Logits;
    if !generates && arguments.generate.iter().flatten().any(|tokens| *tokens > 0) {
        bail!("{} is an embedding model, which generates nothing: leave out -n", loaded.name);
    }
    for &depth in &arguments.depth {
        let or_default = |asked: &Option<Vec<usize>>, usual: usize| {
            let asked = asked.clone().unwrap_or_else(|| vec![usual.min(context.saturating_sub(depth))]);
            asked.into_iter().filter(|n| *n > 0)
        };
        tests.extend(or_default(&arguments.prompt, 512).map(|n| Test::prompt(n, depth)));
        for tokens in or_default(&arguments.generate, 128).filter(|_| generates) {
            // One sequence first: the others are compared with it.
            let more = arguments.sequences.iter().filter(|n| **n > 1);
            tests.extend(std::iter::once(&1).chain(more).map(|n| Test::generate(tokens, *n, depth)));
        }
    }
    if tests.is_empty() {
        bail!("nothing to measure: give -p or -n a number above 0, and -d one below {context}");
    }
    if !arguments.sequences.is_empty() && tests.iter().all(Test::is_prompt) {
        bail!("--sequences needs tokens to generate: give -n a number above 0");
    }
    if loaded.model.program.needs_whole_sequences()
        && let Some(test) = tests.iter().find(|test| test.positions() > MAX_ROWS || test.depth > 0)
    {
        bail!(
            "{}: this model reads a text at once, of up to {MAX_ROWS} tokens here and without a depth",
            test.name()
        );
    }
    if let Some(test) = tests.iter().find(|t| t.positions() > context) {
        let needs = test.positions();
        bail!("{} needs {needs} positions, more than the model's context of {context}", test.name());
    }
    Ok(tests)
}
