// A linear layer for many rows on matrix units: weights and activations are rounded to half precision, products
// are summed in single precision by 16x16x16 matrix products in the order of the columns. Not the bits of the
// other kernels; but the bits of a row still depend on that row alone.
//
// A workgroup of 256 threads, eight subgroups of 32, computes a tile of $TILEOUTPUTS sums and $TILEROWS rows.
// Subgroup s has the half s % 2 of the sums and the quarter s / 2 of the rows: $FRAGMENTSOUT x $FRAGMENTSROW
// fragments of 16x16. Of a gated layer, the first half of the sums are gates, the second half their ups.
// Each group of 32 columns is staged in workgroup memory; the next one is on its way meanwhile.

//@if FIRST
// [sum or row][8 quads and two of padding, so that the rows of a fragment meet different banks]
var<workgroup> weights: array<vec4<f16>, $WEIGHTS>;
var<workgroup> inputs: array<vec4<f16>, $INPUTS>;
// [subgroup][row][sum]: a fragment each.
var<workgroup> results: array<f32, 2048>;

const LARGEST: vec4<f32> = vec4<f32>(65504.0);

// Activations beyond the range of half precision are clamped to it.
fn input_half(value: vec4<f32>) -> vec4<f16> {
    return vec4<f16>(clamp(value, -LARGEST, LARGEST));
}

//@end
fn body_$BODY(block: u32, block_row: u32, thread: u32, subgroup: u32, lane: u32) {
    let first_output = block * $OUTPUTS;
    let first_row = block_row * $TILEROWS;
    let sum_half = subgroup % 2u;
    let row_quarter = subgroup / 2u;

    // Which weights this thread decodes: of one sum, one of the parts that a group is cut in.
    let staged_sum = thread % $TILEOUTPUTS;
    let part = thread / $TILEOUTPUTS;
    let staged_output = min(first_output + staged_sum % $OUTPUTS, shape.outputs_$BODY - 1u);
    //@if GATED
    let is_up = staged_sum >= $OUTPUTS;
    var raw_b = load_b(shape.first_b + staged_output, 0u);
    //@end
    var raw_$BODY = load_$BODY(shape.first_$BODY + staged_output, 0u);
    // And which activations it fetches: a quad of every 32nd row.
    let staged_row = thread / 8u;
    let staged_quad = thread % 8u;
    //@for i in FETCHES
    var fetched_$i = input_quad(first_row + staged_row + 32u * $i, staged_quad);
    //@end

    //@for o in OUTFRAGMENTS
    //@for r in ROWFRAGMENTS
    var sum_$o_$r = coop_mat16x16<f32, C>();
    //@end
    //@end

    for (var group = 0u; group < shape.groups; group++) {
        workgroupBarrier();
        //@if GATED
        if (is_up) {
            let now = ready_b(raw_b, group);
$STOREB
        } else {
            let now = ready_$BODY(raw_$BODY, group);
$STOREBODY
        }
        //@end
        //@if UNGATED
        {
            let now = ready_$BODY(raw_$BODY, group);
$STOREBODY
        }
        //@end
        //@for i in FETCHES
        inputs[(staged_row + 32u * $i) * 10u + staged_quad] = input_half(fetched_$i);
        //@end
        workgroupBarrier();
        let next = min(group + 1u, shape.groups - 1u);
        //@if GATED
        if (is_up) {
            raw_b = load_b(shape.first_b + staged_output, next);
        } else {
            raw_$BODY = load_$BODY(shape.first_$BODY + staged_output, next);
        }
        //@end
        //@if UNGATED
        raw_$BODY = load_$BODY(shape.first_$BODY + staged_output, next);
        //@end
        //@for i in FETCHES
        fetched_$i = input_quad(first_row + staged_row + 32u * $i, next * 8u + staged_quad);
        //@end
        //@for k in TWO
        //@for o in OUTFRAGMENTS
        let left_$k_$o = coopLoadT<coop_mat16x16<f16, A>>(&weights[((sum_half * $FRAGMENTSOUT + $o) * 16u) * 10u + $k * 4u], 10u);
        //@end
        //@for r in ROWFRAGMENTS
        let right_$k_$r = coopLoad<coop_mat16x16<f16, B>>(&inputs[((row_quarter * $FRAGMENTSROW + $r) * 16u) * 10u + $k * 4u], 10u);
        //@for o in OUTFRAGMENTS
        sum_$o_$r = coopMultiplyAdd(left_$k_$o, right_$k_$r, sum_$o_$r);
        //@end
        //@end
        //@end
    }

    //@for o in OUTFRAGMENTS
    //@for r in ROWFRAGMENTS
    workgroupBarrier();
    coopStore(sum_$o_$r, &results[subgroup * 256u], 16u);
    workgroupBarrier();
    //@if GATED
    // A pair of subgroups has gates and ups of the same outputs; either writes half of their rows.
    for (var i = lane; i < 128u; i += 32u) {
        let at = sum_half * 128u + i;
        let row = first_row + (row_quarter * $FRAGMENTSROW + $r) * 16u + at / 16u;
        let index = first_output + $o * 16u + at % 16u;
        if (row < row_count() && index < shape.outputs_$BODY) {
            let pair = row_quarter * 512u + at;
            let gate = biased_a(1.0, index, results[pair]);
            write_a(row, index, gated(gate, biased_b(1.0, index, results[pair + 256u])));
        }
    }
    //@end
    //@if UNGATED
    for (var i = lane; i < 256u; i += 32u) {
        let row = first_row + (row_quarter * $FRAGMENTSROW + $r) * 16u + i / 16u;
        let index = first_output + (sum_half * $FRAGMENTSOUT + $o) * 16u + i % 16u;
        if (row < row_count() && index < shape.outputs_$BODY) {
            write_$BODY(row, index, biased_$BODY(1.0, index, results[subgroup * 256u + i]));
        }
    }
    //@end
    //@end
    //@end
}
