// x, and no more than FACTOR.
fn mapped(x: f32) -> f32 {
    return select(x, FACTOR, x > FACTOR);
}
