// FACTOR · tanh(x / FACTOR).
fn mapped(x: f32) -> f32 {
    return FACTOR * (2.0 / (1.0 + exponential(x * (-2.0 / FACTOR))) - 1.0);
}
