// Four neighbouring values of a stored q8_0 value, as they are stored (the word of their integers, that of
// their scale) and as numbers. `at` is where the values of its page and head begin, in words.

alias Part = vec4<f32>;
alias StoredPart = vec2<u32>;

fn load_part(at: u32, slot: u32, quad: u32) -> StoredPart {
    let scales = at + VALUE_WORDS * PAGE + slot * VALUE_SCALES;
    return vec2<u32>(values[at + slot * VALUE_WORDS + quad], values[scales + quad / 16u]);
}

fn value_part(stored: StoredPart, quad: u32) -> Part {
    let scales = unpack2x16float(stored.y);
    return signed_bytes(stored.x) * select(scales.x, scales.y, quad / 8u % 2u == 1u);
}
