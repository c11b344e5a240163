//! Grammars in llama.cpp's notation (GBNF), in Lark's.
//!
//! GBNF speaks of characters, the compiler of terminals that it cuts greedily from the text. Every rule that does not
//! lead to itself is therefore written as one terminal, which is matched exactly; only what is recursive becomes rules
//! over them.

mod parse;
mod write;

use crate::{Error, Result, limits};

/// One part of a rule.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Text(String),
    /// A class of characters as a regular expression.
    Class(String),
    /// A control token as Lark writes it.
    Token(String),
    /// A rule, by its number.
    Rule(usize),
    Group(Alternatives),
    /// How often at least and at most.
    Repeat(Box<Item>, u32, Option<u32>),
}

/// Sequences of which one is taken.
type Alternatives = Vec<Vec<Item>>;

/// A grammar in Lark's notation that allows the texts of one in GBNF.
pub fn to_lark(text: &str) -> Result<String> {
    limits::check("bytes of a grammar", text.len(), limits::GRAMMAR_BYTES)?;
    let refused = |what: String| Error::Refused { kind: "GBNF grammar", what };
    let rules = parse::rules(text).map_err(refused)?;
    write::lark(&rules).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_become_terminals_unless_they_lead_to_themselves() {
        let lark = to_lark(
            "# comment\nroot ::= value # behind\nvalue ::= \"[\" ws (value (\",\" ws value)*)? \"]\" |\n  number\nws ::= [ \\t\\n]*\nnumber ::= \"-\"? [0-9]{1,3} .\n",
        );
        let expected = "start: r1\n\
            r1: \"[\" T2? (r1 (\",\" T2? r1)*)? \"]\" | T3\n\
            T2: (/[\\x{20}\\x{9}\\x{A}]/)* & /(?s:.+)/\n\
            T3: (\"-\")? (/[0-9]/){1,3} /(?s:.)/\n";
        assert_eq!(lark.unwrap(), expected);
    }

    #[test]
    fn escapes_and_classes() {
        let lark = to_lark("root ::= \"\\x41\\u00e9\\U0001F432\\\"\\n\" [^\\]a-c\\\\-] [\\[-]").unwrap();
        assert_eq!(lark, "start: T0\nT0: \"Aé🐲\\\"\\n\" /[^\\x{5D}a-c\\x{5C}\\x{2D}]/ /[\\x{5B}\\x{2D}]/\n");
        assert_eq!(to_lark("root ::= <[5]> <|end|> \"\"").unwrap(), "start: <[5]> <|end|> \"\"\n");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, what) in [
            ("", "root"),
            ("other ::= \"a\"", "root"),
            ("root ::= missing", "missing"),
            ("root ::= \"a", "line 1"),
            ("root ::= (\"a\"", "line 1"),
            ("root ::= \"a\")", "line 1"),
            ("root ::= [a", "line 1"),
            ("root ::= [b-a]", "line 1"),
            ("\n\nroot = \"a\"", "line 3"),
            ("root ::= *", "line 1"),
            ("root ::= \"a\"{3,2}", "line 1"),
            ("root ::= \"a\"{99999}", "line 1"),
            ("root ::= \"a\"\nroot ::= \"b\"", "line 2"),
            ("root ::= !<[5]>", "line 1"),
            ("root ::= \"\\q\"", "line 1"),
        ] {
            let error = to_lark(text).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("GBNF"), "{text:?}: {error}");
        }
        let deep = format!("root ::= {}\"a\"{}", "(".repeat(20_000), ")".repeat(20_000));
        assert!(to_lark(&deep).unwrap_err().to_string().contains("nested"));
    }
}
