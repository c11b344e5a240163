// x = fma(scale · FACTOR, Σ hidden[r] · up[r], x) for rows that take something of the adapter; others keep their bits.
//
// The upper matrices are turned, [expert][RANK][OUTPUTS], so that neighbouring threads read neighbouring memory. One
// thread per column, a workgroup row per row of the batch.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let scale = scales[id.y * SCALES_STRIDE + SCALES_OFFSET + ADAPTER];
    if id.x >= WIDTH || scale == 0.0 {
        return;
    }
    let slot = id.x / OUTPUTS;
    let output = id.x % OUTPUTS;
    var expert = slot;
    if CHOSEN {
        expert = min(u32(choice[id.y * CHOICE_STRIDE + CHOICE_OFFSET + slot]), EXPERTS - 1u);
    }
    let first = id.y * HIDDEN_STRIDE + HIDDEN_OFFSET + slot * RANK;
    var sum = 0.0;
    for (var r = 0u; r < RANK; r++) {
        sum = fma(hidden[first + r], up[(expert * RANK + r) * OUTPUTS + output], sum);
    }
    let at = id.y * X_STRIDE + X_OFFSET + id.x;
    x[at] = fma(scale * FACTOR, sum, x[at]);
}
