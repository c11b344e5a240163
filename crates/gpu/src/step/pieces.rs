//! How attention of a step is cut into items: for each outlook, from what its rows see.

use std::cmp::Reverse;
use std::ops::Range;

use gleed_model::groups::PageGroups;
use gleed_model::program::{Attention, KvLayer, Op, Program, Sight};
use gleed_model::{Arithmetic, KvType, Row};

use super::{ITEM_WORDS, SPAN, Step, header};

/// The most dimensions of queries that attention in halves keeps in registers.
const REGISTER_DIMENSIONS: usize = 256;

/// Whether keys have so many dimensions that queries do not fit into registers.
pub(crate) fn is_wide(shape: KvLayer) -> bool {
    shape.key_dim > REGISTER_DIMENSIONS
}

/// What rows see in some layers, in which page group that is, and whether keys are wide there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outlook {
    pub sight: Sight,
    pub group: usize,
    pub is_wide: bool,
}

impl Outlook {
    /// All positions up to a row's own: the first one of every program.
    pub const BACK: Outlook = Outlook { sight: Sight::BACK, group: 0, is_wide: false };

    /// That of one attention.
    pub fn of_attention(attention: &Attention, group: usize, shape: KvLayer) -> Outlook {
        Outlook { sight: attention.sight(), group, is_wide: is_wide(shape) }
    }

    /// Those by which attention of a program is cut. In arithmetics other than that of halves all but the first are not
    /// cut at all.
    pub fn of(program: &Program, arithmetic: Arithmetic, kv: KvType) -> Vec<Outlook> {
        let (groups, mut all) = (PageGroups::of(program), vec![Outlook::BACK]);
        for node in &program.nodes {
            let Op::Attention { attention, .. } = node.op else { continue };
            let shape = program.caches[attention.cache];
            let outlook = Outlook::of_attention(&attention, groups.of_cache(attention.cache), shape);
            let in_halves = attention.in_halves(shape, kv);
            if arithmetic == Arithmetic::F16 && in_halves && !all.contains(&outlook) {
                all.push(outlook);
            }
        }
        all
    }
}

/// Items of attention, by how they are computed. The bits of a row are the same in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Items {
    /// One row that does not look far back, of few: all spans of one head at once.
    Near = 0,
    /// One row, all of its spans, several heads.
    Whole = 1,
    /// One row, one of its spans, several heads, which have the same threads.
    Split = 2,
    /// Several neighbouring rows of a sequence.
    Tiles = 3,
    /// As [`Items::Split`], of few spans in all: every head has threads of its own.
    Few = 4,
}

/// Single rows of a step that may be [`Items::Near`], and spans that each of them may have: more are split.
pub(crate) const NEAR_ROWS: usize = 4;
const NEAR_SPANS: usize = 8;

/// The same where keys are wide: a workgroup has all heads then, and much to do for each span.
const WIDE_NEAR_SPANS: usize = 2;

/// Spans that each of more rows may have without being split, and rows from which on none are: there is work
/// enough.
const WHOLE_SPANS: usize = 16;
const ENOUGH_ROWS: usize = 32;

/// Spans of all rows up to which they are [`Items::Few`].
const FEW_SPANS: usize = 48;

/// The same of items of several rows; and spans that an item need have to be split at all.
const ENOUGH_TILES: usize = 8;
const SPLIT_SPANS: usize = 4;

/// Neighbouring rows that are worth an item of several rows, when there is no other.
const TILE_ROWS: usize = 4;

/// Rows of a step up to which all are computed one by one, and spans that each of them may have then: more can begin at
/// once, and what they would share is little.
const SINGLE_ROWS: usize = 192;
const SINGLE_SPANS: usize = 3;

/// Partial results that there is room for, where a context can have that many spans.
pub(super) const PARTIALS: usize = 2048;

/// How many pieces attention is cut into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pieces {
    /// By their [`Items`].
    pub items: [usize; 5],
    pub merges: usize,
}

/// What a row sees.
#[derive(Debug, Clone)]
struct Sees {
    /// Where the last of its positions ends, and their spans.
    end: usize,
    spans: Range<usize>,
    /// Where its pages are in the step.
    pages: usize,
}

