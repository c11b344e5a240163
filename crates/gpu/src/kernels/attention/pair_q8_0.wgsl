// Two neighbouring values of a stored q8_0 value, as they are stored (the word of their integers, that of
// their scale) and as numbers. `at` is where the values of its page and head begin.

alias Part = vec2<f32>;
alias StoredPart = vec2<u32>;

fn load_part(at: u32, slot: u32, pair: u32) -> StoredPart {
    let scales = at + VALUE_WORDS * PAGE + slot * VALUE_SCALES;
    return vec2<u32>(values[at + slot * VALUE_WORDS + pair / 2u], values[scales + pair / 32u]);
}

fn value_part(stored: StoredPart, pair: u32) -> Part {
    let scales = unpack2x16float(stored.y);
    let scale = select(scales.x, scales.y, pair / 16u % 2u == 1u);
    let bits = bitcast<i32>(stored.x >> (16u * (pair % 2u)));
    return vec2<f32>(f32(extractBits(bits, 0u, 8u)), f32(extractBits(bits, 8u, 8u))) * scale;
}
