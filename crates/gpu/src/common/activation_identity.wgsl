// x.
fn activation(x: f32) -> f32 {
    return x;
}
