// 1 / (1 + e^-x).
fn activation(x: f32) -> f32 {
    return 1.0 / (1.0 + exponential(-x));
}
