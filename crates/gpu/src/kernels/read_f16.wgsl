// Four values of a stored f16 key or value, whose first word is at `at`.

fn key_quad(at: u32, quad: u32) -> vec4<f32> {
    let word = at + 2u * quad * PAGE;
    return vec4<f32>(unpack2x16float(keys[word]), unpack2x16float(keys[word + PAGE]));
}

fn value_quad(at: u32, quad: u32) -> vec4<f32> {
    let word = at + 2u * quad;
    return vec4<f32>(unpack2x16float(values[word]), unpack2x16float(values[word + 1u]));
}
