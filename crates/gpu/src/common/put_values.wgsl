// Writes values of a single row as linear layers of single rows in halves read them: 32 neighbouring threads have a group
// of columns, one each. All threads of the workgroup take part.

var<workgroup> value_peaks: array<vec4<u32>, THREADS / 4u>;
var<workgroup> value_bits: array<u32, THREADS>;

fn put_value(thread: u32, column: u32, value: f32, is_there: bool) {
    value_peaks[thread / 4u][thread % 4u] = bitcast<u32>(value) & 0x7fffffffu;
    workgroupBarrier();
    var all = vec4<u32>();
    for (var i = 0u; i < 8u; i++) {
        all = max(all, value_peaks[thread / 32u * 8u + i]);
    }
    let factor = half_factor(largest_part(all));
    let bits = halves_of_quad(vec4<f32>(value, 0.0, 0.0, 0.0), one_over(factor)).x;
    value_bits[thread] = bits;
    workgroupBarrier();
    if is_there && thread % 2u == 0u {
        written[column / 2u] = bits | value_bits[thread + 1u] << 16u;
    }
    if is_there && thread % 32u == 0u {
        written[WRITTEN_FACTORS + column / 32u] = bitcast<u32>(factor);
    }
}
