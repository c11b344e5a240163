//! `--server`: load on a server that speaks OpenAI's API, ours or another's.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use gleed_bench::load::{
    self, Arrivals, Known, Lengths, Manner, Measured, Plan, SameSettings, Server, Side, Trace, Workload,
};
use serde_json::json;

use super::server_tables;
use super::with_bar;
use crate::output;

/// How requests at a rate arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Spacing {
    /// At random, as those of many people who know nothing of each other
    Poisson,
    /// In equal steps
    Constant,
}

/// What `--server` takes beside it.
#[derive(Args)]
#[command(next_help_heading = "With --server")]
pub struct ServerArguments {
    /// Measure the server at this address, of whatever make, instead of a model here; MODEL is then a name that the
    /// server knows
    #[arg(long, value_name = "URL", conflicts_with_all = ["prompt", "generate", "depth", "sequences", "against_options",
        "start", "per_token", "ops", "kernels", "guesses"])]
    pub server: Option<String>,

    /// Send R requests a second, whatever becomes of them (an open loop); several rates are measured in turn
    #[arg(long, requires = "server", value_delimiter = ',', value_name = "R,…", conflicts_with_all = ["clients", "trace"])]
    rate: Vec<f64>,

    /// How requests at a rate arrive
    #[arg(long, requires = "rate", value_enum, default_value_t = Spacing::Poisson)]
    arrivals: Spacing,

    /// Have N clients, each of which sends its next request when it has its answer [default: 1]
    #[arg(long, requires = "server", value_delimiter = ',', value_name = "N,…", conflicts_with = "trace")]
    clients: Vec<usize>,

    /// Send what this file says, when it says; a JSON object a line, see docs/measuring.md
    #[arg(long, requires = "server", value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Write what was sent to a file that `--trace` reads
    #[arg(long, requires = "server", value_name = "FILE")]
    record: Option<PathBuf>,

    /// Tokens of a prompt: a number, or a range such as 64-256
    #[arg(long, requires = "server", value_name = "TOKENS", default_value = "128")]
    input: Lengths,

    /// Tokens of an answer: a number, or a range
    #[arg(long, requires = "server", value_name = "TOKENS", default_value = "64")]
    output: Lengths,

    /// Tokens that prompts begin with in common, beside those of --input
    #[arg(long, requires = "server", value_name = "TOKENS", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    shared_prefix: u32,

    /// The share of prompts that begin so
    #[arg(long, requires = "shared_prefix", value_name = "SHARE", default_value_t = 1.0)]
    share: f64,

    /// Requests of a load [default: 100, and at least four of each client; 200 with --same-bytes]
    #[arg(long, requires = "server", value_name = "N")]
    requests: Option<usize>,

    /// Send requests for S seconds; those that are open then are waited for
    #[arg(long, requires = "server", value_name = "S")]
    seconds: Option<f64>,

    /// Requests before each load that are not measured
    #[arg(long, requires = "server", value_name = "N", default_value_t = 2)]
    warm_up: usize,

    /// Ask for chat completions instead of completions
    #[arg(long, requires = "server")]
    chat: bool,

    /// 0 takes the likeliest token; above 0 every request has a seed of its own
    #[arg(long, requires = "server", value_name = "T", default_value_t = 0.0)]
    temperature: f64,

    /// What prompts, lengths and arrivals are drawn from
    #[arg(long, requires = "server", value_name = "N", default_value_t = 1)]
    seed: u64,

    /// A key that the server asks for
    #[arg(long, requires = "server", value_name = "KEY")]
    api_key: Option<String>,

    /// Seconds after which an answer that is not whole counts as none
    #[arg(long, requires = "server", value_name = "S", default_value_t = 600.0)]
    timeout: f64,

    /// Compare answers instead: each alone, then all at once among strangers who come and go; fails unless every
    /// answer is the same, byte for byte
    #[arg(long, requires = "server", conflicts_with_all = ["rate", "clients", "trace", "record", "seconds", "plot", "input",
        "shared_prefix", "chat", "temperature", "against"])]
    same_bytes: bool,

    /// Strangers beside the requests that are compared
    #[arg(long, requires = "same_bytes", value_name = "N", default_value_t = 8)]
    strangers: usize,
}

