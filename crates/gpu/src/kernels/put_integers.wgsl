
// Writes one quad of a row of `groups` groups as integers. `block` has the quads of its group at own / 8 * 8;
// this one is own, which is quad modulo 8.
fn put_quad(row: u32, groups: u32, quad: u32, own: u32) {
    var largest = 0.0;
    for (var i = 0u; i < 8u; i++) {
        largest = max(largest, largest_of(block[own / 8u * 8u + i]));
    }
    let inverse = inverse_of(largest);
    let to = (row * groups + quad / 8u) * 12u;
    integers[to + quad % 8u] = bytes_of(block[own], inverse);
    if quad % 8u == 1u {
        integers[to + 8u] = bitcast<u32>(scale_of(largest));
    }
    if quad % 8u == 2u {
        var sums = vec2<i32>();
        for (var i = 0u; i < 4u; i++) {
            sums.x += dot4I8Packed(bytes_of(block[own - 2u + i], inverse), 0x01010101u);
            sums.y += dot4I8Packed(bytes_of(block[own + 2u + i], inverse), 0x01010101u);
        }
        integers[to + 9u] = bitcast<u32>(sums.x);
        integers[to + 10u] = bitcast<u32>(sums.y);
        integers[to + 11u] = bitcast<u32>(scale_of(largest) * f32(sums.x + sums.y));
    }
}
