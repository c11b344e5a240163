//! Ops that write their output as the linear layer after them reads it.

use crate::linear::Linear;
use crate::step::{Counts, Items};

/// An op that also writes its output as integers or halves.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Producer {
    /// For some numbers of rows.
    Layer(Linear),
    /// Always: a layer norm, or any norm in halves.
    Norm,
    /// When all rows are single ones, or have merged spans.
    Attention,
    /// Of a single row, as this outlook cuts it.
    SingleAttention(usize),
}

impl Producer {
    /// Whether it does in a step of these.
    pub fn quantizes(&self, counts: Counts) -> bool {
        match self {
            Producer::Layer(layer) => layer.requantizes(counts.rows as u32),
            Producer::Norm => true,
            Producer::Attention => {
                let pieces = counts.pieces(0);
                let whole = [Items::Near, Items::Whole].map(|kind| pieces.items[kind as usize]);
                whole.iter().sum::<usize>() + pieces.merges == counts.rows
            }
            Producer::SingleAttention(outlook) => {
                let pieces = counts.pieces(*outlook);
                counts.rows == 1 && pieces.items[Items::Near as usize] + pieces.merges == 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Pieces;

    #[test]
    fn attention_writes_integers_unless_rows_attend_together() {
        let quantizes = |rows, items: [usize; 5], merges| {
            let attention = &[Pieces { items, merges }];
            Producer::Attention.quantizes(Counts { rows, attention, ..Counts::default() })
        };
        // Near; whole; near and split in three spans.
        assert!(quantizes(1, [1, 0, 0, 0, 0], 0));
        assert!(quantizes(32, [0, 32, 0, 0, 0], 0));
        assert!(quantizes(3, [2, 0, 3, 0, 0], 1));
        // A tile of four rows, by itself and beside single ones.
        assert!(!quantizes(4, [0, 0, 0, 1, 0], 0));
        assert!(!quantizes(9, [0, 5, 0, 1, 0], 0));
    }
}
