//! A model with which one can talk: tokenizer, chat template and engine together, for `run` and `chat`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use gleed_engine::{
    BatchSettings, Batcher, Engine, Event, Finish, GenerationSettings, Guesses, Token, TokenizerText,
};
use gleed_tokenizer::{
    AnswerEvent, AnswerFormat, AnswerParser, ChatTemplate, Message, Prompt, ReasoningWish, TemplateInput,
    TemplateValue, Tokenizer, Tools,
};
use serde_json::{Map, Value};

use crate::load::{self, Loaded, Options};
use crate::output;
use crate::speculation::Guessing;

/// A model, its words and one conversation's memory.
pub struct Talk {
    pub tokenizer: Arc<Tokenizer>,
    template: ChatTemplate,
    /// How the model marks its reasoning.
    format: Arc<AnswerFormat>,
    /// What the template is told beside the messages.
    variables: Vec<(String, TemplateValue)>,
    /// Whether the template is the file's own.
    own_template: bool,
    has_template: bool,
    /// How the user called the model.
    name: String,
    /// What reports for programs say of how it is run.
    report: Map<String, Value>,
    /// What the start on a GPU took, and what its steps waited for by now.
    start: Box<dyn Fn() -> Value>,
    batcher: Batcher,
}

/// What a model is asked.
pub struct Question {
    pub tokens: Vec<u32>,
    /// The prompt that a chat template wrote; none for a text that is continued.
    prompt: Option<Prompt>,
}

/// A part of an answer.
pub enum Part {
    Token(Token),
    Reasoning(String),
    Text(String),
}

/// Rows per step: what bounds the memory of a long prompt.
pub const MAX_ROWS: usize = 512;

impl Talk {
    /// Puts a model on its device with room for `context` positions, or as many as the model and memory allow, and
    /// beside it the draft that guesses what it will say.
    pub fn new(
        loaded: &Loaded,
        options: &Options,
        guessing: &Guessing,
        context: Option<usize>,
    ) -> Result<Talk> {
        loaded.must_generate()?;
        let context = loaded.context(context)?;
        let tokenizer = Arc::new(load::tokenizer(&loaded.file)?);
        let draft = guessing.open_draft(&tokenizer)?;
        let own = own_template(loaded);
        let has_template = loaded.file.metadata().get("tokenizer.chat_template").is_some();
        let own_template = own.is_some();
        let template = own.map_or_else(|| ChatTemplate::fallback(&tokenizer), Ok)?;
        let format = Arc::new(AnswerFormat::new(template.source(), &tokenizer));
        let most = loaded.model.config.context;
        let executor = loaded.executor(options, context, MAX_ROWS.min(context.unwrap_or(most)))?;
        let (mut report, start) = (executor.report(loaded), executor.start());
        let engine = Engine::new(Box::new(executor));
        report.extend([("context", engine.context()), ("model_context", most)].map(as_field));
        let settings = BatchSettings { most_running: 1, ..BatchSettings::default() };
        let batcher = guessing.batcher(engine, settings, draft, options, context)?;
        let name = loaded.name.clone();
        Ok(Talk {
            tokenizer,
            template,
            format,
            variables: Vec::new(),
            own_template,
            has_template,
            name,
            report,
            start,
            batcher,
        })
    }

    /// Whether the model was made for conversations, even if its template turned out to be broken.
    pub fn has_template(&self) -> bool {
        self.has_template
    }

    /// Asks the model to reason this much from here on, as its chat template has it.
    pub fn reason(&mut self, wish: &ReasoningWish) -> Result<()> {
        let marks = self.format.marks_reasoning();
        self.variables = match self.template.reasoning_variables(wish) {
            Some(variables) => variables,
            // There is nothing to turn off.
            None if !marks && *wish == ReasoningWish::Off => Vec::new(),
            None if !marks => bail!("{}: the model's chat template knows no reasoning", self.name),
            None => bail!(
                "{}: the model's chat template has no switch for that; it reasons as it was made to",
                self.name
            ),
        };
        Ok(())
    }

    /// A conversation, up to where the model's answer begins. When the file's template cannot be run, a plain one
    /// takes its place, with a warning.
    pub fn conversation(&mut self, messages: &[Message]) -> Result<Question> {
        let mut input = TemplateInput::for_answer(&self.tokenizer);
        input.extra = TemplateValue::from_pairs(self.variables.iter().cloned());
        let prompt = match self.template.prompt(messages, &input, &self.tokenizer) {
            Err(error) if self.own_template => {
                warn_of_fallback(&self.name, &error);
                self.own_template = false;
                self.template = ChatTemplate::fallback(&self.tokenizer)?;
                self.format = Arc::new(AnswerFormat::new(self.template.source(), &self.tokenizer));
                self.template.prompt(messages, &input, &self.tokenizer)?
            }
            prompt => prompt?,
        };
        Ok(Question { tokens: self.tokenizer.encode_chat(&prompt), prompt: Some(prompt) })
    }

