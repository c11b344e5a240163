// out = norm(source) over each head (WIDTH columns) of a row by itself; with ADD first source += addend.
// RMS norm: x · (1/√(mean(x²) + ε)) · weight. LAYER norm: (x - mean) · (1/√(variance + ε)) · weight + bias.
//
// A workgroup per head and row. Sums have 256 lanes: lane l takes columns l, l + 256, …, and the lanes are
// folded by halves.

var<workgroup> lanes: array<f32, 256>;

fn fold(lane: u32, value: f32) -> f32 {
    lanes[lane] = value;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half /= 2u) {
        if lane < half {
            lanes[lane] += lanes[lane + half];
        }
        workgroupBarrier();
    }
    let sum = lanes[0];
    workgroupBarrier();
    return sum;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let source_at = group.y * SOURCE_STRIDE + SOURCE_OFFSET + group.x * WIDTH;
    let out_at = group.y * OUT_STRIDE + OUT_OFFSET + group.x * WIDTH;
    let addend_at = group.y * ADDEND_STRIDE + ADDEND_OFFSET;
    var sum = 0.0;
    for (var c = lane; c < WIDTH; c += 256u) {
        var x = source[source_at + c];
        if ADD {
            x += addend[addend_at + c];
            source[source_at + c] = x;
        }
        sum = select(fma(x, x, sum), sum + x, LAYER);
    }
    sum = fold(lane, sum);
    var mean = 0.0;
    if LAYER {
        mean = sum / f32(WIDTH);
        sum = 0.0;
        for (var c = lane; c < WIDTH; c += 256u) {
            let x = source[source_at + c] - mean;
            sum = fma(x, x, sum);
        }
        sum = fold(lane, sum);
    }
    let scale = 1.0 / sqrt(sum / f32(WIDTH) + EPSILON);
    for (var c = lane; c < WIDTH; c += 256u) {
        let x = source[source_at + c];
        if LAYER {
            out[out_at + c] = fma((x - mean) * scale, weight[c], bias[c]);
        } else {
            out[out_at + c] = x * scale * weight[c];
        }
    }
}
