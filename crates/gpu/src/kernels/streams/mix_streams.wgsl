// Each stream of out = that of the source and the sum of all its streams times the stream's coefficients. One thread per
// column, a workgroup row per row of the batch.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= STREAMS * WIDTH {
        return;
    }
    let first = id.y * COEFFICIENTS_STRIDE + COEFFICIENTS_OFFSET + id.x / WIDTH * STREAMS;
    let source_at = id.y * SOURCE_STRIDE + SOURCE_OFFSET;
    var sum = source[source_at + id.x];
    for (var stream = 0u; stream < STREAMS; stream++) {
        sum = fma(coefficients[first + stream], source[source_at + stream * WIDTH + id.x % WIDTH], sum);
    }
    out[id.y * OUT_STRIDE + OUT_OFFSET + id.x] = sum;
}
