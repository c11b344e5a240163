//! The table from `tokenizer.ggml.pre` to a rule. Converters give each model family a name of its own, so
//! many names share one rule.

use super::ranges::{is_asian, is_cased_letter, is_chinese_or_japanese, is_east_asian, is_sign};
use super::words::{Tail, Words};
use super::{Cased, Runs, Stage};
use crate::unicode::{Class, class};

/// What a pre-tokeniser's name implies.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    /// The cuts, in order.
    pub stages: &'static [Stage],
    /// Whether a word that is a token is taken whole, without asking the merges.
    pub ignore_merges: bool,
    /// Whether the family puts its BOS token first when the file does not say.
    pub adds_bos: bool,
}

const fn plain(stages: &'static [Stage]) -> Rule {
    Rule { stages, ignore_merges: false, adds_bos: false }
}

/// The rule of a name, or `None` when the name is unknown.
pub(crate) fn rule(name: &str) -> Option<Rule> {
    RULES.iter().find(|(_, names)| names.contains(&name)).map(|(rule, _)| *rule)
}

/// All names that have a rule, in one line.
pub(crate) fn known() -> String {
    let names: Vec<&str> = RULES.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    names.join(", ")
}

const CL100K: Words =
    Words { contractions: true, digits: 3, marks: false, phrases: false, tail: Tail::Lines };
const QWEN2: Words = Words { digits: 1, ..CL100K };
const O200K: Cased = Cased { contractions: true, digits: 3, tail: Tail::LinesAndSlashes, han_apart: false };

static DEFAULT: [Stage; 4] = [
    Stage::Runs(Runs::of(|c| class(c).is(Class::PUNCTUATION) || "$+<=>^~|".contains(c))),
    Stage::Gpt2,
    Stage::Runs(Runs::of(is_number)),
    THREE_DIGITS,
];
static FALCON: [Stage; 3] = [
    Stage::Runs(Runs::of(|c| class(c).is(Class::PUNCTUATION) || "$+<=>^~|`".contains(c))),
    Stage::Gpt2,
    THREE_DIGITS,
];
const THREE_DIGITS: Stage = Stage::Runs(Runs { least: 3, ..Runs::up_to(3, |c| c.is_ascii_digit()) });
const SINGLE_NUMBERS: Stage = Stage::Runs(Runs::up_to(1, is_number));
static SMOLLM: [Stage; 2] = [SINGLE_NUMBERS, Stage::Gpt2];
static MINICPM5: [Stage; 2] =
    [Stage::Runs(Runs::up_to(3, is_number)), Stage::Words(Words { digits: usize::MAX, ..CL100K })];
static LAGUNA: [Stage; 2] = [Stage::Runs(Runs::of(|c| c == '\n')), Stage::Words(QWEN2)];
static DEEPSEEK_LLM: [Stage; 6] = [
    SINGLE_LINES,
    Stage::Runs(Runs::after(char::is_whitespace, is_cased_letter)),
    Stage::Runs(Runs::after(char::is_whitespace, is_sign)),
    Stage::TrailingSpace,
    Stage::Runs(Runs::of(is_asian)),
    Stage::Runs(Runs::of(is_number)),
];
static DEEPSEEK_CODER: [Stage; 5] = [
    SINGLE_LINES,
    Stage::Runs(Runs::after(char::is_whitespace, |c| class(c).is(Class::LETTER))),
    Stage::Runs(Runs::after(char::is_whitespace, |c| class(c).is(Class::PUNCTUATION))),
    Stage::Runs(Runs::of(is_asian)),
    SINGLE_NUMBERS,
];
static DEEPSEEK_V3: [Stage; 3] =
    [Stage::Runs(Runs::up_to(3, is_number)), Stage::Runs(Runs::of(is_chinese_or_japanese)), Stage::Marked];
static TRINITY: [Stage; 3] = [Stage::Threes, Stage::Runs(Runs::of(is_east_asian)), Stage::Marked];
const SINGLE_LINES: Stage = Stage::Runs(Runs::up_to(1, |c| matches!(c, '\r' | '\n')));
const CLAUSES: Stage = Stage::Runs(Runs::after(
    |c| c == ' ',
    |c| {
        !c.is_whitespace()
            && !matches!(
                c,
                '(' | '|' | '.' | ',' | '!' | '?' | '…' | '。' | '，' | '、' | '।' | '۔' | '،' | ')'
            )
    },
));
static BLOOM: [Stage; 1] = [CLAUSES];
static VIKING: [Stage; 2] = [CLAUSES, SINGLE_NUMBERS];

fn is_number(c: char) -> bool {
    class(c).is(Class::NUMBER)
}

/// Each rule with the names that mean it.
pub(super) static RULES: [(Rule, &[&str]); 24] = [
    (plain(&DEFAULT), &["default"]),
    (
        plain(&[Stage::Gpt2]),
        &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
            "jina-es",
            "jina-de",
            "jina-v1-en",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v2-code",
            "roberta-bpe",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
        ],
    ),
    (
        Rule { ignore_merges: true, adds_bos: true, ..plain(&[Stage::Words(CL100K)]) },
        &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
    ),
    (plain(&[Stage::Words(CL100K)]), &["dbrx", "smaug-bpe", "chatglm-bpe"]),
    (Rule { ignore_merges: true, ..plain(&[Stage::Words(CL100K)]) }, &["glm4", "glm5"]),
    (
        plain(&[Stage::Words(QWEN2)]),
        &[
            "qwen2",
            "deepseek-r1-qwen",
            "stablelm2",
            "hunyuan",
            "megrez",
            "kormo",
            "f2llmv2",
            "solar-open",
            "grok-2",
            "bailingmoe",
            "bailingmoe2",
            "llada-moe",
        ],
    ),
    (plain(&[Stage::Words(Words { marks: true, ..QWEN2 })]), &["qwen35"]),
    (plain(&[Stage::Words(Words { tail: Tail::None, ..QWEN2 })]), &["seed-coder"]),
    (plain(&[Stage::Words(Words { contractions: false, ..QWEN2 })]), &["ufakzeka"]),
    (Rule { ignore_merges: true, ..plain(&MINICPM5) }, &["minicpm5"]),
    (
        plain(&SMOLLM),
        &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
    ),
    (plain(&LAGUNA), &["laguna"]),
    (plain(&FALCON), &["falcon"]),
    (plain(&DEEPSEEK_LLM), &["deepseek-llm"]),
    (plain(&DEEPSEEK_CODER), &["deepseek-coder"]),
    (plain(&DEEPSEEK_V3), &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"]),
    (plain(&[Stage::Cased(O200K)]), &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"]),
    (Rule { ignore_merges: true, ..plain(&[Stage::Cased(O200K)]) }, &["granite-embed-multi-97m"]),
    (
        Rule {
            ignore_merges: true,
            adds_bos: true,
            ..plain(&[Stage::Cased(Cased { contractions: false, digits: 1, ..O200K })])
        },
        &["tekken"],
    ),
    (plain(&[Stage::Cased(Cased { tail: Tail::Lines, han_apart: true, ..O200K })]), &["kimi-k2"]),
    (plain(&[Stage::Words(Words { phrases: true, tail: Tail::OneLineOrSlash, ..QWEN2 })]), &["exaone-moe"]),
    (plain(&TRINITY), &["afmoe"]),
    (plain(&BLOOM), &["bloom", "poro-chat", "gpt3-finnish"]),
    (plain(&VIKING), &["viking"]),
];
