
// The sum of squares of each group of columns that a workgroup has: put_squares is called for each of its quads, and
// group_squares after the next barrier.

var<workgroup> block_squares: array<vec4<f32>, BLOCK_QUADS / 4u>;

fn put_squares(own: u32, x: vec4<f32>) {
    block_squares[own / 4u][own % 4u] = quad_squares(x);
}

fn group_squares(own: u32) -> f32 {
    return folded_quads(block_squares[own / 8u * 2u], block_squares[own / 8u * 2u + 1u]);
}
