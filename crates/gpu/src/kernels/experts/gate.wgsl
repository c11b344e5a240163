// x = x · activation(gate of its part). One thread per column, a workgroup row per row of the batch.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < WIDTH {
        let at = id.y * X_STRIDE + X_OFFSET + id.x;
        x[at] = x[at] * activation(gate[id.y * GATE_STRIDE + GATE_OFFSET + id.x / PART]);
    }
}
