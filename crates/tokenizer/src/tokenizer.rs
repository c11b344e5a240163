//! The tokenizer that a GGUF file describes.

use crate::algorithm::Algorithm;
use crate::bpe::Bpe;
use crate::charsmap::{self, CharsMap};
use crate::chat::Prompt;
use crate::merges::Merges;
use crate::roles::Roles;
use crate::special::{Found, Special, SpecialTokens};
use crate::spm::{ESCAPED_SPACE, Spm};
use crate::unigram::Unigram;
use crate::vocabulary::{Kind, Vocabulary};
use crate::wordpiece::WordPiece;
use crate::{Error, Result, bytes, greedy, pretokenizer};
use gleed_gguf::{Array, Metadata, Strings};
use std::borrow::Cow;
use std::ops::Range;

/// Text to tokens and back, as one model's file describes it. It never changes and can be shared between
/// threads.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    special: SpecialTokens,
    encoder: Encoder,
    roles: Roles,
    adds_bos: bool,
    adds_eos: bool,
    notes: Vec<String>,
}

enum Encoder {
    Bpe(Box<Bpe>),
    Spm(Box<Spm>),
    WordPiece(WordPiece),
    Unigram(Box<Unigram>),
    Greedy,
}

/// Longer stretches are cut, so that places in them fit 32 bits.
const LONGEST_STRETCH: usize = 1 << 30;

impl Tokenizer {
    /// Builds the tokenizer that the `tokenizer.ggml.*` keys describe. What the file leaves open or
    /// contradicts, and what was done about it, is in [`Tokenizer::notes`].
    pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer> {
        let mut notes = Vec::new();
        let name = require(metadata.str("tokenizer.ggml.model")?, "tokenizer.ggml.model")?;
        let algorithm = Algorithm::named(name)?;
        let texts = require(metadata.strings("tokenizer.ggml.tokens")?, "tokenizer.ggml.tokens")?;
        let mut kinds = match metadata.i32s("tokenizer.ggml.token_type")? {
            Some(numbers) => numbers.iter().map(|&number| Kind::from_number(number)).collect(),
            None => vec![Kind::Normal; texts.len()],
        };
        check_length("tokenizer.ggml.token_type", kinds.len(), texts.len())?;
        let roles = Roles::read(metadata, algorithm, texts, &mut kinds, &mut notes)?;
        let vocabulary = Vocabulary::new(pieces(algorithm, texts, &kinds), kinds, algorithm.in_text())?;
        let special = SpecialTokens::new(&vocabulary, strips_right(metadata)?);
        let mut adds_bos = !matches!(algorithm, Algorithm::Bpe | Algorithm::Unigram | Algorithm::Greedy);
        let encoder = match algorithm {
            Algorithm::Bpe => {
                let rule = rule(metadata, &mut notes)?;
                adds_bos = rule.adds_bos;
                let merges = require(metadata.strings("tokenizer.ggml.merges")?, "tokenizer.ggml.merges")?;
                let bpe = Bpe::new(rule, &vocabulary, merges)?;
                Encoder::Bpe(Box::new(bpe))
            }
            Algorithm::SpacedBpe => {
                let merges = require(metadata.strings("tokenizer.ggml.merges")?, "tokenizer.ggml.merges")?;
                let mut spm = Spm::new(&vocabulary, &[], roles.unknown);
                spm.merges = Some(Merges::read(&vocabulary, merges, unescape_spaces)?);
                spm.adds_space = metadata.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(false);
                Encoder::Spm(Box::new(spm))
            }
            Algorithm::Spm => Encoder::Spm(Box::new(spm(metadata, &vocabulary, roles.unknown, &mut notes)?)),
            Algorithm::WordPiece => Encoder::WordPiece(word_piece(metadata, roles.unknown)?),
            Algorithm::Unigram => {
                Encoder::Unigram(Box::new(unigram(metadata, &vocabulary, roles.unknown, &mut notes)?))
            }
            Algorithm::Greedy => Encoder::Greedy,
        };
        let adds_bos = match metadata.bool("tokenizer.ggml.add_bos_token")? {
            // Gemma 4 cannot do without, and the first files of it say that it can.
            Some(false) if algorithm == Algorithm::SpacedBpe => {
                notes.push(
                    "tokenizer.ggml.add_bos_token is false: prompts begin with BOS all the same".to_string(),
                );
                true
            }
            said => said.unwrap_or(adds_bos),
        };
        let adds_eos = metadata
            .bool("tokenizer.ggml.add_eos_token")?
            .unwrap_or(matches!(algorithm, Algorithm::WordPiece | Algorithm::Unigram));
        if adds_bos && roles.bos.is_none() {
            notes.push(
                "a BOS token should start every prompt, but the file names none: none is added".to_string(),
            );
        }
        Ok(Tokenizer { vocabulary, special, encoder, roles, adds_bos, adds_eos, notes })
    }

