// A linear layer of integers for many rows on matrix units, which multiply bytes and add exactly: the results are
// the bits of the other kernels of integers.
//
// A workgroup of $THREADS threads computes a tile of $TILEOUTPUTS sums and $TILEROWS rows; each subgroup of 32
// $FRAGMENTSOUT x $FRAGMENTSROW fragments of 16x16. Of a gated layer, the first half of the sums are gates, the
// second half their ups. The chains of the kernel for few rows are computed one after the other. Groups of 32
// columns are staged in workgroup memory, weights by the first threads and inputs by the others, while the group
// before is multiplied, and loaded one earlier.

//@if FIRST
// [stage][sum or row][32 bytes in two vectors, and one of padding, so that the rows of a fragment meet different
// banks]. Where halves of a group have scales of their own there are two of each sum: the first half and zeros, then
// zeros and the last half.
var<workgroup> weights: array<vec4<u32>, $WEIGHTS>;
var<workgroup> inputs: array<vec4<u32>, $INPUTS>;
// [stage][scales of first and last 16 columns, and mins of these][sum], then
// [scale, and that times the sum of all or of the first 16, and of the last 16][row]; at the end
// [subgroup][row][sum]: a fragment each.
var<workgroup> floats: array<f32, $ROOM>;

const STAGE_WEIGHTS = $STAGEWEIGHTS;
const STAGE_FLOATS = 4u * $TILEOUTPUTS + 3u * $TILEROWS;

// The group that follows in the order of chains; after the last one, that again.
fn after(group: u32) -> u32 {
    let next = select(group + 32u, group % 32u + 1u, group + 32u >= shape.groups);
    return min(next, shape.groups - 1u);
}

//@end
// Stages the inputs of a group of a row.
fn stage_row_$BODY(stage: u32, row: u32, first: vec4<u32>, last: vec4<u32>, about: vec4<u32>) {
    let to = (stage * $TILEROWS + row) * 3u;
    inputs[to] = first;
    inputs[to + 1u] = last;
    let at = stage * STAGE_FLOATS + 4u * $TILEOUTPUTS + row;
    let scale = bitcast<f32>(about.x);
    floats[at] = scale;
    //@if WHOLEMINS
    floats[at + $TILEROWS] = bitcast<f32>(about.w);
    //@end
    //@if HALFMINS
    floats[at + $TILEROWS] = scale * f32(bitcast<i32>(about.y));
    floats[at + 2u * $TILEROWS] = scale * f32(bitcast<i32>(about.z));
    //@end
}

//@for m in MATRICES
// Stages the weights of a group of a sum.
fn stage_sum_$m(stage: u32, sum: u32, raw: Raw_$m, group: u32) {
    let words = centred_$m(words_$m(raw, group));
    let to = stage * STAGE_WEIGHTS + sum * 3u;
    let at = stage * STAGE_FLOATS + sum;
    weights[to] = words.first;
    floats[at] = words.scales.x;
    //@if WHOLES
    weights[to + 1u] = words.last;
    //@end
    //@if HALVES
    weights[to + 1u] = vec4<u32>();
    weights[to + 3u * $TILEOUTPUTS] = vec4<u32>();
    weights[to + 3u * $TILEOUTPUTS + 1u] = words.last;
    floats[at + $TILEOUTPUTS] = words.scales.y;
    //@end
    //@if MINS
    floats[at + 2u * $TILEOUTPUTS] = words.scales.z;
    //@end
    //@if HALFMINS
    floats[at + 3u * $TILEOUTPUTS] = words.scales.w;
    //@end
}

