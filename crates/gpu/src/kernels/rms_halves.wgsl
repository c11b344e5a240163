// An RMS norm that linear layers in halves read: out = x · factor · weight with x = source, after source += addend with
// ADD, as floats and as halves. Factor is 1/√(mean(x²) + ε), from the sums of squares of groups of columns, which a layer
// before may have written instead: see linear_halves.wgsl. By how much the halves are smaller is settled by the weights.
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
    //@end
    workgroupBarrier();
    //@for i in EACH
    if quad_$i % 8u == 0u && 4u * quad_$i < WIDTH {
        let group = quad_$i / 8u;
        squares[group / 4u][group % 4u] = group_squares(quad_$i);
    }
    //@end
    workgroupBarrier();
    if lane < 32u {
        lane_squares[lane / 4u][lane % 4u] = lane_sum(0u, GROUPS, lane);
    }
    workgroupBarrier();
    let factor = folded_factor(0u, INVERSE_WIDTH, EPSILON);
    //@for i in EACH
    let result_$i = own_$i * factor * weight_$i;
    put_out(out_at, quad_$i, result_$i);
    put_halves(row, quad_$i, one_over(HALF_FACTOR), select(vec4<f32>(), result_$i, 4u * quad_$i < WIDTH));
    //@end
    if lane == 0u {
        put_half_factor(row, HALF_FACTOR);
    }
}
