// STEPS products of matrices of halves with each of four others a subgroup, of numbers that no compiler knows.

@group(0) @binding(0) var<storage, read_write> out: array<u32>;

fn left_matrix(seed: u32) -> Left {
    return left_of(
        vec4<f16>(halves_of(seed), halves_of(seed ^ 1u)), vec4<f16>(halves_of(seed ^ 2u), halves_of(seed ^ 3u)),
    );
}

@compute @workgroup_size(256)
fn main(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    begin_units(subgroup, lane);
    let factor = out[1];
    let seed = id.x * factor & 0x3bff3bffu;
    let left_0 = left_matrix(seed);
    let left_1 = left_matrix(seed ^ 4u);
    let left_2 = left_matrix(seed ^ 8u);
    let left_3 = left_matrix(seed ^ 16u);
    let right = right_of(vec2<u32>(seed, seed ^ 5u), vec2<u32>(seed ^ 6u, seed ^ 7u));
    var sums_0 = no_sums();
    var sums_1 = no_sums();
    var sums_2 = no_sums();
    var sums_3 = no_sums();
    for (var i = 0u; i < STEPS; i++) {
        sums_0 = multiplied(left_0, right, sums_0);
        sums_1 = multiplied(left_1, right, sums_1);
        sums_2 = multiplied(left_2, right, sums_2);
        sums_3 = multiplied(left_3, right, sums_3);
    }
    let all = totals_of(added(added(added(added(no_totals(), sums_0), sums_1), sums_2), sums_3));
    if (all.near.x == 7.0 && all.far.w == 7.0) {
        out[0] = id.x;
    }
}
