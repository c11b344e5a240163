//! What a batcher does at the moment and has done so far, for those who watch it.

/// Numbers of a batcher at one moment. Those that say "so far" only grow.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Status {
    /// Requests that wait for room.
    pub waiting: usize,
    /// Requests whose prompts or answers are computed.
    pub running: usize,
    /// KV pages that requests and the prefix cache hold, in the page group that has the fewest left.
    pub pages_used: usize,
    /// KV pages of that group.
    pub pages_total: usize,
    /// Of the used ones, those that only the prefix cache holds: they are free when needed.
    pub pages_cached: usize,
    /// Sequences in the prefix cache.
    pub cached_sequences: usize,
    /// Rows of the last step.
    pub last_rows: usize,
    /// Steps so far; a step of a chain counts as one.
    pub steps: u64,
    /// Rows of all steps so far.
    pub rows: u64,
    /// Seconds spent in steps so far.
    pub step_seconds: f64,
    /// Tokens of the prompts of all started requests so far.
    pub prompt_tokens: u64,
    /// Of these, those that the prefix cache had.
    pub cached_tokens: u64,
    /// Tokens of answers so far.
    pub generated_tokens: u64,
    /// Requests that lost their room to others and were computed again, so far.
    pub preemptions: u64,
    /// Guessed tokens that were computed to be checked, so far.
    pub guessed_tokens: u64,
    /// Of these, those that were right.
    pub accepted_tokens: u64,
}
