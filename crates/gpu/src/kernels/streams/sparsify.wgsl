// x = what lies above the mean of the row by more than SPREAD standard deviations, zero for all else. A workgroup per row:
// lane l of 256 adds up columns l, l + 256, … in order, and the lanes are folded by halves.

var<workgroup> lanes: array<f32, 256>;

fn total(lane: u32, sum: f32) -> f32 {
    workgroupBarrier();
    lanes[lane] = sum;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if lane < half {
            lanes[lane] += lanes[lane + half];
        }
    }
    workgroupBarrier();
    return lanes[0];
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = group.y * X_STRIDE + X_OFFSET;
    var sum = 0.0;
    for (var column = lane; column < WIDTH; column += 256u) {
        sum += x[at + column];
    }
    let mean = total(lane, sum) * INVERSE_WIDTH;
    sum = 0.0;
    for (var column = lane; column < WIDTH; column += 256u) {
        let off = x[at + column] - mean;
        sum = fma(off, off, sum);
    }
    let cut = SPREAD * sqrt(total(lane, sum) / FEWER);
    for (var column = lane; column < WIDTH; column += 256u) {
        let over = x[at + column] - mean - cut;
        x[at + column] = select(over, 0.0, over < 0.0);
    }
}
