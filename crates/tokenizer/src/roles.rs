//! Which tokens begin and end texts and turns: from the file's keys, and from names where the keys are
//! silent.

use crate::Result;
use crate::algorithm::Algorithm;
use crate::vocabulary::Kind;
use gleed_gguf::{Metadata, Strings};

/// Names that end a turn or a text in the families that use them. No ordinary text has them.
const ENDS: [&str; 17] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<|return|>",
    "<|call|>",
    "<|end_of_turn|>",
    "<EOT>",
    "[EOT]",
    "<end_of_utterance>",
    "<turn|>",
    "<｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|>",
    // Gemma 4: the tool's turn begins.
    "<|tool_response>",
];
/// Names that end a text only where the file calls them control tokens: elsewhere they are markup.
const ENDS_IF_CONTROL: [&str; 6] = ["</s>", "<eos>", "[EOS]", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"];
/// Names that end a turn, best first.
const TURN_ENDS: [&str; 8] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<end_of_turn>",
    "<|end_of_turn|>",
    "<|end|>",
    "<|END_OF_TURN_TOKEN|>",
    "<end_of_utterance>",
    "<EOT>",
];

/// The tokens with a role, where there are such.
#[derive(Default)]
pub(crate) struct Roles {
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub eot: Option<u32>,
    pub unknown: Option<u32>,
    pub separator: Option<u32>,
    /// All that end a generation, sorted.
    pub ends: Vec<u32>,
}

impl Roles {
    /// Reads the roles; tokens whose names end a turn are made control tokens in `kinds`, with a note.
    pub(crate) fn read(
        metadata: &Metadata,
        algorithm: Algorithm,
        texts: &Strings,
        kinds: &mut [Kind],
        notes: &mut Vec<String>,
    ) -> Result<Roles> {
        let mut key = |name: &str| -> Result<Option<u32>> {
            let key = format!("tokenizer.ggml.{name}_token_id");
            let Some(id) = metadata.u64(&key)? else { return Ok(None) };
            if id >= kinds.len() as u64 {
                notes
                    .push(format!("{key} is {id}, beyond the vocabulary of {} tokens: ignored", kinds.len()));
                return Ok(None);
            }
            Ok(Some(id as u32))
        };
        let mut roles = Roles {
            bos: key("bos")?,
            eos: key("eos")?,
            eot: key("eot")?,
            unknown: key("unknown")?,
            // The misspelling is the format's.
            separator: key("seperator")?.or(key("separator")?),
            ends: Vec::new(),
        };
        let (eom, classifier) = (key("eom")?, key("cls")?);
        let present = |id: u32| (id < kinds.len() as u32).then_some(id);
        match algorithm {
            Algorithm::Bpe | Algorithm::SpacedBpe | Algorithm::Greedy => {}
            Algorithm::Spm => {
                roles.bos = roles.bos.or(present(1));
                roles.eos = roles.eos.or(present(2));
                roles.unknown = roles.unknown.or(present(0));
            }
            Algorithm::Unigram => {
                roles.eos = roles.eos.or(present(1));
                roles.unknown = roles.unknown.or(present(2));
            }
            Algorithm::WordPiece => {
                roles.bos = classifier.or(roles.bos).or(present(101));
                roles.separator = roles.separator.or(present(102));
                roles.unknown = roles.unknown.or(present(100));
            }
        }
        roles.find_ends(texts, kinds, notes);
        roles.ends.extend([roles.eos, roles.eot, eom].into_iter().flatten());
        roles.ends.sort_unstable();
        roles.ends.dedup();
        Ok(roles)
    }

    fn find_ends(&mut self, texts: &Strings, kinds: &mut [Kind], notes: &mut Vec<String>) {
        let mut found: Vec<(&str, u32)> = Vec::new();
        for (id, text) in texts.iter().enumerate() {
            // All the names start with one of two bytes: a vocabulary is passed over quickly.
            if !matches!(text, [b'<' | b'[', ..]) {
                continue;
            }
            let is_control = matches!(kinds[id], Kind::Control | Kind::UserDefined | Kind::Unknown);
            let Some(name) = ENDS
                .iter()
                .chain(ENDS_IF_CONTROL.iter().filter(|_| is_control))
                .find(|name| name.as_bytes() == text)
            else {
                continue;
            };
            found.push((name, id as u32));
            if kinds[id] == Kind::Normal {
                notes.push(format!(
                    "token {id} ({name}) is marked as ordinary text: taken as a control token"
                ));
                kinds[id] = Kind::Control;
            }
        }
        let named = |name: &str| found.iter().find(|(found, _)| *found == name).map(|&(_, id)| id);
        self.eot = self.eot.or_else(|| TURN_ENDS.iter().find_map(|name| named(name)));
        // In the harmony format <|end|> ends a message inside a turn; the turn ends with the other two.
        let harmony = named("<|return|>").is_some() && named("<|call|>").is_some();
        if harmony && self.eot == named("<|end|>") {
            self.eot = named("<|return|>");
        }
        self.ends =
            found.iter().filter(|(name, _)| !(harmony && *name == "<|end|>")).map(|&(_, id)| id).collect();
    }
}
