// Writes the results of a row as linear layers in halves read them. All 256 threads of a workgroup have quads of it.

var<workgroup> lane_peaks: array<vec4<u32>, 64>;
var<workgroup> peaks: array<vec4<u32>, 4>;

fn largest_part(peaks: vec4<u32>) -> u32 {
    return max(max(peaks.x, peaks.y), max(peaks.z, peaks.w));
}

// The largest of what all lanes have, by the order of bits.
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

fn put_halves(row: u32, quad: u32, up: f32, values: vec4<f32>) {
    if quad < HALF_QUADS {
        halves[row * HALF_QUADS + quad] = halves_of_quad(values, up);
    }
}

fn put_half_factor(row: u32, factor: f32) {
    halves[HALF_FACTORS + row / 2u][row % 2u] = bitcast<u32>(factor);
}
