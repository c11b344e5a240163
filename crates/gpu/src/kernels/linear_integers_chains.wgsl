// A linear layer of integers for some rows on matrix units, which multiply bytes and add exactly: the results are the
// bits of the other kernels of integers.
//
// A workgroup of $ALLSUBGROUPS subgroups computes 32 sums of $TILEROWS rows: those of 32 outputs, or of a gated layer those of 16
// gates and then of 16 ups. A subgroup computes every $ALLSUBGROUPS. chain of all of them, one after the other, by itself:
// each lane unpacks the weights of a sum, and what all lanes need of a group of 32 columns goes through memory that no
// other subgroup uses. When every subgroup has a chain, they are added up in ascending order.

//@if FIRST
// [subgroup][sum][3]: 32 bytes in two vectors, and scales and mins. Where halves of a group have scales of their own there
// are two of each sum: the first half and zeros, then zeros and the last half. Between chains, what they are:
// [subgroup][part of a product][lane].
var<workgroup> weights: array<vec4<u32>, $WEIGHTS>;
// [subgroup][row][3], as the input has it.
var<workgroup> inputs: array<vec4<u32>, $INPUTS>;

// How far the sums of either part of what a lane has of a product are from the first.
const SUMS_near = 0u;
const SUMS_far = 8u;
const PART_near = 0u;
const PART_far = 1u;

