//! A model that is loaded: its words, its chat templates and the engine that computes it.

use std::sync::{Arc, OnceLock};

use gleed_engine::EngineHandle;
use gleed_grammar::Vocabulary;
use gleed_tokenizer::{AnswerFormat, ChatTemplate, Tokenizer};
use serde_json::{Map, Value};

use crate::adapters::AdapterScales;

/// What a [`Loader`](crate::Loader) makes of a model's name.
pub struct Parts {
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// How a conversation becomes a prompt.
    pub template: ChatTemplate,
    /// Another template for conversations with tools, where the file has one.
    pub tool_template: Option<ChatTemplate>,
    /// The engine, already started.
    pub engine: EngineHandle,
    /// Positions of prompt and answer together, where they are fewer than the engine's.
    pub context: Option<usize>,
    /// What is told of the model on the status page: device, arithmetic and the like.
    pub about: Map<String, Value>,
}

/// A loaded model.
pub struct Model {
    /// What it is called in answers.
    pub id: String,
    /// Its words.
    pub tokenizer: Arc<Tokenizer>,
    /// The engine.
    pub engine: EngineHandle,
    /// What is told of it.
    pub about: Map<String, Value>,
    /// Positions of prompt and answer together.
    pub context: usize,
    /// How much of its adapters answers take.
    pub adapters: AdapterScales,
    chat: Chat,
    tool_chat: Option<Chat>,
    /// Its tokens as grammars see them, made when the first answer needs it.
    vocabulary: OnceLock<gleed_grammar::Result<Vocabulary>>,
}

/// A template, and how answers to its prompts are marked.
pub struct Chat {
    /// How a conversation becomes a prompt.
    pub template: ChatTemplate,
    /// How the model marks reasoning and calls.
    pub format: Arc<AnswerFormat>,
}

impl Model {
    /// Puts a model together.
    pub fn new(id: &str, parts: Parts) -> Model {
        let Parts { tokenizer, template, tool_template, engine, context, about } = parts;
        let chat = |template: ChatTemplate| {
            let format = Arc::new(AnswerFormat::new(template.source(), &tokenizer));
            Chat { template, format }
        };
        let (chat, tool_chat) = (chat(template), tool_template.map(chat));
        let context = context.unwrap_or(usize::MAX).min(engine.context());
        Model {
            id: id.to_string(),
            tokenizer: Arc::new(tokenizer),
            adapters: AdapterScales::new(engine.adapters()),
            engine,
            about,
            context,
            chat,
            tool_chat,
            vocabulary: OnceLock::new(),
        }
    }

    /// Its tokens as grammars see them. The first call takes a moment.
    pub fn vocabulary(&self) -> gleed_grammar::Result<&Vocabulary> {
        self.vocabulary.get_or_init(|| Vocabulary::new(&self.tokenizer)).as_ref().map_err(Clone::clone)
    }

    /// The template for a conversation with tools or without.
    pub fn chat(&self, with_tools: bool) -> &Chat {
        self.tool_chat.as_ref().filter(|_| with_tools).unwrap_or(&self.chat)
    }
}
