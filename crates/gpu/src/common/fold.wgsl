// Sixteen sums in one, by halves.
fn fold(a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32>) -> f32 {
    let sum = (a + b) + (c + d);
    return (sum.x + sum.y) + (sum.z + sum.w);
}
