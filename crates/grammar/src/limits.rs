//! How large a grammar may be. Requests bring grammars, so everything that costs time or memory has an end.

use llguidance::api::ParserLimits;

use crate::{Error, Result};

/// Bytes of a JSON schema: names, texts and a few for every value.
pub const SCHEMA_BYTES: usize = 512 << 10;
/// How deep a JSON schema may be nested.
pub const SCHEMA_DEPTH: usize = 100;
/// Schemas in a schema, with those that references lead to.
pub const SCHEMA_NODES: usize = 20_000;
/// Values of one `enum`.
pub const ENUM_VALUES: usize = 5_000;
/// Schemas in one `allOf`, `anyOf` or `oneOf`.
pub const ALTERNATIVES: usize = 500;
/// Patterns in one `patternProperties`: each is compared with each.
pub const PATTERNS: usize = 24;
/// The least items, characters or properties that a schema may ask for: more cannot be written anyway.
pub const LEAST: u64 = 20_000;
/// Properties of one object that have names.
pub const PROPERTIES: usize = 500;
/// Schemas that references in `oneOf` lead to and that are therefore written out again.
pub const INLINED: usize = 2_000;
/// Bytes of a regular expression, alone or in a schema.
pub const REGEX_BYTES: usize = 8 << 10;
/// The largest count in a regular expression's repetition.
pub const REGEX_COUNT: u64 = 10_000;
/// Bytes of a grammar in Lark's or llama.cpp's notation.
pub const GRAMMAR_BYTES: usize = 128 << 10;
/// How deep brackets may be nested in such a grammar.
pub const GRAMMAR_DEPTH: usize = 100;
/// Terminals in such a grammar: those that refer to one another cost their number's third power.
pub const TERMINALS: usize = 400;
/// Repetitions (`?`, `*`, `+`, `{`) in one regular expression or grammar.
pub const QUANTIFIERS: usize = 1_500;
/// Stack of the thread that compiles, in bytes: rules that refer to rules are followed by recursion.
pub const STACK: usize = 256 << 20;

/// What compiling, and one step of matching, may cost.
pub fn of_parser() -> ParserLimits {
    ParserLimits {
        // Four for every property that may come next.
        max_items_in_row: 4_000,
        // About 20 ms.
        initial_lexer_fuel: 1_000_000,
        // About 14 ms for a mask.
        step_lexer_fuel: 200_000,
        step_max_items: 100_000,
        // At one or two kB each.
        max_lexer_states: 50_000,
        max_grammar_size: 300_000,
        precompute_large_lexemes: true,
        verbose_errors: false,
    }
}

/// Refuses what is larger than it may be.
pub fn check(what: &'static str, found: usize, most: usize) -> Result<()> {
    if found <= most { Ok(()) } else { Err(Error::TooLarge { what, found, most }) }
}
