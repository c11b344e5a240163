// The largest entry of each chunk of CHUNK of a row, of equals the first; with key 0 and NO_TOKEN where there
// is none. A workgroup per chunk; `entry_at` and `put` say where entries come from and go to.

var<workgroup> keys: array<u32, 256>;
var<workgroup> tokens: array<u32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first = group.x * CHUNK;
    let end = min(first + CHUNK, WIDTH);
    var best = vec2<u32>(0u, NO_TOKEN);
    for (var at = first + lane; at < end; at += 256u) {
        let entry = entry_at(group.y, at);
        if entry.x > best.x {
            best = entry;
        }
    }
    keys[lane] = best.x;
    tokens[lane] = best.y;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half /= 2u) {
        if lane < half {
            let key = keys[lane + half];
            let token = tokens[lane + half];
            if key > keys[lane] || (key == keys[lane] && token < tokens[lane]) {
                keys[lane] = key;
                tokens[lane] = token;
            }
        }
        workgroupBarrier();
    }
    if lane == 0u {
        put(group.y, group.x, vec2<u32>(keys[0], tokens[0]));
    }
}
