// Two neighbouring values of a stored f16 value, as they are stored and as numbers. `at` is where the values
// of its page and head begin.

alias Part = vec2<f32>;
alias StoredPart = u32;

fn load_part(at: u32, slot: u32, pair: u32) -> StoredPart {
    return values[at + slot * VALUE_WORDS + pair];
}

fn value_part(stored: StoredPart, pair: u32) -> Part {
    return unpack2x16float(stored);
}
