// Rows as linear layers in halves read them: each as halves times a power of two, which is beside them, filled up with
// zeros to whole groups. A workgroup per row.

var<workgroup> largest: array<u32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = workgroup.y;
    if (row >= row_count()) {
        return;
    }
    let quads = shape.groups * 8u;
    var own = 0u;
    // Several at once, so that none waits for another.
    for (var quad = lane; quad < quads; quad += 1024u) {
        let first = input_quad(row, quad);
        let second = input_quad(row, quad + 256u);
        let third = input_quad(row, quad + 512u);
        let fourth = input_quad(row, quad + 768u);
        own = max(own, max(max(largest_of(first), largest_of(second)), max(largest_of(third), largest_of(fourth))));
    }
    largest[lane] = own;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half /= 2u) {
        if (lane < half) {
            largest[lane] = max(largest[lane], largest[lane + half]);
        }
        workgroupBarrier();
    }
    let factor = half_factor(largest[0]);
    let up = one_over(factor);
    for (var pair = lane; pair < quads / 2u; pair += 256u) {
        let first = halves_of_quad(input_quad(row, 2u * pair), up);
        let second = halves_of_quad(input_quad(row, 2u * pair + 1u), up);
        output[row * shape.groups * 4u + pair] = vec4<u32>(first, second);
    }
    if (lane == 0u) {
        output[shape.factors + row / 4u][row % 4u] = bitcast<u32>(factor);
    }
}
