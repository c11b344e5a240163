// Rows as linear layers of integers read them: every group of 32 columns as bytes with their scale and the sums
// of the first and the last 16. A thread per group, a row of workgroups per row.

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let group = id.x;
    let row = id.y;
    if (group >= shape.groups || row >= row_count()) {
        return;
    }
    var largest = 0u;
    //@for q in EIGHT
    let x_$q = input_quad(row, group * 8u + $q);
    largest = max(largest, largest_of(x_$q));
    //@end
    let inverse = inverse_of(largest);
    //@for q in EIGHT
    let bytes_$q = bytes_of(x_$q, inverse);
    //@end
    var sums = vec2<i32>();
    //@for q in FIRSTHALF
    sums.x += dot4I8Packed(bytes_$q, 0x01010101u);
    //@end
    //@for q in LASTHALF
    sums.y += dot4I8Packed(bytes_$q, 0x01010101u);
    //@end
    let at = (row * shape.groups + group) * 3u;
    output[at] = vec4<u32>(bytes_0, bytes_1, bytes_2, bytes_3);
    output[at + 1u] = vec4<u32>(bytes_4, bytes_5, bytes_6, bytes_7);
    let scaled = bitcast<u32>(scale_of(largest) * f32(sums.x + sums.y));
    output[at + 2u] = vec4<u32>(bitcast<u32>(scale_of(largest)), bitcast<u32>(sums.x), bitcast<u32>(sums.y), scaled);
}
