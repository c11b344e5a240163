//! Finding special tokens in a text: a trie over their bytes, the leftmost and then longest match wins.

use crate::vocabulary::{Kind, Vocabulary};

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
    always: bool,
    /// Whether white space behind it belongs to it.
    pub strips_right: bool,
}

impl SpecialTokens {
    /// Collects the control, unknown and user-defined tokens.
    pub(crate) fn new(vocabulary: &Vocabulary, strips_right: impl Fn(&[u8]) -> bool) -> SpecialTokens {
        let mut tokens = SpecialTokens { nodes: vec![Node::default()], starts: [false; 256] };
        for (id, piece, kind) in vocabulary.iter() {
            let always = kind == Kind::UserDefined;
            if (always || matches!(kind, Kind::Control | Kind::Unknown)) && !piece.is_empty() {
                tokens.insert(piece, Found { id, always, strips_right: strips_right(piece) });
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

    /// The longest special token at the start of `bytes`, and its length.
    fn at_start(&self, bytes: &[u8], special: Special) -> Option<(Found, usize)> {
        let (mut node, mut longest) = (0, None);
        for (at, &byte) in bytes.iter().enumerate() {
            let Some(child) = self.child(node, byte) else { break };
            node = child;
            if let Some(token) = self.nodes[node].token.filter(|t| t.always || special == Special::Parse) {
                longest = Some((token, at + 1));
            }
        }
        longest
    }

    /// Cuts a text at its special tokens: the text before the first one, and that token with the text
    /// behind it.
    pub(crate) fn split_once<'t>(
        &self,
        text: &'t str,
        special: Special,
    ) -> (&'t str, Option<(Found, &'t str)>) {
        let bytes = text.as_bytes();
        for start in 0..bytes.len() {
            if !self.starts[usize::from(bytes[start])] {
                continue;
            }
            // A token's bytes need not be UTF-8: one that does not end at a character is not in the text.
            if let Some((token, length)) = self.at_start(&bytes[start..], special)
                && let (Some(before), Some(after)) = (text.get(..start), text.get(start + length..))
            {
                return (before, Some((token, after)));
            }
        }
        (text, None)
    }
}
