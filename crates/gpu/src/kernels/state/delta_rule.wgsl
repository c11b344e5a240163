// The gated delta rule: the state keeps a share of everything, then what it answers for the key moves towards the value;
// out is what it answers for the query. One thread per channel, with its state in variables of their own; a workgroup row
// per sequence.

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let channel = id.x;
    if channel >= CHANNELS {
        return;
    }
    let head = channel / (CHANNELS / HEADS);
    var key_head = head / (HEADS / KEY_HEADS);
    if IN_TURN {
        key_head = head % KEY_HEADS;
    }
    let sequence = sequence_of(id.y);
$BEGIN
    for (var r = 0u; r < step[sequence + 2u]; r++) {
        let record = step[sequence + 1u] + r * RECORD;
        let row = step[record];
        let first_alpha = row * ALPHA_STRIDE + ALPHA_OFFSET;
        let kept = kept_of_all(first_alpha, head);
        let share = 1.0 / (1.0 + exponential(-beta[row * BETA_STRIDE + BETA_OFFSET + head]));
        let first_key = row * KEY_STRIDE + KEY_OFFSET + key_head * DEPTH;
        let first_query = row * QUERY_STRIDE + QUERY_OFFSET + key_head * DEPTH;
        var answer = 0.0;
        //@for i in STATE
        held_$i *= kept_of_row(first_alpha, head, $i, kept);
        answer = fma(held_$i, key[first_key + $i], answer);
        //@end
        let change = (value[row * VALUE_STRIDE + VALUE_OFFSET + channel] - answer) * share;
        var sum = 0.0;
        //@for i in STATE
        held_$i = fma(key[first_key + $i], change, held_$i);
        sum = fma(held_$i, query[first_query + $i], sum);
        //@end
        out[row * OUT_STRIDE + OUT_OFFSET + channel] = sum * SCALE;
$SAVE
    }
}
