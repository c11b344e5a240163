@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    if (workgroup.x + workgroup.y > 0u) {
        return;
    }
    for (var tile = 0u; tile * 16u < shape.outputs_a; tile++) {
        for (var group = 0u; group < GROUPS; group++) {
            var raw: Raw_a;
            load_a(&raw, tile, group, 0u, lane);
            for (var side = 0u; side < 2u; side++) {
                let output = tile * 16u + lane / 4u + side * 8u;
                let terms = terms_a(&raw, group % 4u, 0u, side, lane % 4u);
                for (var step = 0u; step < 2u; step++) {
                    let weights = weights_a(&raw, terms, group % 4u, 0u, side, step);
                    for (var e = 0u; e < 4u; e++) {
                        let column = group * 32u + lane % 4u * 8u + step * 4u + e;
                        if (column < shape.columns && output < shape.outputs_a) {
                            write_a(column, output, f32(weights[e]));
                        }
                    }
                }
            }
        }
    }
}