/// What `bench` has beside it that concerns a server too.
pub struct Common<'a> {
    /// The model's name at the server.
    pub model: Option<&'a str>,
    /// The address of a second server.
    pub against: Option<&'a str>,
    pub rounds: Option<usize>,
    pub plot: Option<&'a PathBuf>,
    pub json: bool,
}

/// Measures and prints.
pub fn run(address: &str, arguments: &ServerArguments, common: &Common<'_>) -> Result<()> {
    let server = connect(address, arguments)?;
    if arguments.same_bytes {
        return same_bytes(&server, arguments, common);
    }
    let plan = plan(arguments, common)?;
    let side = |server: Server, model| -> Result<Side> {
        let known = Known::of(&server, model, plan.manner)?;
        Ok(Side { server, known })
    };
    let ours = side(server, common.model)?;
    let peer = match common.against {
        // Another server may know the model by another name.
        Some(address) => Some(side(connect(address, arguments)?, None).context("--against")?),
        None => None,
    };
    let Measured { levels, sent } =
        with_bar("load", |progress| load::measure(&ours, peer.as_ref(), &plan, progress));
    if let Some(path) = &arguments.record {
        load::record(path, &sent)?;
    }
    let run = describe(arguments, &plan);
    if let Some(path) = common.plot {
        let names = (ours.server.address(), peer.as_ref().map_or("", |peer| peer.server.address()));
        let picture = gleed_bench::load_curves(&ours.known.model, &run, names, &levels);
        std::fs::write(path, picture).with_context(|| path.display().to_string())?;
    }
    let warnings = warnings(&ours, peer.as_ref(), &levels);
    if common.json {
        let side = |side: &Side| {
            json!({
                "address": side.server.address(),
                "model": side.known.model,
                "ignore_eos": side.known.ignore_eos,
                "tokens_per_word": side.known.measure.tokens_per_word,
            })
        };
        return output::print_json(&json!({
            "server": side(&ours),
            "peer": peer.as_ref().map(side),
            "run": run,
            "warnings": warnings,
            "results": levels,
        }));
    }
    output::note(format!("{}: {}, {run}", ours.server.address(), ours.known.model));
    if let Some(peer) = &peer {
        output::note(format!("{}: {}, the same in turn", peer.server.address(), peer.known.model));
    }
    warnings.iter().for_each(output::warning);
    server_tables::levels(&levels)
}

fn connect(address: &str, arguments: &ServerArguments) -> Result<Server> {
    let timeout = Duration::try_from_secs_f64(arguments.timeout).ok().filter(|timeout| !timeout.is_zero());
    let Some(timeout) = timeout else { bail!("--timeout must be a number of seconds above 0") };
    Ok(Server::new(address, arguments.api_key.as_deref(), timeout)?)
}

/// What the flags ask for.
fn plan(arguments: &ServerArguments, common: &Common<'_>) -> Result<Plan> {
    if arguments.requests == Some(0) {
        bail!("--requests must be at least 1");
    }
    if arguments.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds.is_finite())) {
        bail!("--seconds must be a number above 0");
    }
    if !(0.0..=1.0).contains(&arguments.share) {
        bail!("--share must be from 0 to 1");
    }
    if !(0.0..=100.0).contains(&arguments.temperature) {
        bail!("--temperature must be from 0 to 100");
    }
    let trace = arguments.trace.as_ref().map(|path| Trace::open(path, arguments.seed)).transpose()?;
    let levels: Vec<Arrivals> = match (&trace, arguments.arrivals) {
        (Some(_), _) => vec![Arrivals::Trace],
        (None, _) if !arguments.clients.is_empty() => {
            arguments.clients.iter().map(|clients| Arrivals::Clients(*clients)).collect()
        }
        (None, _) if arguments.rate.is_empty() => vec![Arrivals::Clients(1)],
        (None, Spacing::Poisson) => arguments.rate.iter().map(|rate| Arrivals::Poisson(*rate)).collect(),
        (None, Spacing::Constant) => arguments.rate.iter().map(|rate| Arrivals::Constant(*rate)).collect(),
    };
    levels.iter().try_for_each(Arrivals::check)?;
    if arguments.record.is_some() && levels.len() > 1 {
        bail!("--record writes one load: give one rate, or one number of clients");
    }
    Ok(Plan {
        levels,
        rounds: common.rounds.unwrap_or(if common.against.is_some() { 3 } else { 1 }),
        workload: Workload {
            input: arguments.input,
            output: arguments.output,
            shared_prefix: arguments.shared_prefix as usize,
            share: arguments.share,
            seed: arguments.seed,
        },
        trace,
        manner: Manner { chat: arguments.chat, temperature: arguments.temperature },
        requests: arguments.requests,
        seconds: arguments.seconds,
        warm_up: arguments.warm_up,
    })
}

