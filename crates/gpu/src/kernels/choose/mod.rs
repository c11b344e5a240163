//! The choice of the next token on the device: the likeliest, or one drawn of the likeliest by a rule.
//!
//! Logits are ordered by keys of their bits (`key.wgsl`), so that ties, infinities and what is not a number are
//! the same on every device; where one is not a number, no token is chosen. Each stage leaves the best of chunks of the one before, until one chunk is left.

use gleed_model::choice::{self, NO_TOKEN, Rule};

use super::{Dispatch, Grid, Place, Source};
use crate::launch::{Buffer, Kernels};

/// The most candidates that a rule may keep: one lane of a workgroup each.
pub(crate) const MOST_CANDIDATES: usize = 64;

/// Entries that a workgroup finds the largest of.
const ARGMAX_CHUNK: usize = 4096;

/// Entries that a workgroup sorts, in 16 KiB of its memory: what every device has.
const SORT_CHUNK: usize = 2048;

/// Words of a rule.
pub(crate) const RULE_WORDS: usize = 6;

/// Reads the logits themselves.
const FROM_LOGITS: &str = "
fn entry_at(row: u32, at: u32) -> vec2<u32> {
    let logit = logits[row * STRIDE + OFFSET + at];
    return select(vec2<u32>(NOT_A_NUMBER, NO_TOKEN), vec2<u32>(key_of(logit), at), is_number(logit));
}
";

/// Reads what the stage before left of a row.
const FROM_ENTRIES: &str = "
fn entry_at(row: u32, at: u32) -> vec2<u32> {
    return entries[row * WIDTH + at];
}
";

const PUT_ENTRY: &str = "
fn put(row: u32, chunk: u32, entry: vec2<u32>) {
    best[row * CHUNKS + chunk] = entry;
}
";

const PUT_TOKEN: &str = "
fn put(row: u32, chunk: u32, entry: vec2<u32>) {
    chosen[row] = entry.y;
}
";

/// Where the entries of a stage come from.
#[derive(Clone, Copy)]
enum Entries {
    Logits(Place),
    /// This many of each row, as (key, token).
    Kept(Buffer, usize),
}

impl Entries {
    fn width(&self) -> usize {
        match self {
            Entries::Logits(place) => place.width,
            Entries::Kept(_, width) => *width,
        }
    }

    fn read_by(self, source: Source) -> Source {
        let source = source.size("WIDTH", self.width()).size("NO_TOKEN", NO_TOKEN as usize);
        match self {
            Entries::Logits(place) => {
                source.snippet(include_str!("key.wgsl")).snippet(FROM_LOGITS).read_place("logits", "", place)
            }
            Entries::Kept(buffer, _) => source.snippet(FROM_ENTRIES).read("entries", "vec2<u32>", buffer),
        }
    }
}

/// Bytes of what the stages leave, for `rows` rows of logits.
pub(crate) fn bytes(width: usize, rows: usize) -> u64 {
    let mut sizes = vec![width.div_ceil(ARGMAX_CHUNK)];
    let mut width = width;
    loop {
        let chunks = width.div_ceil(SORT_CHUNK).max(1);
        width = chunks * MOST_CANDIDATES;
        sizes.push(width);
        if chunks == 1 {
            return (8 * rows * sizes.iter().sum::<usize>()) as u64;
        }
    }
}

fn kept(kernels: &mut Kernels, width: usize, rows: usize) -> Buffer {
    kernels.storage("candidates", (8 * width * rows) as u64)
}

