// out = Σ taps · inputs of each channel, whose state are the inputs before the row's, the oldest first. One thread per
// channel and segment of rows, which begins with the inputs before that; a workgroup row per sequence.

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let blocks = (CHANNELS + 63u) / 64u;
    let channel = group.x % blocks * 64u + thread;
    if channel >= CHANNELS {
        return;
    }
    let sequence = sequence_of(group.y);
    let rows = step[sequence + 2u];
    let first_tap = channel * (DEPTH + 1u);
    for (var first = group.x / blocks * SEGMENT; first < rows; first += groups.x / blocks * SEGMENT) {
        begin_with(sequence, channel, first);
        for (var r = first; r < min(first + SEGMENT, rows); r++) {
            let record = step[sequence + 1u] + r * RECORD;
            let row = step[record];
            let newest = x[row * X_STRIDE + X_OFFSET + channel];
            var sum = 0.0;
            if BIASED {
                sum = bias[channel];
            }
            for (var i = 0u; i < DEPTH; i++) {
                sum = fma(taps[first_tap + i], held[i], sum);
            }
            sum = fma(taps[first_tap + DEPTH], newest, sum);
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
}

// The inputs before a row: of earlier rows, and before these of the state.
fn begin_with(sequence: u32, channel: u32, first: u32) {
    begin(sequence, channel);
    for (var i = 0u; i < DEPTH; i++) {
        if first + i < DEPTH {
            held[i] = held[first + i];
        } else {
            let row = step[step[sequence + 1u] + (first + i - DEPTH) * RECORD];
            held[i] = x[row * X_STRIDE + X_OFFSET + channel];
        }
    }
}
