//! Which positions attention sees where an indexer chooses them (DeepSeek's sparse attention): the score of a position,
//! and the choice of the positions with the largest.

use std::cmp::Ordering;

/// What a position's score gains by one head of the indexer: what is positive of the product of query and key, times the
/// head's weight. Scores begin at zero and take in heads in ascending order.
#[inline(always)]
pub fn index_score(score: f32, weight: f32, product: f32) -> f32 {
    weight.mul_add(if product < 0.0 { 0.0 } else { product }, score)
}

/// Writes the positions with the largest scores in ascending order, as many as there is room for, and `nowhere` in all
/// places that are left. Of equal scores the earlier position comes first; NaN is the largest. `room` holds a number for
/// each score.
pub fn choose_positions(scores: &[f32], room: &mut [u32], nowhere: f32, out: &mut [f32]) {
    out.fill(nowhere);
    let count = out.len();
    if scores.len() <= count {
        out.iter_mut().zip(0..scores.len()).for_each(|(out, position)| *out = position as f32);
        return;
    }
    let room = &mut room[..scores.len()];
    room.iter_mut().zip(scores).for_each(|(key, score)| *key = ordered(*score));
    let (_, &mut least, above) = room.select_nth_unstable(scores.len() - count);
    let mut equals = count - above.iter().filter(|key| **key > least).count();
    let mut places = out.iter_mut();
    for (position, score) in scores.iter().enumerate() {
        let chosen = match ordered(*score).cmp(&least) {
            Ordering::Greater => true,
            Ordering::Equal if equals > 0 => {
                equals -= 1;
                true
            }
            _ => false,
        };
        if chosen && let Some(place) = places.next() {
            *place = position as f32;
        }
    }
}

/// A number that is larger where the float is.
fn ordered(x: f32) -> u32 {
    let bits = x.to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

/// The places of the chosen positions that are in a page, among ascending ones.
pub fn chosen_in_page(chosen: &[f32], page: usize) -> std::ops::Range<usize> {
    let below = |end: usize| chosen.partition_point(|position| *position < end as f32);
    below(page)..below(page + super::PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All orders of a few values, some equal, against sorting.
    #[test]
    fn the_largest_are_chosen_and_of_equals_the_first() {
        let values = [0.0, -1.5, 2.0, 2.0, 0.0, -0.25, 7.0, 0.0, f32::NAN, -3.0];
        let mut state = 1u64;
        for _ in 0..500 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let length = (state >> 60) as usize;
            let scores: Vec<f32> =
                (0..length).map(|i| values[(state >> (3 * i + 5)) as usize % values.len()]).collect();
            for count in 1..8 {
                let mut order: Vec<usize> = (0..length).collect();
                order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
                order.truncate(count);
                order.sort_unstable();
                let mut expected: Vec<f32> = order.iter().map(|position| *position as f32).collect();
                expected.resize(count, 99.0);
                let (mut room, mut out) = (vec![0; length], vec![0.5; count]);
                choose_positions(&scores, &mut room, 99.0, &mut out);
                assert_eq!(out, expected, "{scores:?}");
            }
        }
    }

    #[test]
    fn pages_have_their_own() {
        let chosen = [0.0, 3.0, 63.0, 64.0, 200.0, 512.0, 512.0];
        let pages = [0, 64, 128, 192].map(|page| chosen_in_page(&chosen, page));
        assert_eq!(pages, [0..3, 3..4, 4..4, 4..5]);
    }
}
