// Four neighbouring values of a stored f32 value, as they are stored and as numbers. `at` is where the values
// of its page and head begin, in words.

alias Part = vec4<f32>;
alias StoredPart = vec4<u32>;

fn load_part(at: u32, slot: u32, quad: u32) -> StoredPart {
    return values[(at + slot * VALUE_WORDS) / 4u + quad];
}

fn value_part(stored: StoredPart, quad: u32) -> Part {
    return bitcast<vec4<f32>>(stored);
}
