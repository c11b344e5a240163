
// The factor of an RMS norm of a row, 1/√(mean(x²) + ε), from the sums of squares of its groups of 32 columns. They
// are read four at a time: lane l of 32 adds fours l, l + 32, …; its four sums, and then the lanes, are folded by
// halves. A kernel has lane_squares for each of its rows, eight vectors of it, and the function four_squares.

// What a lane adds up of a row of `groups` groups.
fn lane_sum(row: u32, groups: u32, lane: u32) -> f32 {
    var sum = vec4<f32>();
    for (var four = lane; 4u * four < groups; four += 32u) {
        let there = 4u * four + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(groups);
        sum += select(vec4<f32>(), four_squares(row, groups, four), there);
    }
    return (sum.x + sum.z) + (sum.y + sum.w);
}

// The factor of the row whose lanes' sums start here.
fn folded_factor(at: u32, inverse_width: f32, epsilon: f32) -> f32 {
    let first = (lane_squares[at] + lane_squares[at + 4u]) + (lane_squares[at + 2u] + lane_squares[at + 6u]);
    let last = (lane_squares[at + 1u] + lane_squares[at + 5u]) + (lane_squares[at + 3u] + lane_squares[at + 7u]);
    let sum = first + last;
    return inverseSqrt(fma((sum.x + sum.z) + (sum.y + sum.w), inverse_width, epsilon));
}