/// A few words on how it was measured.
fn describe(arguments: &ServerArguments, plan: &Plan) -> String {
    let mut words = match &arguments.trace {
        Some(path) => format!("requests of {}", path.display()),
        None => format!("prompts of {} and answers of {} tokens", arguments.input, arguments.output),
    };
    if arguments.shared_prefix > 0 {
        let share = arguments.share * 100.0;
        words.push_str(&format!(", {} more in common for {share:.0} %", arguments.shared_prefix));
    }
    if plan.rounds > 1 {
        words.push_str(&format!(", {} rounds", plan.rounds));
    }
    words
}

/// What makes figures mean something else than they seem to.
fn warnings(ours: &Side, peer: Option<&Side>, levels: &[load::Level]) -> Vec<String> {
    let mut warnings = Vec::new();
    let sides = [(Some(ours), false), (peer, true)];
    for (side, is_peer) in sides.into_iter().filter_map(|(side, is_peer)| Some((side?, is_peer))) {
        let address = side.server.address();
        if !side.known.stream_usage {
            warnings
                .push(format!("{address} does not say how many tokens a stream took: pieces are counted"));
        }
        for level in levels {
            let loaded = if is_peer { level.peer.as_ref() } else { Some(&level.ours) };
            let Some(loaded) = loaded else { continue };
            let name = &level.name;
            if let Some(error) = &loaded.first_error {
                let failed = loaded.requests - loaded.completed;
                warnings.push(format!("{address}, {name}: {failed} requests failed; the first: {error}"));
            }
            if loaded.short_answers > 0 {
                let short = loaded.short_answers;
                warnings.push(format!("{address}, {name}: {short} answers ended early"));
            }
            if loaded.late > 0 {
                let (late, of, most) = (loaded.late, loaded.requests, loaded.lateness.map_or(0.0, |l| l.max));
                let milliseconds = most * 1e3;
                let text = format!("{late} of {of} requests were sent late, by up to {milliseconds:.0} ms");
                warnings.push(format!("{address}, {name}: {text}"));
            }
        }
    }
    warnings
}

/// `--same-bytes`: compares answers and prints the shares.
fn same_bytes(server: &Server, arguments: &ServerArguments, common: &Common<'_>) -> Result<()> {
    let requests = arguments.requests.unwrap_or(200);
    if !(1..=load::MOST_OPEN).contains(&requests) || arguments.strangers > load::MOST_OPEN {
        bail!("--requests and --strangers are at most {}", load::MOST_OPEN);
    }
    let manner = Manner { chat: false, temperature: 0.0 };
    let known = Known::of(server, common.model, manner)?;
    let tokens = arguments.output.longest();
    let settings = SameSettings { requests, tokens, strangers: arguments.strangers, seed: arguments.seed };
    let same =
        with_bar("same bytes", |progress| load::same_bytes(server, &known.model, &settings, progress))?;
    match common.json {
        true => output::print_json(&json!({
            "server": server.address(),
            "all_same": same.is_all_same(),
            "same_bytes": same,
        }))?,
        false => {
            output::note(format!("{}: {}, {requests} requests", server.address(), same.model));
            for (kind, why) in &same.left_out {
                output::warning(format!("left out: {kind}: {why}"));
            }
            if let Some(error) = &same.first_error {
                output::warning(format!("{} had no answer alone; the first: {error}", same.failed_alone));
            }
            if same.cached_tokens_alone.is_some_and(|cached| cached > 0) {
                output::warning("the cache could not be switched off: \"cold\" is not cold here");
            }
            server_tables::same(&same)?;
        }
    }
    if !same.is_all_same() {
        bail!("not every answer was the same");
    }
    Ok(())
}
