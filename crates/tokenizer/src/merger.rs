//! Merging neighbours: the loop that BPE and SPM share. The best pair is joined first, the leftmost of
//! equals, until no pair of neighbours is in the table.

use crate::queue::Queue;

/// "No token", "no neighbour".
pub(crate) const NONE: u32 = u32::MAX;

/// Up to this many symbols a scan for the best pair is faster than a queue.
const SCANNED: usize = 48;

/// A stretch of text that is one token, or one character that no token stands for.
#[derive(Clone, Copy)]
pub(crate) struct Symbol {
    /// Where it starts in the text, in bytes.
    pub start: u32,
    /// How long it is in bytes; 0 once it has been joined to its left neighbour.
    pub length: u32,
    /// Its token, or [`NONE`].
    pub id: u32,
    previous: u32,
    next: u32,
}

/// What joining two neighbours gives: the lowest priority goes first.
#[derive(Clone, Copy)]
pub(crate) struct Join {
    pub priority: u32,
    pub id: u32,
}

/// The working memory of the loop, kept between words.
#[derive(Default)]
pub(crate) struct Merger {
    symbols: Vec<Symbol>,
    /// For each symbol of a short word, the join with its right neighbour.
    joins: Vec<Join>,
    /// For a long word, the left symbols of pairs.
    queue: Queue,
}

const NO_JOIN: Join = Join { priority: u32::MAX, id: NONE };

impl Merger {
    /// Forgets the last word.
    pub(crate) fn clear(&mut self) {
        self.symbols.clear();
    }

    /// Appends a symbol behind the last one; it has no token when `id` is [`NONE`].
    pub(crate) fn push(&mut self, length: usize, id: u32) {
        let index = self.symbols.len() as u32;
        let start = self.symbols.last().map_or(0, |last| last.start + last.length);
        self.symbols.push(Symbol {
            start,
            length: length as u32,
            id,
            previous: index.wrapping_sub(1),
            next: index + 1,
        });
    }

    /// Joins neighbours as long as `join` knows a pair, and hands over what is left, in order.
    pub(crate) fn merge(
        &mut self,
        join: impl Fn(&Symbol, &Symbol) -> Option<Join>,
        mut emit: impl FnMut(&Symbol),
    ) {
        if self.symbols.len() <= SCANNED {
            self.merge_by_scan(join);
        } else {
            self.merge_by_queue(join);
        }
        self.symbols.iter().filter(|symbol| symbol.length > 0).for_each(&mut emit);
    }

    fn merge_by_scan(&mut self, join: impl Fn(&Symbol, &Symbol) -> Option<Join>) {
        let Merger { symbols, joins, .. } = self;
        let join = |left: &Symbol, right: &Symbol| join(left, right).unwrap_or(NO_JOIN);
        joins.clear();
        joins.extend(symbols.windows(2).map(|pair| join(&pair[0], &pair[1])));
        while let Some((at, best)) = joins.iter().enumerate().min_by_key(|(_, join)| join.priority) {
            if best.id == NONE {
                return;
            }
            symbols[at].id = best.id;
            symbols[at].length += symbols[at + 1].length;
            symbols.remove(at + 1);
            joins.remove(at);
            if at > 0 {
                joins[at - 1] = join(&symbols[at - 1], &symbols[at]);
            }
            if at < joins.len() {
                joins[at] = join(&symbols[at], &symbols[at + 1]);
            }
        }
    }

    fn merge_by_queue(&mut self, join: impl Fn(&Symbol, &Symbol) -> Option<Join>) {
        let Merger { symbols, queue, .. } = self;
        let join_at = |symbols: &[Symbol], left: u32| {
            let first = symbols.get(left as usize).filter(|symbol| symbol.length > 0)?;
            join(first, symbols.get(first.next as usize)?)
        };
        for left in 0..symbols.len() as u32 {
            if let Some(found) = join_at(symbols, left) {
                queue.push(found.priority, left);
            }
        }
        while let Some((priority, left)) = queue.pop() {
            // A pair that has been joined, or whose parts have grown since, is no longer what was queued.
            let Some(found) = join_at(symbols, left).filter(|found| found.priority == priority) else {
                continue;
            };
            let Symbol { previous, next, .. } = symbols[left as usize];
            let right = std::mem::replace(&mut symbols[next as usize].length, 0);
            let after = symbols[next as usize].next;
            let joined = &mut symbols[left as usize];
            (joined.length, joined.id, joined.next) = (joined.length + right, found.id, after);
            if let Some(after) = symbols.get_mut(after as usize) {
                after.previous = left;
            }
            for left in [previous, left] {
                if let Some(found) = join_at(symbols, left) {
                    queue.push(found.priority, left);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Joins by symbol length, so that the result is easy to follow: equal neighbours, short ones first.
    fn doubling(left: &Symbol, right: &Symbol) -> Option<Join> {
        (left.length == right.length).then_some(Join { priority: left.length, id: left.length * 2 })
    }

    fn lengths(merger: &mut Merger, scan: bool, symbols: &[usize]) -> Vec<(u32, u32)> {
        merger.clear();
        symbols.iter().for_each(|&length| merger.push(length, 0));
        if scan {
            merger.merge_by_scan(doubling)
        } else {
            merger.merge_by_queue(doubling)
        }
        merger.symbols.iter().filter(|s| s.length > 0).map(|s| (s.start, s.length)).collect()
    }

    proptest! {
        #[test]
        fn queue_and_scan_agree(symbols in prop::collection::vec(1usize..4, 0..200)) {
            let mut merger = Merger::default();
            let by_scan = lengths(&mut merger, true, &symbols);
            prop_assert_eq!(lengths(&mut merger, false, &symbols), by_scan);
        }
    }
}
