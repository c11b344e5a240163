// x · sigmoid(x).
fn activation(x: f32) -> f32 {
    return x / (1.0 + exponential(-x));
}
