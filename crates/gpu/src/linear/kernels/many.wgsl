// A linear layer of floats for many rows: bound by arithmetic. A workgroup of 128 threads computes a tile of 64 outputs
// and $TILEROWS rows; a thread 8 outputs (8 apart) and $ROWCOUNT rows (16 apart).
//
// The chains are computed one after the other, in the order in which they are folded: bit-reversed numbers,
// so that folding is what carrying is to counting, with the sums of 1, 2 and 4 chains set aside.
// For each group of 32 columns the first 64 threads decode the weights of one output each, the others
// fetch the activations; both are staged in workgroup memory.

//@if FIRST
// [output][8 quads] and [row][8 quads], the quads of a row swapped around so that neighbouring rows meet
// different banks.
var<workgroup> weights: array<vec4<f32>, 512>;
var<workgroup> inputs: array<vec4<f32>, $INPUTS>;

fn place(row: u32, quad: u32) -> u32 {
    return row * 8u + (quad ^ (row % 8u));
}

//@end
fn body_$BODY(block: u32, block_row: u32, thread: u32) {
    let first_output = block * 64u;
    let first_row = block_row * $TILEROWS;
    let own_output = thread % 8u;
    let own_row = thread / 8u;
    let decodes = thread < 64u;
    let staged = thread % 64u;
    let staged_output = min(first_output + staged, shape.outputs_$BODY - 1u);

    //@for o in EIGHT
    //@for r in ROWS
    var acc_$o_$r = 0.0;
    var one_$o_$r = 0.0;
    var two_$o_$r = 0.0;
    var four_$o_$r = 0.0;
    //@if GATED
    var gate_$o_$r = 0.0;
    //@end
    //@end
    //@end

    //@if GATED
    for (var matrix = 0u; matrix < 2u; matrix++) {
    //@end
    for (var count = 0u; count < 8u; count++) {
        //@for o in EIGHT
        //@for r in ROWS
        acc_$o_$r = 0.0;
        //@end
        //@end
        let chain = ((count & 1u) << 2u) | (count & 2u) | (count >> 2u);
        for (var group = chain; group < shape.groups; group += 8u) {
            workgroupBarrier();
            if (decodes) {
                //@if GATED
                if (matrix == 1u) {
                    let now = ready_b(load_b(shape.first_b + staged_output, group), group);
                    //@for q in EIGHT
                    weights[place(staged, $q)] = quad_b_$q(now);
                    //@end
                } else {
                //@end
                    let now = ready_$BODY(load_$BODY(shape.first_$BODY + staged_output, group), group);
                    //@for q in EIGHT
                    weights[place(staged, $q)] = quad_$BODY_$q(now);
                    //@end
                //@if GATED
                }
                //@end
            } else {
                // Eight threads fetch the quads of a row, eight rows at a time.
                for (var row = staged / 8u; row < $TILEROWS; row += 8u) {
                    let quad = staged % 8u;
                    inputs[place(row, quad)] = input_quad(first_row + row, group * 8u + quad);
                }
            }
            workgroupBarrier();
            for (var quad = 0u; quad < 8u; quad++) {
                //@for r in ROWS
                let x_$r = inputs[place(own_row + 16u * $r, quad)];
                //@end
                //@for o in EIGHT
                let weight_$o = weights[place(own_output + 8u * $o, quad)];
                //@for r in ROWS
                acc_$o_$r = fma(weight_$o.x, x_$r.x, acc_$o_$r);
                acc_$o_$r = fma(weight_$o.y, x_$r.y, acc_$o_$r);
                acc_$o_$r = fma(weight_$o.z, x_$r.z, acc_$o_$r);
                acc_$o_$r = fma(weight_$o.w, x_$r.w, acc_$o_$r);
                //@end
                //@end
            }
        }
        if ((count & 1u) == 0u) {
            //@for o in EIGHT
            //@for r in ROWS
            one_$o_$r = acc_$o_$r;
            //@end
            //@end
        } else if ((count & 2u) == 0u) {
            //@for o in EIGHT
            //@for r in ROWS
            two_$o_$r = one_$o_$r + acc_$o_$r;
            //@end
            //@end
        } else if ((count & 4u) == 0u) {
            //@for o in EIGHT
            //@for r in ROWS
            four_$o_$r = two_$o_$r + (one_$o_$r + acc_$o_$r);
            //@end
            //@end
        } else {
            //@for o in EIGHT
            //@for r in ROWS
            acc_$o_$r = four_$o_$r + (two_$o_$r + (one_$o_$r + acc_$o_$r));
            //@end
            //@end
        }
    }
    //@if GATED
        if (matrix == 0u) {
            //@for o in EIGHT
            //@for r in ROWS
            gate_$o_$r = acc_$o_$r;
            //@end
            //@end
        }
    }
    //@end

    //@for o in EIGHT
    let index_$o = first_output + own_output + 8u * $o;
    //@for r in ROWS
    if (index_$o < shape.outputs_$BODY && first_row + own_row + 16u * $r < row_count()) {
        let row = first_row + own_row + 16u * $r;
        //@if GATED
        let gate = biased_a(1.0, index_$o, gate_$o_$r);
        write_a(row, index_$o, gated(gate, biased_b(1.0, index_$o, acc_$o_$r)));
        //@end
        //@if UNGATED
        write_$BODY(row, index_$o, biased_$BODY(1.0, index_$o, acc_$o_$r));
        //@end
    }
    //@end
    //@end
}
