// Each stream of out = that of the source, moved by how far its first stream is from the truth, times one more than its
// coefficient. One thread per column, a workgroup row per row of the batch.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= STREAMS * WIDTH {
        return;
    }
    let column = id.x % WIDTH;
    let factor = 1.0 + coefficients[id.y * COEFFICIENTS_STRIDE + COEFFICIENTS_OFFSET + id.x / WIDTH];
    let source_at = id.y * SOURCE_STRIDE + SOURCE_OFFSET;
    let change = truth[id.y * TRUTH_STRIDE + TRUTH_OFFSET + column] - source[source_at + column];
    out[id.y * OUT_STRIDE + OUT_OFFSET + id.x] = fma(factor, change, source[source_at + id.x]);
}
