// The values of a stored unit of q8_0: 16, in four quads.

fn integers(word: u32) -> vec4<f32> {
    let bits = bitcast<i32>(word);
    return vec4<f32>(
        f32(extractBits(bits, 0u, 8u)),
        f32(extractBits(bits, 8u, 8u)),
        f32(extractBits(bits, 16u, 8u)),
        f32(extractBits(bits, 24u, 8u)),
    );
}

fn unit_quad_0(unit: vec4<u32>, scale: f32) -> vec4<f32> {
    return integers(unit.x) * scale;
}

fn unit_quad_1(unit: vec4<u32>, scale: f32) -> vec4<f32> {
    return integers(unit.y) * scale;
}

fn unit_quad_2(unit: vec4<u32>, scale: f32) -> vec4<f32> {
    return integers(unit.z) * scale;
}

fn unit_quad_3(unit: vec4<u32>, scale: f32) -> vec4<f32> {
    return integers(unit.w) * scale;
}