    /// The tokens of a text, without BOS and EOS. Tokens that the vocabulary defines to be kept whole are
    /// found either way; control tokens only with [`Special::Parse`].
    pub fn encode(&self, text: &str, special: Special) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 4 + 2);
        self.encode_into(text, special, &mut ids);
        ids
    }

    /// The tokens of a prompt. With `add_special`, BOS and EOS are put around it as the model wants them;
    /// a prompt that brings its own BOS (chat templates do) gets no second one. `parse_special` is
    /// [`Special::Parse`].
    pub fn encode_prompt(&self, text: &str, add_special: bool, parse_special: bool) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 4 + 4);
        let bos = self.roles.bos.filter(|_| add_special && self.adds_bos);
        ids.extend(bos);
        self.encode_into(text, if parse_special { Special::Parse } else { Special::Literal }, &mut ids);
        if bos.is_some() && ids.get(1) == bos.as_ref() {
            ids.remove(0);
        }
        if add_special && self.adds_eos {
            let eos = match self.encoder {
                Encoder::WordPiece(_) => self.roles.separator.or(self.roles.eos),
                _ => self.roles.eos,
            };
            ids.extend(eos);
        }
        ids
    }

    /// The tokens of a prompt that a chat template wrote: control tokens where the template wrote them, and not
    /// where a message has their words. It begins with BOS if the model wants that.
    pub fn encode_chat(&self, prompt: &Prompt) -> Vec<u32> {
        let mut ids = Vec::with_capacity(prompt.text().len() / 4 + 2);
        self.encode_where(prompt.text(), |token, place| token.always || prompt.is_open(place), &mut ids);
        // Most templates that want it write it themselves.
        if let Some(bos) = self.roles.bos.filter(|bos| self.adds_bos && ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
        ids
    }

    /// Where a text of a conversation must be guarded, so that no part of it becomes a control token.
    pub(crate) fn guards(&self, text: &str) -> Vec<usize> {
        self.special.guards(text)
    }

    fn encode_into(&self, text: &str, special: Special, ids: &mut Vec<u32>) {
        self.encode_where(text, |token, _| token.always || special == Special::Parse, ids);
    }

    /// Encodes with the special tokens that `allows` holds for, by what they are and where they lie.
    fn encode_where(&self, text: &str, allows: impl Fn(&Found, Range<usize>) -> bool, ids: &mut Vec<u32>) {
        let mut rest = text;
        let mut at_start = true;
        while !rest.is_empty() {
            let offset = text.len() - rest.len();
            let allows_here =
                |token: &Found, place: Range<usize>| allows(token, offset + place.start..offset + place.end);
            let (before, found) = self.special.split_once(rest, allows_here);
            let mut stretch = before;
            while !stretch.is_empty() {
                let (part, tail) = stretch.split_at(stretch.floor_char_boundary(LONGEST_STRETCH));
                match &self.encoder {
                    Encoder::Bpe(bpe) => bpe.encode(&self.vocabulary, part, ids),
                    Encoder::Spm(spm) => spm.encode(&self.vocabulary, part, at_start, ids),
                    Encoder::WordPiece(word_piece) => word_piece.encode(&self.vocabulary, part, ids),
                    Encoder::Unigram(unigram) => unigram.encode(&self.vocabulary, part, at_start, ids),
                    Encoder::Greedy => greedy::encode(&self.vocabulary, self.roles.unknown, part, ids),
                }
                at_start = false;
                stretch = tail;
            }
            let Some((token, after)) = found else { return };
            ids.push(token.id);
            at_start = true;
            rest = if token.strips_right { after.trim_ascii_start() } else { after };
        }
    }

    /// How many tokens there are.
    pub fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    /// The bytes that a token stands for, control tokens as they are written.
    pub fn token_bytes(&self, id: u32) -> Option<Cow<'_, [u8]>> {
        self.piece(id).map(Cow::Borrowed)
    }

    pub(crate) fn piece(&self, id: u32) -> Option<&[u8]> {
        self.vocabulary.piece(id)
    }

    /// The token that stands for exactly this text.
    pub fn token_id(&self, text: &str) -> Option<u32> {
        self.special.find(text.as_bytes()).or_else(|| self.vocabulary.find(text.as_bytes()))
    }

    /// The token that starts a text.
    pub fn bos(&self) -> Option<u32> {
        self.roles.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.roles.eos
    }

    /// The token that ends a turn of a chat.
    pub fn eot(&self) -> Option<u32> {
        self.roles.eot
    }

    /// Whether a model that produces this token has finished its answer.
    pub fn is_end_of_generation(&self, id: u32) -> bool {
        self.roles.ends.binary_search(&id).is_ok()
    }

    /// All tokens with which a model finishes its answer, sorted.
    pub fn ends_of_generation(&self) -> &[u32] {
        &self.roles.ends
    }

    /// Whether a token is a mark of structure and not text.
    pub fn is_control(&self, id: u32) -> bool {
        matches!(self.vocabulary.kind(id), Some(Kind::Control | Kind::Unknown))
    }

    /// All marks of structure with the text that they are written as, where it is text.
    pub(crate) fn control_tokens(&self) -> Vec<(u32, String)> {
        let controls = self.vocabulary.iter().filter(|(_, _, kind)| *kind == Kind::Control);
        let texts =
            controls.filter_map(|(id, piece, _)| Some((id, std::str::from_utf8(piece).ok()?.to_string())));
        texts.filter(|(_, text)| !text.is_empty()).collect()
    }

    /// Whether prompts start with BOS.
    pub fn adds_bos(&self) -> bool {
        self.adds_bos && self.roles.bos.is_some()
    }

    /// Whether prompts end with EOS.
    pub fn adds_eos(&self) -> bool {
        self.adds_eos
    }

    /// How many of the 256 bytes no token stands for: a text that has them loses them.
    pub fn missing_bytes(&self) -> usize {
        match &self.encoder {
            Encoder::Bpe(bpe) => bpe.missing_bytes(),
            Encoder::Spm(_) | Encoder::WordPiece(_) | Encoder::Unigram(_) | Encoder::Greedy => 0,
        }
    }

    /// What the file left open or contradicted, and what was done about it: one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether a space is put in front of every text.
    pub(crate) fn adds_space(&self) -> bool {
        match &self.encoder {
            Encoder::Bpe(_) | Encoder::Greedy => false,
            Encoder::Spm(spm) => spm.adds_space,
            Encoder::WordPiece(_) => true,
            Encoder::Unigram(unigram) => unigram.adds_space,
        }
    }
}

