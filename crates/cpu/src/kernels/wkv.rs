//! A few rows of RWKV's generalised delta rule, sixteen channels at a time or a part of them, as
//! `gleed_model::recurrence` defines it.

use gleed_model::arithmetic::LANES;
use gleed_model::recurrence::WkvRow;

use super::recur::{get, load, put};
use super::simd::{Kernel, Simd};

/// Rows of the rule, of channels of one head that are in one block of the state.
#[derive(Debug)]
pub struct Wkv<'a> {
    /// The block.
    pub state: &'a mut [[f32; LANES]],
    /// The first of the channels in the block.
    pub at: usize,
    /// The rows, all of the same channels; of all else they have what is their head's.
    pub rows: &'a [WkvRow<'a>],
    /// One for each row, in which the channels have the places that they have in the block.
    pub out: &'a mut [[f32; LANES]],
}

impl Kernel for Wkv<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let all = self.rows.first().is_none_or(|row| row.value.len() == LANES);
        if all { self.lanes::<S, true>(s) } else { self.lanes::<S, false>(s) }
    }
}

impl Wkv<'_> {
    /// What a row leaves of the state is at once asked for the answer of the next: one walk through the state for
    /// each row, and one more for the first.
    #[inline(always)]
    fn lanes<S: Simd, const ALL: bool>(self, s: S) {
        let Wkv { state, at, rows, out } = self;
        assert_eq!(out.len(), rows.len());
        let Some(first) = rows.first() else { return };
        let (depth, count) = (state.len(), first.value.len());
        assert!(at + count <= LANES);
        let mut answer = s.splat(0.0);
        let asked = &first.asked[..depth];
        for i in 0..depth {
            answer = s.mul_add(get::<S, ALL>(s, &state[i], at, count), s.splat(asked[i]), answer);
        }
        for (r, row) in rows.iter().enumerate() {
            let [query, kept, key, removed] =
                [row.query, row.kept, row.key, row.removed].map(|x| &x[..depth]);
            assert_eq!(row.value.len(), count);
            let value = load(s, row.value);
            let taken = s.mul(answer, s.splat(-1.0));
            // After the last row none asks: its own vector takes the place.
            let next = &rows.get(r + 1).unwrap_or(row).asked[..depth];
            let mut sum = s.splat(0.0);
            answer = s.splat(0.0);
            for i in 0..depth {
                let before = s.mul(get::<S, ALL>(s, &state[i], at, count), s.splat(kept[i]));
                let written = s.mul_add(s.splat(key[i]), value, before);
                let new = s.mul_add(s.splat(removed[i]), taken, written);
                sum = s.mul_add(new, s.splat(query[i]), sum);
                answer = s.mul_add(new, s.splat(next[i]), answer);
                put::<S, ALL>(s, new, &mut state[i], at, count);
            }
            put::<S, ALL>(s, sum, &mut out[r], at, count);
        }
    }
}
