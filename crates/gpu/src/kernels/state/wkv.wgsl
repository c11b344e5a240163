// RWKV's rule: what the state answers for one key is taken away at another, each row of the state keeps a share of its
// own, and the value is written at a third key; out is what it answers for the query. One thread per channel, with its
// state in variables of their own; a workgroup row per sequence.

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let channel = id.x;
    if channel >= CHANNELS {
        return;
    }
    let first = channel / (CHANNELS / HEADS) * DEPTH;
    let sequence = sequence_of(id.y);
$BEGIN
    for (var r = 0u; r < step[sequence + 2u]; r++) {
        let record = step[sequence + 1u] + r * RECORD;
        let row = step[record];
        let first_asked = row * ASKED_STRIDE + ASKED_OFFSET + first;
        let first_kept = row * KEPT_STRIDE + KEPT_OFFSET + first;
        let first_key = row * KEY_STRIDE + KEY_OFFSET + first;
        let first_removed = row * REMOVED_STRIDE + REMOVED_OFFSET + first;
        let first_query = row * QUERY_STRIDE + QUERY_OFFSET + first;
        let written = value[row * VALUE_STRIDE + VALUE_OFFSET + channel];
        var answer = 0.0;
        //@for i in STATE
        answer = fma(held_$i, asked[first_asked + $i], answer);
        //@end
        var sum = 0.0;
        //@for i in STATE
        held_$i = fma(key[first_key + $i], written, held_$i * kept[first_kept + $i]);
        held_$i = fma(removed[first_removed + $i], -answer, held_$i);
        sum = fma(held_$i, query[first_query + $i], sum);
        //@end
        out[row * OUT_STRIDE + OUT_OFFSET + channel] = sum;
$SAVE
    }
}
