// The values of a stored unit of q8_0: 16, in four quads.

fn signed_bytes(word: u32) -> vec4<f32> {
    let bits = bitcast<i32>(word);
    return vec4<f32>(
        f32(extractBits(bits, 0u, 8u)),
        f32(extractBits(bits, 8u, 8u)),
        f32(extractBits(bits, 16u, 8u)),
        f32(extractBits(bits, 24u, 8u)),
    );
}

fn unit_quad_0(unit: vec4<u32>, scale: f32) -> vec4<f32> {
    return signed_bytes(unit.x) * scale;
}

fn unit_quad_1(unit: vec4<u32>, scale: f32) -> vec4<f32> {
    return signed_bytes(unit.y) * scale;
}

fn unit_quad_2(unit: vec4<u32>, scale: f32) -> vec4<f32> {
    return signed_bytes(unit.z) * scale;
}

fn unit_quad_3(unit: vec4<u32>, scale: f32) -> vec4<f32> {
    return signed_bytes(unit.w) * scale;
}
