// GELU by the error function: max(x, 0) - |x| · tail(|x|), see the reference. What is not a number stays so.
fn activation(x: f32) -> f32 {
    let magnitude = min(abs(x), 12.7);
    let t = 1.0 / fma(0.2316419, magnitude, 1.0);
    var p = 0.5307027;
    p = fma(p, t, -0.726576);
    p = fma(p, t, 0.7107069);
    p = fma(p, t, -0.14224837);
    p = fma(p, t, 0.1274148);
    let tail = p * t * exponential(-0.5 * magnitude * magnitude);
    return fma(-magnitude, tail, select(x, 0.0, x < 0.0));
}
