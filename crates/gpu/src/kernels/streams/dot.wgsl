// out = Σ x · y of each head. One thread per head, a workgroup row per row of the batch.

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= HEADS {
        return;
    }
    var sum = 0.0;
    for (var i = id.x * WIDTH; i < (id.x + 1u) * WIDTH; i++) {
        sum = fma(x[id.y * X_STRIDE + X_OFFSET + i], y[id.y * Y_STRIDE + Y_OFFSET + i], sum);
    }
    out[id.y * OUT_STRIDE + OUT_OFFSET + id.x] = sum;
}
