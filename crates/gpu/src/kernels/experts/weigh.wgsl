// out = x · weight for each expert of the row. One thread per column, a workgroup row per row of the batch.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < USED * WIDTH {
        let weight = choice[id.y * CHOICE_STRIDE + CHOICE_OFFSET + USED + id.x / WIDTH];
        out[id.y * OUT_STRIDE + OUT_OFFSET + id.x] = x[id.y * X_STRIDE + X_OFFSET + id.x % WIDTH] * weight;
    }
}
