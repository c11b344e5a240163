// Reads all of `data`, EACH vectors of 16 bytes a thread, neighbouring threads neighbouring ones. The sum is
// written only where it cannot be, so that nothing is left out.

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first = group.x * 256u * EACH + lane;
    var sum = vec4<u32>();
    for (var i = 0u; i < EACH; i++) {
        sum += data[first + i * 256u];
    }
    if all(sum == vec4<u32>(7u, 7u, 7u, 7u)) {
        out[0] = sum.x;
    }
}
