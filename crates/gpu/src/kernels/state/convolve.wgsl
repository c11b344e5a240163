// out = Σ taps · inputs of each channel, whose state are the inputs before the row's, the oldest first. One thread per
// channel, a workgroup row per sequence.

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let channel = id.x;
    if channel >= CHANNELS {
        return;
    }
    let sequence = sequence_of(id.y);
    begin(sequence, channel);
    for (var r = 0u; r < step[sequence + 2u]; r++) {
        let record = step[sequence + 1u] + r * RECORD;
        let row = step[record];
        let newest = x[row * X_STRIDE + X_OFFSET + channel];
        let first = channel * (DEPTH + 1u);
        var sum = 0.0;
        if BIASED {
            sum = bias[channel];
        }
        for (var i = 0u; i < DEPTH; i++) {
            sum = fma(taps[first + i], held[i], sum);
        }
        sum = fma(taps[first + DEPTH], newest, sum);
        if SILU {
            sum = sum / (1.0 + exponential(-sum));
        }
        out[row * OUT_STRIDE + OUT_OFFSET + channel] = sum;
        for (var i = 1u; i < DEPTH; i++) {
            held[i - 1u] = held[i];
        }
        held[DEPTH - 1u] = newest;
        save(record, channel);
    }
}
