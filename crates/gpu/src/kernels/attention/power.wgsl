// 2^x for what is not above zero, as the reference defines it for attention in halves: `exponential` there, of scores
// that are multiplied with log2(e) before. What is not a number stays so.
fn exponential(x: f32) -> f32 {
    let n = round(x);
    return power_of_parts(n, x - n);
}

// 2^(n + rest), of a whole number and what is between -1/2 and 1/2.
fn power_of_parts(n: f32, rest: f32) -> f32 {
    var p = 0.009582853;
    p = fma(p, rest, 0.055906426);
    p = fma(p, rest, 0.24024099);
    p = fma(p, rest, 0.6931242);
    p = fma(p, rest, 1.0);
    // The last bits of this sum are n + 127.
    return p * bitcast<f32>(bitcast<u32>(max(n, -126.0) + 12583039.0) << 23u);
}
