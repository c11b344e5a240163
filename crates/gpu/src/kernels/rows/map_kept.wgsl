// e^(-RATE · sigmoid(x)).
fn mapped(x: f32) -> f32 {
    return exponential(-RATE * (1.0 / (1.0 + exponential(-x))));
}
