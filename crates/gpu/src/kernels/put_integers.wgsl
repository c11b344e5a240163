
// Writes one quad of a row of `groups` groups as integers. `block` has the quads of its group at own / 8 * 8;
// this one is own, which is quad modulo 8.
fn put_quad(row: u32, groups: u32, quad: u32, own: u32) {
    var largest = 0.0;
    for (var i = 0u; i < 8u; i++) {
        largest = max(largest, largest_of(block[own / 8u * 8u + i]));
    }
    let inverse = inverse_of(largest);
    let to = row * 3u * groups + quad / 8u;
    integers[(to + quad % 8u / 4u * groups) * 4u + quad % 4u] = bytes_of(block[own], inverse);
    let about = (to + 2u * groups) * 4u;
    if quad % 8u == 1u {
        integers[about] = bitcast<u32>(scale_of(largest));
    }
    if quad % 4u == 0u {
        var sum = 0;
        for (var i = 0u; i < 4u; i++) {
            sum += dot4I8Packed(bytes_of(block[own + i], inverse), 0x01010101u);
        }
        integers[about + 1u + quad % 8u / 4u] = bitcast<u32>(sum);
    }
}
