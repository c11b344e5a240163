//! The flags that say how an answer is chosen and when it ends, shared by `run` and `chat`.

use clap::Args;
use gleed_engine::{GenerationSettings, SamplerSettings};

/// How an answer is chosen and when it ends.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Sampling")]
pub struct Sampling {
    /// 0 always takes the best token, higher is wilder
    #[arg(long, visible_alias = "temp", default_value_t = SamplerSettings::default().temperature, value_name = "T")]
    temperature: f32,

    /// Keep only this many of the best tokens; 0 keeps all
    #[arg(long, default_value_t = SamplerSettings::default().top_k, value_name = "K")]
    top_k: usize,

    /// Keep the best tokens up to this share of the probability
    #[arg(long, default_value_t = SamplerSettings::default().top_p, value_name = "P")]
    top_p: f32,

    /// Drop tokens below this share of the best one's probability
    #[arg(long, default_value_t = SamplerSettings::default().min_p, value_name = "P")]
    min_p: f32,

    /// Keep the most typical tokens up to this share of the probability
    #[arg(long, default_value_t = SamplerSettings::default().typical_p, value_name = "P")]
    typical_p: f32,

    /// Make recent tokens less likely by this factor
    #[arg(long, default_value_t = SamplerSettings::default().repeat_penalty, value_name = "X")]
    repeat_penalty: f32,

    /// How many tokens count as recent
    #[arg(long, default_value_t = SamplerSettings::default().repeat_last_n, value_name = "N")]
    repeat_last_n: usize,

    /// Lower the score of recent tokens by this for each occurrence
    #[arg(long, default_value_t = 0.0, value_name = "X", allow_negative_numbers = true)]
    frequency_penalty: f32,

    /// Lower the score of recent tokens by this once
    #[arg(long, default_value_t = 0.0, value_name = "X", allow_negative_numbers = true)]
    presence_penalty: f32,

    /// Add to the score of a token, as TOKEN=BIAS; may be repeated
    #[arg(long, value_name = "TOKEN=BIAS", value_parser = bias)]
    logit_bias: Vec<(u32, f32)>,

    /// The same seed gives the same answer [default: another one each time]
    #[arg(long)]
    seed: Option<u64>,

    /// The most tokens to generate [default: up to the end of the context]
    #[arg(short = 'n', long, visible_alias = "n-predict", value_name = "N")]
    max_tokens: Option<usize>,

    /// End the answer before this text; may be repeated
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,

    /// Go on when the model would end its answer
    #[arg(long)]
    ignore_eos: bool,
}

impl Sampling {
    /// As the engine wants it.
    pub fn settings(&self, logprobs: Option<usize>) -> GenerationSettings {
        GenerationSettings {
            max_tokens: self.max_tokens,
            stop: self.stop.clone(),
            stop_tokens: vec![],
            sampler: SamplerSettings {
                temperature: self.temperature,
                top_k: self.top_k,
                top_p: self.top_p,
                min_p: self.min_p,
                typical_p: self.typical_p,
                repeat_penalty: self.repeat_penalty,
                repeat_last_n: self.repeat_last_n,
                frequency_penalty: self.frequency_penalty,
                presence_penalty: self.presence_penalty,
                logit_bias: self.logit_bias.clone(),
                seed: self.seed,
            },
            logprobs,
            ignore_eos: self.ignore_eos,
        }
    }
}

fn bias(text: &str) -> Result<(u32, f32), String> {
    let (token, bias) = text.split_once('=').ok_or("must be TOKEN=BIAS, such as 42=-1.5")?;
    let token = token.parse().map_err(|_| format!("{token} is not a token number"))?;
    let bias = bias.parse().map_err(|_| format!("{bias} is not a number"))?;
    Ok((token, bias))
}