fn require<T>(value: Option<T>, key: &str) -> Result<T> {
    Ok(value.ok_or_else(|| gleed_gguf::Error::MissingKey { key: key.to_string() })?)
}

fn check_length(key: &'static str, found: usize, tokens: usize) -> Result<()> {
    if found == tokens {
        return Ok(());
    }
    Err(Error::Vocabulary { key, what: format!("{found} entries for {tokens} tokens") })
}

/// The bytes that each token stands for.
fn pieces(algorithm: Algorithm, texts: &Strings, kinds: &[Kind]) -> Strings {
    let mut piece = Vec::new();
    let mut pieces = Strings::default();
    for (text, kind) in texts.iter().zip(kinds) {
        piece.clear();
        match (algorithm, kind) {
            (Algorithm::Bpe, Kind::Normal | Kind::Unused) => bytes::decode_into(text, &mut piece),
            (Algorithm::Bpe, _) | (_, Kind::Control | Kind::Unknown) => piece.extend_from_slice(text),
            (Algorithm::Greedy, _) => greedy::unescape(text, &mut piece),
            (_, Kind::Byte) => match byte_of(text) {
                Some(byte) => piece.push(byte),
                None => piece.extend_from_slice(text),
            },
            _ => unescape_spaces(text, &mut piece),
        }
        pieces.push(&piece);
    }
    pieces
}

