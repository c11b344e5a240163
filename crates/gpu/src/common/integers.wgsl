// How floats become signed bytes: round(x · 127 / largest), to be scaled by largest / 127. What is too small to
// divide by is zero. Where one of the floats is infinite or not a number the bytes are zeros, and the scale is neither
// a number: whatever is multiplied with them is not one.
//
// Magnitudes are compared by their bits, whose order is that of the numbers, with infinity above all of them and what
// is not a number above that: a maximum of floats need not keep it.

// The bits of 4e-37.
const TOO_SMALL = 0x3081ceau;
const INFINITE = 0x7f800000u;

fn inverse_of(largest: u32) -> f32 {
    let divides = largest >= TOO_SMALL && largest < INFINITE;
    return select(0.0, 127.0 / bitcast<f32>(largest), divides);
}

fn scale_of(largest: u32) -> f32 {
    return select(bitcast<f32>(largest) * 0.007874016, 0.0, largest < TOO_SMALL);
}

fn bytes_of(x: vec4<f32>, inverse: f32) -> u32 {
    return select(pack4xI8(vec4<i32>(round(x * inverse))), 0u, inverse == 0.0);
}

fn largest_of(x: vec4<f32>) -> u32 {
    let bits = bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu);
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}
