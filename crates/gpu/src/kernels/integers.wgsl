// How floats become signed bytes: round(x · 127 / largest), to be scaled by largest / 127. What is too small to
// divide by is zero.

const TOO_SMALL = 4e-37f;

fn inverse_of(largest: f32) -> f32 {
    return select(127.0 / largest, 0.0, largest < TOO_SMALL);
}

fn scale_of(largest: f32) -> f32 {
    return select(largest * 0.007874016, 0.0, largest < TOO_SMALL);
}

fn bytes_of(x: vec4<f32>, inverse: f32) -> u32 {
    return pack4xI8(vec4<i32>(round(x * inverse)));
}

fn largest_of(x: vec4<f32>) -> f32 {
    return max(max(abs(x.x), abs(x.y)), max(abs(x.z), abs(x.w)));
}
