// out = the input of the row before, which is the state. One thread per channel, a workgroup row per sequence.

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
        out[row * OUT_STRIDE + OUT_OFFSET + channel] = held[0];
        held[0] = x[row * X_STRIDE + X_OFFSET + channel];
        save(record, channel);
    }
}
