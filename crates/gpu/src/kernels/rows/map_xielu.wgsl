// ABOVE · max(x, 0)² + BELOW · (e^min(x, 0) - 1 - min(x, 0)) + SLOPE · x, with e^y - 1 as 2^n · (e^r - 1) + (2^n - 1), as
// the reference defines it.
fn mapped(x: f32) -> f32 {
    let positive = select(x, 0.0, x < 0.0);
    let negative = select(x, 0.0, x > 0.0);
    let y = max(negative, -87.0);
    let n = round(y * 1.4426950408889634);
    let r = fma(n, -1.4286068e-6, fma(n, -0.69314575, y));
    var p = 0.0013888889;
    p = fma(p, r, 0.008333334);
    p = fma(p, r, 0.041666668);
    p = fma(p, r, 0.16666667);
    p = fma(p, r, 0.5);
    p = fma(p, r, 1.0);
    let power = bitcast<f32>(u32(i32(n) + 127) << 23u);
    let bent = fma(power, p * r, power - 1.0) - negative;
    return fma(BELOW, bent, fma(ABOVE * positive, positive, SLOPE * x));
}
