// x · FACTOR.
fn mapped(x: f32) -> f32 {
    return x * FACTOR;
}