/// `chosen[row]` = the token of each row's largest logit.
pub(crate) fn argmax(kernels: &mut Kernels, logits: Place, rows: usize, chosen: Buffer) -> Vec<Dispatch> {
    fn stage(entries: Entries, chunk: usize) -> Source {
        entries.read_by(Source::new("argmax", include_str!("argmax.wgsl"))).size("CHUNK", chunk)
    }
    /// The last stage, of one chunk.
    fn last(entries: Entries, chosen: Buffer) -> Source {
        stage(entries, entries.width().max(1)).snippet(PUT_TOKEN).write("chosen", "u32", chosen)
    }
    let chunks = logits.width.div_ceil(ARGMAX_CHUNK);
    if chunks <= 1 {
        return vec![kernels.dispatch(last(Entries::Logits(logits), chosen), Grid::Rows(1))];
    }
    let best = kept(kernels, chunks, rows);
    let first = stage(Entries::Logits(logits), ARGMAX_CHUNK).size("CHUNKS", chunks);
    let first = first.snippet(PUT_ENTRY).write("best", "vec2<u32>", best);
    vec![
        kernels.dispatch(first, Grid::Rows(chunks as u32)),
        kernels.dispatch(last(Entries::Kept(best, chunks), chosen), Grid::Rows(1)),
    ]
}

/// The [`MOST_CANDIDATES`] largest logits of each row as (key, token), the largest first, and the buffer that
/// has them.
pub(crate) fn top(kernels: &mut Kernels, logits: Place, rows: usize) -> (Vec<Dispatch>, Buffer) {
    let mut dispatches = Vec::new();
    let mut entries = Entries::Logits(logits);
    loop {
        let chunks = entries.width().div_ceil(SORT_CHUNK).max(1);
        let best = kept(kernels, chunks * MOST_CANDIDATES, rows);
        let source = entries
            .read_by(Source::new("topk", include_str!("topk.wgsl")))
            .size("CHUNK", SORT_CHUNK)
            .size("CHUNKS", chunks)
            .size("K", MOST_CANDIDATES)
            .write("best", "vec2<u32>", best);
        dispatches.push(kernels.dispatch(source, Grid::Rows(chunks as u32)));
        if chunks == 1 {
            return (dispatches, best);
        }
        entries = Entries::Kept(best, chunks * MOST_CANDIDATES);
    }
}

/// `chosen[row]` = the token that the row's rule draws of its candidates.
pub(crate) fn draw(kernels: &mut Kernels, candidates: Buffer, rules: Buffer, chosen: Buffer) -> Dispatch {
    let powers: Vec<String> = choice::POWERS.iter().map(|power| format!("{power}u")).collect();
    let text = include_str!("draw.wgsl").replace("POWERS", &powers.join(", "));
    let source = Source::new("draw", &text)
        .snippet(include_str!("key.wgsl"))
        .snippet(include_str!("wide.wgsl"))
        .size("K", MOST_CANDIDATES)
        .size("NO_TOKEN", NO_TOKEN as usize)
        .size("LN_2", choice::LN_2 as usize)
        .size("THIRD", choice::THIRD as usize)
        .float("LARGEST_EXPONENT", choice::LARGEST_EXPONENT)
        .float("FACTOR", choice::factor(1.0))
        .read("candidates", "vec2<u32>", candidates)
        .read("rules", "u32", rules)
        .write("chosen", "u32", chosen);
    kernels.dispatch(source, Grid::Rows(1))
}

/// Whether a rule keeps few enough candidates.
pub(crate) fn follows(rule: &Rule) -> bool {
    rule.is_greedy() || (1..=MOST_CANDIDATES).contains(&rule.top_k)
}

/// A rule and the random bits of one choice, as `draw.wgsl` reads them. A greedy rule has one candidate.
pub(crate) fn words(rule: &Rule, random: u64) -> [u32; RULE_WORDS] {
    let (top_k, temperature) = if rule.is_greedy() { (1, 1.0) } else { (rule.top_k, rule.temperature) };
    let lowest = choice::lowest_difference(rule.min_p).unwrap_or(f32::NEG_INFINITY);
    let units = choice::share_units(rule.top_p).unwrap_or(0);
    let factor = choice::factor(temperature);
    [top_k as u32, lowest.to_bits(), units, factor.to_bits(), random as u32, (random >> 32) as u32]
}

#[cfg(test)]
mod tests;
