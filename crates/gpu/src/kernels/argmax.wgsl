// chosen[row] = the column of the largest logit, of equals the first; NO_TOKEN where there is none. A
// workgroup per row.

var<workgroup> best: array<u32, 256>;
var<workgroup> best_at: array<u32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.y * STRIDE + OFFSET;
    var largest = 0u;
    var at = NO_TOKEN;
    for (var c = lane; c < WIDTH; c += 256u) {
        let key = key_of(logits[row + c]);
        if key > largest {
            largest = key;
            at = c;
        }
    }
    best[lane] = largest;
    best_at[lane] = at;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half /= 2u) {
        if lane < half {
            let other = best[lane + half];
            let other_at = best_at[lane + half];
            if other > best[lane] || (other == best[lane] && other_at < best_at[lane]) {
                best[lane] = other;
                best_at[lane] = other_at;
            }
        }
        workgroupBarrier();
    }
    if lane == 0u {
        chosen[group.y] = best_at[0];
    }
}
