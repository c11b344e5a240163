// out = source times a vector, column by column. One thread per column, a workgroup row per row of the batch.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < WIDTH {
        out[id.y * OUT_STRIDE + OUT_OFFSET + id.x] =
            source[id.y * SOURCE_STRIDE + SOURCE_OFFSET + id.x] * weight[id.x];
    }
}
