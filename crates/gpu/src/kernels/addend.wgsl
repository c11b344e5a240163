// What a norm adds to its source.
fn what_is_added(row: u32, quad: u32) -> vec4<f32> {
    let at = row * ADDEND_STRIDE + ADDEND_OFFSET;
    //@if PLAIN
    return addend_quad(at, quad);
    //@end
    //@if COMBINED
    // As combine.wgsl does, with all on its way before anything is added.
    let weights = row * CHOICE_STRIDE + CHOICE_OFFSET + USED;
    //@for s in SLOTS
    let given_$s = addend_quad(at + $s * WIDTH, quad);
    let weight_$s = select(1.0, choice[weights + $s], WEIGHTED);
    //@end
    var sum = vec4<f32>();
    //@for s in SLOTS
    sum = fma(vec4<f32>(weight_$s), given_$s, sum);
    //@end
    return sum;
    //@end
}
