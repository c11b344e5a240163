//! Guesses of what a model will say: the flags that `run`, `chat` and `serve` share, and the smaller model that makes
//! some of them.

use anyhow::{Context, Result, bail};
use clap::Args;
use gleed_engine::{BatchSettings, Batcher, Draft, Engine, Speculation};
use gleed_tokenizer::Tokenizer;

use crate::load::{self, Loaded, Options};
use crate::talk::MAX_ROWS;

/// Where guesses come from and when they are made.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Speculation")]
pub struct Guessing {
    /// A smaller model with the same vocabulary, whose guesses of the next tokens are checked many at a time
    #[arg(long, value_name = "MODEL")]
    pub draft: Option<String>,

    /// When the next tokens are guessed, by the draft or from the text so far: auto (where it is faster), always or off.
    /// Answers are the same
    #[arg(long, default_value_t, value_name = "WHEN")]
    pub speculation: Speculation,
}

impl Guessing {
    /// Opens the draft, whose vocabulary must be that of the model; none where none was asked for.
    pub fn open_draft(&self, tokenizer: &Tokenizer) -> Result<Option<Loaded>> {
        let Some(name) = &self.draft else { return Ok(None) };
        let open = || {
            let loaded = load::open(name, &[])?;
            loaded.must_generate()?;
            let own = load::tokenizer(&loaded.file)?;
            let differs = |id: u32| own.token_bytes(id) != tokenizer.token_bytes(id);
            if own.vocab_size() != tokenizer.vocab_size() || (0..own.vocab_size() as u32).any(differs) {
                bail!("its tokens are others than the model's; use a smaller model of the same family");
            }
            Ok(Some(loaded))
        };
        open().with_context(|| format!("--draft {name}"))
    }

    /// A batcher of a model's engine that guesses so. Its draft has `context` positions for each request, where the user
    /// says how many.
    pub fn batcher(
        &self,
        engine: Engine,
        settings: BatchSettings,
        draft: Option<Loaded>,
        options: &Options,
        context: Option<usize>,
    ) -> Result<Batcher> {
        let settings = BatchSettings { speculation: self.speculation, ..settings };
        let batcher = Batcher::new(engine, &settings);
        let Some(draft) = draft else { return Ok(batcher) };
        let flag = format!("--draft {}", draft.name);
        let most = draft.model.config.context;
        let context = context.map(|context| context.min(most));
        let draft = draft.for_sequences(settings.most_running, context)?;
        let rows = MAX_ROWS.min(context.unwrap_or(most));
        let executor = draft.executor(options, None, rows).with_context(|| flag.clone())?;
        batcher.with_draft(Draft::new(Engine::new(Box::new(executor)))).context(flag)
    }
}
