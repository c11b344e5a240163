// Two neighbouring values of a stored f32 value, as they are stored and as numbers. `at` is where the values
// of its page and head begin, in words.

alias StoredPair = vec2<u32>;

fn load_pair(at: u32, slot: u32, pair: u32) -> StoredPair {
    return values[(at + slot * VALUE_WORDS) / 2u + pair];
}

fn value_pair(stored: StoredPair, pair: u32) -> vec2<f32> {
    return bitcast<vec2<f32>>(stored);
}
