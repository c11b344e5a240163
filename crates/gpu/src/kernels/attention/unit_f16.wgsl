// The values of a stored unit of f16: 8, in two quads.

fn unit_quad_0(unit: vec4<u32>, scale: f32) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(unit.x), unpack2x16float(unit.y));
}

fn unit_quad_1(unit: vec4<u32>, scale: f32) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(unit.z), unpack2x16float(unit.w));
}