//@end
fn body_$BODY(block: u32, block_row: u32, thread: u32, subgroup: u32, lane: u32) {
    let first_output = block * $OUTPUTS;
    let first_row = block_row * $TILEROWS;
    let last_row = max(row_count(), 1u) - 1u;
    let own_sum = subgroup % $GRIDOUT * ($FRAGMENTSOUT * 16u);
    let own_row = subgroup / $GRIDOUT * ($FRAGMENTSROW * 16u);
    let unpacks = thread < $TILEOUTPUTS;
    let staged_output = min(first_output + thread % $OUTPUTS, shape.outputs_$BODY - 1u);
    //@if GATED
    let is_up = thread >= $OUTPUTS;
    var raw_b: Raw_b;
    //@end
    var raw_$BODY: Raw_$BODY;
    let fetched = thread - min(thread, $TILEOUTPUTS);
    //@for i in FETCHES
    let from_$i = min(first_row + fetched + $FETCHERS * $i, last_row) * shape.input_stride;
    var first_$i: vec4<u32>;
    var last_$i: vec4<u32>;
    var about_$i: vec4<u32>;
    //@end

    //@for o in OUTFRAGMENTS
    //@for r in ROWFRAGMENTS
    var acc_$o_$r = Sums();
    var total_$o_$r = Sums();
    //@end
    //@end

    //@text LOAD
    if (unpacks) {
        //@if GATED
        if (is_up) {
            raw_b = load_b(shape.first_b + staged_output, loaded);
        } else {
            raw_$BODY = load_$BODY(shape.first_$BODY + staged_output, loaded);
        }
        //@end
        //@if UNGATED
        raw_$BODY = load_$BODY(shape.first_$BODY + staged_output, loaded);
        //@end
    } else {
        //@for i in FETCHES
        first_$i = input[from_$i + loaded * 3u];
        last_$i = input[from_$i + loaded * 3u + 1u];
        about_$i = input[from_$i + loaded * 3u + 2u];
        //@end
    }
    //@end
    //@text STAGE
    if (unpacks) {
        //@if GATED
        if (is_up) {
            stage_sum_b(stage, thread, raw_b, loaded);
        } else {
            stage_sum_$BODY(stage, thread, raw_$BODY, loaded);
        }
        //@end
        //@if UNGATED
        stage_sum_$BODY(stage, thread, raw_$BODY, loaded);
        //@end
    } else {
        //@for i in FETCHES
        if (fetched + $FETCHERS * $i < $TILEROWS) {
            stage_row_$BODY(stage, fetched + $FETCHERS * $i, first_$i, last_$i, about_$i);
        }
        //@end
    }
    //@end
    // The group that is multiplied, and the one that was loaded last.
    var now = 0u;
    var loaded = 0u;
    {
        let stage = 0u;
$LOAD
$STAGE
    }
    loaded = after(0u);
$LOAD
    workgroupBarrier();
    for (var count = 0u; count < shape.groups; count++) {
        let stage = (count + 1u) % 2u;
$STAGE
        let next = loaded;
        loaded = after(loaded);
$LOAD
        let weights_at = count % 2u * STAGE_WEIGHTS;
        let inputs_at = count % 2u * $TILEROWS * 3u;
        let floats_at = count % 2u * STAGE_FLOATS;
        //@for o in OUTFRAGMENTS
        let sum_$o = own_sum + $o * 16u;
        let left_first_$o = left_at(weights_at + sum_$o * 3u);
        let scale_first_$o = coopLoad<Sums>(&floats[floats_at + sum_$o], 0u);
        //@if HALVES
        let left_last_$o = left_at(weights_at + 3u * $TILEOUTPUTS + sum_$o * 3u);
        let scale_last_$o = coopLoad<Sums>(&floats[floats_at + $TILEOUTPUTS + sum_$o], 0u);
        //@end
        //@if MINS
        let min_first_$o = coopLoad<Sums>(&floats[floats_at + 2u * $TILEOUTPUTS + sum_$o], 0u);
        //@end
        //@if HALFMINS
        let min_last_$o = coopLoad<Sums>(&floats[floats_at + 3u * $TILEOUTPUTS + sum_$o], 0u);
        //@end
        //@end
        //@for r in ROWFRAGMENTS
        {
            let row = own_row + $r * 16u;
            let right = right_at(inputs_at + row * 3u);
            let row_floats = floats_at + 4u * $TILEOUTPUTS + row;
            let scale = coopLoadT<Sums>(&floats[row_floats], 0u);
            //@if MINS
            let rest_first = coopLoadT<Sums>(&floats[row_floats + $TILEROWS], 0u);
            //@end
            //@if HALFMINS
            let rest_last = coopLoadT<Sums>(&floats[row_floats + 2u * $TILEROWS], 0u);
            //@end
            //@for o in OUTFRAGMENTS
            acc_$o_$r = matrix_fma(matrix_product(scale_first_$o, scale), products(left_first_$o, right), acc_$o_$r);
            //@if HALVES
            acc_$o_$r = matrix_fma(matrix_product(scale_last_$o, scale), products(left_last_$o, right), acc_$o_$r);
            //@end
            //@if MINS
            acc_$o_$r = matrix_fma(min_first_$o, rest_first, acc_$o_$r);
            //@end
            //@if HALFMINS
            acc_$o_$r = matrix_fma(min_last_$o, rest_last, acc_$o_$r);
            //@end
            //@end
        }
        //@end
        // The last group of a chain.
        if (now + 32u >= shape.groups) {
            //@for o in OUTFRAGMENTS
            //@for r in ROWFRAGMENTS
            total_$o_$r = total_$o_$r + acc_$o_$r;
            acc_$o_$r = Sums();
            //@end
            //@end
        }
        now = next;
        workgroupBarrier();
    }

    //@for o in OUTFRAGMENTS
    //@for r in ROWFRAGMENTS
    workgroupBarrier();
    coopStore(total_$o_$r, &floats[subgroup * 256u], 16u);
    workgroupBarrier();
    //@if GATED
    // The subgroup that has the ups of the same outputs is half of the grid further; either writes half of the rows.
    {
        let pair = subgroup / $GRIDOUT * $GRIDOUT + subgroup % ($GRIDOUT / 2u);
        let half = subgroup % $GRIDOUT / ($GRIDOUT / 2u);
        for (var i = half * 128u + lane; i < half * 128u + 128u; i += 32u) {
            let row = first_row + own_row + $r * 16u + i / 16u;
            let index = first_output + own_sum % $OUTPUTS + $o * 16u + i % 16u;
            if (row < row_count() && index < shape.outputs_$BODY) {
                let factor = row_factor(row);
                let gate = biased_a(factor, index, floats[pair * 256u + i]);
                let up = biased_b(factor, index, floats[(pair + $GRIDOUT / 2u) * 256u + i]);
                write_a(row, index, gated(gate, up));
            }
        }
    }
    //@end
    //@if UNGATED
    for (var i = lane; i < 256u; i += 32u) {
        let row = first_row + own_row + $r * 16u + i / 16u;
        let index = first_output + own_sum + $o * 16u + i % 16u;
        if (row < row_count() && index < shape.outputs_$BODY) {
            write_$BODY(row, index, biased_$BODY(row_factor(row), index, floats[subgroup * 256u + i]));
        }
    }
    //@end
    //@end
    //@end
}
