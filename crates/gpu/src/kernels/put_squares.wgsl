
// The sum of squares of each group of columns, beside put_integers: put_squares is called with put_largest, and
// group_squares after the next barrier. A quad is one chain, the eight of a group are folded by halves.

var<workgroup> block_squares: array<vec4<f32>, BLOCK_QUADS / 4u>;

fn put_squares(own: u32, x: vec4<f32>) {
    let squares = fma(x.w, x.w, fma(x.z, x.z, fma(x.y, x.y, x.x * x.x)));
    block_squares[own / 4u][own % 4u] = squares;
}

fn group_squares(own: u32) -> f32 {
    let sum = block_squares[own / 8u * 2u] + block_squares[own / 8u * 2u + 1u];
    return (sum.x + sum.z) + (sum.y + sum.w);
}
