//! The requests whose answers are compared: plain texts and conversations, the likeliest tokens and seeded sampling,
//! with beginnings of their own and shared ones, with tools, schemas and regular expressions.

use serde_json::{Value, json};

use super::super::prompts::{part, some_words};

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    SampledText,
    SharedText,
    SampledSharedText,
    Chat,
    SampledSharedChat,
    Tools,
    Schema,
    Regex,
}

/// Every kind, in the order in which requests take turns.
pub const KINDS: [Kind; 9] = [
    Kind::Text,
    Kind::SampledText,
    Kind::SharedText,
    Kind::SampledSharedText,
    Kind::Chat,
    Kind::SampledSharedChat,
    Kind::Tools,
    Kind::Schema,
    Kind::Regex,
];

/// A date; what servers are asked to write where they take regular expressions.
const DATE: &str = "[0-9]{4}-[0-9]{2}-[0-9]{2}";

impl Kind {
    /// In a few words.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::SampledText => "text, sampled",
            Kind::SharedText => "text, shared prefix",
            Kind::SampledSharedText => "text, shared prefix, sampled",
            Kind::Chat => "chat",
            Kind::SampledSharedChat => "chat, shared prefix, sampled",
            Kind::Tools => "chat with tools",
            Kind::Schema => "chat with a schema",
            Kind::Regex => "chat with a regex",
        }
    }

    /// Where it goes.
    pub fn path(self) -> &'static str {
        match self.is_chat() {
            true => "/v1/chat/completions",
            false => "/v1/completions",
        }
    }

    fn is_chat(self) -> bool {
        !matches!(self, Kind::Text | Kind::SampledText | Kind::SharedText | Kind::SampledSharedText)
    }

    fn is_sampled(self) -> bool {
        matches!(self, Kind::SampledText | Kind::SampledSharedText | Kind::SampledSharedChat)
    }

    fn shares(self) -> bool {
        matches!(self, Kind::SharedText | Kind::SampledSharedText | Kind::SampledSharedChat)
    }

    /// How servers are asked for log-probabilities.
    pub fn log_probabilities(self) -> Value {
        match self.is_chat() {
            true => json!({ "logprobs": true, "top_logprobs": 2 }),
            false => json!({ "logprobs": 2 }),
        }
    }

    /// The ways in which servers are asked for what is special about this kind; a server knows one of them.
    pub fn spellings(self, number: usize) -> Vec<Value> {
        match self {
            Kind::Tools => {
                let parameters = json!({
                    "type": "object",
                    "properties": { "city": { "type": "string" }, "days": { "type": "integer" } },
                    "required": ["city", "days"],
                });
                let function =
                    json!({ "name": "weather", "description": "The weather", "parameters": parameters });
                let choice = if number.is_multiple_of(2) { "auto" } else { "required" };
                vec![
                    json!({ "tools": [{ "type": "function", "function": function }], "tool_choice": choice }),
                ]
            }
            Kind::Schema => {
                let schema = json!({
                    "type": "object",
                    "properties": {
                        "name": { "type": "string", "maxLength": 12 },
                        "age": { "type": "integer", "minimum": 0, "maximum": 99 },
                        "mood": { "enum": ["glad", "sad", "tired"] },
                    },
                    "required": ["name", "age", "mood"],
                    "additionalProperties": false,
                });
                let named = json!({ "name": "person", "strict": true, "schema": schema });
                vec![json!({ "response_format": { "type": "json_schema", "json_schema": named } })]
            }
            Kind::Regex => vec![
                json!({ "response_format": { "type": "regex", "regex": DATE } }),
                json!({ "response_format": { "type": "regex", "pattern": DATE } }),
                json!({ "regex": DATE }),
                json!({ "structured_outputs": { "regex": DATE } }),
                json!({ "guided_regex": DATE }),
                json!({ "grammar": "root ::= [0-9]{4} \"-\" [0-9]{2} \"-\" [0-9]{2}" }),
            ],
            _ => vec![json!({})],
        }
    }

    /// Whether an answer shows that the spelling was understood.
    pub fn is_kept(self, text: &str) -> bool {
        let written = text.split('\n').next().unwrap_or_default();
        match self {
            Kind::Regex => {
                let form: String =
                    written.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
                form == "0000-00-00"
            }
            Kind::Schema => written.trim_start().starts_with('{'),
            _ => true,
        }
    }

    /// The request of a number, without what is special about its kind.
    pub fn body(self, number: usize, seed: u64, model: &str, tokens: usize) -> Value {
        let mut random = part(seed, number as u64 + 1);
        let own = some_words(8 + random.below(24) as usize, &mut random);
        let shared = || some_words(90, &mut part(seed, 0));
        let mut body = json!({ "model": model, "max_tokens": tokens });
        match self.is_sampled() {
            true => {
                body["temperature"] = json!(0.9);
                body["seed"] = json!(random.next_u64() >> 33);
            }
            false => body["temperature"] = json!(0),
        }
        match (self.is_chat(), self.shares()) {
            (false, false) => body["prompt"] = json!(own),
            (false, true) => body["prompt"] = json!(format!("{} {own}", shared())),
            (true, shares) => {
                let question = match self {
                    Kind::Tools => format!("How is the weather in {own} for the next three days?"),
                    Kind::Schema => format!("Describe a person who says: {own}"),
                    Kind::Regex => format!("On which day was this written: {own}?"),
                    _ => format!("Go on: {own}"),
                };
                let mut messages = vec![json!({ "role": "user", "content": question })];
                if shares {
                    messages.insert(0, json!({ "role": "system", "content": shared() }));
                }
                body["messages"] = json!(messages);
            }
        }
        body
    }
}

/// Adds fields to a body.
pub fn with(mut body: Value, fields: &Value) -> Value {
    if let (Value::Object(body), Value::Object(fields)) = (&mut body, fields) {
        body.extend(fields.clone());
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_what_their_names_say() {
        for kind in KINDS {
            let (a, b) = (kind.body(0, 1, "m", 5), kind.body(1, 1, "m", 5));
            let name = kind.name();
            assert_ne!(a, b, "{name}");
            assert_eq!(a["seed"].is_number(), name.contains("sampled"), "{name}");
            assert_eq!(a["temperature"] == json!(0), !name.contains("sampled"), "{name}");
            assert_eq!(a["messages"].is_array(), name.starts_with("chat"), "{name}");
            let text = |body: &Value| {
                let first = body["messages"][0]["content"].as_str().or(body["prompt"].as_str());
                first.unwrap().chars().take(300).collect::<String>()
            };
            assert_eq!(text(&a) == text(&b), name.contains("shared"), "{name}");
            assert_eq!(kind.spellings(0)[0] == json!({}), !name.contains("with"), "{name}");
        }
    }

    #[test]
    fn an_ignored_regex_is_noticed() {
        assert!(Kind::Regex.is_kept("2024-12-31\n[stop]"));
        for wrong in ["On 2024-12-31", "2024-12-3\n[length]", "", "{}"] {
            assert!(!Kind::Regex.is_kept(wrong), "{wrong}");
        }
        assert!(Kind::Schema.is_kept("{\"name\"\n[length]") && !Kind::Schema.is_kept("Name: Tim\n[stop]"));
    }
}
