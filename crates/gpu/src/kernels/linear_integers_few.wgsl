// A linear layer of integers for a few rows: bound by reading the weights, which are read once for all rows.
//
// The sum is 32 chains: chain p takes the groups of 32 columns p, p + 32, p + 64, … in order; a group is an
// exact sum of integers, scaled and added (term_a, term_b). The chains are added in ascending order.
//
// A workgroup of $THREADS lanes has slots of 32 lanes; a slot computes $SLOTCOUNT neighbouring outputs, lane p of
// it chain p of each. A lane loads whole groups, $STEPS ahead of where it computes. Where the results become
// integers again, a workgroup has 32 of them, a group. The steps ahead are written out, unless there are two bodies: a
// text that is too long is not found in the instruction cache any more when its turn comes again.
//
// FOLDS: the input is that of an RMS norm but for each row's factor, which every workgroup folds from the sums of
// squares of the row's groups, as there may be nobody else who did; READS: the same, where the norm has written it.
// NORMS: the results are added to what is in the output, x, and x times the weights of the RMS norm that follows is
// what becomes integers, beside the sum of squares of the group of x.
//
// What is needed to end a result is read at the beginning and kept in workgroup memory: a compiler may put off a
// read whose value is kept in a register until the value is needed, when nothing hides how long that takes.

//@if FIRST
// [row][matrix][output of the workgroup][chain and one of padding]
var<workgroup> chains: array<f32, $CHAINS>;

//@if REQUANTIZE
@group(0) @binding(10) var<storage, read_write> integers: array<u32>;

// [row][output of the workgroup]
var<workgroup> block: array<vec4<f32>, $RESULTS>;
const BLOCK_QUADS = $RESULTS;
//@end
//@if NORMS
@group(0) @binding(5) var<storage, read> norm_weight: array<f32>;

// The same of x; before that, what it is added to, and in `block` the weights of the norm.
var<workgroup> block_x: array<vec4<f32>, $RESULTS>;
//@end
//@if READS
var<workgroup> row_factors: array<f32, $ROWCOUNT>;
//@end
//@if FOLDS
// [row][lane]
var<workgroup> lane_squares: array<vec4<f32>, $LANESQUARES>;

fn four_squares(row: u32, groups: u32, four: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(input[shape.squares + row * ((groups + 3u) / 4u) + four]);
}
//@end

fn fold(at: u32) -> f32 {
    // All are asked for before any is added.
    //@for c in CHAINLIST
    let chain_$c = chains[at * 33u + $c];
    //@end
    var sum = chain_0;
    //@for c in LATERCHAINS
    sum += chain_$c;
    //@end
    return sum;
}

