// Rows as linear layers in halves read them: each as halves times a power of two, which is beside them, filled up with
// zeros to whole groups. A workgroup per row. Row 0 may be alone: its groups have factors of their own then, and all are
// that of the row.

var<workgroup> largest: array<u32, 256>;
// Of each eight columns, in every other turn.
var<workgroup> pair_peaks: array<array<vec4<u32>, 64>, 2>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = workgroup.y;
    if (row >= row_count()) {
        return;
    }
    let quads = shape.groups * 8u;
    var own = 0u;
    // Several at once, so that none waits for another.
    for (var quad = lane; quad < quads; quad += 1024u) {
        let first = input_quad(row, quad);
        let second = input_quad(row, quad + 256u);
        let third = input_quad(row, quad + 512u);
        let fourth = input_quad(row, quad + 768u);
        own = max(own, max(max(largest_of(first), largest_of(second)), max(largest_of(third), largest_of(fourth))));
    }
    largest[lane] = own;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half /= 2u) {
        if (lane < half) {
            largest[lane] = max(largest[lane], largest[lane + half]);
        }
        workgroupBarrier();
    }
    let factor = half_factor(largest[0]);
    let up = one_over(factor);
    for (var turn = 0u; turn * 512u < quads; turn++) {
        let pair = turn * 256u + lane;
        let first = input_quad(row, 2u * pair);
        let second = input_quad(row, 2u * pair + 1u);
        pair_peaks[turn % 2u][lane / 4u][lane % 4u] = max(largest_of(first), largest_of(second));
        workgroupBarrier();
        let group = half_factor(largest_part(pair_peaks[turn % 2u][lane / 4u]));
        if (2u * pair < quads) {
            let of_group = one_over(group);
            let ratio = group * up;
            let zero = row >> 31u;
            let first_half = rounded_twice(first, of_group, ratio, zero);
            let both = vec4<u32>(first_half, rounded_twice(second, of_group, ratio, zero));
            output[row * shape.groups * 4u + pair] = both;
            if (row == 0u && lane % 4u == 0u) {
                output[shape.group_factors + pair / 16u][pair / 4u % 4u] = bitcast<u32>(factor);
            }
        }
    }
    if (lane == 0u) {
        output[shape.factors + row / 4u][row % 4u] = bitcast<u32>(factor);
    }
}