    /// A text to be continued.
    pub fn text(&self, text: &str) -> Question {
        Question { tokens: self.tokenizer.encode_prompt(text, true, true), prompt: None }
    }

    /// Answers; what the conversation has in common with earlier ones is not computed again. Each token comes before
    /// the words that it completes.
    pub fn answer(
        &mut self,
        question: &Question,
        settings: GenerationSettings,
        cancel: &Arc<AtomicBool>,
        mut on_part: impl FnMut(Part),
    ) -> Result<Finish> {
        let (tokens, tokenizer) = (&question.tokens, self.tokenizer.clone());
        let Some(prompt) = &question.prompt else {
            let on_event = |event: Event| {
                let words = event.text().to_string();
                if let Event::Token(token) = event {
                    on_part(Part::Token(token));
                }
                on_part(Part::Text(words));
            };
            let text = TokenizerText::new(tokenizer);
            return Ok(self.batcher.answer(tokens, settings, text, cancel, on_event)?);
        };
        let mut parser = AnswerParser::new(&self.format, prompt.text(), &Tools::default());
        let on_event = |event: Event| {
            let events = parser.push(event.text());
            if let Event::Token(token) = event {
                on_part(Part::Token(token));
            }
            events.into_iter().filter_map(part).for_each(&mut on_part);
        };
        let text = TokenizerText::for_parser(tokenizer, self.format.clone());
        let finish = self.batcher.answer(tokens, settings, text, cancel, on_event)?;
        parser.finish().into_iter().filter_map(part).for_each(&mut on_part);
        Ok(finish)
    }

    /// What reports for programs say of how the model is run.
    pub fn report(&self) -> Map<String, Value> {
        let mut report = self.report.clone();
        report.insert("gpu_start".to_string(), (self.start)());
        report
    }

    /// The positions that fit.
    pub fn context(&self) -> usize {
        self.batcher.engine().context()
    }

    /// The positions that fit, in words; and those of the model, where there are more.
    pub fn room(&self) -> String {
        let (fit, most) = (self.context(), self.batcher.engine().executor().program().context);
        if fit < most { format!("{fit} of the model's {most} positions") } else { format!("{fit} positions") }
    }
}

/// The words of an event. There are no calls where no tools are offered.
fn part(event: AnswerEvent) -> Option<Part> {
    match event {
        AnswerEvent::Reasoning(text) => Some(Part::Reasoning(text)),
        AnswerEvent::Text(text) => Some(Part::Text(text)),
        _ => None,
    }
}

fn as_field((name, number): (&str, usize)) -> (String, Value) {
    (name.to_string(), number.into())
}

/// The file's chat template; none when it has none, or a broken one, of which a warning tells.
pub fn own_template(loaded: &Loaded) -> Option<ChatTemplate> {
    ChatTemplate::from_metadata(loaded.file.metadata()).unwrap_or_else(|error| {
        warn_of_fallback(&loaded.name, &error);
        None
    })
}

fn warn_of_fallback(name: &str, error: &gleed_tokenizer::Error) {
    output::warning(format!("{name}: the chat template is broken, a plain one is used instead: {error}"));
}

/// How fast an answer came, in one line.
pub fn summary(finish: &Finish) -> String {
    let rate = |tokens: usize, seconds: f64| if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 };
    let computed = finish.prompt_tokens - finish.cached_tokens;
    let prompt = rate(computed, finish.timings.prompt_seconds);
    let generation = rate(finish.generated_tokens, finish.timings.generation_seconds);
    let cached =
        if finish.cached_tokens > 0 { format!(" ({} cached)", finish.cached_tokens) } else { String::new() };
    let guesses = match finish.guesses {
        Guesses { guessed: 0, .. } => String::new(),
        Guesses { guessed, accepted, speedup } => {
            let speedup = speedup.map_or(String::new(), |speedup| format!(", {speedup:.2} × as fast"));
            format!(" ({accepted} of {guessed} guesses right{speedup})")
        }
    };
    format!(
        "{} prompt tokens{cached} at {prompt:.0}/s, {} generated at {generation:.1}/s{guesses}, seed {}",
        finish.prompt_tokens, finish.generated_tokens, finish.seed
    )
}
