// Two neighbouring values of a stored f32 value, as they are stored and as numbers. `at` is where the values
// of its page and head begin, in words.

alias Part = vec2<f32>;
alias StoredPart = vec2<u32>;

fn load_part(at: u32, slot: u32, pair: u32) -> StoredPart {
    return values[(at + slot * VALUE_WORDS) / 2u + pair];
}

fn value_part(stored: StoredPart, pair: u32) -> Part {
    return bitcast<vec2<f32>>(stored);
}
