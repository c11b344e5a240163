// Writes the group of columns that a workgroup of a single row has, as layers of single rows in halves read it: its factor and
// its halves; with ADDS those of sums times the weights of the norm that follows, and the sum of their squares.

var<workgroup> results: array<vec4<f32>, 8>;

fn put_result(own: u32, value: f32) {
    results[own / 4u][own % 4u] = value;
}

//@if ADDS
// What there is of the group once the results are added.
var<workgroup> sums: array<vec4<f32>, 8>;

fn put_sum(own: u32, value: f32, weight: f32) {
    sums[own / 4u][own % 4u] = value;
    put_result(own, value * weight);
}

fn sum_squares() -> f32 {
    let first = vec4<f32>(
        quad_squares(sums[0]), quad_squares(sums[1]), quad_squares(sums[2]), quad_squares(sums[3]),
    );
    let last = vec4<f32>(
        quad_squares(sums[4]), quad_squares(sums[5]), quad_squares(sums[6]), quad_squares(sums[7]),
    );
    return folded_quads(first, last);
}

//@end
// Every thread calls it, after a barrier.
fn write_group(block: u32, thread: u32) {
    if (thread < 16u) {
        var largest = 0u;
        //@for q in EIGHT
        largest = max(largest, largest_of(results[$q]));
        //@end
        let factor = half_factor(largest);
        written[block * 16u + thread] = halves_of_quad(results[thread / 2u], one_over(factor))[thread % 2u];
        if (thread == 0u) {
            written[WRITTEN_FACTORS + block] = bitcast<u32>(factor);
            //@if ADDS
            written[WRITTEN_SQUARES + block] = bitcast<u32>(sum_squares());
            //@end
        }
    }
}
