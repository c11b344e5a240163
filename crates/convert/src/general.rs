//! The keys under `general.`: what a model is called, how large it is, how its answers are sampled.

use std::path::Path;

use gleed_gguf::{Metadata, Value};
use serde_json::{Map, Value as Json};

use crate::error::Result;
use crate::json;
use crate::tensors::Planned;

/// Sampling defaults in `generation_config.json` and what they are called in files.
const SAMPLING: [(&str, &str); 3] = [
    ("top_p", "general.sampling.top_p"),
    ("min_p", "general.sampling.min_p"),
    ("temperature", "general.sampling.temp"),
];

/// Sets the keys.
pub fn set(metadata: &mut Metadata, folder: &Path, tensors: &[Planned]) -> Result<()> {
    if let Some(config) = json::read_if_there::<Map<String, Json>>(&folder.join("generation_config.json"))? {
        if let Some(count) =
            config.get("top_k").and_then(Json::as_i64).and_then(|count| i32::try_from(count).ok())
        {
            metadata.set("general.sampling.top_k", Value::I32(count));
        }
        for (from, to) in SAMPLING {
            if let Some(number) = config.get(from).and_then(Json::as_f64) {
                metadata.set(to, Value::F32(number as f32));
            }
        }
    }
    let name =
        folder.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    if let Some(name) = name {
        metadata.set("general.name", Value::Str(title(&name)));
    }
    metadata.set("general.size_label", Value::Str(size_label(tensors)));
    Ok(())
}

/// A folder's name as a title: words with capitals, versions as they are.
fn title(name: &str) -> String {
    let is_version = |word: &str| {
        let rest = word.strip_prefix('v').unwrap_or(word);
        rest.starts_with(|c: char| c.is_ascii_digit())
    };
    let word = |word: &str| {
        let is_lower = word.chars().any(char::is_lowercase) && !word.chars().any(char::is_uppercase);
        if !is_lower || is_version(word) {
            return word.to_string();
        }
        // A letter after another character than a letter begins a word of its own.
        let mut after_letter = false;
        let capital = |c: char| {
            let first = c.is_alphabetic() && !std::mem::replace(&mut after_letter, c.is_alphabetic());
            if first { c.to_uppercase().collect::<String>() } else { c.to_string() }
        };
        word.chars().map(capital).collect()
    };
    name.replace('-', " ").split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// How many values the model has, such as `8.0B`, or `8x7B` for experts: their number, and the size with one.
fn size_label(tensors: &[Planned]) -> String {
    let (mut shared, mut in_expert, mut experts, mut with_experts) = (0u128, 0u128, 0, 0);
    for Planned { spec, .. } in tensors {
        let values: u128 = spec.shape.iter().map(|&length| length as u128).product();
        match spec.shape[..] {
            [_, _, count] if spec.name.contains("_exps.") => {
                in_expert += values / count as u128;
                experts += count;
                with_experts += 1;
            }
            _ => shared += values,
        }
    }
    let rounded = rounded((shared + in_expert) as f64);
    match experts.checked_div(with_experts) {
        Some(experts) => format!("{experts}x{rounded}"),
        None => rounded,
    }
}

fn rounded(count: f64) -> String {
    let (number, unit) = match count {
        _ if count > 1e12 => (count * 1e-12, 'T'),
        _ if count > 1e9 => (count * 1e-9, 'B'),
        _ if count > 1e6 => (count * 1e-6, 'M'),
        _ => (count * 1e-3, 'K'),
    };
    // Two digits at least. Halves go to the even neighbour, as in llama.cpp's labels.
    let whole = number.round_ties_even();
    let digits = if whole == 0.0 { 0 } else { whole.to_string().len() };
    format!("{number:.*}{unit}", 2usize.saturating_sub(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_digits_at_least() {
        let labels = [
            (8.03e9, "8.0B"),
            (1.24e9, "1.2B"),
            (135e6, "135M"),
            (14.7e9, "15B"),
            (41_152.0, "41K"),
            (4e5, "400K"),
        ];
        for (count, label) in labels {
            assert_eq!(rounded(count), label);
        }
    }

    #[test]
    fn names_become_titles() {
        assert_eq!(title("my-model-v1.5-8b-Instruct"), "My Model v1.5 8b Instruct");
        assert_eq!(title("qwen2.5 coder"), "Qwen2.5 Coder");
    }
}