//@end
fn body_$BODY(group: u32, block_row: u32, thread: u32) {
    let lane = thread % 32u;
    let slot = thread / 32u;
    let first_output = group * $OUTPUTS;
    let first_row = block_row * $ROWCOUNT;
    let last_row = max(row_count(), 1u) - 1u;
    let last_group = shape.groups - 1u;
    //@for r in ROWS
    let input_$r = min(first_row + $r, last_row) * shape.input_stride;
    //@end
    //@for o in SLOTS
    let output_$o = min(first_output + slot * $SLOTCOUNT + $o, shape.outputs_$BODY - 1u);
    //@end
    //@for m in MATRICES
    //@for o in SLOTS
    //@for s in STEPLIST
    var raw_$m_$o_$s = load_$m(shape.first_$m + output_$o, min(32u * $s + lane, last_group));
    //@end
    //@for r in ROWS
    var acc_$m_$o_$r = 0.0;
    //@end
    //@end
    //@end
    //@if FOLDS
    for (var r = slot; r < $ROWCOUNT; r += $THREADS / 32u) {
        lane_squares[r * 8u + lane / 4u][lane % 4u] = lane_sum(min(first_row + r, last_row), shape.groups, lane);
    }
    //@end
    //@if READS
    if (thread < $ROWCOUNT) {
        row_factors[thread] = row_factor(min(first_row + thread, last_row));
    }
    //@end
    //@if NORMS
    if (thread < $OUTPUTS * $ROWCOUNT) {
        let to_row = min(first_row + thread / $OUTPUTS, last_row);
        let to = first_output + thread % $OUTPUTS;
        block_x[thread / 4u][thread % 4u] = output[shape.output_a + to_row * shape.output_stride + to];
        block[thread / 4u][thread % 4u] = norm_weight[to];
    }
    //@end

    //@text MULTIPLY
            //@for m in MATRICES
            //@for o in SLOTS
            let words_$m_$o = words_$m(now_$m_$o, step);
            //@end
            //@end
            //@for r in ROWS
            {
                let x_0 = input[input_$r + step * 3u];
                let x_1 = input[input_$r + step * 3u + 1u];
                let about = input[input_$r + step * 3u + 2u];
                //@for m in MATRICES
                //@for o in SLOTS
                acc_$m_$o_$r = term_$m(words_$m_$o, x_0, x_1, about, OFFSET_$m, acc_$m_$o_$r);
                //@end
                //@end
            }
            //@end
    //@end
    //@if WRITTENOUT
    for (var first = lane; first < shape.groups; first += 32u * $STEPS) {
        //@for s in STEPLIST
        {
            let step = first + 32u * $s;
            //@for m in MATRICES
            //@for o in SLOTS
            let now_$m_$o = raw_$m_$o_$s;
            raw_$m_$o_$s = load_$m(shape.first_$m + output_$o, min(step + 32u * $STEPS, last_group));
            //@end
            //@end
            if (step < shape.groups) {
$MULTIPLY
            }
        }
        //@end
    }
    //@end
    //@if ROLLED
    for (var step = lane; step < shape.groups; step += 32u) {
        //@for m in MATRICES
        //@for o in SLOTS
        let now_$m_$o = raw_$m_$o_0;
        //@if TWOSTEPS
        raw_$m_$o_0 = raw_$m_$o_1;
        //@end
        raw_$m_$o_$LASTSTEP = load_$m(shape.first_$m + output_$o, min(step + 32u * $STEPS, last_group));
        //@end
        //@end
$MULTIPLY
    }
    //@end

    //@for r in ROWS
    //@for o in SLOTS
    chains[($r * $MATRIXCOUNT * $OUTPUTS + slot * $SLOTCOUNT + $o) * 33u + lane] = acc_$BODY_$o_$r;
    //@if GATED
    chains[(($r * $MATRIXCOUNT + 1u) * $OUTPUTS + slot * $SLOTCOUNT + $o) * 33u + lane] = acc_b_$o_$r;
    //@end
    //@end
    //@end
    workgroupBarrier();
    let own_index = first_output + thread % $OUTPUTS;
    let own_row = first_row + thread / $OUTPUTS;
    if (thread < $OUTPUTS * $ROWCOUNT && own_index < shape.outputs_$BODY && own_row < row_count()) {
        let at = thread / $OUTPUTS * $MATRIXCOUNT * $OUTPUTS + thread % $OUTPUTS;
        //@if READS
        let factor = row_factors[thread / $OUTPUTS];
        //@end
        //@if UNNORMED
        let factor = 1.0;
        //@end
        //@if FOLDS
        let factor = folded_factor(thread / $OUTPUTS * 8u, shape.inverse_width, shape.epsilon);
        //@end
        let result = biased_$BODY(factor, own_index, fold(at));
        //@if GATED
        let value = gated(result, biased_b(factor, own_index, fold(at + $OUTPUTS)));
        write_a(own_row, own_index, value);
        //@if REQUANTIZE
        block[thread / 4u][thread % 4u] = value;
        //@end
        //@end
        //@if NORMS
        let x = block_x[thread / 4u][thread % 4u] + result;
        write_a(own_row, own_index, x);
        block_x[thread / 4u][thread % 4u] = x;
        block[thread / 4u][thread % 4u] *= x;
        //@end
        //@if WRITES
        write_$BODY(own_row, own_index, result);
        //@end
    }
    //@if REQUANTIZE
    workgroupBarrier();
    // Eight threads for the quads of each row.
    let row = first_row + thread / 8u;
    let puts = thread < BLOCK_QUADS && row < row_count();
    var values = vec4<f32>();
    if (puts) {
        values = block[thread];
        put_largest(thread, values);
        //@if NORMS
        put_squares(thread, block_x[thread]);
        //@end
    }
    workgroupBarrier();
    var scale = 0.0;
    if (puts) {
        scale = put_bytes(row, shape.outputs_a / 32u, group * 8u + thread % 8u, thread, values);
    }
    workgroupBarrier();
    if (puts) {
        put_about(row, shape.outputs_a / 32u, group * 8u + thread % 8u, thread, scale);
        //@if NORMS
        if (thread % 8u == 0u) {
            let fours = (shape.outputs_a / 32u + 3u) / 4u;
            integers[shape.written_squares + row * fours * 4u + group] = bitcast<u32>(group_squares(thread));
        }
        //@end
    }
    //@end
}
