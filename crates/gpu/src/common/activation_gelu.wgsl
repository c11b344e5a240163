// The tanh form of GELU, as x · sigmoid(2u) with u = √(2/π)(x + 0.044715 x³).
fn activation(x: f32) -> f32 {
    let u = 0.7978846 * x * fma(0.044715 * x, x, 1.0);
    return x / (1.0 + exponential(-2.0 * u));
}
