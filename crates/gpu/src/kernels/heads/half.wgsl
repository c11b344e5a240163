// The bits of a half, rounded to nearest even whatever the device's own conversion does.
fn half_bits(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let magnitude = bits & 0x7fffffffu;
    if magnitude > 0x7f800000u {
        return sign | 0x7e00u;
    }
    if magnitude >= 0x47800000u {
        return sign | 0x7c00u;
    }
    if magnitude < 0x38800000u {
        // Subnormal: adding a half leaves just the bits that a subnormal half has, rounded.
        return sign | (bitcast<u32>(bitcast<f32>(magnitude) + 0.5) - 0x3f000000u);
    }
    let rounded = magnitude + 0x0fffu + ((magnitude >> 13u) & 1u);
    return sign | ((rounded - 0x38000000u) >> 13u);
}
