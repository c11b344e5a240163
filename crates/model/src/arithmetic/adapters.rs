//! What adapters add to the outputs of linear layers.

/// Adds the product of an adapter's upper matrix, turned (`[rank][output]`), with what its lower one gave: for each output
/// one chain of fused multiply-adds over the ranks in ascending order, starting from zero, and one more that adds it:
/// `x = fma(scale, Σ hidden[r] · up[r], x)`.
#[inline(always)]
pub fn add_low_rank(scale: f32, hidden: &[f32], up: &[f32], x: &mut [f32]) {
    assert_eq!(up.len(), hidden.len() * x.len());
    let width = x.len();
    for (output, x) in x.iter_mut().enumerate() {
        let mut sum = 0.0f32;
        for (r, hidden) in hidden.iter().enumerate() {
            sum = hidden.mul_add(up[r * width + output], sum);
        }
        *x = scale.mul_add(sum, *x);
    }
}
