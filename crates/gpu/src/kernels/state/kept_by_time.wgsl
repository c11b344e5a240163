// The share of a head's state that is kept after its time step, the same for all of its rows.
fn kept_of_all(first_alpha: u32, head: u32) -> f32 {
    return exponential(softplus(alpha[first_alpha + head] + dt_bias[head]) * decay[head]);
}

fn kept_of_row(first_alpha: u32, head: u32, row: u32, kept: f32) -> f32 {
    return kept;
}
