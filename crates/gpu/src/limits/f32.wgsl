// STEPS multiply-adds in each of sixteen chains a thread, of numbers that no compiler knows.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let factor = vec4<f32>(bitcast<f32>(out[1]));
    let more = vec4<f32>(bitcast<f32>(out[2]));
    var a = vec4<f32>(f32(id.x), 1.0, 2.0, 3.0);
    var b = a + 4.0;
    var c = a + 8.0;
    var d = a + 12.0;
    for (var i = 0u; i < STEPS; i++) {
        a = fma(a, factor, more);
        b = fma(b, factor, more);
        c = fma(c, factor, more);
        d = fma(d, factor, more);
    }
    let sum = a + b + c + d;
    if sum.x + sum.y + sum.z + sum.w == 7.0 {
        out[0] = id.x;
    }
}
