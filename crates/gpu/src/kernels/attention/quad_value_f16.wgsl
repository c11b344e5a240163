// Four neighbouring values of a stored f16 value, as they are stored and as numbers. `at` is where the values
// of its page and head begin, in words.

alias Part = vec4<f32>;
alias StoredPart = vec2<u32>;

fn load_part(at: u32, slot: u32, quad: u32) -> StoredPart {
    return values[(at + slot * VALUE_WORDS) / 2u + quad];
}

fn value_part(stored: StoredPart, quad: u32) -> Part {
    return vec4<f32>(unpack2x16float(stored.x), unpack2x16float(stored.y));
}
