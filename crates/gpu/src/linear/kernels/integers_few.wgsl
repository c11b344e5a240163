// A linear layer of integers for a few rows: bound by reading the weights, which are read once for all rows.
//
// The sum is 32 chains: chain p takes the groups of 32 columns p, p + 32, p + 64, … in order; a group is an
// exact sum of integers, scaled and added (term_a, term_b). The chains are added in ascending order.
//
// A workgroup of $THREADS lanes has slots of 32 lanes. A slot computes every $ALLSLOTS. chain, one after the other, of
// all outputs of the workgroup, each lane $SLOTCOUNT of them: lanes read neighbouring weights and the same inputs. Weights are
// loaded $STEPS groups ahead of where a lane computes. Where the results become integers again, a workgroup has 32 of
// them, a group.
//
// FOLDS: the input is that of an RMS norm but for each row's factor, which every workgroup folds from the sums of
// squares of the row's groups, as perhaps no other kernel did; READS: the same, where the norm has written it.
// NORMS: the results are added to what is in the output, x, and x times the weights of the RMS norm that follows is
// what becomes integers, beside the sum of squares of the group of x.
//
// What is needed to end a result is read at the beginning and kept in workgroup memory: a compiler may put off a
// read whose value is kept in a register until the value is needed, when nothing hides how long that takes.

//@if FIRST
// [row][matrix][output of the workgroup][chain of those that are kept at a time, and one of padding]
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

// A sum with the chains that are kept added to it.
fn fold(at: u32, before: f32) -> f32 {
    // All are asked for before any is added.
    //@for c in CHAINLIST
    let chain_$c = chains[at * $CHAINSTRIDE + $c];
    //@end
    var sum = before;
    //@for c in CHAINLIST
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
    let output_$o = min(first_output + 32u * $o + lane, shape.outputs_$BODY - 1u);
    //@end
    //@for s in STEPLIST
    //@for m in MATRICES
    //@for o in SLOTS
    var raw_$m_$o_$s = load_$m(shape.first_$m + output_$o, min(slot + 32u * $s, last_group));
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

    // The results that the thread ends: of [row][output].
    //@for f in FOLDED
    let result_$f = thread + $THREADS * $f;
    //@for m in MATRICES
    var total_$m_$f = 0.0;
    //@end
    //@end
    for (var kept = 0u; kept < 32u; kept += $KEPT) {
        for (var chain = kept + slot; chain < kept + $KEPT; chain += $ALLSLOTS) {
            //@for m in MATRICES
            //@for o in SLOTS
            //@for r in ROWS
            var acc_$m_$o_$r = 0.0;
            //@end
            //@end
            //@end
            let next_chain = select(chain + $ALLSLOTS, last_group, chain + $ALLSLOTS >= 32u);
            for (var first = chain; first < shape.groups; first += 32u * $STEPS) {
                let ends = first + 32u * $STEPS >= shape.groups;
                let ahead = select(first + 32u * $STEPS, next_chain, ends);
                //@for s in STEPLIST
                {
                    let group = first + 32u * $s;
                    let next = min(ahead + 32u * $s, last_group);
                    //@for m in MATRICES
                    //@for o in SLOTS
                    let now_$m_$o = raw_$m_$o_$s;
                    raw_$m_$o_$s = load_$m(shape.first_$m + output_$o, next);
                    //@end
                    //@end
                    if (group < shape.groups) {
                        //@for m in MATRICES
                        //@for o in SLOTS
                        let words_$m_$o = words_$m(now_$m_$o, group);
                        //@end
                        //@end
                        //@for r in ROWS
                        {
                            let x_0 = input[input_$r + group * 3u];
                            let x_1 = input[input_$r + group * 3u + 1u];
                            let about = input[input_$r + group * 3u + 2u];
                            //@for m in MATRICES
                            //@for o in SLOTS
                            acc_$m_$o_$r = term_$m(words_$m_$o, x_0, x_1, about, OFFSET_$m, acc_$m_$o_$r);
                            //@end
                            //@end
                        }
                        //@end
                    }
                }
                //@end
            }
            //@for r in ROWS
            //@for o in SLOTS
            chains[($r * $MATRIXCOUNT * $OUTPUTS + 32u * $o + lane) * $CHAINSTRIDE + chain % $KEPT] = acc_$BODY_$o_$r;
            //@if GATED
            chains[(($r * $MATRIXCOUNT + 1u) * $OUTPUTS + 32u * $o + lane) * $CHAINSTRIDE + chain % $KEPT] = acc_b_$o_$r;
            //@end
            //@end
            //@end
        }
        workgroupBarrier();
        //@for f in FOLDED
        if (result_$f < $OUTPUTS * $ROWCOUNT) {
            let at = result_$f / $OUTPUTS * $MATRIXCOUNT * $OUTPUTS + result_$f % $OUTPUTS;
            total_$BODY_$f = fold(at, total_$BODY_$f);
            //@if GATED
            total_b_$f = fold(at + $OUTPUTS, total_b_$f);
            //@end
        }
        //@end
        //@if SEVERALTIMES
        workgroupBarrier();
        //@end
    }
    //@for f in FOLDED
    let own_index_$f = first_output + result_$f % $OUTPUTS;
    let own_row_$f = first_row + result_$f / $OUTPUTS;
    if (result_$f < $OUTPUTS * $ROWCOUNT && own_index_$f < shape.outputs_$BODY && own_row_$f < row_count()) {
        //@if READS
        let factor = row_factors[result_$f / $OUTPUTS];
        //@end
        //@if UNNORMED
        let factor = 1.0;
        //@end
        //@if FOLDS
        let factor = folded_factor(result_$f / $OUTPUTS * 8u, shape.inverse_width, shape.epsilon);
        //@end
        let result = biased_$BODY(factor, own_index_$f, total_$BODY_$f);
        //@if GATED
        let value = gated(result, biased_b(factor, own_index_$f, total_b_$f));
        write_a(own_row_$f, own_index_$f, value);
        //@if REQUANTIZE
        block[result_$f / 4u][result_$f % 4u] = value;
        //@end
        //@end
        //@if NORMS
        let x = block_x[result_$f / 4u][result_$f % 4u] + result;
        write_a(own_row_$f, own_index_$f, x);
        block_x[result_$f / 4u][result_$f % 4u] = x;
        block[result_$f / 4u][result_$f % 4u] *= x;
        //@end
        //@if WRITES
        write_$BODY(own_row_$f, own_index_$f, result);
        //@end
    }
    //@end
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
