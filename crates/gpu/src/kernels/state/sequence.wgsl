
// The sequences of a step, three words each: the slot that its state is in before its rows (NONE for zeros), where the
// records of its rows begin, and how many there are. The record of a row: which row, where the slots begin that the
// state is written to after it, and how many there are.

const NONE = 0xffffffffu;
const RECORD = 3u;

var<private> held: array<f32, DEPTH>;

fn sequence_of(index: u32) -> u32 {
    return step[STATES] + index * RECORD;
}

fn begin(sequence: u32, channel: u32) {
    let slot = step[sequence];
    for (var i = 0u; i < DEPTH; i++) {
        held[i] = 0.0;
        if slot != NONE {
            held[i] = state[(slot * DEPTH + i) * CHANNELS + channel];
        }
    }
}

fn save(record: u32, channel: u32) {
    for (var s = 0u; s < step[record + 2u]; s++) {
        let slot = step[step[record + 1u] + s];
        for (var i = 0u; i < DEPTH; i++) {
            state[(slot * DEPTH + i) * CHANNELS + channel] = held[i];
        }
    }
}
