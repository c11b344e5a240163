// STEPS products of four bytes in each of sixteen chains a thread, of numbers that no compiler knows.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let factor = out[1];
    var sums: array<i32, 16>;
    for (var chain = 0u; chain < 16u; chain++) {
        sums[chain] = i32(id.x + chain);
    }
    for (var i = 0u; i < STEPS; i++) {
        for (var chain = 0u; chain < 16u; chain++) {
            sums[chain] += dot4I8Packed(bitcast<u32>(sums[chain]), factor);
        }
    }
    var sum = 0;
    for (var chain = 0u; chain < 16u; chain++) {
        sum += sums[chain];
    }
    if sum == 7 {
        out[0] = id.x;
    }
}
