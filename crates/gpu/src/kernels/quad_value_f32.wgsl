// Four neighbouring values of a stored f32 value, as they are stored and as numbers. `at` is where the values
// of its page and head begin, in words.

alias StoredQuad = vec4<u32>;

fn load_quad(at: u32, slot: u32, quad: u32) -> StoredQuad {
    return values[(at + slot * VALUE_WORDS) / 4u + quad];
}

fn value_quad(stored: StoredQuad, quad: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(stored);
}
