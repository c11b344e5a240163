// What a norm adds to its source.
fn what_is_added(row: u32, quad: u32) -> vec4<f32> {
    let at = row * ADDEND_STRIDE + ADDEND_OFFSET;
    //@if PLAIN
    return addend_quad(at, quad);
    //@end
    //@if COMBINED
    // As combine.wgsl does.
    var sum = vec4<f32>();
    for (var slot = 0u; slot < USED; slot++) {
        var weight = 1.0;
        if WEIGHTED {
            weight = choice[row * CHOICE_STRIDE + CHOICE_OFFSET + USED + slot];
        }
        sum = fma(vec4<f32>(weight), addend_quad(at + slot * WIDTH, quad), sum);
    }
    return sum;
    //@end
}