//@end
fn body_$BODY(block: u32, block_row: u32, thread: u32, subgroup: u32, lane: u32) {
    let first_output = block * $OUTPUTS;
    let first_row = block_row * $TILEROWS;
    let last_row = max(row_count(), 1u) - 1u;
    let last_group = shape.groups - 1u;
    // What the lane has of each product.
    let lane_sum = lane / 4u;
    let lane_row = 2u * (lane % 4u);
    let weights_at = subgroup * $OWNWEIGHTS;
    let inputs_at = subgroup * ($TILEROWS * 3u);
    let output = min(first_output + lane % $OUTPUTS, shape.outputs_$BODY - 1u);
    //@for i in FETCHES
    let vector_$i = lane + 32u * $i;
    let from_$i = min(first_row + vector_$i / 3u, last_row) * shape.input_stride + vector_$i % 3u;
    var input_$i: vec4<u32>;
    //@end
    var raw: Raw_$BODY;
    //@text LOAD
            //@if GATED
            if (lane >= $OUTPUTS) {
                raw = load_b(shape.first_b + output, loaded);
            } else {
                raw = load_a(shape.first_a + output, loaded);
            }
            //@end
            //@if UNGATED
            raw = load_$BODY(shape.first_$BODY + output, loaded);
            //@end
            //@for i in FETCHES
            input_$i = input[from_$i + loaded * 3u];
            //@end
    //@end
    {
        let loaded = min(subgroup, last_group);
$LOAD
    }
    // The parts of products that the subgroup folds: of [sums][rows][near or far].
    //@for p in OWNPARTS
    let part_$p = subgroup + $ALLSUBGROUPS * $p;
    var total_$p = vec4<f32>();
    //@end
    for (var first_chain = 0u; first_chain < 32u; first_chain += $ALLSUBGROUPS) {
        let chain = first_chain + subgroup;
        //@for o in TWO
        //@for r in ROWFRAGMENTS
        //@for k in PARTS
        var acc_$o_$r_$k = vec4<f32>();
        //@end
        //@end
        //@end
        //@if HALVES
        // The zeros.
        weights[weights_at + lane * 3u + 1u] = vec4<u32>();
        weights[weights_at + (lane + 32u) * 3u] = vec4<u32>();
        //@end
        for (var group = chain; group < shape.groups; group += 32u) {
            let words = centred_$BODY(words_$BODY(raw, group));
            weights[weights_at + lane * 3u] = words.first;
            //@if WHOLES
            weights[weights_at + lane * 3u + 1u] = words.last;
            //@end
            //@if HALVES
            weights[weights_at + (lane + 32u) * 3u + 1u] = words.last;
            //@end
            weights[weights_at + lane * 3u + 2u] = bitcast<vec4<u32>>(words.scales);
            //@for i in FETCHES
            if (vector_$i < $TILEROWS * 3u) {
                inputs[inputs_at + vector_$i] = input_$i;
            }
            //@end
            let loaded = min(select(group + 32u, chain + $ALLSUBGROUPS, group + 32u >= shape.groups), last_group);
$LOAD
            subgroupBarrier();
            //@for o in TWO
            let left_first_$o = left_at(weights_at + $o * 48u);
            //@if HALVES
            let left_last_$o = left_at(weights_at + $o * 48u + 96u);
            //@end
            //@for k in PARTS
            let scales_$o_$k = bitcast<vec4<f32>>(weights[weights_at + ($o * 16u + SUMS_$k + lane_sum) * 3u + 2u]);
            //@end
            //@end
            //@for r in ROWFRAGMENTS
            {
                let right = right_at(inputs_at + $r * 48u);
                //@for e in FOUR
                let about_$e = inputs[inputs_at + ($r * 16u + lane_row + 8u * ($e / 2u) + $e % 2u) * 3u + 2u];
                //@end
                let scale = bitcast<vec4<f32>>(vec4<u32>(about_0.x, about_1.x, about_2.x, about_3.x));
                //@if WHOLEMINS
                let rest = bitcast<vec4<f32>>(vec4<u32>(about_0.w, about_1.w, about_2.w, about_3.w));
                //@end
                //@if HALFMINS
                let rest = scale * vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(about_0.y, about_1.y, about_2.y, about_3.y)));
                let rest_last = scale * vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(about_0.z, about_1.z, about_2.z, about_3.z)));
                //@end
                //@for o in TWO
                {
                    let first = products(left_first_$o, right);
                    //@if HALVES
                    let last = products(left_last_$o, right);
                    //@end
                    //@for k in PARTS
                    {
                        var sum = acc_$o_$r_$k;
                        sum = fma(scales_$o_$k.x * scale, floats_of(first.$k), sum);
                        //@if HALVES
                        sum = fma(scales_$o_$k.y * scale, floats_of(last.$k), sum);
                        //@end
                        //@if MINS
                        sum = fma(vec4<f32>(scales_$o_$k.z), rest, sum);
                        //@end
                        //@if HALFMINS
                        sum = fma(vec4<f32>(scales_$o_$k.w), rest_last, sum);
                        //@end
                        acc_$o_$r_$k = sum;
                    }
                    //@end
                }
                //@end
            }
            //@end
            subgroupBarrier();
        }
        workgroupBarrier();
        //@for o in TWO
        //@for r in ROWFRAGMENTS
        //@for k in PARTS
        weights[(subgroup * $ALLPARTS + ($o * $ROWFRAGMENTCOUNT + $r) * 2u + PART_$k) * 32u + lane] = bitcast<vec4<u32>>(acc_$o_$r_$k);
        //@end
        //@end
        //@end
        workgroupBarrier();
        //@for p in OWNPARTS
        if (part_$p < $ALLPARTS) {
            //@for c in SUBGROUPLIST
            let chain_$c = weights[($c * $ALLPARTS + part_$p) * 32u + lane];
            //@end
            //@for c in SUBGROUPLIST
            total_$p += bitcast<vec4<f32>>(chain_$c);
            //@end
        }
        //@end
        workgroupBarrier();
    }
    //@if GATED
    // Ups go to whoever has their gates, which are the first half of all parts.
    //@for p in OWNPARTS
    weights[part_$p * 32u + lane] = bitcast<vec4<u32>>(total_$p);
    //@end
    workgroupBarrier();
    //@end
    //@for p in OWNPARTS
    {
        let fragment = part_$p / ($ALLPARTS / 2u);
        let index = first_output + fragment * 16u + part_$p % 2u * 8u + lane_sum;
        let part_row = first_row + part_$p % ($ALLPARTS / 2u) / 2u * 16u + lane_row;
        //@if GATED
        let ups = bitcast<vec4<f32>>(weights[(part_$p + $ALLPARTS / 2u) % $ALLPARTS * 32u + lane]);
        let writes = fragment == 0u && index < shape.outputs_a;
        //@end
        //@if UNGATED
        let writes = fragment < 2u && index < shape.outputs_$BODY;
        //@end
        //@for e in FOUR
        {
            let row = part_row + 8u * ($e / 2u) + $e % 2u;
            if (writes && row < row_count()) {
                let factor = row_factor(row);
                let result = biased_$BODY(factor, index, total_$p[$e]);
                //@if GATED
                write_a(row, index, gated(result, biased_b(factor, index, ups[$e])));
                //@end
                //@if UNGATED
                write_$BODY(row, index, result);
                //@end
            }
        }
        //@end
    }
    //@end
}
