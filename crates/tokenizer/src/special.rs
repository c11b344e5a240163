//! Finding special tokens in a text: a trie over their bytes, the leftmost and then longest match wins.

use crate::vocabulary::{Kind, Vocabulary};
use std::ops::Range;

/// Whether marks of structure in a text are read as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `<|im_end|>` in the text becomes that control token: for prompts made by a chat template.
    Parse,
    /// `<|im_end|>` in the text is ten characters: for text that the user wrote.
    Literal,
}

/// The special tokens of a vocabulary.
pub(crate) struct SpecialTokens {
    nodes: Vec<Node>,
    /// Which bytes start a token: most of a text is passed over by this alone.
    starts: [bool; 256],
    /// The control tokens as they are written, and the length of the longest.
    controls: Vec<Box<[u8]>>,
    longest: usize,
    /// Which bytes end a control token.
    ends: [bool; 256],
}

#[derive(Default)]
struct Node {
    /// Next byte and node, sorted by byte.
    children: Vec<(u8, u32)>,
    token: Option<Found>,
}

/// A special token in a text.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub id: u32,
    /// Whether it is found in literal text too.
    pub always: bool,
    /// Whether white space behind it belongs to it.
    pub strips_right: bool,
}

impl SpecialTokens {
    /// Collects the control, unknown and user-defined tokens.
    pub(crate) fn new(vocabulary: &Vocabulary, strips_right: impl Fn(&[u8]) -> bool) -> SpecialTokens {
        let mut tokens = SpecialTokens {
            nodes: vec![Node::default()],
            starts: [false; 256],
            controls: Vec::new(),
            longest: 0,
            ends: [false; 256],
        };
        for (id, piece, kind) in vocabulary.iter() {
            let always = kind == Kind::UserDefined;
            if (always || matches!(kind, Kind::Control | Kind::Unknown)) && !piece.is_empty() {
                tokens.insert(piece, Found { id, always, strips_right: strips_right(piece) });
                if !always {
                    tokens.controls.push(piece.into());
                    tokens.longest = tokens.longest.max(piece.len());
                    tokens.ends[usize::from(piece[piece.len() - 1])] = true;
                }
            }
        }
        tokens
    }

    fn insert(&mut self, piece: &[u8], token: Found) {
        let mut node = 0;
        self.starts[usize::from(piece[0])] = true;
        for &byte in piece {
            let new = self.nodes.len() as u32;
            let children = &mut self.nodes[node].children;
            node = match children.binary_search_by_key(&byte, |&(byte, _)| byte) {
                Ok(at) => children[at].1 as usize,
                Err(at) => {
                    children.insert(at, (byte, new));
                    self.nodes.push(Node::default());
                    new as usize
                }
            };
        }
        self.nodes[node].token = Some(token);
    }

    fn child(&self, node: usize, byte: u8) -> Option<usize> {
        let children = &self.nodes[node].children;
        children.binary_search_by_key(&byte, |&(byte, _)| byte).ok().map(|at| children[at].1 as usize)
    }

    /// The special token with exactly these bytes.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<u32> {
        let node = bytes.iter().try_fold(0, |node, &byte| self.child(node, byte))?;
        self.nodes[node].token.map(|token| token.id)
    }

    /// Cuts a text at its special tokens: the text before the first one, and that token with the text behind it. Only
    /// tokens that `allows` holds for are found, by what they are and where they lie.
    pub(crate) fn split_once<'t>(
        &self,
        text: &'t str,
        allows: impl Fn(&Found, Range<usize>) -> bool,
    ) -> (&'t str, Option<(Found, &'t str)>) {
        let bytes = text.as_bytes();
        for start in 0..bytes.len() {
            if !self.starts[usize::from(bytes[start])] {
                continue;
            }
            // A token's bytes need not be UTF-8: one that does not end at a character is not in the text.
            let longest = self.at(bytes, start).filter(|(token, end)| allows(token, start..*end)).last();
            if let Some((token, end)) = longest
                && let (Some(before), Some(after)) = (text.get(..start), text.get(end..))
            {
                return (before, Some((token, after)));
            }
        }
        (text, None)
    }

    /// The special tokens that begin at `start`, with their ends, shorter ones first.
    fn at(&self, bytes: &[u8], start: usize) -> impl Iterator<Item = (Found, usize)> {
        let mut node = 0;
        let nodes = (start..bytes.len()).map_while(move |at| {
            node = self.child(node, bytes[at])?;
            Some((node, at + 1))
        });
        nodes.filter_map(|(node, end)| Some((self.nodes[node].token?, end)))
    }

    /// The places in a text that no control token may reach over if the text is to stay text: where one begins, where
    /// the beginning of one is cut off by the end of the text, and the start of the text if it could be the rest of
    /// one. In this way neither the text nor what it is put together with can make one.
    pub(crate) fn guards(&self, text: &str) -> Vec<usize> {
        let bytes = text.as_bytes();
        let mut places = Vec::new();
        if self.may_complete(text) {
            places.push(0);
        }
        for start in 0..bytes.len() {
            if !self.starts[usize::from(bytes[start])] || !text.is_char_boundary(start) {
                continue;
            }
            let mut node = Some(0);
            let mut found = false;
            for &byte in &bytes[start..] {
                node = node.and_then(|node| self.child(node, byte));
                let Some(node) = node else { break };
                found |= self.nodes[node].token.is_some_and(|token| !token.always);
            }
            // Still in the tree at the end of the text: what follows the text could go on.
            if (found || node.is_some()) && places.last() != Some(&start) {
                places.push(start);
            }
        }
        places
    }

    /// Whether a text begins as the rest of a control token does, or is a part of one that is more than a word.
    fn may_complete(&self, text: &str) -> bool {
        // Templates build marks from words, such as who speaks.
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        let is_part = text.len() < self.longest && !text.chars().all(is_word);
        let bytes = text.as_bytes();
        let has_end = bytes.iter().take(self.longest).any(|&byte| self.ends[usize::from(byte)]);
        (is_part || has_end)
            && self.controls.iter().any(|token| {
                (1..token.len()).any(|from| {
                    let rest = &token[from..];
                    bytes.starts_with(rest) || (is_part && rest.starts_with(bytes))
                })
            })
    }
}
