//! What is measured: a prompt or tokens that are generated, of one or several sequences, at a depth.

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    kind: Kind,
    /// Tokens that each sequence computes.
    pub tokens: usize,
    /// Sequences that compute together.
    pub sequences: usize,
    /// Positions that each sequence holds already.
    pub depth: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Prompt,
    Generate,
}

impl Test {
    /// A prompt of this many tokens, of which the last wants logits.
    pub fn prompt(tokens: usize, depth: usize) -> Test {
        Test { kind: Kind::Prompt, tokens, sequences: 1, depth }
    }

    /// This many tokens of each sequence, one of each a step.
    pub fn generate(tokens: usize, sequences: usize, depth: usize) -> Test {
        Test { kind: Kind::Generate, tokens, sequences, depth }
    }

    /// The tokens of all sequences.
    pub fn all_tokens(&self) -> usize {
        self.tokens * self.sequences
    }

    /// Whether it is a prompt.
    pub fn is_prompt(&self) -> bool {
        self.kind == Kind::Prompt
    }

    /// Positions that each sequence needs.
    pub fn positions(&self) -> usize {
        self.depth + self.tokens
    }

    /// The same tokens of one sequence only.
    pub fn alone(&self) -> Test {
        Test { sequences: 1, ..self.clone() }
    }

    /// A name as llama-bench gives it: `pp512`, `tg64 @ d2048`; `tg64 x8` for eight sequences.
    pub fn name(&self) -> String {
        let kind = if self.is_prompt() { "pp" } else { "tg" };
        let sequences = if self.sequences > 1 { format!(" x{}", self.sequences) } else { String::new() };
        let depth = if self.depth > 0 { format!(" @ d{}", self.depth) } else { String::new() };
        format!("{kind}{}{sequences}{depth}", self.tokens)
    }

    /// Tokens of a sequence that one step computes, where a step takes `max_rows` rows.
    pub(crate) fn chunk(&self, max_rows: usize) -> usize {
        if self.is_prompt() { max_rows } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_peers() {
        assert_eq!(Test::prompt(512, 0).name(), "pp512");
        assert_eq!(Test::prompt(512, 2048).name(), "pp512 @ d2048");
        assert_eq!(Test::generate(64, 1, 2048).name(), "tg64 @ d2048");
        assert_eq!(Test::generate(64, 8, 0).name(), "tg64 x8");
        assert_eq!(Test::generate(64, 8, 128).name(), "tg64 x8 @ d128");
    }
}
