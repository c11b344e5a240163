// Four values of a group as the halves of their row: rounded to those of the group, and then where the row's factor is
// 1 / ratio times as large. `zero` is one that compilers do not know: they may leave out what becomes a half and a float
// again, and with it the first rounding.
fn rounded_twice(x: vec4<f32>, up: f32, ratio: f32, zero: u32) -> vec2<u32> {
    return halves_of_row(halves_of_quad(x, up) ^ vec2<u32>(zero), ratio);
}
