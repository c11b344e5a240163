//! The hand-written matchers against the regular expressions that they stand for, run by a regex engine.

use super::{rule, split};
use fancy_regex::Regex;
use proptest::prelude::*;

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const CL100K: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const BAILING: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const MARKED: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const KIMI: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const EXAONE: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+";
const TRINITY: &str = "[一-\u{9fff}㐀-\u{4dbf}\u{8c48}-\u{faff}\u{3040}-ゟ゠-ヿ\u{ff65}-\u{ff9f}\u{2f00}-\u{2fdf}\u{e40}-\u{e7f}\u{e80}-\u{eff}\u{1780}-\u{17ff}\u{1000}-\u{109f}\u{aa60}-\u{aa7f}\u{a9e0}-\u{a9ff}가-\u{d7af}\u{1100}-\u{11ff}]+";

/// Names and the expressions of their stages.
const CASES: &[(&str, &[&str])] = &[
    ("default", &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
    ("gpt-2", &[GPT2]),
    ("llama-bpe", &[CL100K]),
    ("qwen2", &[QWEN2]),
    ("bailingmoe", &[BAILING]),
    ("qwen35", &[QWEN35]),
    ("seed-coder", &[SEED]),
    ("laguna", &[r"[^\n]+|[\n]+", QWEN2]),
    ("minicpm5", &[r"\p{N}{1,3}", CL100K]),
    ("smollm", &[r"\p{N}", GPT2]),
    ("falcon", &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"]),
    ("deepseek-coder", &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\u{d7ff}]+", r"\p{N}"]),
    ("deepseek-v3", &[r"\p{N}{1,3}", "[一-龥\u{3040}-ゟ゠-ヿ]+", MARKED]),
    ("gpt-4o", &[GPT4O]),
    ("tekken", &[TEKKEN]),
    ("kimi-k2", &[KIMI]),
    ("exaone-moe", &[EXAONE]),
    ("afmoe", &[r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", TRINITY, MARKED]),
    ("bloom", &[r" ?[^(\s|.,!?…。，、।۔،)]+"]),
    ("viking", &[r" ?[^(\s|.,!?…。，、।۔،)]+", r"\p{N}"]),
];

fn by_regex<'t>(expressions: &[Regex], text: &'t str) -> Vec<&'t str> {
    let mut pieces = vec![text];
    for expression in expressions {
        let mut cut = Vec::new();
        for piece in pieces {
            let mut from = 0;
            for found in expression.find_iter(piece) {
                let found = found.expect("the expression runs");
                cut.push(&piece[from..found.start()]);
                cut.push(found.as_str());
                from = found.end();
            }
            cut.push(&piece[from..]);
        }
        cut.retain(|piece| !piece.is_empty());
        pieces = cut;
    }
    pieces
}

/// Characters that tell the rules apart: every class, both cases, every kind of line break and space.
const TELLING: &[&str] = &[
    "a",
    "b",
    "s",
    "t",
    "re",
    "LL",
    "A",
    "Z",
    "ß",
    "É",
    "ǅ",
    "ʰ",
    "中",
    "文",
    "あ",
    "ア",
    "한",
    "々",
    "〇",
    "⺀",
    "豈",
    "เ",
    "က",
    "ｱ",
    "א",
    "ا",
    "क",
    "ि",
    "é",
    "\u{301}",
    "\u{20dd}",
    "0",
    "1",
    "23",
    "4567890",
    "٣",
    "Ⅷ",
    "½",
    "'",
    "'s",
    "'ſ",
    "'Ll",
    "\"",
    ".",
    ",",
    "!",
    "/",
    "(",
    "_",
    "-",
    "$",
    "+",
    "`",
    "^",
    "€",
    "。",
    "、",
    "…",
    "“",
    " ",
    " ",
    "  ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\u{a0}",
    "\u{3000}",
    "\u{85}",
    "\u{0}",
    "\u{7f}",
    "\u{200d}",
    "\u{feff}",
    "😀",
    "👩‍💻",
    "\u{e000}",
    "\u{10ffff}",
    "x'd",
    "don't",
];

fn telling_text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(TELLING), 0..40).prop_map(|parts| parts.concat())
}

#[test]
fn every_rule_cuts_as_its_expressions_do() {
    for (name, expressions) in CASES {
        let stages = rule(name).expect("a known name").stages;
        let compiled: Vec<Regex> =
            expressions.iter().map(|e| Regex::new(e).expect("a valid expression")).collect();
        // A runner counts its cases over all its runs: each rule needs its own.
        let config = ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() };
        proptest::test_runner::TestRunner::new(config)
            .run(&telling_text(), |text| {
                let mut pieces = Vec::new();
                split(stages, &text, &mut |piece| pieces.push(piece));
                prop_assert_eq!(pieces, by_regex(&compiled, &text), "{}", name);
                Ok(())
            })
            .unwrap_or_else(|failure| panic!("{name}: {failure}"));
    }
}

proptest! {
    #[test]
    fn pieces_join_to_the_text(text in any::<String>()) {
        for (_, names) in super::names::RULES.iter() {
            let mut joined = String::new();
            split(rule(names[0]).expect("a known name").stages, &text, &mut |piece| {
                assert!(!piece.is_empty());
                joined.push_str(piece);
            });
            prop_assert_eq!(&joined, &text);
        }
    }
}

#[test]
fn ranges_are_the_sets_of_their_expressions() {
    let all: String = ('\0'..=char::MAX).collect();
    let check = |expression: &str, ours: fn(char) -> bool| {
        let expression = Regex::new(expression).expect("a valid expression");
        let theirs: String = expression.find_iter(&all).map(|found| found.unwrap().as_str()).collect();
        let ours: String = all.chars().filter(|&c| ours(c)).collect();
        let lacking = |a: &str, b: &str| a.chars().find(|c| !b.contains(*c));
        assert!(theirs == ours, "{expression}: {:?} {:?}", lacking(&theirs, &ours), lacking(&ours, &theirs));
    };
    check(r"\p{Han}", super::ranges::is_han);
    check(TRINITY, super::ranges::is_east_asian);
}
