// x, and no further from zero than FACTOR.
fn mapped(x: f32) -> f32 {
    return select(select(x, FACTOR, x > FACTOR), -FACTOR, x < -FACTOR);
}