/// The byte that a byte token's text (`<0x0A>`) names.
fn byte_of(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn unescape_spaces(text: &[u8], piece: &mut Vec<u8>) {
    let mut escaped = [0; 4];
    let escaped = ESCAPED_SPACE.encode_utf8(&mut escaped).as_bytes();
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        if let Some(tail) = rest.strip_prefix(escaped) {
            piece.push(b' ');
            rest = tail;
        } else {
            piece.push(*first);
            rest = tail;
        }
    }
}

/// The rule of `tokenizer.ggml.pre`. Files from before that key existed get the rule `default`.
fn rule(metadata: &Metadata, notes: &mut Vec<String>) -> Result<pretokenizer::Rule> {
    let name = match metadata.str("tokenizer.ggml.pre")? {
        Some(name) => name,
        None => {
            notes.push("tokenizer.ggml.pre is missing: words are cut by the rule 'default'".to_string());
            "default"
        }
    };
    pretokenizer::rule(name)
        .ok_or_else(|| Error::UnknownPretokenizer { found: name.to_string(), known: pretokenizer::known() })
}

/// The score of each token; none where the file has none.
fn scores<'a>(metadata: &'a Metadata, vocabulary: &Vocabulary, notes: &mut Vec<String>) -> Result<&'a [f32]> {
    match metadata.f32s("tokenizer.ggml.scores")? {
        Some(scores) => {
            check_length("tokenizer.ggml.scores", scores.len(), vocabulary.len())?;
            Ok(scores)
        }
        None => {
            notes.push("tokenizer.ggml.scores is missing: all tokens count the same".to_string());
            Ok(&[])
        }
    }
}

fn spm(
    metadata: &Metadata,
    vocabulary: &Vocabulary,
    unknown: Option<u32>,
    notes: &mut Vec<String>,
) -> Result<Spm> {
    let mut spm = Spm::new(vocabulary, scores(metadata, vocabulary, notes)?, unknown);
    if let Some(adds_space) = metadata.bool("tokenizer.ggml.add_space_prefix")? {
        spm.adds_space = adds_space;
    }
    if let Some(removes) = metadata.bool("tokenizer.ggml.remove_extra_whitespaces")? {
        spm.removes_extra_spaces = removes;
    }
    Ok(spm)
}

fn unigram(
    metadata: &Metadata,
    vocabulary: &Vocabulary,
    unknown: Option<u32>,
    notes: &mut Vec<String>,
) -> Result<Unigram> {
    let mut unigram = Unigram::new(vocabulary, scores(metadata, vocabulary, notes)?, unknown);
    unigram.charsmap = match metadata.array(charsmap::KEY)? {
        None => CharsMap::default(),
        Some(Array::U8(bytes)) => CharsMap::new(bytes)?,
        Some(Array::I8(bytes)) => {
            CharsMap::new(&bytes.iter().map(|byte| byte.cast_unsigned()).collect::<Vec<_>>())?
        }
        Some(_) => {
            let what = "not an array of bytes".to_string();
            return Err(Error::Vocabulary { key: charsmap::KEY, what });
        }
    };
    if let Some(adds_space) = metadata.bool("tokenizer.ggml.add_space_prefix")? {
        unigram.adds_space = adds_space;
    }
    if let Some(removes) = metadata.bool("tokenizer.ggml.remove_extra_whitespaces")? {
        unigram.removes_extra_spaces = removes;
    }
    Ok(unigram)
}

fn word_piece(metadata: &Metadata, unknown: Option<u32>) -> Result<WordPiece> {
    let lowercase = metadata.bool("tokenizer.ggml.normalizer.lowercase")?.unwrap_or(true);
    let strip_accents = metadata.bool("tokenizer.ggml.normalizer.strip_accents")?.unwrap_or(lowercase);
    Ok(WordPiece { unknown, lowercase, strip_accents })
}

/// Phi-3's special tokens swallow the white space behind them. No key says so: the name has to.
fn strips_right(metadata: &Metadata) -> Result<impl Fn(&[u8]) -> bool> {
    let name = metadata.str("general.name")?.unwrap_or_default().to_lowercase();
    let is_phi3 = name.contains("phi-3") || name.contains("phi3");
    Ok(move |piece: &[u8]| is_phi3 && !matches!(piece, b"<unk>" | b"<s>" | b"<|endoftext|>"))
}
