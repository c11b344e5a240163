// An RMS norm that linear layers of integers read: source is x, with ADD source += addend first. What becomes
// integers is x · weight, which needs no sum over the row; the row's factor 1/√(mean(x²) + ε) is written beside it,
// for the layers to multiply their results with, and so are the sums of squares of all groups, for those that fold
// them themselves. out = x · factor · weight is for whoever reads floats.
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
    let product_$i = own_$i * weight_$i;
    put_largest(quad_$i, product_$i);
    put_squares(quad_$i, own_$i);
    //@end
    workgroupBarrier();
    //@for i in EACH
    var scale_$i = 0.0;
    if 4u * quad_$i < WIDTH {
        scale_$i = put_bytes(row, GROUPS, quad_$i, quad_$i, product_$i);
        if quad_$i % 8u == 0u {
            let group = quad_$i / 8u;
            let sum = group_squares(quad_$i);
            squares[group / 4u][group % 4u] = sum;
            integers[SQUARES + row * ((GROUPS + 3u) / 4u * 4u) + group] = bitcast<u32>(sum);
        }
    }
    //@end
    workgroupBarrier();
    //@for i in EACH
    if 4u * quad_$i < WIDTH {
        put_about(row, GROUPS, quad_$i, quad_$i, scale_$i);
    }
    //@end
    if lane < 32u {
        lane_squares[lane / 4u][lane % 4u] = lane_sum(0u, GROUPS, lane);
    }
    workgroupBarrier();
    let factor = folded_factor(0u, INVERSE_WIDTH, EPSILON);
    if lane == 0u {
        integers[FACTORS + row] = bitcast<u32>(factor);
    }
    //@for i in EACH
    put_out(out_at, quad_$i, own_$i * factor * weight_$i);
    //@end
}
