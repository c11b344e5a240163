// The shares of the rows of a head's state that are kept.
fn kept_of_all(first_alpha: u32, head: u32) -> f32 {
    return 0.0;
}

fn kept_of_row(first_alpha: u32, head: u32, row: u32, kept: f32) -> f32 {
    return alpha[first_alpha + head * DEPTH + row];
}
