// The K largest entries of each chunk of CHUNK of a row, the largest first, of equals the lower token; filled
// up with key 0. A workgroup per chunk sorts it; `entry_at` says where entries come from.
// best: [row][chunk][K] of (key, token).

var<workgroup> keys: array<u32, CHUNK>;
var<workgroup> tokens: array<u32, CHUNK>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    for (var i = lane; i < CHUNK; i += 256u) {
        let at = group.x * CHUNK + i;
        var entry = vec2<u32>(0u, NO_TOKEN);
        if at < WIDTH {
            entry = entry_at(group.y, at);
        }
        keys[i] = entry.x;
        tokens[i] = entry.y;
    }
    workgroupBarrier();
    // A bitonic network: runs of `size` are sorted, in turn downwards and upwards, and merged two by two.
    for (var size = 2u; size <= CHUNK; size *= 2u) {
        for (var gap = size / 2u; gap > 0u; gap /= 2u) {
            for (var pair = lane; pair < CHUNK / 2u; pair += 256u) {
                let a = 2u * pair - (pair & (gap - 1u));
                let b = a + gap;
                let first = keys[a] > keys[b] || (keys[a] == keys[b] && tokens[a] < tokens[b]);
                let downwards = (a & size) == 0u;
                if first != downwards {
                    let key = keys[a];
                    keys[a] = keys[b];
                    keys[b] = key;
                    let token = tokens[a];
                    tokens[a] = tokens[b];
                    tokens[b] = token;
                }
            }
            workgroupBarrier();
        }
    }
    let out = (group.y * CHUNKS + group.x) * K;
    for (var i = lane; i < K; i += 256u) {
        best[out + i] = vec2<u32>(keys[i], tokens[i]);
    }
}
