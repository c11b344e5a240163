//! Tokens with a role, and which of them are put around a text.

use std::collections::BTreeMap;

use gleed_gguf::{Metadata, Value};
use serde_json::Value as Json;

use super::hugging_face::{TokenizerConfig, TokenizerJson, kind, steps};
use super::tiktoken::Tiktoken;
use crate::config::Config;
use crate::error::Result;
use crate::families::Vocabulary;

/// Roles in checkpoints and what they are called in files. One misspelling is the format's.
const ROLES: [(&str, &str); 9] = [
    ("bos", "bos"),
    ("eos", "eos"),
    ("unk", "unknown"),
    ("sep", "seperator"),
    ("pad", "padding"),
    ("cls", "cls"),
    ("mask", "mask"),
    ("eot", "eot"),
    ("eom", "eom"),
];

/// Roles that every configuration may fill; the others only where something asks for them.
const COMMON: usize = 7;

/// Tokens with a role.
pub struct Special {
    /// Numbers by role.
    numbers: BTreeMap<&'static str, u64>,
    /// Which are put around a text.
    added: BTreeMap<&'static str, bool>,
}

impl Special {
    /// Reads what the files say, and what the family knows.
    pub fn read(
        json: Option<&TokenizerJson>,
        settings: &TokenizerConfig,
        config: &Config,
        family: &Vocabulary,
    ) -> Result<Special> {
        let mut special = Special { numbers: BTreeMap::new(), added: BTreeMap::new() };
        // The texts of roles; a text's frame may change them.
        let mut texts: BTreeMap<&str, String> =
            ROLES.iter().filter_map(|&(role, _)| Some((role, settings.token(role)?.to_string()))).collect();
        if let Some(json) = json {
            special.read_frame(json, settings, &mut texts);
        }
        let number = |text: &str| json.and_then(|json| json.added.iter().find(|added| added.content == text));
        for (role, _) in &ROLES[..COMMON] {
            if let Some(adds) = settings.others.get(&format!("add_{role}_token")).and_then(Json::as_bool) {
                special.added.insert(role, adds);
            }
        }
        if settings.is_there {
            for (role, text) in &texts {
                if let Some(added) = number(text) {
                    let (role, _) = ROLES[ROLES.iter().position(|(known, _)| known == role).unwrap_or(0)];
                    special.numbers.entry(role).or_insert(added.id);
                }
            }
        }
        for (role, _) in &ROLES[..COMMON] {
            // Some have a list of tokens that end a text: then the tokenizer's says which.
            if let Some(number) = config.value(&[&format!("{role}_token_id")]).and_then(Json::as_u64) {
                special.numbers.entry(role).or_insert(number);
            }
        }
        let ends = config.value(&["eos_token_id"]).and_then(Json::as_array).filter(|_| family.lists_ends);
        let begins = config.value(&["bos_token_id"]);
        let other = ends.into_iter().flatten().find(|&number| Some(number) != begins);
        if let Some(number) = other.and_then(Json::as_u64) {
            special.numbers.insert("eot", number);
        }
        for (role, text) in family.roles {
            if let Some(added) = number(text) {
                special.numbers.entry(role).or_insert(added.id);
            }
        }
        for &(role, number) in family.numbers {
            special.numbers.insert(role, u64::from(number));
        }
        for &(role, key) in family.keys {
            if let Some(number) = config.size(&[key])? {
                special.numbers.insert(role, u64::from(number));
            }
        }
        for &(role, adds) in family.usually_adds {
            special.added.entry(role).or_insert(adds);
        }
        special.added.extend(family.adds.iter().copied());
        Ok(special)
    }

    /// What files of ranks bring: configurations of models with such files may have a wrong number for the end of a text,
    /// or for a role that the family has by its text.
    pub fn read_ranked(&mut self, tiktoken: &Tiktoken, settings: &TokenizerConfig, family: &Vocabulary) {
        let end = tiktoken.end(settings).map(|text| ("eos", text));
        for (role, text) in end.into_iter().chain(family.roles.iter().copied()) {
            if let Some(number) = tiktoken.number(text) {
                self.numbers.insert(role, number);
            }
        }
    }

    /// What the post-processor puts around a text.
    fn read_frame(
        &mut self,
        json: &TokenizerJson,
        settings: &TokenizerConfig,
        texts: &mut BTreeMap<&str, String>,
    ) {
        for (role, stand_in) in [("bos", "cls"), ("eos", "sep")] {
            if !texts.contains_key(role)
                && let Some(text) = texts.get(stand_in).cloned()
            {
                texts.insert(role, text);
            }
        }
        for processor in steps(&json.post_processor, "processors") {
            match kind(processor) {
                "RobertaProcessing" => {
                    self.added.extend([("bos", true), ("eos", true), ("sep", true)]);
                }
                "TemplateProcessing" => {
                    let Some(single) = processor.get("single").and_then(Json::as_array) else { continue };
                    let token = |part: Option<&Json>| {
                        Some(part?.get("SpecialToken")?.get("id")?.as_str()?.to_string())
                    };
                    if single.len() < 2 {
                        continue;
                    }
                    if let Some(first) = token(single.first()) {
                        let known = [texts.get("bos"), texts.get("cls")].contains(&Some(&first));
                        if !known && settings.is_there && !texts.contains_key("bos") {
                            texts.insert("bos", first.clone());
                        }
                        let known = [texts.get("bos"), texts.get("cls")].contains(&Some(&first));
                        self.added.insert("bos", known || !settings.is_there);
                    }
                    let last = token(single.last());
                    let pair = processor.get("pair").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
                    let between = between(pair);
                    if !between.is_empty() {
                        let separates = |text: &Option<String>| {
                            text.is_some() && [texts.get("sep"), texts.get("eos")].contains(&text.as_ref())
                        };
                        // One token after the first text may be the end that every text has.
                        let first = separates(&between[0]) && last.is_none();
                        self.added.insert("sep", first || between.len() == 2 && separates(&between[1]));
                    }
                    if let Some(last) = last {
                        if settings.is_there
                            && texts.get("eos") != Some(&last)
                            && let Some(before) = texts.insert("eos", last)
                        {
                            texts.insert("eot", before);
                        }
                        self.added.insert("eos", true);
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether texts begin with BOS.
    pub fn adds_bos(&self) -> bool {
        self.added.get("bos") == Some(&true)
    }

    /// Sets the keys, for tokens below `size`.
    pub fn set(&self, metadata: &mut Metadata, size: usize) {
        // The first token of an encoder's texts is its BOS, and has no key of its own.
        for (role, name) in ROLES.into_iter().filter(|(role, _)| *role != "cls") {
            if let Some(&number) = self.numbers.get(role)
                && number < size as u64
            {
                metadata.set(format!("tokenizer.ggml.{name}_token_id"), Value::U32(number as u32));
            }
        }
        for role in ["bos", "eos", "sep"] {
            if let Some(&adds) = self.added.get(role) {
                metadata.set(format!("tokenizer.ggml.add_{role}_token"), Value::Bool(adds));
            }
        }
    }
}

/// The tokens between the two texts of a frame for pairs.
fn between(pair: &[Json]) -> Vec<Option<String>> {
    let place = |name: &str| {
        pair.iter().position(|part| {
            part.get("Sequence").and_then(|part| part.get("id")).is_some_and(|id| id == name)
        })
    };
    let parts = match (place("A"), place("B")) {
        (Some(first), Some(second)) => pair.get(first + 1..second).unwrap_or_default(),
        _ => &[],
    };
    parts.iter().map(|part| Some(part.get("SpecialToken")?.get("id")?.as_str()?.to_string())).collect()
}
