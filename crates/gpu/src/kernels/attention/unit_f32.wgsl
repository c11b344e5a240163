// The values of a stored unit of f32: 4.

fn unit_quad_0(unit: vec4<u32>, scale: f32) -> vec4<f32> {
    return bitcast<vec4<f32>>(unit);
}
