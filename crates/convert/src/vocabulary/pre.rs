//! Which rule cuts a text into words before merging: told by the expressions in `tokenizer.json`, named as
//! `tokenizer.ggml.pre` names it. Many families share a rule; the name is that of the best known one.

use serde_json::Value;

use super::hugging_face::{TokenizerJson, kind, steps};
use gleed_gguf::shown;

use crate::error::{Result, malformed};

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const CL100K: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DIGITS: &str = r"\p{N}";
const ASIAN: &str = "[一-龥ࠀ-一가-\u{d7ff}]+";

/// Each list of expressions and the name of its rule.
const RULES: &[(&[&str], &str)] = &[
    (&[GPT2], "gpt-2"),
    (&[CL100K], "dbrx"),
    (
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        "qwen2",
    ),
    (
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        "qwen35",
    ),
    (
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        "seed-coder",
    ),
    (
        &[
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        ],
        "bailingmoe",
    ),
    (
        &[
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        "gpt-4o",
    ),
    (
        &[
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        "tekken",
    ),
    (
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
        ],
        "exaone-moe",
    ),
    (&[DIGITS, GPT2], "smollm"),
    (&[r"\p{P}+", GPT2, DIGITS, "[0-9][0-9][0-9]"], "falcon"),
    (&[r"\p{P}+", GPT2, "[0-9][0-9][0-9]"], "falcon"),
    (&[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", ASIAN, DIGITS], "deepseek-coder"),
    (
        &[
            r"\p{N}{1,3}",
            "[一-龥\u{3040}-ゟ゠-ヿ]+",
            r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
        ],
        "deepseek-v3",
    ),
    (&[r" ?[^(\s|[.,!?…。，、।۔،])]+"], "bloom"),
];

/// The name of a tokenizer's rule.
pub fn name(json: &TokenizerJson, ignore_merges: bool, adds_bos: bool) -> Result<&'static str> {
    let mut expressions = Vec::new();
    for step in steps(&json.pre_tokenizer, "pretokenizers") {
        expressions.extend(expression(step).map_err(|what| malformed(&json.file, what))?);
    }
    let found = RULES.iter().find(|(known, _)| known[..] == expressions[..]);
    let Some(&(_, name)) = found else {
        let what =
            format!("words are cut by a rule that is not known: {}", shown(&expressions.join(" then ")));
        return Err(malformed(&json.file, what));
    };
    // The same words, but some take a word that is a token whole, and begin texts with BOS unless told otherwise.
    Ok(match (name, ignore_merges, adds_bos) {
        ("dbrx", true, true) => "llama-bpe",
        ("dbrx", true, false) => "glm4",
        ("gpt-4o", true, _) => "granite-embed-multi-97m",
        _ => name,
    })
}

/// The expression that a step cuts by, if it cuts.
fn expression(step: &Value) -> std::result::Result<Option<String>, String> {
    let flag = |key: &str, default: bool| step.get(key).and_then(Value::as_bool).unwrap_or(default);
    match kind(step) {
        "ByteLevel" if flag("add_prefix_space", true) => {
            Err("a space is put in front of a text, which BPE cannot do here".into())
        }
        "ByteLevel" => Ok(flag("use_regex", true).then(|| GPT2.to_string())),
        "Digits" if flag("individual_digits", false) => Ok(Some(DIGITS.to_string())),
        "Digits" => Ok(Some(r"\p{N}+".to_string())),
        "Punctuation" => Ok(Some(r"\p{P}+".to_string())),
        "Split" => {
            let pattern = step.get("pattern");
            let pattern = pattern.and_then(|pattern| pattern.get("Regex").or_else(|| pattern.get("String")));
            let pattern =
                pattern.and_then(Value::as_str).ok_or("a step of its pre_tokenizer has no pattern")?;
            // Some have line breaks themselves in place of their names.
            Ok(Some(pattern.replace('\r', r"\r").replace('\n', r"\n")))
        }
        other => Err(format!("words are cut by {}, which is not known", shown(other))),
    }
}
