// out = norm(source) over each head (WIDTH columns) of a row by itself; with ADD first source += addend.
// RMS norm: x · (1/√(mean(x²) + ε)) · weight. LAYER norm: (x - mean) · (1/√(variance + ε)) · weight + bias.
//
// A workgroup per head and row. Sums have 256 lanes: lane l takes the quads of columns l, l + 256, … one
// column after the other; 16 neighbouring lanes are folded, then the 16 sums of these. A row is read once,
// and all that is read is asked for before anything is written. With INTEGERS the result is also written as
// linear layers of integers read it: eight neighbouring lanes have a group of 32 columns. With HALVES it is also written
// as those of halves do.

var<workgroup> lanes: array<vec4<f32>, 64>;
var<workgroup> blocks: array<vec4<f32>, 4>;

fn fold_lanes(lane: u32, value: f32) -> f32 {
    lanes[lane / 4u][lane % 4u] = value;
    workgroupBarrier();
    if lane < 16u {
        let first = 4u * lane;
        let sum = fold(lanes[first], lanes[first + 1u], lanes[first + 2u], lanes[first + 3u]);
        blocks[lane / 4u][lane % 4u] = sum;
    }
    workgroupBarrier();
    return fold(blocks[0], blocks[1], blocks[2], blocks[3]);
}

// What of a quad is columns of the head: in the last one there may be fewer than four.
fn within(quad: u32) -> vec4<bool> {
    return 4u * quad + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(WIDTH);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let source_at = group.y * SOURCE_STRIDE + SOURCE_OFFSET + group.x * WIDTH;
    let out_at = group.y * OUT_STRIDE + OUT_OFFSET + group.x * WIDTH;
    let addend_at = group.y * ADDEND_STRIDE + ADDEND_OFFSET;
    //@for i in EACH
    let quad_$i = lane + 256u * $i;
    var own_$i = source_quad(source_at, quad_$i);
    //@if ADD
    let added_$i = addend_quad(addend_at, quad_$i);
    //@end
    let weight_$i = weight_quad(group.x * WEIGHTS_STRIDE, quad_$i);
    //@if LAYER
    let bias_$i = bias_quad(0u, quad_$i);
    //@end
    //@end
    var sum = 0.0;
    //@for i in EACH
    //@if ADD
    own_$i += added_$i;
    put_source(source_at, quad_$i, own_$i);
    //@end
    own_$i = select(vec4<f32>(), own_$i, within(quad_$i));
    //@if LAYER
    sum += own_$i.x;
    sum += own_$i.y;
    sum += own_$i.z;
    sum += own_$i.w;
    //@end
    //@if RMS
    sum = fma(own_$i.x, own_$i.x, sum);
    sum = fma(own_$i.y, own_$i.y, sum);
    sum = fma(own_$i.z, own_$i.z, sum);
    sum = fma(own_$i.w, own_$i.w, sum);
    //@end
    //@end
    sum = fold_lanes(lane, sum);
    //@if LAYER
    let total = sum;
    sum = 0.0;
    //@for i in EACH
    // x - mean
    own_$i = fma(vec4<f32>(-total), vec4<f32>(INVERSE_WIDTH), own_$i);
    own_$i = select(vec4<f32>(), own_$i, within(quad_$i));
    sum = fma(own_$i.x, own_$i.x, sum);
    sum = fma(own_$i.y, own_$i.y, sum);
    sum = fma(own_$i.z, own_$i.z, sum);
    sum = fma(own_$i.w, own_$i.w, sum);
    //@end
    sum = fold_lanes(lane, sum);
    //@end
    let scale = inverseSqrt(fma(sum, INVERSE_WIDTH, EPSILON));
    //@for i in EACH
    //@if LAYER
    let result_$i = fma(own_$i * scale, weight_$i, bias_$i);
    //@end
    //@if RMS
    let result_$i = own_$i * scale * weight_$i;
    //@end
    put_out(out_at, quad_$i, result_$i);
    //@if INTEGERS
    put_largest(quad_$i, result_$i);
    //@end
    //@end
    //@if HALVES
    var largest = 0u;
    //@for i in EACH
    let kept_$i = select(vec4<f32>(), result_$i, within(quad_$i));
    let largest_$i = largest_of_group($i, lane, kept_$i);
    largest = max(largest, largest_$i);
    //@end
    let factor = half_factor(largest_of_lanes(lane, largest));
    //@for i in EACH
    put_halves(group.y, quad_$i, largest_$i, factor, kept_$i);
    //@end
    if lane == 0u {
        put_half_factor(group.y, factor);
    }
    //@end
    //@if INTEGERS
    workgroupBarrier();
    //@for i in EACH
    var scale_$i = 0.0;
    if 4u * quad_$i < WIDTH {
        scale_$i = put_bytes(group.y, WIDTH / 32u, quad_$i, quad_$i, result_$i);
    }
    //@end
    workgroupBarrier();
    //@for i in EACH
    if 4u * quad_$i < WIDTH {
        put_about(group.y, WIDTH / 32u, quad_$i, quad_$i, scale_$i);
    }
    //@end
    //@end
}
