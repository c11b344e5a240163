// An RMS norm that linear layers of integers or in halves read: source is x, with ADD source += addend first. What they read
// is x · weight, which needs no sum over the row; the row's factor 1/√(mean(x²) + ε) is for them to multiply their results
// with. The sums of squares of groups are written too, as a layer before may have done instead: of all rows for those who
// add them up themselves, in halves of a row that may be alone (see linear/kernels/halves.wgsl). out = x · factor · weight
// is for ops that read floats.
//
// A workgroup per row; lane l has the quads of columns l, l + 256, …, eight neighbouring lanes a group. All that is
// read is asked for before anything is written.

const GROUPS = WIDTH / 32u;

var<workgroup> lane_squares: array<vec4<f32>, 8>;
var<workgroup> squares: array<vec4<f32>, (GROUPS + 3u) / 4u>;

fn four_squares(row: u32, groups: u32, four: u32) -> vec4<f32> {
    return squares[four];
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = workgroup.y;
    let source_at = row * SOURCE_STRIDE + SOURCE_OFFSET;
    let out_at = row * OUT_STRIDE + OUT_OFFSET;
    let addend_at = row * ADDEND_STRIDE + ADDEND_OFFSET;
    //@for i in EACH
    let quad_$i = lane + 256u * $i;
    var own_$i = source_quad(source_at, quad_$i);
    //@if ADD
    let added_$i = addend_quad(addend_at, quad_$i);
    //@end
    let weight_$i = weight_quad(0u, quad_$i);
    //@end
    //@for i in EACH
    //@if ADD
    own_$i += added_$i;
    put_source(source_at, quad_$i, own_$i);
    //@end
    put_squares(quad_$i, own_$i);
    let product_$i = select(vec4<f32>(), own_$i * weight_$i, 4u * quad_$i < WIDTH);
    //@if INTEGERS
    put_largest(quad_$i, product_$i);
    //@end
    //@end
    workgroupBarrier();
    //@for i in EACH
    //@if INTEGERS
    var scale_$i = 0.0;
    if 4u * quad_$i < WIDTH {
        scale_$i = put_bytes(row, GROUPS, quad_$i, quad_$i, product_$i);
    }
    //@end
    if quad_$i % 8u == 0u && 4u * quad_$i < WIDTH {
        let group = quad_$i / 8u;
        let sum = group_squares(quad_$i);
        squares[group / 4u][group % 4u] = sum;
        //@if INTEGERS
        integers[SQUARES + row * ((GROUPS + 3u) / 4u * 4u) + group] = bitcast<u32>(sum);
        //@end
        //@if HALVES
        if row == 0u {
            halves[HALF_SQUARES + group / 2u][group % 2u] = bitcast<u32>(sum);
        }
        //@end
    }
    //@end
    workgroupBarrier();
    //@if INTEGERS
    //@for i in EACH
    if 4u * quad_$i < WIDTH {
        put_about(row, GROUPS, quad_$i, quad_$i, scale_$i);
    }
    //@end
    //@end
    if lane < 32u {
        lane_squares[lane / 4u][lane % 4u] = lane_sum(0u, GROUPS, lane);
    }
    workgroupBarrier();
    let factor = folded_factor(0u, INVERSE_WIDTH, EPSILON);
    //@for i in EACH
    put_out(out_at, quad_$i, own_$i * factor * weight_$i);
    //@end
    //@if INTEGERS
    if lane == 0u {
        integers[FACTORS + row] = bitcast<u32>(factor);
    }
    //@end
    //@if HALVES
    var largest = 0u;
    //@for i in EACH
    let largest_$i = largest_of_group($i, lane, product_$i);
    largest = max(largest, largest_$i);
    //@end
    let of_row = half_factor(largest_of_lanes(lane, largest));
    //@for i in EACH
    put_halves(row, quad_$i, largest_$i, of_row, product_$i);
    //@end
    if lane == 0u {
        put_half_factor(row, of_row * factor);
    }
    //@end
}
