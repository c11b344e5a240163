// x = the share that is kept after the time step x: e^(softplus(x + bias) · the decay of its part). One thread per column,
// a workgroup row per row of the batch.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < WIDTH {
        let at = id.y * X_STRIDE + X_OFFSET + id.x;
        x[at] = exponential(softplus(x[at] + dt_bias[id.x]) * decay[id.x / PART]);
    }
}
