// A linear layer of integers for many rows: bound by arithmetic. A workgroup of 128 threads computes a tile of
// 64 outputs and $TILEROWS rows; a thread 8 outputs (8 apart) and $ROWCOUNT rows (16 apart).
//
// The chains of the kernel for few rows are computed one after the other. For each group of 32 columns the
// first 64 threads unpack the weights of one output each, the others fetch the activations; both are staged
// in workgroup memory, and the next group is on its way meanwhile.

//@if FIRST
// The first and the last 16 columns of each output and row in bytes, and their scales.
var<workgroup> weights_0: array<vec4<u32>, 64>;
var<workgroup> weights_1: array<vec4<u32>, 64>;
var<workgroup> weight_scales: array<vec4<f32>, 64>;
var<workgroup> inputs: array<vec4<u32>, $INPUTS>;

//@end
fn body_$BODY(block: u32, block_row: u32, thread: u32) {
    let first_output = block * 64u;
    let first_row = block_row * $TILEROWS;
    let last_row = max(row_count(), 1u) - 1u;
    let own_output = thread % 8u;
    let own_row = thread / 8u;
    let unpacks = thread < 64u;
    let staged = thread % 64u;
    let staged_output = min(first_output + staged, shape.outputs_$BODY - 1u);
    //@for i in FETCHES
    let from_$i = min(first_row + ($i * 64u + staged) / 3u, last_row) * shape.input_stride + ($i * 64u + staged) % 3u;
    let to_$i = ($i * 64u + staged) % 3u * $TILEROWS + ($i * 64u + staged) / 3u;
    //@end

    //@for o in EIGHT
    //@for r in ROWS
    var acc_$o_$r = 0.0;
    var total_$o_$r = 0.0;
    //@if GATED
    var gate_$o_$r = 0.0;
    //@end
    //@end
    //@end

    //@text LOAD
    if (unpacks) {
        //@if GATED
        if (matrix == 1u) {
            raw_b = load_b(shape.first_b + staged_output, next);
        } else {
            raw_$BODY = load_$BODY(shape.first_$BODY + staged_output, next);
        }
        //@end
        //@if UNGATED
        raw_$BODY = load_$BODY(shape.first_$BODY + staged_output, next);
        //@end
    } else {
        //@for i in FETCHES
        fetched_$i = input[from_$i + next * 3u];
        //@end
    }
    //@end
    //@if GATED
    for (var matrix = 0u; matrix < 2u; matrix++) {
    var raw_b: Raw_b;
    //@end
    var raw_$BODY: Raw_$BODY;
    //@for i in FETCHES
    var fetched_$i: vec4<u32>;
    //@end
    var group = 0u;
    var chain = 0u;
    {
        let next = 0u;
$LOAD
    }
    for (var count = 0u; count < shape.groups; count++) {
        workgroupBarrier();
        if (unpacks) {
            var words: Words;
            //@if GATED
            if (matrix == 1u) {
                words = centred_b(words_b(raw_b, group));
            } else {
                words = centred_$BODY(words_$BODY(raw_$BODY, group));
            }
            //@end
            //@if UNGATED
            words = centred_$BODY(words_$BODY(raw_$BODY, group));
            //@end
            weights_0[staged] = words.first;
            weights_1[staged] = words.last;
            weight_scales[staged] = words.scales;
        } else {
            //@for i in FETCHES
            if ($i * 64u + staged < $TILEROWS * 3u) {
                inputs[to_$i] = fetched_$i;
            }
            //@end
        }
        workgroupBarrier();
        let ends = group + 32u >= shape.groups;
        let next = min(select(group + 32u, chain + 1u, ends), shape.groups - 1u);
$LOAD
        //@for r in ROWS
        let first_$r = inputs[own_row + 16u * $r];
        let last_$r = inputs[$TILEROWS + own_row + 16u * $r];
        let about_$r = inputs[2u * $TILEROWS + own_row + 16u * $r];
        //@end
        //@if TERMSDIFFER
        if (matrix == 1u) {
            //@for o in EIGHT
            let words_$o = Words(weights_0[own_output + 8u * $o], weights_1[own_output + 8u * $o], weight_scales[own_output + 8u * $o]);
            //@for r in ROWS
            acc_$o_$r = term_b(words_$o, first_$r, last_$r, about_$r, 0, acc_$o_$r);
            //@end
            //@end
        } else {
        //@end
            //@for o in EIGHT
            let words_$o = Words(weights_0[own_output + 8u * $o], weights_1[own_output + 8u * $o], weight_scales[own_output + 8u * $o]);
            //@for r in ROWS
            acc_$o_$r = term_$BODY(words_$o, first_$r, last_$r, about_$r, 0, acc_$o_$r);
            //@end
            //@end
        //@if TERMSDIFFER
        }
        //@end
        if (ends) {
            chain++;
            //@for o in EIGHT
            //@for r in ROWS
            total_$o_$r += acc_$o_$r;
            acc_$o_$r = 0.0;
            //@end
            //@end
        }
        group = next;
    }
    //@if GATED
        if (matrix == 0u) {
            //@for o in EIGHT
            //@for r in ROWS
            gate_$o_$r = total_$o_$r;
            total_$o_$r = 0.0;
            //@end
            //@end
        }
    }
    //@end

    //@for r in ROWS
    let factor_$r = row_factor(min(first_row + own_row + 16u * $r, last_row));
    //@end
    //@for o in EIGHT
    let index_$o = first_output + own_output + 8u * $o;
    //@for r in ROWS
    if (index_$o < shape.outputs_$BODY && first_row + own_row + 16u * $r < row_count()) {
        let row = first_row + own_row + 16u * $r;
        //@if GATED
        let gate = biased_a(factor_$r, index_$o, gate_$o_$r);
        write_a(row, index_$o, gated(gate, biased_b(factor_$r, index_$o, total_$o_$r)));
        //@end
        //@if UNGATED
        write_$BODY(row, index_$o, biased_$BODY(factor_$r, index_$o, total_$o_$r));
        //@end
    }
    //@end
    //@end
}
