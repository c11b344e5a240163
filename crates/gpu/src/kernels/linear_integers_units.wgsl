// A linear layer of integers for many rows on matrix units, which multiply bytes and add exactly: the results are
// the bits of the other kernels of integers.
//
// A workgroup of $THREADS threads computes a tile of $TILEOUTPUTS sums and $TILEROWS rows, each subgroup of 32
// fragments of 16x16 of them; of a gated layer, those of gates and then those of the ups of the same outputs. The
// chains of the kernel for few rows are computed one after the other. Groups of 32 columns are staged in workgroup
// memory, weights by the first threads and inputs by the others, while the group before is multiplied, and loaded one
// earlier.
//
// Neighbouring threads read neighbouring vectors where they can: a load that meets 32 lines of memory takes eight times as
// long as one that meets four, and that is a large part of what bounds this kernel.

//@if FIRST
// [stage][sum][32 bytes in two vectors, and one of padding, so that the sums of a fragment meet different banks]. Where
// halves of a group have scales of their own there are two of each sum: the first half and zeros, then zeros and the
// last half.
var<workgroup> weights: array<vec4<u32>, $WEIGHTS>;
// [stage][row][3], as the input has it.
var<workgroup> inputs: array<vec4<u32>, $INPUTS>;
// [stage][sum]: its scale and min, or where halves have their own, both scales; then both mins.
var<workgroup> sum_scales: array<vec2<f32>, $SUMSCALES>;

const STAGE_WEIGHTS = $STAGEWEIGHTS;
// How far the sums of either part of what a lane has are from the first.
const SUMS_near = 0u;
const SUMS_far = 8u;

// The group that follows in the order of chains; after the last one, that again.
fn after(group: u32) -> u32 {
    let next = select(group + 32u, group % 32u + 1u, group + 32u >= shape.groups);
    return min(next, shape.groups - 1u);
}

//@end
// Stages the weights of a group of a sum.
fn stage_sum_$BODY(stage: u32, sum: u32, raw: Raw_$BODY, group: u32) {
    let words = centred_$BODY(words_$BODY(raw, group));
    let to = stage * STAGE_WEIGHTS + sum * 3u;
    let at = stage * $TILEOUTPUTS + sum;
    weights[to] = words.first;
    //@if WHOLES
    weights[to + 1u] = words.last;
    sum_scales[at] = words.scales.xz;
    //@end
    //@if HALVES
    weights[to + 3u * $TILEOUTPUTS + 1u] = words.last;
    sum_scales[at] = words.scales.xy;
    //@end
    //@if HALFMINS
    sum_scales[2u * $TILEOUTPUTS + at] = words.scales.zw;
    //@end
}

