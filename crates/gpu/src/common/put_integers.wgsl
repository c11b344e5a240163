
// How a kernel writes rows as integers: quads of four neighbouring columns, of which eight are a group, belong to
// one thread each. A kernel has BLOCK_QUADS of them; `own` is a quad's place among them, `quad` its
// place in the row, and both are the same modulo 8. Every thread calls put_largest, put_bytes and put_about, with
// barriers between them.

// Of each quad: the bits of its largest magnitude, and the sum of its bytes.
var<workgroup> block_largest: array<vec4<u32>, BLOCK_QUADS / 4u>;
var<workgroup> block_sums: array<vec4<i32>, BLOCK_QUADS / 4u>;

fn put_largest(own: u32, x: vec4<f32>) {
    block_largest[own / 4u][own % 4u] = largest_of(x);
}

// Writes the bytes of a quad of a row of `groups` groups, and returns the group's scale.
fn put_bytes(row: u32, groups: u32, quad: u32, own: u32, x: vec4<f32>) -> f32 {
    let most = max(block_largest[own / 8u * 2u], block_largest[own / 8u * 2u + 1u]);
    let largest = max(max(most.x, most.y), max(most.z, most.w));
    let bytes = bytes_of(x, inverse_of(largest));
    integers[(row * groups + quad / 8u) * 12u + quad % 8u] = bytes;
    block_sums[own / 4u][own % 4u] = dot4I8Packed(bytes, 0x01010101u);
    return scale_of(largest);
}

// Writes what is about a group: one of its quads does.
fn put_about(row: u32, groups: u32, quad: u32, own: u32, scale: f32) {
    if quad % 8u == 0u {
        let to = (row * groups + quad / 8u) * 12u;
        let first_half = block_sums[own / 4u];
        let last_half = block_sums[own / 4u + 1u];
        let first = first_half.x + first_half.y + first_half.z + first_half.w;
        let last = last_half.x + last_half.y + last_half.z + last_half.w;
        integers[to + 8u] = bitcast<u32>(scale);
        integers[to + 9u] = bitcast<u32>(first);
        integers[to + 10u] = bitcast<u32>(last);
        integers[to + 11u] = bitcast<u32>(scale * f32(first + last));
    }
}
