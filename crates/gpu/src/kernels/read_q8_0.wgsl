// Four values of a stored q8_0 key or value, whose first word is at `at`.

fn integers(word: u32) -> vec4<f32> {
    let bits = bitcast<i32>(word);
    return vec4<f32>(
        f32(extractBits(bits, 0u, 8u)),
        f32(extractBits(bits, 8u, 8u)),
        f32(extractBits(bits, 16u, 8u)),
        f32(extractBits(bits, 24u, 8u)),
    );
}

fn key_quad(at: u32, quad: u32) -> vec4<f32> {
    let block = quad / 8u;
    let scales = unpack2x16float(keys[at + ((KEY_DIM + 3u) / 4u + block / 2u) * PAGE]);
    return integers(keys[at + quad * PAGE]) * select(scales.x, scales.y, block % 2u == 1u);
}

fn value_quad(at: u32, quad: u32) -> vec4<f32> {
    let block = quad / 8u;
    let scales = unpack2x16float(values[at + (VALUE_DIM + 3u) / 4u + block / 2u]);
    return integers(values[at + quad]) * select(scales.x, scales.y, block % 2u == 1u);
}
