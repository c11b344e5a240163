// A linear layer of floats for a few rows: bound by reading the weights, which are read once for all rows.
//
// The sum is eight chains: chain p takes the groups of 32 columns p, p + 8, p + 16, … in order, each column
// by column, acc = fma(weight, input, acc); they are folded ((c0+c4)+(c2+c6))+((c1+c5)+(c3+c7)).
//
// A workgroup of 128 lanes has 16 slots of 8 lanes; a slot computes the outputs slot, slot + 16, … of its
// workgroup, and lane p of it chain p. A lane loads a whole group at a time, several ahead of
// where it computes. The rows' activations are staged in workgroup memory, $STEPS · 256 columns at a time.

//@if FIRST
// [row][group of the stage][8 vectors and one of padding, so that the lanes of a slot meet different banks]
var<workgroup> stage: array<vec4<f32>, $STAGE>;
// [row][matrix][output of the slot][slot][chain]
var<workgroup> chains: array<f32, $CHAINS>;

fn fold(at: u32) -> f32 {
    return ((chains[at] + chains[at + 4u]) + (chains[at + 2u] + chains[at + 6u]))
        + ((chains[at + 1u] + chains[at + 5u]) + (chains[at + 3u] + chains[at + 7u]));
}

//@end
fn body_$BODY(block: u32, block_row: u32, thread: u32) {
    let lane = $LANE;
    let slot = $SLOT;
    let first_output = block * $OUTPUTS + slot;
    let first_row = block_row * $ROWCOUNT;
    let last_group = shape.groups - 1u;
    //@for o in SLOTS
    let output_$o = min(first_output + 16u * $o, shape.outputs_$BODY - 1u);
    //@end

    //@for m in MATRICES
    //@for o in SLOTS
    //@for s in STEPLIST
    var raw_$m_$o_$s = load_$m(shape.first_$m + output_$o, min(8u * $s + lane, last_group));
    //@end
    //@for r in ROWS
    var acc_$m_$o_$r = 0.0;
    //@end
    //@end
    //@end
    //@for i in STAGELOADS
    var staged_$i = input_quad(first_row + ($i * 128u + thread) / $QUADS, ($i * 128u + thread) % $QUADS);
    //@end

    for (var first = 0u; first < shape.groups; first += 8u * $STEPS) {
        workgroupBarrier();
        //@for i in STAGELOADS
        if ($i * 128u + thread < $QUADS * $ROWCOUNT) {
            let quad = $i * 128u + thread;
            stage[quad / 8u * 9u + quad % 8u] = staged_$i;
        }
        //@end
        workgroupBarrier();
        // What the next stage needs is on its way while this one is computed.
        let next = first + 8u * $STEPS;
        //@for i in STAGELOADS
        staged_$i = input_quad(first_row + ($i * 128u + thread) / $QUADS, next * 8u + ($i * 128u + thread) % $QUADS);
        //@end
        //@for s in STEPLIST
        {
            let group = first + 8u * $s + lane;
            //@for m in MATRICES
            //@for o in SLOTS
            let now_$m_$o = ready_$m(raw_$m_$o_$s, group);
            raw_$m_$o_$s = load_$m(shape.first_$m + output_$o, min(group + 8u * $STEPS, last_group));
            //@end
            //@end
            if (group < shape.groups) {
                //@for q in EIGHT
                //@for m in MATRICES
                //@for o in SLOTS
                let weight_$m_$o_$q = quad_$m_$q(now_$m_$o);
                //@end
                //@end
                //@for r in ROWS
                let x_$q_$r = stage[(($r * $STEPS + $s) * 8u + lane) * 9u + $q];
                //@for m in MATRICES
                //@for o in SLOTS
                acc_$m_$o_$r = fma(weight_$m_$o_$q.x, x_$q_$r.x, acc_$m_$o_$r);
                acc_$m_$o_$r = fma(weight_$m_$o_$q.y, x_$q_$r.y, acc_$m_$o_$r);
                acc_$m_$o_$r = fma(weight_$m_$o_$q.z, x_$q_$r.z, acc_$m_$o_$r);
                acc_$m_$o_$r = fma(weight_$m_$o_$q.w, x_$q_$r.w, acc_$m_$o_$r);
                //@end
                //@end
                //@end
                //@end
            }
        }
        //@end
    }

    //@for r in ROWS
    //@for o in SLOTS
    chains[($r * $SLOTCOUNT + $o) * $MATRIXCOUNT * 128u + slot * 8u + lane] = acc_$BODY_$o_$r;
    //@if GATED
    chains[($r * $SLOTCOUNT + $o) * $MATRIXCOUNT * 128u + 128u + slot * 8u + lane] = acc_b_$o_$r;
    //@end
    //@end
    //@end
    workgroupBarrier();
    // Lane r of a slot has row r.
    let row = first_row + lane;
    if (lane < $ROWCOUNT && row < row_count()) {
        //@for o in SLOTS
        if (first_output + 16u * $o < shape.outputs_$BODY) {
            let index = first_output + 16u * $o;
            let at = (lane * $SLOTCOUNT + $o) * $MATRIXCOUNT * 128u + slot * 8u;
            let result_$o = biased_$BODY(1.0, index, fold(at));
            //@if GATED
            write_a(row, index, gated(result_$o, biased_b(1.0, index, fold(at + 128u))));
            //@end
            //@if UNGATED
            write_$BODY(row, index, result_$o);
            //@end
        }
        //@end
    }
}
