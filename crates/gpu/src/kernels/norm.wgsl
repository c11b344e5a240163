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

// Columns of a lane.
const EACH = (WIDTH + 255u) / 256u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let source_at = group.y * SOURCE_STRIDE + SOURCE_OFFSET + group.x * WIDTH;
    let out_at = group.y * OUT_STRIDE + OUT_OFFSET + group.x * WIDTH;
    let addend_at = group.y * ADDEND_STRIDE + ADDEND_OFFSET;
    // All that is read is asked for before anything is written: one after the other they would take most of
    // the time.
    var own: array<f32, EACH>;
    var added: array<f32, EACH>;
    var weights: array<f32, EACH>;
    var biases: array<f32, EACH>;
    for (var i = 0u; i < EACH; i++) {
        let c = min(lane + 256u * i, WIDTH - 1u);
        own[i] = source[source_at + c];
        weights[i] = weight[c];
        if ADD {
            added[i] = addend[addend_at + c];
        }
        if LAYER {
            biases[i] = bias[c];
        }
    }
    var sum = 0.0;
    for (var i = 0u; i < EACH; i++) {
        let c = lane + 256u * i;
        if c < WIDTH {
            if ADD {
                own[i] += added[i];
                source[source_at + c] = own[i];
            }
            sum = select(fma(own[i], own[i], sum), sum + own[i], LAYER);
        }
    }
    sum = fold(lane, sum);
    var mean = 0.0;
    if LAYER {
        mean = sum / f32(WIDTH);
        sum = 0.0;
        for (var i = 0u; i < EACH; i++) {
            if lane + 256u * i < WIDTH {
                let x = own[i] - mean;
                sum = fma(x, x, sum);
            }
        }
        sum = fold(lane, sum);
    }
    let scale = 1.0 / sqrt(sum / f32(WIDTH) + EPSILON);
    for (var i = 0u; i < EACH; i++) {
        let c = lane + 256u * i;
        if c < WIDTH {
            if LAYER {
                out[out_at + c] = fma((own[i] - mean) * scale, weights[i], biases[i]);
            } else {
                out[out_at + c] = own[i] * scale * weights[i];
            }
        }
    }
}
