//! Vocabularies, and answers at random: of the tokens that a mask allows, any.

use std::path::Path;
use std::sync::OnceLock;

use gleed_engine::{Constraint, TokenMask};
use gleed_gguf::Gguf;
use gleed_grammar::{Grammar, Vocabulary};
use gleed_tokenizer::{DecodeOptions, Tokenizer};

/// A model's tokenizer and its vocabulary as a tree.
pub struct Model {
    pub tokenizer: Tokenizer,
    pub vocabulary: Vocabulary,
    /// In ascending order.
    short: Vec<Short>,
}

/// A token that is one byte, or a mark of structure: few of a vocabulary, and asked for at every step.
struct Short {
    id: u32,
    byte: Option<u8>,
    is_control: bool,
}

impl Model {
    pub fn open(path: &Path) -> Model {
        let file = Gguf::open(path).unwrap();
        Model::new(Tokenizer::from_metadata(file.metadata()).unwrap())
    }

    pub fn new(tokenizer: Tokenizer) -> Model {
        let vocabulary = Vocabulary::new(&tokenizer).unwrap();
        let all = (0..tokenizer.vocab_size() as u32).map(|id| Short {
            id,
            byte: tokenizer
                .token_bytes(id)
                .and_then(|bytes| <[u8; 1]>::try_from(&*bytes).ok().map(|[byte]| byte)),
            is_control: tokenizer.is_control(id),
        });
        let short = all.filter(|short| short.byte.is_some() || short.is_control).collect();
        Model { tokenizer, vocabulary, short }
    }

    /// The story model: SentencePiece, with a token for every byte.
    pub fn stories() -> &'static Model {
        static MODEL: OnceLock<Model> = OnceLock::new();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/stories15M-q8_0.gguf");
        MODEL.get_or_init(|| Model::open(&path))
    }

    pub fn constraint(&self, grammar: &Grammar) -> Box<dyn Constraint> {
        self.vocabulary.constraint(grammar).unwrap_or_else(|error| panic!("{grammar:?}: {error}"))
    }

    pub fn text(&self, tokens: &[u32]) -> String {
        self.tokenizer.decode(tokens, DecodeOptions::CONTINUATION)
    }

    /// Whether a constraint lets this text pass, byte by byte, and then lets the answer end.
    pub fn accepts(&self, grammar: &Grammar, text: &str) -> bool {
        let mut constraint = self.constraint(grammar);
        let mut mask = TokenMask::none(self.tokenizer.vocab_size());
        let mut tokens = self.tokenizer.encode(text, gleed_tokenizer::Special::Literal);
        // SentencePiece puts a space before a text.
        if self.text(&tokens) != text {
            tokens = text.bytes().map(|byte| self.byte(byte)).collect();
        }
        for token in tokens {
            mask.clear();
            constraint.allow(&mut mask).unwrap();
            if !mask.allows(token) {
                return false;
            }
            constraint.accept(token).unwrap();
        }
        mask.clear();
        constraint.allow(&mut mask).unwrap();
        self.tokenizer.ends_of_generation().iter().all(|&end| mask.allows(end))
    }

    /// A token that is one byte.
    fn byte(&self, byte: u8) -> u32 {
        let found = self.short.iter().find(|short| short.byte == Some(byte) && !short.is_control);
        found.unwrap().id
    }

    /// Follows a constraint by choosing at random what it allows, until the answer ends. None when it has not ended
    /// after many more tokens than `about`; from there on whatever leads to an end is preferred: brackets, quotes, and
    /// these texts.
    pub fn walk(
        &self,
        constraint: &mut dyn Constraint,
        random: &mut Random,
        about: usize,
        ends: &[String],
    ) -> Option<Vec<u32>> {
        let size = self.tokenizer.vocab_size();
        let mut mask = TokenMask::none(size);
        let mut tokens = Vec::new();
        let mut allowed = Vec::new();
        while tokens.len() < about * 8 {
            mask.clear();
            constraint
                .allow(&mut mask)
                .unwrap_or_else(|error| panic!("{error} behind {:?}", self.text(&tokens)));
            allowed.clear();
            allowed.extend((0..size as u32).filter(|&token| mask.allows(token)));
            assert!(!allowed.is_empty(), "nothing may follow {:?}", self.text(&tokens));
            let token = {
                let hurry = tokens.len() > about;
                let next = if hurry { self.towards(&tokens, &mask, ends, random) } else { None };
                next.unwrap_or_else(|| self.choose(&allowed, &mask, random, hurry))
            };
            constraint.accept(token).unwrap();
            if self.tokenizer.is_end_of_generation(token) {
                return Some(tokens);
            }
            tokens.push(token);
        }
        None
    }

    /// A token that goes on with the end that most of is there already, or begins one.
    fn towards(&self, tokens: &[u32], mask: &TokenMask, ends: &[String], random: &mut Random) -> Option<u32> {
        let last = &tokens[tokens.len().saturating_sub(80)..];
        let written: Vec<u8> = last
            .iter()
            .flat_map(|&token| self.tokenizer.token_bytes(token).unwrap_or_default().into_owned())
            .collect();
        let all = ends.iter().flat_map(|end| (1..end.len()).map(move |length| (length, end.as_bytes())));
        let begun: Vec<(usize, &[u8])> =
            all.filter(|(length, end)| written.ends_with(&end[..*length])).collect();
        let most = begun.iter().map(|(length, _)| *length).max().unwrap_or(0);
        let next: Vec<u8> =
            begun.iter().filter(|(length, _)| *length == most).map(|(length, end)| end[*length]).collect();
        let next = next.get(random.below(next.len().max(1))).copied();
        // Inside of a string no end is reached by it.
        let first = ends.iter().filter_map(|end| end.bytes().next()).filter(|_| random.below(2) == 0);
        let is = |byte: u8| {
            let fits = |short: &&Short| short.byte == Some(byte) && mask.allows(short.id);
            self.short.iter().find(fits).map(|short| short.id)
        };
        if self.end(mask).is_some() {
            return None;
        }
        next.into_iter().chain(first.collect::<Vec<_>>()).find_map(is)
    }

    /// A token that ends the answer, where one may come.
    fn end(&self, mask: &TokenMask) -> Option<u32> {
        self.tokenizer.ends_of_generation().iter().copied().find(|&end| mask.allows(end))
    }

    fn choose(&self, allowed: &[u32], mask: &TokenMask, random: &mut Random, hurry: bool) -> u32 {
        if let Some(end) = self.end(mask).filter(|_| hurry || random.below(4) == 0) {
            return end;
        }
        // Of thousands of words few end a string: half of the time, only bytes are chosen from.
        let bytes = |wanted: &[u8]| -> Vec<u32> {
            let fits = |short: &&Short| {
                mask.allows(short.id)
                    && (short.is_control || short.byte.is_some_and(|byte| wanted.contains(&byte)))
            };
            self.short.iter().filter(fits).map(|short| short.id).collect()
        };
        if hurry {
            for wanted in [&b"\"'>})]"[..], b"</\n", b"0aeT:,- {["] {
                let found = bytes(wanted);
                if !found.is_empty() {
                    return found[random.below(found.len())];
                }
            }
        }
        if random.below(2) == 0 {
            let found = bytes(b"\"{}[]:,0123456789.-abcxyz<>/=()'`\n _");
            if !found.is_empty() {
                return found[random.below(found.len())];
            }
        }
        allowed[random.below(allowed.len())]
    }
}

/// Numbers at random (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}
