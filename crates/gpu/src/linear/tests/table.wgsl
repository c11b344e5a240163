fn put(at: u32, values: vec4<f32>) {
    for (var i = 0u; i < 4u; i++) {
        out[at + i] = values[i];
    }
}

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= shape.groups {
        return;
    }
    let ready = ready_a(load_a(id.y, id.x), id.x);
    let at = id.y * STRIDE + id.x * 32u;
    put(at + 0u, quad_a_0(ready));
    put(at + 4u, quad_a_1(ready));
    put(at + 8u, quad_a_2(ready));
    put(at + 12u, quad_a_3(ready));
    put(at + 16u, quad_a_4(ready));
    put(at + 20u, quad_a_5(ready));
    put(at + 24u, quad_a_6(ready));
    put(at + 28u, quad_a_7(ready));
}
