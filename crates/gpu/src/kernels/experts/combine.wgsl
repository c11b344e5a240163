// out = Σ weight · x over the experts of the row, in order of rank. One thread per column, a workgroup row per row of
// the batch.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= WIDTH {
        return;
    }
    var sum = 0.0;
    for (var slot = 0u; slot < USED; slot++) {
        var weight = 1.0;
        if WEIGHTED {
            weight = choice[id.y * CHOICE_STRIDE + CHOICE_OFFSET + USED + slot];
        }
        sum = fma(weight, x[id.y * X_STRIDE + X_OFFSET + slot * WIDTH + id.x], sum);
    }
    out[id.y * OUT_STRIDE + OUT_OFFSET + id.x] = sum;
}
