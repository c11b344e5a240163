//! The marks of answers: what kinds of formats there are, whatever a mark is. [`AnswerFormat`](super::AnswerFormat) has
//! them as texts in which a control token is one private character; others see them as [`MarkPart`]s.

/// Part of a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkPart {
    /// A control token.
    Token(u32),
    /// Text.
    Text(String),
}

/// All marks of a format.
#[derive(Clone, Debug, Default)]
pub struct Marks<M> {
    /// What stands around reasoning.
    pub reasoning: Option<Reasoning<M>>,
    /// How calls are marked and written.
    pub calls: Option<Calls<M>>,
    /// Marks that stand around an answer and mean nothing by themselves.
    pub around: Vec<M>,
}

/// What stands around reasoning.
#[derive(Clone, Debug)]
pub struct Reasoning<M> {
    /// Before it.
    pub begin: M,
    /// Behind it.
    pub end: M,
}

/// How calls are marked and written.
#[derive(Clone, Debug)]
pub enum Calls<M> {
    /// JSON objects with a name and arguments, alone, one after another or in a list.
    Json(JsonCalls<M>),
    /// A name, a mark, the arguments as JSON.
    Named(NamedCalls<M>),
    /// A name and the arguments one by one, each between tags.
    Tagged(TaggedCalls<M>),
    /// `[name(key=value), …]` with Python's or JSON's values.
    Python(Region<M>),
    /// `call:name{key:value}` with strings between marks.
    Gemma {
        /// Around calls.
        region: Region<M>,
        /// Around a string.
        quote: M,
    },
    /// Messages with a header that names a channel and a recipient, for reasoning and answers too.
    Harmony(Harmony<M>),
}

/// What stands around calls.
#[derive(Clone, Debug)]
pub struct Region<M> {
    /// Before them.
    pub open: M,
    /// Behind them; empty where nothing follows the calls.
    pub close: M,
}

/// `{"name": "…", "arguments": {…}}`
#[derive(Clone, Debug)]
pub struct JsonCalls<M> {
    /// Around calls.
    pub region: Region<M>,
    /// Whether an answer that begins as an object may be a call without any mark.
    pub bare: bool,
    /// Whether the name is the key: `{"name": {arguments}}`.
    pub keyed: bool,
}

/// `name[ARGS]{…}`
#[derive(Clone, Debug)]
pub struct NamedCalls<M> {
    /// Around all calls; none where each stands alone.
    pub region: Option<Region<M>>,
    /// Before the name.
    pub begin: M,
    /// Between the name and the call's id; empty where there is none.
    pub id: M,
    /// Before the arguments.
    pub arguments: M,
    /// Behind them.
    pub end: M,
}

/// `<function=name><parameter=key>value</parameter></function>`
#[derive(Clone, Debug)]
pub struct TaggedCalls<M> {
    /// Around calls.
    pub region: Region<M>,
    /// Before the name. With no `begin` it follows the opening mark.
    pub begin: M,
    /// Behind the name; without it the name ends with a line or a tag.
    pub name_end: M,
    /// Before a key.
    pub key: M,
    /// Behind it.
    pub key_end: M,
    /// Before the value; attributes may stand before it. Empty where the value follows the key at once.
    pub value: M,
    /// Behind the value.
    pub value_end: M,
    /// Behind the call; empty where it ends with the region.
    pub end: M,
}

/// `<|channel|>analysis<|message|>…<|end|>`
#[derive(Clone, Debug)]
pub struct Harmony<M> {
    /// Begins a message.
    pub start: M,
    /// Before the channel's name.
    pub channel: M,
    /// Before what a message says.
    pub message: M,
    /// Ends a message.
    pub end: M,
    /// Ends a message that is a call.
    pub call: M,
    /// Ends the last message.
    pub last: M,
    /// Before the name of the arguments' format.
    pub constrain: M,
}

impl<M> Marks<M> {
    /// The same marks in another form.
    pub fn map<N>(&self, mut form: impl FnMut(&M) -> N) -> Marks<N> {
        Marks {
            reasoning: self
                .reasoning
                .as_ref()
                .map(|reasoning| Reasoning { begin: form(&reasoning.begin), end: form(&reasoning.end) }),
            calls: self.calls.as_ref().map(|calls| calls.map(&mut form)),
            around: self.around.iter().map(&mut form).collect(),
        }
    }
}

impl<M> Calls<M> {
    fn map<N>(&self, form: &mut impl FnMut(&M) -> N) -> Calls<N> {
        match self {
            Calls::Json(json) => {
                Calls::Json(JsonCalls { region: json.region.map(form), bare: json.bare, keyed: json.keyed })
            }
            Calls::Named(named) => Calls::Named(NamedCalls {
                region: named.region.as_ref().map(|region| region.map(form)),
                begin: form(&named.begin),
                id: form(&named.id),
                arguments: form(&named.arguments),
                end: form(&named.end),
            }),
            Calls::Tagged(tagged) => Calls::Tagged(TaggedCalls {
                region: tagged.region.map(form),
                begin: form(&tagged.begin),
                name_end: form(&tagged.name_end),
                key: form(&tagged.key),
                key_end: form(&tagged.key_end),
                value: form(&tagged.value),
                value_end: form(&tagged.value_end),
                end: form(&tagged.end),
            }),
            Calls::Python(region) => Calls::Python(region.map(form)),
            Calls::Gemma { region, quote } => Calls::Gemma { region: region.map(form), quote: form(quote) },
            Calls::Harmony(harmony) => Calls::Harmony(Harmony {
                start: form(&harmony.start),
                channel: form(&harmony.channel),
                message: form(&harmony.message),
                end: form(&harmony.end),
                call: form(&harmony.call),
                last: form(&harmony.last),
                constrain: form(&harmony.constrain),
            }),
        }
    }
}

impl<M> Region<M> {
    fn map<N>(&self, form: &mut impl FnMut(&M) -> N) -> Region<N> {
        Region { open: form(&self.open), close: form(&self.close) }
    }
}
