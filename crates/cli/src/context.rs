//! How many positions a model gets when the user does not say: as many as it was made for, where memory allows.

use gleed_model::arithmetic::PAGE;
use gleed_model::groups::most_that;

/// Positions that a conversation gets at least, if the model has them: what cannot hold these is no place to run a
/// model on.
const LEAST: usize = 4096;

/// How many positions of a model's `most` have room in `bytes` of memory, where `taken` says what pages take. Half of
/// the memory is left to others, and without a word about it only the least is taken.
pub fn that_fits(most: usize, taken: impl Fn(usize) -> u64, bytes: Option<u64>) -> usize {
    let fit = match bytes {
        Some(bytes) => most_that(most.div_ceil(PAGE), |pages| taken(pages) <= bytes / 2).saturating_mul(PAGE),
        None => LEAST,
    };
    fit.clamp(LEAST.min(most), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_the_model_bound_the_context() {
        const GB: u64 = 1 << 30;
        // 128 KiB a position, as a model of 8 billion parameters has: 8 MiB a page.
        let page = |pages: usize| (pages as u64) << 23;
        assert_eq!(that_fits(131_072, page, Some(40 * GB)), 131_072);
        assert_eq!(that_fits(131_072, page, Some(8 * GB)), 32_768);
        assert_eq!(that_fits(131_072, page, Some(GB / 64)), LEAST);
        assert_eq!(that_fits(131_072, page, Some(0)), LEAST);
        assert_eq!(that_fits(131_072, page, None), LEAST);
        assert_eq!(that_fits(256, page, Some(0)), 256);
        assert_eq!(that_fits(256, page, None), 256);
        assert_eq!(that_fits(40_000, |_| 0, Some(u64::MAX)), 40_000);
        // Five of six layers have 30 pages, and the others as many as there is memory for.
        let windows = |pages: usize| (pages as u64 + 5 * pages.min(30) as u64) << 23;
        assert_eq!(that_fits(131_072, windows, Some(8 * GB)), (512 - 150) * PAGE);
    }
}
