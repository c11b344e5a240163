// Rows that experts read as halves: a row, or each of the parts of one that its experts have for themselves. Each is
// halves times a power of two, which is beside them, filled up with zeros to whole groups. A workgroup per part.

var<workgroup> peaks: array<u32, 256>;
// Of each quad, in every other turn.
var<workgroup> quad_peaks: array<array<vec4<u32>, 64>, 2>;

fn value_of(at: u32, column: u32) -> f32 {
    return select(0.0, x[at + min(column, COLUMNS - 1u)], column < COLUMNS);
}

fn quad_of(at: u32, quad: u32) -> vec4<f32> {
    let column = 4u * quad;
    return vec4<f32>(
        value_of(at, column), value_of(at, column + 1u), value_of(at, column + 2u), value_of(at, column + 3u),
    );
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = workgroup.y * X_STRIDE + X_OFFSET + workgroup.x * COLUMNS;
    var largest = 0u;
    for (var quad = lane; quad < QUADS; quad += 256u) {
        largest = max(largest, largest_of(quad_of(at, quad)));
    }
    peaks[lane] = largest;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half /= 2u) {
        if lane < half {
            peaks[lane] = max(peaks[lane], peaks[lane + half]);
        }
        workgroupBarrier();
    }
    let factor = half_factor(peaks[0]);
    let up = one_over(factor);
    let row = workgroup.y * PARTS + workgroup.x;
    for (var turn = 0u; turn * 256u < QUADS; turn++) {
        let quad = turn * 256u + lane;
        let values = quad_of(at, quad);
        quad_peaks[turn % 2u][lane / 4u][lane % 4u] = largest_of(values);
        workgroupBarrier();
        let both = lane / 8u * 2u;
        let group = half_factor(largest_part(max(quad_peaks[turn % 2u][both], quad_peaks[turn % 2u][both + 1u])));
        if quad < QUADS {
            halves[row * QUADS + quad] = rounded_twice(values, one_over(group), group * up, row >> 31u);
        }
    }
    if lane == 0u {
        halves[2u * FACTORS + row / 2u][row % 2u] = bitcast<u32>(factor);
    }
}
