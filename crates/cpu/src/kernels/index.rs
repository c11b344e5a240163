//! What an indexer's heads score for the positions of a page, as `arithmetic::index_score` defines it.

use gleed_model::arithmetic::{LANES, PAGE};

use super::simd::{Kernel, Simd};

/// `totals = Σ weight · max(product, 0)` over heads, in ascending order.
#[derive(Debug)]
pub struct IndexScores<'a> {
    /// One for each head.
    pub weights: &'a [f32],
    /// The products of each head's query with the keys of a page.
    pub products: &'a [[f32; PAGE]],
    /// One for each of the page's first positions.
    pub totals: &'a mut [f32],
}

impl Kernel for IndexScores<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let IndexScores { weights, products, totals } = self;
        assert!(weights.len() == products.len() && totals.len() <= PAGE);
        for (i, totals) in totals.chunks_mut(LANES).enumerate() {
            let mut total = s.splat(0.0);
            for (weight, products) in weights.iter().zip(products) {
                let products = &products.as_chunks::<LANES>().0[i];
                // NaN passes through `max` as its second operand.
                let positive = s.max(s.splat(0.0), s.load(products));
                total = s.mul_add(s.splat(*weight), positive, total);
            }
            s.store_partial(total, totals);
        }
    }
}
