//! How tokens are chosen, when to stop and how to tell: what chats and completions have in common.

use std::time::Duration;

use gleed_engine::{GenerationSettings, SamplerSettings};
use serde_json::Value;

use crate::App;
use crate::adapters::AdapterWish;
use crate::answer::Wishes;
use crate::api::fields::{Field, Fields};
use crate::errors::Problem;

type Result<T> = std::result::Result<T, Problem>;

/// Parameters that change nothing here, whatever they say.
const HARMLESS: [&str; 5] =
    ["user", "safety_identifier", "metadata", "prompt_cache_key", "prompt_cache_retention"];

/// Reads all parameters of sampling and stopping but the most tokens and log-probabilities. What is not sent is as
/// OpenAI has it: temperature 1 and no filter.
pub fn wishes(fields: &mut Fields, app: &App, vocabulary: usize) -> Result<Wishes> {
    let limits = &app.limits;
    let penalty = match fields.number("repetition_penalty", 0.01..=100.0)? {
        Some(penalty) => Some(penalty),
        None => fields.number("repeat_penalty", 0.01..=100.0)?,
    };
    let sampler = SamplerSettings {
        temperature: fields.number("temperature", 0.0..=2.0)?.unwrap_or(1.0),
        top_p: fields.number("top_p", 0.0..=1.0)?.unwrap_or(1.0),
        // -1 is vLLM's way to say all.
        top_k: fields.integer("top_k", -1..=i64::from(u32::MAX))?.unwrap_or(0).max(0) as usize,
        min_p: fields.number("min_p", 0.0..=1.0)?.unwrap_or(0.0),
        typical_p: fields.number("typical_p", 0.0..=1.0)?.unwrap_or(1.0),
        frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?.unwrap_or(0.0),
        presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?.unwrap_or(0.0),
        repeat_penalty: penalty.unwrap_or(1.0),
        // OpenAI's penalties see the whole text.
        repeat_last_n: fields.count("repeat_last_n", 0..=usize::MAX)?.unwrap_or(usize::MAX),
        logit_bias: biases(fields, limits.biases, vocabulary)?,
        seed: fields.integer("seed", i64::MIN..=i64::MAX)?.map(|seed| seed as u64),
    };
    let stop_tokens = match fields.take("stop_token_ids") {
        Some(list) => list
            .short_list(limits.stops)?
            .into_iter()
            .map(|field| field.token(vocabulary))
            .collect::<Result<_>>()?,
        None => Vec::new(),
    };
    let settings = GenerationSettings {
        max_tokens: None,
        stop: stops(fields.take("stop"), app)?,
        stop_tokens,
        sampler,
        logprobs: None,
        ignore_eos: fields.boolean("ignore_eos")?.unwrap_or(false),
    };
    let timeout = fields.number("timeout_seconds", 0.0..=604_800.0)?;
    harmless(fields)?;
    Ok(Wishes {
        settings,
        adapters: fields.take("lora").map(AdapterWish::read).transpose()?,
        uses_cache: fields.boolean("cache_prompt")?.unwrap_or(true),
        choices: fields.count("n", 1..=limits.choices)?.unwrap_or(1),
        deadline: app.deadline(timeout.map(Duration::from_secs_f32)),
    })
}

/// The most tokens of an answer, under either of its names.
pub fn most_tokens(fields: &mut Fields) -> Result<Option<usize>> {
    let old = fields.count("max_tokens", 1..=u32::MAX as usize)?;
    let new = fields.count("max_completion_tokens", 1..=u32::MAX as usize)?;
    match (old, new) {
        (Some(old), Some(new)) if old != new => {
            Err(Problem::invalid("max_tokens", "`max_tokens` and `max_completion_tokens` differ: send one"))
        }
        (old, new) => Ok(new.or(old)),
    }
}

/// How an answer is streamed.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamOptions {
    /// Whether the last event tells what it took.
    pub with_usage: bool,
}

impl StreamOptions {
    /// Reads `stream` and `stream_options`; none where the answer is wanted in one piece.
    pub fn read(fields: &mut Fields) -> Result<Option<StreamOptions>> {
        let streams = fields.boolean("stream")?.unwrap_or(false);
        let Some(field) = fields.take("stream_options") else {
            return Ok(streams.then(StreamOptions::default));
        };
        if !streams {
            return Err(Problem::invalid(field.path, "`stream_options` needs `stream: true`"));
        }
        let mut options = field.object()?;
        let with_usage = options.boolean("include_usage")?.unwrap_or(false);
        if options.boolean("include_obfuscation")? == Some(true) {
            let path = options.path("include_obfuscation");
            return Err(Problem::unsupported(path, "events are not padded here"));
        }
        options.finish()?;
        Ok(Some(StreamOptions { with_usage }))
    }
}

/// Takes out what changes nothing, and refuses what would ask for more than there is.
fn harmless(fields: &mut Fields) -> Result<()> {
    fields.pass_over(&HARMLESS);
    if let Some(field) = fields.take("service_tier") {
        field.word(&[("auto", ()), ("default", ())])?;
    }
    if let Some(field) = fields.take("store")
        && field.clone().boolean()?
    {
        return Err(Problem::unsupported(field.path, "nothing is stored here; leave `store` out"));
    }
    Ok(())
}

/// One stop string or several.
pub fn stops(field: Option<Field>, app: &App) -> Result<Vec<String>> {
    let limits = &app.limits;
    let fields = match field {
        None => return Ok(Vec::new()),
        Some(field) if field.value.is_string() => vec![field],
        // No stop strings are as good as none.
        Some(field) if field.value.as_array().is_some_and(Vec::is_empty) => return Ok(Vec::new()),
        Some(field) if field.value.is_array() => field.short_list(limits.stops)?,
        Some(field) => return Err(field.wrong("a string or a list of strings")),
    };
    let stop = |field: Field| {
        let path = field.path.clone();
        let text = field.string()?;
        match text.len() {
            0 => Err(Problem::invalid(&path, format!("`{path}` is empty; leave it out"))),
            n if n > limits.stop => Err(Problem::invalid(
                &path,
                format!("`{path}` has {n} bytes, and at most {} are taken", limits.stop),
            )),
            _ => Ok(text),
        }
    };
    fields.into_iter().map(stop).collect()
}

/// What is added to the logits of tokens, by their numbers.
fn biases(fields: &mut Fields, most: usize, vocabulary: usize) -> Result<Vec<(u32, f32)>> {
    let Some(field) = fields.take("logit_bias") else { return Ok(Vec::new()) };
    let path = field.path.clone();
    let entries = field.object()?.rest();
    if entries.len() > most {
        let message = format!("`{path}` has {} entries, and at most {most} are taken", entries.len());
        return Err(Problem::invalid(path, message));
    }
    let entry = |(key, value): (String, Value)| {
        let path = format!("{path}.{key}");
        let token = key.parse::<u32>().ok().filter(|token| (*token as usize) < vocabulary);
        let token = token.ok_or_else(|| {
            Problem::invalid(&path, format!("`{key}` is not a token of the model, which has {vocabulary}"))
        })?;
        Ok((token, Field { path, value }.number(-100.0..=100.0)?))
    };
    entries.into_iter().map(entry).collect()
}
