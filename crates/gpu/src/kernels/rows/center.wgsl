// out = source less its mean, in each head of each row. A workgroup per head: lane l of 256 adds up columns l, l + 256, …
// in order, and the lanes are folded by halves.

var<workgroup> lanes: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let source_at = group.y * SOURCE_STRIDE + SOURCE_OFFSET + group.x * WIDTH;
    let out_at = group.y * OUT_STRIDE + OUT_OFFSET + group.x * WIDTH;
    var sum = 0.0;
    for (var column = lane; column < WIDTH; column += 256u) {
        sum += source[source_at + column];
    }
    lanes[lane] = sum;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if lane < half {
            lanes[lane] += lanes[lane + half];
        }
    }
    workgroupBarrier();
    let total = lanes[0];
    for (var column = lane; column < WIDTH; column += 256u) {
        out[out_at + column] = fma(-total, INVERSE_WIDTH, source[source_at + column]);
    }
}
