// out = the outputs of each expert of the row: of those it chose, or of all in order.
//
// The matrices of all experts are packed as one, of which this binding has the rows FIRST .. FIRST + COUNT; outputs
// of other rows are left alone. A workgroup has 32 outputs of one slot, a lane each: neighbouring rows lie together.
// Eight threads of a lane take every eighth group of 32 columns, and their sums are added in order.

var<workgroup> sums: array<f32, 256>;

fn input_of(at: u32, column: u32) -> f32 {
    if column < COLUMNS {
        return x[at + column];
    }
    return 0.0;
}

fn added(sum: f32, weights: vec4<f32>, at: u32, column: u32) -> f32 {
    var result = fma(weights.x, input_of(at, column), sum);
    result = fma(weights.y, input_of(at, column + 1u), result);
    result = fma(weights.z, input_of(at, column + 2u), result);
    return fma(weights.w, input_of(at, column + 3u), result);
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = workgroup.y;
    let slot = workgroup.x / TILES;
    let output = workgroup.x % TILES * 32u + thread % 32u;
    var expert = slot;
    if CHOSEN {
        expert = min(u32(choice[row * CHOICE_STRIDE + CHOICE_OFFSET + slot]), EXPERTS - 1u);
    }
    let entry = expert * OUTPUTS + output;
    let mine = output < OUTPUTS && entry >= FIRST && entry - FIRST < COUNT;
    let at = row * X_STRIDE + X_OFFSET + slot * SLOT_STRIDE;
    var sum = 0.0;
    if mine {
        for (var group = thread / 32u; group < shape.groups; group += 8u) {
            let ready = ready_a(load_a(entry - FIRST, group), group);
            let column = group * 32u;
            sum = added(sum, quad_a_0(ready), at, column);
            sum = added(sum, quad_a_1(ready), at, column + 4u);
            sum = added(sum, quad_a_2(ready), at, column + 8u);
            sum = added(sum, quad_a_3(ready), at, column + 12u);
            sum = added(sum, quad_a_4(ready), at, column + 16u);
            sum = added(sum, quad_a_5(ready), at, column + 20u);
            sum = added(sum, quad_a_6(ready), at, column + 24u);
            sum = added(sum, quad_a_7(ready), at, column + 28u);
        }
    }
    sums[thread] = sum;
    workgroupBarrier();
    if thread < 32u && mine {
        var total = sum;
        for (var chain = 1u; chain < 8u; chain++) {
            total += sums[chain * 32u + thread];
        }
        if BIASED {
            total += bias[entry];
        }
        out[row * OUT_STRIDE + OUT_OFFSET + slot * OUTPUTS + output] = total;
    }
}
