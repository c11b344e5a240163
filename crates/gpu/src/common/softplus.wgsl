
// ln(1 + e^x), as the reference defines it.
fn softplus(x: f32) -> f32 {
    let u = exponential(-abs(x));
    let s = u / (2.0 + u);
    let square = s * s;
    var p = 0.06666667;
    p = fma(p, square, 0.07692308);
    p = fma(p, square, 0.09090909);
    p = fma(p, square, 0.11111111);
    p = fma(p, square, 0.14285715);
    p = fma(p, square, 0.2);
    p = fma(p, square, 0.33333334);
    p = fma(p, square, 1.0);
    return select(x, 0.0, x < 0.0) + 2.0 * s * p;
}
