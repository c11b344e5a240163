
// The sum of squares of a group of 32 columns: each quad is one chain, and the eight quads are folded by halves.

fn quad_squares(x: vec4<f32>) -> f32 {
    return fma(x.w, x.w, fma(x.z, x.z, fma(x.y, x.y, x.x * x.x)));
}

fn folded_quads(first: vec4<f32>, last: vec4<f32>) -> f32 {
    let sum = first + last;
    return (sum.x + sum.z) + (sum.y + sum.w);
}