impl Step {
    /// Items and merges of the attention of a list of rows, by one of the outlooks.
    pub(super) fn add_attention<'a>(
        &mut self,
        outlook: usize,
        list: usize,
        count: usize,
        row: impl Fn(usize) -> &'a Row,
    ) -> Pieces {
        let Outlook { sight, group, is_wide } = self.outlooks[outlook];
        let sees = |index| {
            let Row { table, position, .. } = *row(index);
            let table = self.tables[table as usize];
            let seen = sight.visible(position as usize, table.length);
            let spans = seen.start / SPAN..seen.end.div_ceil(SPAN);
            Sees { end: seen.end, spans, pages: table.pages_of(group) }
        };
        let sees: Vec<Sees> = (0..count).map(sees).collect();
        let shallow = sees.iter().all(|sees| sees.spans.len() <= SINGLE_SPANS);
        let (singles, mut tiles) = if shallow && count <= SINGLE_ROWS {
            ((0..count).collect(), Vec::new())
        } else {
            cut(&sees, self.capacity.item_rows, &row)
        };
        let mut pieces = Pieces::default();
        let (mut partials, mut merges) = (0, Vec::new());

        let spans_of = |index: &usize| sees[*index].spans.len();
        let deepest = singles.iter().map(spans_of).max().unwrap_or(0);
        let needed: usize = singles.iter().map(spans_of).sum();
        let near = singles.len() <= NEAR_ROWS;
        let near_spans = if is_wide { WIDE_NEAR_SPANS } else { NEAR_SPANS };
        let far = deepest > if near { near_spans } else { WHOLE_SPANS };
        let kind = if near && !far {
            Items::Near
        } else if far && singles.len() <= ENOUGH_ROWS && needed <= self.capacity.partials {
            if needed <= FEW_SPANS { Items::Few } else { Items::Split }
        } else {
            Items::Whole
        };
        let origin = self.origin(list);
        self.name_next(list, header::items(outlook, kind));
        for (place, index) in singles.into_iter().enumerate() {
            let Sees { end, spans, pages } = sees[index].clone();
            let item = |page: usize, spans: Range<usize>, partial: usize| {
                [index, end, page, spans.start, spans.end, partial].map(|word| word as u32)
            };
            match kind {
                Items::Near => {
                    let at = origin + header::near(outlook) + place * ITEM_WORDS;
                    self.words[at..at + ITEM_WORDS].copy_from_slice(&item(pages - origin, spans, 0));
                    pieces.items[kind as usize] += 1;
                }
                Items::Few | Items::Split => {
                    merges.push((index, partials, spans.len()));
                    for span in spans {
                        let page = self.words[pages + span] as usize;
                        self.words.extend(item(page, span..span + 1, partials));
                        partials += 1;
                        pieces.items[kind as usize] += 1;
                    }
                }
                _ => {
                    self.words.extend(item(pages - origin, spans, 0));
                    pieces.items[kind as usize] += 1;
                }
            }
        }

        // What the rows of a tile see together. Those with most to do begin first.
        let spans_of = |tile: &Range<usize>| sees[tile.start].spans.start..sees[tile.end - 1].spans.end;
        tiles.sort_by_key(|tile| Reverse(spans_of(tile).len()));
        let few = tiles.len() <= ENOUGH_TILES;
        self.name_next(list, header::items(outlook, Items::Tiles));
        for tile in tiles {
            let spans = spans_of(&tile);
            let mut item = |first: usize, end: usize, partial: usize, stride: usize| {
                let words = [tile.start, tile.len(), first, end, partial, stride];
                self.words.extend(words.map(|word| word as u32));
                pieces.items[Items::Tiles as usize] += 1;
            };
            let needed = spans.len() * tile.len();
            if !few || spans.len() <= SPLIT_SPANS || partials + needed > self.capacity.partials {
                item(spans.start, spans.end, 0, 0);
                continue;
            }
            spans.clone().for_each(|span| item(span, span + 1, partials + span - spans.start, spans.len()));
            merges.extend(tile.enumerate().map(|(i, index)| {
                let own = &sees[index].spans;
                (index, partials + i * spans.len() + own.start - spans.start, own.len())
            }));
            partials += needed;
        }

        self.name_next(list, header::merges(outlook));
        pieces.merges = merges.len();
        for (index, partial, spans) in merges {
            self.words.extend([index, partial, spans].map(|word| word as u32));
        }
        pieces
    }
}

/// The rows that are computed one by one, and the runs of those that go together.
fn cut<'a>(sees: &[Sees], most: usize, row: impl Fn(usize) -> &'a Row) -> (Vec<usize>, Vec<Range<usize>>) {
    let runs = runs(sees, most, &row);
    let (mut singles, mut tiles): (Vec<usize>, Vec<Range<usize>>) = (Vec::new(), Vec::new());
    let worth_it = runs.iter().any(|run| run.len() >= TILE_ROWS.min(most.max(2)));
    for run in runs {
        // The rest of a long run costs nothing beside it.
        let rest =
            |tile: &Range<usize>| tile.end == run.start && row(tile.start).table == row(run.start).table;
        let rest = tiles.last().is_some_and(rest);
        if worth_it && (run.len() > 1 || rest) {
            tiles.push(run);
        } else {
            singles.extend(run);
        }
    }
    (singles, tiles)
}

/// Runs of neighbouring rows of one sequence, at most `most` long, in ascending positions. No span lies between what
/// they see: its page may be missing.
fn runs<'a>(sees: &[Sees], most: usize, row: impl Fn(usize) -> &'a Row) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (index, own) in sees.iter().enumerate() {
        let fits = |run: &Range<usize>| {
            let last = row(run.end - 1);
            run.len() < most
                && last.table == row(index).table
                && last.position < row(index).position
                && own.spans.start <= sees[run.end - 1].spans.end
        };
        match runs.last_mut() {
            Some(run) if fits(run) => run.end = index + 1,
            _ => runs.push(index..index + 1),
        }
    }
    runs
}
