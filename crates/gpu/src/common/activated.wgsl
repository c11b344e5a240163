fn activated(gate: f32, up: f32) -> f32 {
    return activation(gate) * up;
}
