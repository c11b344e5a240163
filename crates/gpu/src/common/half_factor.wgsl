// The powers of two that bring numbers into the range of halves. Magnitudes are compared by their bits, whose order is
// that of the numbers, with infinity above all of them and what is not a number above that.

const INFINITE_BITS = 0x7f800000u;

fn largest_of(x: vec4<f32>) -> u32 {
    let bits = bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu);
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

// What numbers whose largest magnitude has these bits are divided by: that is then between 2^13 and 2^14. Not a number
// where that is none, or infinite.
fn half_factor(bits: u32) -> f32 {
    let exponent = max(bits >> 23u, 41u) - 13u;
    return bitcast<f32>(select(exponent << 23u, 0x7fc00000u, bits >= INFINITE_BITS));
}

// One over such a factor; of one that is no number nothing.
fn one_over(factor: f32) -> f32 {
    let bits = bitcast<u32>(factor);
    return bitcast<f32>(select((254u << 23u) - bits, 0u, bits >= INFINITE_BITS));
}

fn largest_part(peaks: vec4<u32>) -> u32 {
    return max(max(peaks.x, peaks.y), max(peaks.z, peaks.w));
}

// Four halves of a group, as they are where the row's factor is 1 / ratio times that of the group.
fn halves_of_row(group: vec2<u32>, ratio: f32) -> vec2<u32> {
    return halves_of_quad(vec4<f32>(unpack2x16float(group.x), unpack2x16float(group.y)), ratio);
}

// A quad as halves; zeros where there is nothing to multiply with.
fn halves_of_quad(x: vec4<f32>, up: f32) -> vec2<u32> {
    let scaled = select(vec4<f32>(), x * up, vec4<bool>(up > 0.0));
    // Rounded by a conversion, as packing need not round to the nearest.
    let halves = vec4<f32>(vec4<f16>(scaled));
    return vec2<u32>(pack2x16float(halves.xy), pack2x16float(halves.zw));
}
