// CAP · tanh(score / CAP) of scores that are multiplied with log2(e), as CAP is; RATE is two over the cap without that. As
// gleed_model::arithmetic::half_soft_cap defines it: no step rounds otherwise where a compiler joins it with the next.
fn capped(score: f32) -> f32 {
    let magnitude = -abs(score);
    let n = round(magnitude * RATE);
    let t = power_of_parts(n, fma(magnitude, RATE, -n));
    let bound = (1.0 - t) * reciprocal(1.0 + t) * CAP;
    return bitcast<f32>((bitcast<u32>(bound) & 0x7fffffffu) | (bitcast<u32>(score) & 0x80000000u));
}

// One over a number from one to two.
fn reciprocal(x: f32) -> f32 {
    let near = fma(fma(0.32323232, x, -1.4545455), x, 2.121212);
    let nearer = fma(fma(-x, near, 1.0), near, near);
    return fma(fma(-x, nearer, 1.0), nearer, nearer);
}
