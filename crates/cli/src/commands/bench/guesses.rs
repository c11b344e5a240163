//! `--guesses`: what guessing the next tokens gains, on a text that repeats itself and on one that does not.

use anyhow::{Result, bail};
use gleed_bench::{GuessText, MAX_ROWS};
use gleed_engine::{BatchSettings, Engine};
use serde_json::json;

use super::{tables, with_bar};
use crate::load::{self, Loaded, Options};
use crate::output;
use crate::speculation::Guessing;

/// Positions that texts and their continuations may have together.
const CONTEXT: usize = 2048;

/// Code that is to be written once more with a small change: most of what follows stood there before.
const EDIT: &str = r#"Here is a module:

```python
class Account:
    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("the amount must be positive")
        self.balance += amount
        return self.balance

    def withdraw(self, amount):
        if amount <= 0:
            raise ValueError("the amount must be positive")
        if amount > self.balance:
            raise ValueError("there is not enough on the account")
        self.balance -= amount
        return self.balance
```

The same module with a docstring in every method and nothing else changed:

```python
class Account:
"#;

/// The beginning of a story.
const STORY: &str = "Once upon a time there was a lighthouse keeper who had never seen the sea. One morning,";

/// Measures and prints.
pub fn run(
    loaded: Loaded,
    guessing: &Guessing,
    options: &Options,
    tokens: usize,
    repetitions: usize,
    as_json: bool,
) -> Result<()> {
    loaded.must_generate()?;
    let tokenizer = load::tokenizer(&loaded.file)?;
    let draft = guessing.open_draft(&tokenizer)?;
    let context = CONTEXT.min(loaded.model.config.context);
    let loaded = loaded.for_sequences(1, Some(context))?;
    let executor = loaded.executor(options, context, MAX_ROWS.min(context))?;
    let mut report = executor.report(&loaded);
    let settings = BatchSettings { most_running: 1, prefix_cache: false, ..BatchSettings::default() };
    let engine = Engine::new(Box::new(executor));
    let mut batcher = guessing.batcher(engine, settings, draft, options, Some(context))?;
    report.extend(guessing.draft.iter().map(|name| ("draft".to_string(), name.as_str().into())));
    let texts = [("an edit", EDIT), ("a story", STORY)]
        .map(|(name, text)| GuessText { name, tokens: tokenizer.encode_prompt(text, true, false) });
    if let Some(long) = texts.iter().find(|text| text.tokens.len() + tokens > context) {
        let (room, needed) = (context, long.tokens.len() + tokens);
        bail!("{} needs {needed} positions and the model has {room}; generate fewer tokens (-n)", long.name);
    }
    let when = guessing.speculation;
    let gains = with_bar("guesses", |progress| {
        gleed_bench::guesses(&mut batcher, &texts, tokens, repetitions, when, progress)
    })?;
    if as_json {
        return output::print_report(report, json!({ "guesses": gains, "speculation": when.to_string() }));
    }
    tables::guesses(&gains)
}
