// Attention on matrix units: out = for each query head, the softmax-weighted values of all positions that its row sees,
// as gleed_model::arithmetic::attend_halves defines it.
//
// A subgroup of 32 has 16 queries, as the left matrices of its products, and computes one span of 64 positions after the
// other: keys are the right matrices of scores, four times 16 positions; weights become left matrices where the scores
// were, and values are right matrices. Nothing is staged: what a lane loads is what it has of a matrix. For that, the
// positions of every 32 are in another order: a lane has eight neighbouring ones, the first four of which are its part of
// one product, the others of the next; and so are values: in a product with 16 of every 64, those two of every eight.
//
//@if TILES
// An item is several neighbouring rows of one sequence, and a workgroup has 64 queries: some rows, HEAD_PART of the query
// heads that share one key head. An item: first row, rows, first span, end of spans, where its partial results begin, and
// how far those of its next row are (0: it has all spans and writes `out`).
//@end
//@if ROWS
// An item is a row with all of its spans, and a workgroup has up to 16 of the query heads that share one key head. Each
// of its TEAMS subgroups has another span; what they give is added up in workgroup memory.
//@end
//@if SPLIT
// An item is one span of a row, and a workgroup has up to 16 of the query heads that share one key head: the row,
// positions that it sees, the span's page, the span, its end, where its partial result is.
//@end

const SPAN = 64u;
const NOTHING = -3.0e38;
const NOT_A_NUMBER = 0x7fc00000u;
// What a lane has of its queries: eight dimensions of every 32, of a query (near) and of the one eight further (far).
const near_query = 0u;
const far_query = 8u;
$NUMBERS

//@if ROWS
// [team][query][value], and the largest score and sum of weights of each.
var<workgroup> results: array<f32, TEAMS * HEAD_PART * BLOCK_VALUES>;
var<workgroup> softmaxes: array<Softmax, TEAMS * HEAD_PART>;

//@end
fn exchanged_float(x: f32, bits: u32) -> f32 {
    return bitcast<f32>(exchanged(bitcast<u32>(x), bits));
}

// The largest and the sum of what the four lanes of a query have.
fn largest_of_four(x: f32) -> f32 {
    let two = max(x, exchanged_float(x, 1u));
    return max(two, exchanged_float(two, 2u));
}

fn sum_of_four(x: f32) -> f32 {
    let two = x + exchanged_float(x, 1u);
    return two + exchanged_float(two, 2u);
}

fn largest_bits_of_four(x: u32) -> u32 {
    let two = max(x, exchanged(x, 1u));
    return max(two, exchanged(two, 2u));
}

// All bits that lanes of the same positions have.
fn joined_bits(x: u32) -> u32 {
    let two = x | exchanged(x, 4u);
    let four = two | exchanged(two, 8u);
    return four | exchanged(four, 16u);
}

// Four dimensions of a query that begins at `at`; zeros past its end.
fn query_quad(at: u32, quad: u32) -> vec4<f32> {
    var x = vec4<f32>();
    //@if ALIGNED
    if 4u * quad < KEY_DIM {
        x = query[at / 4u + quad] * SCALE;
    }
    //@end
    //@if UNALIGNED
    for (var c = 0u; c < 4u; c++) {
        if 4u * quad + c < KEY_DIM {
            x[c] = query[at + 4u * quad + c] * SCALE;
        }
    }
    //@end
    return x;
}

fn halves_of_four(x: vec4<f32>, up: f32) -> vec4<f16> {
    return vec4<f16>(select(vec4<f32>(), x * up, vec4<bool>(up > 0.0)));
}

// The lower or upper halves of words.
fn lower(first: u32, second: u32) -> u32 {
    return (first & 0xffffu) | (second << 16u);
}

fn upper(first: u32, second: u32) -> u32 {
    return (first >> 16u) | (second & 0xffff0000u);
}

