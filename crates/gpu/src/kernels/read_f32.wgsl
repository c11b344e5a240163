// Four values of a stored f32 key or value, whose first word is at `at`.

fn key_quad(at: u32, quad: u32) -> vec4<f32> {
    let word = at + 4u * quad * PAGE;
    return bitcast<vec4<f32>>(
        vec4<u32>(keys[word], keys[word + PAGE], keys[word + 2u * PAGE], keys[word + 3u * PAGE]),
    );
}

fn value_quad(at: u32, quad: u32) -> vec4<f32> {
    let word = at + 4u * quad;
    return bitcast<vec4<f32>>(vec4<u32>(values[word], values[word + 1u], values[word + 2u], values[word + 3u]));
}
