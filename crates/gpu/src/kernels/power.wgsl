// 2^x for what is not above zero, as the reference defines it for attention in halves: `exponential` there, of scores
// that are multiplied with log2(e) before. What is not a number stays so.
fn exponential(x: f32) -> f32 {
    let n = round(x);
    let rest = x - n;
    var p = 0.009582853;
    p = fma(p, rest, 0.055906426);
    p = fma(p, rest, 0.24024099);
    p = fma(p, rest, 0.6931242);
    p = fma(p, rest, 1.0);
    return p * bitcast<f32>(u32(max(i32(n), -126) + 127) << 23u);
}
