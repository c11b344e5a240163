//! How many positions a model gets when the user does not say: as many as it was made for, where memory allows.

use gleed_model::arithmetic::PAGE;

/// Positions that a conversation gets at least, if the model has them: what cannot hold these is no place to run a
/// model on.
const LEAST: usize = 4096;

/// How many positions of a model's `most` have room in `bytes` of memory, `page_bytes` a page. Half of the memory is
/// left to others, and without a word about it only the least is taken.
pub fn that_fits(most: usize, page_bytes: u64, bytes: Option<u64>) -> usize {
    let fit = match bytes {
        Some(bytes) => {
            usize::try_from(bytes / 2 / page_bytes.max(1)).unwrap_or(usize::MAX).saturating_mul(PAGE)
        }
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
        let page = 8 << 20;
        assert_eq!(that_fits(131_072, page, Some(40 * GB)), 131_072);
        assert_eq!(that_fits(131_072, page, Some(8 * GB)), 32_768);
        assert_eq!(that_fits(131_072, page, Some(GB / 64)), LEAST);
        assert_eq!(that_fits(131_072, page, Some(0)), LEAST);
        assert_eq!(that_fits(131_072, page, None), LEAST);
        assert_eq!(that_fits(256, page, Some(0)), 256);
        assert_eq!(that_fits(256, page, None), 256);
        assert_eq!(that_fits(40_000, 0, Some(u64::MAX)), 40_000);
    }
}
