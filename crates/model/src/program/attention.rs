//! Attention with its options, and the range of positions that a row sees by them.

use std::ops::Range;

use super::{KvLayer, View, WeightId};
use crate::KvType;
use crate::arithmetic::HALF_DIMENSIONS;

/// How the query heads of a row attend to the positions of its sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention {
    /// Whose keys and values.
    pub cache: usize,
    /// Query heads.
    pub heads: usize,
    /// The factor of scores.
    pub scale: f32,
    /// Whether a row sees none of the positions after its own. Where it does, all rows of its sequence must be in
    /// one step.
    pub causal: bool,
    /// How many positions a row sees, its own among them; all where there is none. Without causality half of them
    /// are on either side of its own.
    pub window: Option<usize>,
    /// Where positions are cut into chunks of this length, a row sees those of its own chunk only. Not both ways.
    pub chunk: Option<usize>,
    /// What bounds scores, as [`Map::SoftCap`](super::Map::SoftCap).
    pub soft_cap: Option<f32>,
    /// What scores lose with distance: the largest exponent of the heads' slopes, see
    /// [`alibi_slope`](crate::arithmetic::alibi_slope).
    pub alibi: Option<f32>,
    /// One score for each head that takes its share of the softmax and has no value.
    pub sinks: Option<WeightId>,
    /// The positions that a row sees of those that it would see, in ascending order, as [`Op::Choose`](super::Op::Choose)
    /// writes them; all where there is none.
    pub chosen: Option<View>,
}

/// How the positions that a row sees are chosen: by what an indexer's heads score for them, all over one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indexer {
    /// Whose keys; values are not used.
    pub cache: usize,
    /// Heads of queries.
    pub heads: usize,
}

impl Attention {
    /// Whether it is over all positions up to the row's own, with nothing else to it.
    pub fn is_plain(&self) -> bool {
        let Attention { causal, window, chunk, soft_cap, alibi, sinks, chosen, .. } = self;
        let whole = *causal && window.is_none() && chunk.is_none() && chosen.is_none();
        whole && soft_cap.is_none() && alibi.is_none() && sinks.is_none()
    }

    /// Whether it is computed in halves where linear layers are: over keys and values that are stored as such, and all
    /// positions in sight.
    pub fn in_halves(&self, stored: KvLayer, kv: KvType) -> bool {
        self.chosen.is_none() && kv == KvType::F16 && stored.key_dim <= HALF_DIMENSIONS
    }

    /// Over all positions up to the row's own.
    pub fn over_all(cache: usize, heads: usize, scale: f32) -> Attention {
        Attention {
            cache,
            heads,
            scale,
            causal: true,
            window: None,
            chunk: None,
            soft_cap: None,
            alibi: None,
            sinks: None,
            chosen: None,
        }
    }

    /// How many positions a row sees at most, its own among them, where there is a limit: those of its window, or of its
    /// chunk when it is the last row there.
    pub fn reach(&self) -> Option<usize> {
        self.window.into_iter().chain(self.chunk).min()
    }

    /// The positions that a row sees of a sequence that ends at `length`, or of one that has no end yet.
    pub fn visible(&self, position: usize, length: usize) -> Range<usize> {
        self.sight().visible(position, length)
    }

    /// Which positions rows see.
    pub fn sight(&self) -> Sight {
        Sight { causal: self.causal, window: self.window, chunk: self.chunk }
    }
}

/// Which positions rows see: what [`Attention`] says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// None after their own.
    pub causal: bool,
    /// At most this many.
    pub window: Option<usize>,
    /// Those of their own chunk of this length.
    pub chunk: Option<usize>,
}

impl Sight {
    /// All positions up to a row's own.
    pub const BACK: Sight = Sight { causal: true, window: None, chunk: None };

    /// The positions that a row sees of a sequence that ends at `length`, or of one that has no end yet.
    pub fn visible(&self, position: usize, length: usize) -> Range<usize> {
        let end = position + 1;
        match (self.causal, self.window) {
            (true, window) => {
                let in_window = window.map_or(0, |window| end.saturating_sub(window));
                in_window.max(self.chunk.map_or(0, |chunk| position / chunk * chunk))..end
            }
            (false, None) => 0..length,
            (false, Some(window)) => {
                position.saturating_sub(window / 2)..length.min(end.saturating_add(window / 2))
            }
        }
    }
}
