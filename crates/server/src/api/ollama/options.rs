//! How tokens are chosen and when to stop: `options`, `format`, `think` and `logprobs`.

use gleed_engine::{GenerationSettings, SamplerSettings};
use gleed_tokenizer::ReasoningWish;
use serde_json::Value;

use crate::App;
use crate::answer::{Form, Wishes};
use crate::api::fields::Fields;
use crate::api::openai::conversation::bounded;
use crate::api::openai::sampling::stops;
use crate::errors::Problem;
use crate::limits::Limits;
use crate::model::Model;

type Result<T> = std::result::Result<T, Problem>;

/// Options of how a model is loaded, which is the operator's choice, and of how a context is cut, which it never is.
/// They change no answer.
pub const HARMLESS: [&str; 12] = [
    "numa",
    "num_batch",
    "num_gpu",
    "main_gpu",
    "low_vram",
    "f16_kv",
    "use_mmap",
    "use_mlock",
    "num_thread",
    "num_keep",
    "mirostat_tau",
    "mirostat_eta",
];

/// Reads `options`, `logprobs` and `top_logprobs`. What is not sent is as Ollama has it.
pub fn wishes(fields: &mut Fields, app: &App, model: &Model) -> Result<Wishes> {
    let mut settings = match fields.take("options") {
        Some(field) => settings(&mut field.object()?, app, model)?,
        None => settings(&mut Fields::empty(), app, model)?,
    };
    let logprobs = fields.boolean("logprobs")?.unwrap_or(false);
    let top = fields.count("top_logprobs", 0..=app.limits.top_logprobs)?;
    if top.is_some() && !logprobs {
        return Err(Problem::invalid("top_logprobs", "`top_logprobs` needs `logprobs: true`"));
    }
    settings.logprobs = logprobs.then_some(top.unwrap_or(0));
    // Ollama cuts a prompt that is too long unless told not to; here it is refused, and nothing is forgotten.
    for name in ["truncate", "shift"] {
        if fields.boolean(name)? == Some(true) {
            return Err(Problem::unsupported(name, format!("`{name}`: prompts are not cut; leave it out")));
        }
    }
    Ok(Wishes { settings, choices: 1, adapters: None, uses_cache: true, deadline: app.deadline(None) })
}

/// The options, all of them.
fn settings(options: &mut Fields, app: &App, model: &Model) -> Result<GenerationSettings> {
    let most = match options.integer("num_predict", -2..=i64::from(u32::MAX))? {
        // Until the end, or until the context is full.
        None | Some(-1 | -2) => None,
        Some(0) => {
            let path = options.path("num_predict");
            return Err(Problem::invalid(&path, format!("`{path}` is 0: an answer has at least one token")));
        }
        Some(most) => Some(most as usize),
    };
    let last = options.integer("repeat_last_n", -1..=i64::from(u32::MAX))?.unwrap_or(64);
    let sampler = SamplerSettings {
        temperature: options.number("temperature", 0.0..=100.0)?.unwrap_or(0.8),
        top_k: options.count("top_k", 0..=u32::MAX as usize)?.unwrap_or(40),
        top_p: options.number("top_p", 0.0..=1.0)?.unwrap_or(0.9),
        min_p: options.number("min_p", 0.0..=1.0)?.unwrap_or(0.0),
        typical_p: options.number("typical_p", 0.0..=1.0)?.unwrap_or(1.0),
        repeat_penalty: options.number("repeat_penalty", 0.01..=100.0)?.unwrap_or(1.1),
        // -1 is the whole context.
        repeat_last_n: if last < 0 { usize::MAX } else { last as usize },
        presence_penalty: options.number("presence_penalty", -2.0..=2.0)?.unwrap_or(0.0),
        frequency_penalty: options.number("frequency_penalty", -2.0..=2.0)?.unwrap_or(0.0),
        // A seed below 0 is none.
        seed: options.integer("seed", i64::MIN..=i64::MAX)?.and_then(|seed| u64::try_from(seed).ok()),
        ..SamplerSettings::default()
    };
    let stop = stops(options.take("stop"), app)?;
    if let Some(context) = options.count("num_ctx", 1..=u32::MAX as usize)?
        && context > model.context
    {
        let path = options.path("num_ctx");
        let message = format!("`{path}` is {context}, and the model has {} positions here", model.context);
        return Err(Problem::invalid(path, message));
    }
    options.pass_over(&HARMLESS);
    unchanged(options, "mirostat", |value| value == 0)?;
    unchanged(options, "tfs_z", |value| value.as_f64() == Some(1.0))?;
    unchanged(options, "penalize_newline", |value| value == true)?;
    unchanged(options, "vocab_only", |value| value == false)?;
    unchanged(options, "embedding_only", |value| value == false)?;
    unchanged(options, "logits_all", |value| value == false)?;
    std::mem::replace(options, Fields::empty()).finish()?;
    Ok(GenerationSettings { max_tokens: most, stop, sampler, ..GenerationSettings::default() })
}

/// Refuses an option unless it says what is so anyway.
fn unchanged(options: &mut Fields, name: &str, is_usual: impl Fn(&Value) -> bool) -> Result<()> {
    match options.take(name) {
        Some(field) if !is_usual(&field.value) => {
            let message = format!("`{}` is not supported; leave it out", field.path);
            Err(Problem::unsupported(field.path, message))
        }
        _ => Ok(()),
    }
}

/// `format`: nothing, `json` or a schema.
pub fn form(fields: &mut Fields, limits: &Limits) -> Result<Form> {
    let Some(field) = fields.take("format") else { return Ok(Form::Text) };
    bounded(&field, limits.schema)?;
    match &field.value {
        Value::Object(_) => Ok(Form::JsonSchema(field.value)),
        Value::String(word) if word == "json" => Ok(Form::Json),
        Value::String(word) if word.is_empty() => Ok(Form::Text),
        _ => Err(field.wrong("`json` or a JSON schema")),
    }
}

/// `think`: whether to reason, or how much.
pub fn think(fields: &mut Fields) -> Result<Option<ReasoningWish>> {
    let Some(field) = fields.take("think") else { return Ok(None) };
    match field.value {
        Value::Bool(true) => Ok(Some(ReasoningWish::On)),
        Value::Bool(false) => Ok(Some(ReasoningWish::Off)),
        _ => {
            let efforts = ["low", "medium", "high", "max"].map(|effort| (effort, effort));
            Ok(Some(ReasoningWish::Effort(field.word(&efforts)?.to_string())))
        }
    }
}