fn body_$BODY(block: u32, block_row: u32, thread: u32, subgroup: u32, lane: u32) {
    let first_output = block * $OUTPUTS;
    let first_row = block_row * $TILEROWS;
    let last_row = max(row_count(), 1u) - 1u;
    // The first output, sum and row of the subgroup, and what the lane has of each fragment.
    let own_output = subgroup % $GRIDOUT * $OWNOUTPUTS;
    let own_sum = own_output * $MATRIXCOUNT;
    let own_row = subgroup / $GRIDOUT * ($FRAGMENTSROW * 16u);
    let lane_sum = lane / 4u;
    let lane_row = 2u * (lane % 4u);
    let at_$BODY = own_sum;
    //@if GATED
    let at_b = own_sum + $OWNOUTPUTS;
    //@end
    let unpacks = thread < $TILEOUTPUTS;
    let output = thread % $OUTPUTS;
    let staged_output = min(first_output + output, shape.outputs_$BODY - 1u);
    var staged_sum = output / $OWNOUTPUTS * ($MATRIXCOUNT * $OWNOUTPUTS) + output % $OWNOUTPUTS;
    //@if GATED
    let is_up = thread >= $OUTPUTS;
    staged_sum += select(0u, $OWNOUTPUTS, is_up);
    //@end
    var raw: Raw_$BODY;
    // Vectors of rows, which other threads stage: neighbours of one row by neighbours.
    let fetched = thread - min(thread, $TILEOUTPUTS);
    //@for i in FETCHES
    let vector_$i = fetched + $FETCHERS * $i;
    let from_$i = min(first_row + vector_$i / 3u, last_row) * shape.input_stride + vector_$i % 3u;
    var input_$i: vec4<u32>;
    //@end

    //@for m in MATRICES
    //@for o in OUTFRAGMENTS
    //@for r in ROWFRAGMENTS
    //@for k in PARTS
    var acc_$m_$o_$r_$k = vec4<f32>();
    var total_$m_$o_$r_$k = vec4<f32>();
    //@end
    //@end
    //@end
    //@end

    //@text LOAD
    if (unpacks) {
        //@if GATED
        if (is_up) {
            raw = load_b(shape.first_b + staged_output, loaded);
        } else {
            raw = load_a(shape.first_a + staged_output, loaded);
        }
        //@end
        //@if UNGATED
        raw = load_$BODY(shape.first_$BODY + staged_output, loaded);
        //@end
    } else {
        //@for i in FETCHES
        input_$i = input[from_$i + loaded * 3u];
        //@end
    }
    //@end
    //@text STAGE
    if (unpacks) {
        stage_sum_$BODY(stage, staged_sum, raw, loaded);
    } else {
        //@for i in FETCHES
        if (vector_$i < 3u * $TILEROWS) {
            inputs[stage * (3u * $TILEROWS) + vector_$i] = input_$i;
        }
        //@end
    }
    //@end
    //@if HALVES
    // The zeros.
    if (unpacks) {
        for (var stage = 0u; stage < 2u; stage++) {
            let to = stage * STAGE_WEIGHTS + staged_sum * 3u;
            weights[to + 1u] = vec4<u32>();
            weights[to + 3u * $TILEOUTPUTS] = vec4<u32>();
        }
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
        let sums_at = count % 2u * $TILEOUTPUTS + lane_sum;
        //@for m in MATRICES
        //@for o in OUTFRAGMENTS
        let sum_$m_$o = at_$m + $o * 16u;
        let left_first_$m_$o = left_at(weights_at + sum_$m_$o * 3u);
        //@if HALVES
        let left_last_$m_$o = left_at(weights_at + (sum_$m_$o + $TILEOUTPUTS) * 3u);
        //@end
        //@for k in PARTS
        let scales_$m_$o_$k = sum_scales[sums_at + sum_$m_$o + SUMS_$k];
        //@if HALFMINS
        let mins_$m_$o_$k = sum_scales[2u * $TILEOUTPUTS + sums_at + sum_$m_$o + SUMS_$k];
        //@end
        //@end
        //@end
        //@end
        //@for r in ROWFRAGMENTS
        {
            let row = own_row + $r * 16u;
            let right = right_at(inputs_at + row * 3u);
            //@for e in FOUR
            let about_$e = inputs[inputs_at + (row + lane_row + 8u * ($e / 2u) + $e % 2u) * 3u + 2u];
            //@end
            let scale = bitcast<vec4<f32>>(vec4<u32>(about_0.x, about_1.x, about_2.x, about_3.x));
            //@if WHOLEMINS
            let rest = bitcast<vec4<f32>>(vec4<u32>(about_0.w, about_1.w, about_2.w, about_3.w));
            //@end
            //@if HALFMINS
            let rest = scale * vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(about_0.y, about_1.y, about_2.y, about_3.y)));
            let rest_last = scale * vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(about_0.z, about_1.z, about_2.z, about_3.z)));
            //@end
            //@for m in MATRICES
            //@for o in OUTFRAGMENTS
            {
                let first = products(left_first_$m_$o, right);
                //@if HALVES
                let last = products(left_last_$m_$o, right);
                //@end
                //@for k in PARTS
                {
                    let scales = scales_$m_$o_$k;
                    var sum = acc_$m_$o_$r_$k;
                    sum = fma(scales.x * scale, floats_of(first.$k), sum);
                    //@if HALVES
                    sum = fma(scales.y * scale, floats_of(last.$k), sum);
                    //@end
                    //@if WHOLEMINS
                    sum = fma(vec4<f32>(scales.y), rest, sum);
                    //@end
                    //@if HALFMINS
                    sum = fma(vec4<f32>(mins_$m_$o_$k.x), rest, sum);
                    sum = fma(vec4<f32>(mins_$m_$o_$k.y), rest_last, sum);
                    //@end
                    acc_$m_$o_$r_$k = sum;
                }
                //@end
            }
            //@end
            //@end
        }
        //@end
        // The last group of a chain.
        if (now + 32u >= shape.groups) {
            //@for m in MATRICES
            //@for o in OUTFRAGMENTS
            //@for r in ROWFRAGMENTS
            //@for k in PARTS
            total_$m_$o_$r_$k += acc_$m_$o_$r_$k;
            acc_$m_$o_$r_$k = vec4<f32>();
            //@end
            //@end
            //@end
            //@end
        }
        now = next;
        workgroupBarrier();
    }

    //@for r in ROWFRAGMENTS
    //@for e in FOUR
    {
        let row = first_row + own_row + $r * 16u + lane_row + 8u * ($e / 2u) + $e % 2u;
        if (row < row_count()) {
            let factor = row_factor(row);
            //@for o in OUTFRAGMENTS
            //@for k in PARTS
            {
                let index = first_output + own_output + $o * 16u + SUMS_$k + lane_sum;
                if (index < shape.outputs_$BODY) {
                    let result = biased_$BODY(factor, index, total_$BODY_$o_$r_$k[$e]);
                    //@if GATED
                    let up = biased_b(factor, index, total_b_$o_$r_$k[$e]);
                    write_a(row, index, gated(result, up));
                    //@end
                    //@if UNGATED
                    write_$BODY(row, index, result);
                    //@end
                }
            }
            //@end
            //@end
        }
    }
    //@end
    //@end
}
