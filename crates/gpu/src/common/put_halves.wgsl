// Writes the results of a row as linear layers in halves read them. All 256 threads of a workgroup have quads of it, eight
// neighbouring ones a group. Row 0 may be alone: its groups have factors of their own then, and all are that of the row.

var<workgroup> quad_peaks: array<array<vec4<u32>, 64>, 2>;
var<workgroup> lane_peaks: array<vec4<u32>, 64>;
var<workgroup> peaks: array<vec4<u32>, 4>;

// The largest of a group of which each lane has a quad, by the order of bits; turns are counted.
fn largest_of_group(turn: u32, lane: u32, x: vec4<f32>) -> u32 {
    quad_peaks[turn % 2u][lane / 4u][lane % 4u] = largest_of(x);
    workgroupBarrier();
    let at = lane / 8u * 2u;
    return largest_part(max(quad_peaks[turn % 2u][at], quad_peaks[turn % 2u][at + 1u]));
}

// The largest of what all lanes have.
fn largest_of_lanes(lane: u32, value: u32) -> u32 {
    lane_peaks[lane / 4u][lane % 4u] = value;
    workgroupBarrier();
    if lane < 16u {
        let at = 4u * lane;
        let first = max(lane_peaks[at], lane_peaks[at + 1u]);
        peaks[lane / 4u][lane % 4u] = largest_part(max(first, max(lane_peaks[at + 2u], lane_peaks[at + 3u])));
    }
    workgroupBarrier();
    return largest_part(max(max(peaks[0], peaks[1]), max(peaks[2], peaks[3])));
}

// Writes a quad of a group with this largest number, in a row with this factor.
fn put_halves(row: u32, quad: u32, largest: u32, factor: f32, values: vec4<f32>) {
    if quad < HALF_QUADS {
        let group = half_factor(largest);
        halves[row * HALF_QUADS + quad] = rounded_twice(values, one_over(group), group * one_over(factor), row >> 31u);
    }
    if row == 0u && quad < HALF_QUADS && quad % 8u == 0u {
        halves[HALF_GROUPS + quad / 16u][quad / 8u % 2u] = bitcast<u32>(factor);
    }
}

// What results are to be multiplied with.
fn put_half_factor(row: u32, factor: f32) {
    halves[HALF_FACTORS + row / 2u][row % 2u] = bitcast<u32>(factor);
}
