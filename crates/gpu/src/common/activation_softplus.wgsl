// ln(1 + e^x).
fn activation(x: f32) -> f32 {
    return softplus(x);
}
