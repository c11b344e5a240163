// GPT-OSS's SwiGLU: gate · sigmoid(1.702 gate) · (up + 1), with the gate at most 7 and up between -7 and 7, by
// comparison: min and max need not keep what is not a number.
fn activation(x: f32) -> f32 {
    let gate = select(x, 7.0, x > 7.0);
    return gate / (1.0 + exponential(gate * -1.702));
}

fn activated(gate: f32, up: f32) -> f32 {
    let below = select(up, 7.0, up > 7.0);
    return activation(gate) * (select(below, -7.0, below < -7.0) + 1.0);
}