// Whether any of eight halves is infinite or not a number.
fn is_bad(x: vec4<u32>) -> bool {
    let carried = ((x & vec4<u32>(0x7c007c00u)) + vec4<u32>(0x04000400u)) & vec4<u32>(0x80008000u);
    return any(carried != vec4<u32>());
}

@compute @workgroup_size($THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    //@if FIXED
    let item = ITEMS + group.y * 6u;
    //@end
    //@if LISTED
    let item = step[ITEMS] + group.y * 6u;
    //@end
    let kv_head = group.x / (HEAD_PARTS * VALUE_BLOCKS);
    let first_head = group.x / VALUE_BLOCKS % HEAD_PARTS * HEAD_PART;
    let value_block = group.x % VALUE_BLOCKS;
    let word = lane % 4u;
    let own = lane / 4u;
    //@if TILES
    let first_row = step[item];
    let rows = step[item + 1u];
    let first_span = step[item + 2u];
    let end_span = step[item + 3u];
    let partial_at = step[item + 4u];
    let partial_stride = step[item + 5u];
    let pages = step[record_of(first_row) + ROW_PAGES];
    // The first row sees least.
    let seen_by_all = step[record_of(first_row) + ROW_POSITION] + 1u;
    //@for h in SIDES
    let $h_place = subgroup * 16u + own + $h_query;
    let $h_is = $h_place / HEAD_PART < rows && first_head + $h_place % HEAD_PART < GROUP;
    let $h_row = first_row + min($h_place / HEAD_PART, rows - 1u);
    let $h_sees = select(0u, step[record_of($h_row) + ROW_POSITION] + 1u, $h_is);
    let $h_head = kv_head * GROUP + min(first_head + $h_place % HEAD_PART, GROUP - 1u);
    var $h_whole = Softmax();
    //@end
    $TOTALS
    //@end
    //@if SINGLE
    let row = step[item];
    let visible = step[item + 1u];
    //@for h in SIDES
    let $h_place = own + $h_query;
    let $h_is = $h_place < HEAD_PART && first_head + $h_place < GROUP;
    let $h_row = row;
    let $h_sees = visible;
    let $h_head = kv_head * GROUP + min(first_head + $h_place, GROUP - 1u);
    //@end
    //@end
    //@if ROWS
    let pages = step[item + 2u];
    let first_span = step[item + 3u];
    let end_span = step[item + 4u];
    //@for e in ENTRIES
    var total_$e = 0.0;
    var whole_$e = Softmax();
    //@end
    //@end
    //@if SPLIT
    let page = step[item + 2u];
    let first_span = step[item + 3u];
    let end_span = first_span + 1u;
    let partial = step[item + 5u];
    //@end

    // The queries as halves, and what their scores are to be multiplied with.
    $QUERIES
    //@for h in SIDES
    let $h_at = $h_row * QUERY_STRIDE + QUERY_OFFSET + $h_head * KEY_DIM;
    var $h_largest = 0u;
    for (var g = 0u; g < KEY_GROUPS; g++) {
        let first = largest_of(query_quad($h_at, 8u * g + 2u * word));
        $h_largest = max($h_largest, max(first, largest_of(query_quad($h_at, 8u * g + 2u * word + 1u))));
    }
    let $h_factor = half_factor(largest_bits_of_four($h_largest));
    let $h_up = one_over($h_factor);
    //@end
    for (var g = 0u; g < $KEYTURNS; g++) {
        //@for g in KEYGROUPS
        first_query$g = left_of(
            halves_of_four(query_quad(near_at, 8u * number$g + 2u * word), near_up),
            halves_of_four(query_quad(far_at, 8u * number$g + 2u * word), far_up),
        );
        second_query$g = left_of(
            halves_of_four(query_quad(near_at, 8u * number$g + 2u * word + 1u), near_up),
            halves_of_four(query_quad(far_at, 8u * number$g + 2u * word + 1u), far_up),
        );
        //@end
    }

    //@if ROWS
    for (var start = first_span; start < end_span; start += TEAMS) {
        // Those past the last span compute it again, which is not used.
        let span = min(start + subgroup, end_span - 1u);
        let some_do_not_see = start + TEAMS >= end_span;
    //@end
    //@if TILES
    for (var span = first_span; span < end_span; span++) {
        let some_do_not_see = (span + 1u) * SPAN > seen_by_all;
    //@end
    //@if SPLIT
    {
        let span = first_span;
        let some_do_not_see = (span + 1u) * SPAN > visible;
    //@end
        //@if LISTEDPAGES
        let page = step[pages + span];
        //@end
        let block = page * KV_HEADS + kv_head;
        let key_at = block * UNITS * PAGE + own / 2u * 8u + own % 2u;
        $SCORES
        for (var f = 0u; f < $POSITIONTURNS; f++) {
            //@for f in POSITIONS
            {
                let place = key_at + number$f / 2u * 32u + number$f % 2u * 4u;
                var product = no_sums();
                for (var g = 0u; g < $KEYTURNS; g++) {
                    //@for g in KEYGROUPS
                    {
                        //@if WHOLE
                        let at = place + (4u * number$g + word) * PAGE;
                        //@end
                        //@if PADDED
                        let at = place + min(4u * number$g + word, UNITS - 1u) * PAGE;
                        //@end
                        let near = keys[at];
                        let far = keys[at + 2u];
                        product = multiplied(first_query$g, right_of(near.xy, far.xy), product);
                        product = multiplied(second_query$g, right_of(near.zw, far.zw), product);
                    }
                    //@end
                }
                let sums = sums_of(product);
                near_scores$f = sums.near;
                far_scores$f = sums.far;
            }
            //@end
        }
        // Positions of the lane begin here: four for each of the products.
        let first_position = span * SPAN + 8u * word;
        if some_do_not_see {
            for (var f = 0u; f < $POSITIONTURNS; f++) {
                //@for f in POSITIONS
                {
                    let at = vec4<u32>(first_position + number$f / 2u * 32u + number$f % 2u * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
                    near_scores$f = select(vec4<f32>(NOTHING), near_scores$f, at < vec4<u32>(near_sees));
                    far_scores$f = select(vec4<f32>(NOTHING), far_scores$f, at < vec4<u32>(far_sees));
                }
                //@end
            }
        }
        //@for h in SIDES
        var $h_most = vec4<f32>(NOTHING);
        for (var f = 0u; f < $POSITIONTURNS; f++) {
            //@for f in POSITIONS
            $h_most = max($h_most, $h_scores$f);
            //@end
        }
        let $h_highest = largest_of_four(max(max($h_most.x, $h_most.y), max($h_most.z, $h_most.w))) * $h_factor;
        var $h_lane_sum = 0.0;
        //@end
        for (var f = 0u; f < $POSITIONTURNS; f++) {
            //@for f in POSITIONS
            {
                let at = vec4<u32>(first_position + number$f / 2u * 32u + number$f % 2u * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
                //@for h in SIDES
                var $h_weights: vec4<f32>;
                //@for c in FOUR
                $h_weights[$c] = exponential(fma($h_scores$f[$c], $h_factor, -$h_highest));
                //@end
                if some_do_not_see {
                    $h_weights = select(vec4<f32>(), $h_weights, at < vec4<u32>($h_sees));
                }
                //@for c in FOUR
                $h_lane_sum += $h_weights[$c];
                //@end
                //@end
                weights$f = left_of(vec4<f16>(near_weights), vec4<f16>(far_weights));
            }
            //@end
        }
        //@for h in SIDES
        let $h_sum = sum_of_four($h_lane_sum);
        //@end
        //@if TILES
        //@for h in SIDES
        // Spans that the query does not see leave it as it is.
        let $h_counts = !some_do_not_see || span * SPAN < $h_sees;
        let $h_merged = merge($h_whole, Softmax($h_highest, $h_sum), span == first_span);
        if $h_counts {
            $h_whole = $h_merged.softmax;
        }
        //@end
        //@end

        // A position that a query does not see must not count, be its value infinite: those are left out, and what sees
        // them is not a number. A bit for each of the lane's positions.
        var bad = 0u;
        let value_at = (block * PAGE + 8u * word) * VALUE_UNITS;
        for (var c = 0u; c < $VALUETURNS; c++) {
            //@for c in VALUECHUNKS
            {
                let unit = min(value_block * BLOCK_VALUES / 8u + 8u * number$c + own, VALUE_UNITS - 1u);
                $NORESULTS
                for (var f = 0u; f < $POSITIONTURNS; f++) {
                    //@for f in POSITIONS
                    {
                        let at = value_at + (number$f / 2u * 32u + number$f % 2u * 4u) * VALUE_UNITS + unit;
                        //@for i in FOUR
                        var value_$i = values[at + $i * VALUE_UNITS];
                        //@end
                        if some_do_not_see {
                            //@for i in FOUR
                            if is_bad(value_$i) {
                                value_$i = vec4<u32>();
                                bad |= 1u << (4u * number$f + $i);
                            }
                            //@end
                        }
                        for (var j = 0u; j < $WORDTURNS; j++) {
                            //@for j in WORDS
                            {
                                let near = vec2<u32>(
                                    lower(value_0[number$j], value_1[number$j]),
                                    lower(value_2[number$j], value_3[number$j]),
                                );
                                let far = vec2<u32>(
                                    upper(value_0[number$j], value_1[number$j]),
                                    upper(value_2[number$j], value_3[number$j]),
                                );
                                result$j = multiplied(weights$f, right_of(near, far), result$j);
                            }
                            //@end
                        }
                    }
                    //@end
                }
                for (var j = 0u; j < $WORDTURNS; j++) {
                    //@for j in WORDS
                    {
                        let lanes = sums_of(result$j);
                        //@if TILES
                        //@for h in SIDES
                        if $h_counts {
                            $h_total$c$j = fma(
                                $h_total$c$j,
                                vec4<f32>($h_merged.before),
                                lanes.$h * $h_merged.after,
                            );
                        }
                        //@end
                        //@end
                        //@if SINGLE
                        // Values of the block: 2 j of the lane's 16, and eight further; then the next of both.
                        let value = 64u * number$c + 16u * word + 2u * number$j;
                        //@for h in SIDES
                        if $h_is {
                            //@if ROWS
                            let to = (subgroup * HEAD_PART + $h_place) * BLOCK_VALUES + value;
                            results[to] = lanes.$h.x;
                            results[to + 1u] = lanes.$h.z;
                            results[to + 8u] = lanes.$h.y;
                            results[to + 9u] = lanes.$h.w;
                            //@end
                            //@if SPLIT
                            let first = value_block * BLOCK_VALUES + value;
                            put_partial((partial * HEADS + $h_head) * PARTIAL, first, lanes.$h);
                            //@end
                        }
                        //@end
                        //@end
                    }
                    //@end
                }
            }
            //@end
        }
        var near_bad = 0u;
        var far_bad = 0u;
        if some_do_not_see {
            let all_bad = joined_bits(bad);
            for (var i = 0u; i < 16u; i++) {
                let position = first_position + i / 8u * 32u + i % 8u;
                let is = all_bad >> i & 1u;
                near_bad |= select(0u, is, position < near_sees);
                far_bad |= select(0u, is, position < far_sees);
            }
            near_bad = largest_bits_of_four(near_bad);
            far_bad = largest_bits_of_four(far_bad);
        }
        //@for h in SIDES
        //@if TILES
        if $h_bad != 0u {
            $h_whole.sum = bitcast<f32>(NOT_A_NUMBER * $h_bad);
        }
        //@end
        //@if SINGLE
        let $h_softmax = Softmax($h_highest, bitcast<f32>(select(bitcast<u32>($h_sum), NOT_A_NUMBER, $h_bad != 0u)));
        //@end
        //@if ROWS
        if $h_is && word == 0u {
            softmaxes[subgroup * HEAD_PART + $h_place] = $h_softmax;
        }
        //@end
        //@if SPLIT
        if $h_is && word == 0u && value_block == 0u {
            let to = (partial * HEADS + $h_head + 1u) * PARTIAL;
            partials[to - 2u] = $h_softmax.largest;
            partials[to - 1u] = $h_softmax.sum;
        }
        //@end
        //@end
        //@if ROWS
        workgroupBarrier();
        for (var team = 0u; team < min(TEAMS, end_span - start); team++) {
            //@for e in ENTRIES
            {
                let i = min($e * SUBGROUPS * 32u + thread, HEAD_PART * BLOCK_VALUES - 1u);
                let merged = merge(whole_$e, softmaxes[team * HEAD_PART + i / BLOCK_VALUES], start + team == first_span);
                total_$e = fma(total_$e, merged.before, results[team * HEAD_PART * BLOCK_VALUES + i] * merged.after);
                whole_$e = merged.softmax;
            }
            //@end
        }
        workgroupBarrier();
        //@end
    }

    //@if TILES
    //@for h in SIDES
    if first_span * SPAN < $h_sees {
        let inverse = 1.0 / $h_whole.sum;
        let row = $h_row - first_row;
        let out_at = $h_row * OUT_STRIDE + OUT_OFFSET + $h_head * VALUE_DIM;
        let into = ((partial_at + row * partial_stride) * HEADS + $h_head) * PARTIAL;
        for (var c = 0u; c < $VALUETURNS; c++) {
            //@for c in VALUECHUNKS
            for (var j = 0u; j < $WORDTURNS; j++) {
                //@for j in WORDS
                {
                    let x = $h_total$c$j;
                    let value = value_block * BLOCK_VALUES + 64u * number$c + 16u * word + 2u * number$j;
                    if partial_stride == 0u {
                        put_out(out_at, value, x * inverse);
                    } else {
                        put_partial(into, value, x);
                    }
                }
                //@end
            }
            //@end
        }
    }
    //@end
    if word == 0u && value_block == 0u && partial_stride != 0u {
        //@for h in SIDES
        if first_span * SPAN < $h_sees {
            let to = ((partial_at + ($h_row - first_row) * partial_stride) * HEADS + $h_head + 1u) * PARTIAL;
            partials[to - 2u] = $h_whole.largest;
            partials[to - 1u] = $h_whole.sum;
        }
        //@end
    }
    //@end
    //@if ROWS
    //@for e in ENTRIES
    {
        let i = $e * SUBGROUPS * 32u + thread;
        let head = first_head + i / BLOCK_VALUES;
        let value = value_block * BLOCK_VALUES + i % BLOCK_VALUES;
        if i < HEAD_PART * BLOCK_VALUES && head < GROUP && value < VALUE_DIM {
            let to = row * OUT_STRIDE + OUT_OFFSET + (kv_head * GROUP + head) * VALUE_DIM + value;
            out[to] = total_$e * (1.0 / whole_$e.sum);
        }
    }
    //@end
    //@end
}

//@if TILES
// Four values of a lane: two neighbouring ones, and two eight further.
fn put_out(at: u32, value: u32, x: vec4<f32>) {
    //@for c in FOUR
    {
        let own = value + $c % 2 * 8 + $c / 2;
        if own < VALUE_DIM {
            out[at + own] = x[$c];
        }
    }
    //@end
}

//@end
//@if SPANS
// The same of a partial result.
fn put_partial(at: u32, value: u32, x: vec4<f32>) {
    //@for c in FOUR
    {
        let own = value + $c % 2 * 8 + $c / 2;
        if own < VALUE_DIM {
            partials[at + own] = x[$c];
        }
    }
    //@end
}
//@end
