// The plain way: one thread per channel, a workgroup row per sequence.

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let channel = id.x;
    if channel >= CHANNELS {
        return;
    }
    let head = channel / (CHANNELS / HEADS);
    let group = head / (HEADS / GROUPS);
    let sequence = sequence_of(id.y);
    begin(sequence, channel);
    for (var r = 0u; r < step[sequence + 2u]; r++) {
        let record = step[sequence + 1u] + r * RECORD;
        let row = step[record];
        var time = dt[row * DT_STRIDE + DT_OFFSET + head];
        if BIASED {
            time += dt_bias[head];
        }
        time = softplus(time);
        let own = x[row * X_STRIDE + X_OFFSET + channel];
        let input = own * time;
        let first_b = row * B_STRIDE + B_OFFSET + group * DEPTH;
        let first_c = row * C_STRIDE + C_OFFSET + group * DEPTH;
        var sum = skip[head] * own;
        var kept = exponential(time * decay[head * DECAYS]);
        for (var i = 0u; i < DEPTH; i++) {
            if DECAYS > 1u {
                kept = exponential(time * decay[head * DECAYS + i]);
            }
            let value = fma(held[i], kept, b[first_b + i] * input);
            held[i] = value;
            sum = fma(value, c[first_c + i], sum);
        }
        out[row * OUT_STRIDE + OUT_OFFSET + channel] = sum;
        save(record, channel);
    }
}
