//! What one request may ask for at most, so that no request is a problem for the others.

use std::time::Duration;

/// Bounds of requests and connections.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body: usize,
    /// Messages of a conversation, and prompts or texts of one request.
    pub messages: usize,
    /// Tools that a request offers.
    pub tools: usize,
    /// Bytes of a schema, a regular expression or a grammar, and of all tools together.
    pub schema: usize,
    /// Answers to one prompt.
    pub choices: usize,
    /// Stop strings.
    pub stops: usize,
    /// Bytes of one stop string.
    pub stop: usize,
    /// Entries of `logit_bias`.
    pub biases: usize,
    /// The most probable tokens that are told beside each token.
    pub top_logprobs: usize,
    /// Open connections.
    pub connections: usize,
    /// How long the head of a request may take to come.
    pub head_time: Duration,
    /// How long its body may take.
    pub body_time: Duration,
    /// How long a reader may leave what is sent to it unread.
    pub write_time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body: 16 << 20,
            messages: 4096,
            tools: 128,
            schema: 256 << 10,
            choices: 16,
            stops: 16,
            stop: 1024,
            biases: 1024,
            top_logprobs: 20,
            connections: 1024,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(60),
            write_time: Duration::from_secs(120),
        }
    }
}
