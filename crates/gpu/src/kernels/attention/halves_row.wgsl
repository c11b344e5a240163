// Attention in halves of single rows, as gleed_model::arithmetic::attend_halves defines it. The bits of a row are those that
// halves_tile.wgsl computes.
//
// A workgroup has a row and up to 16 of the query heads that share one key head; up to eight have one side of matrices. Four subgroups are a team for one span:
// each has the scores of 16 positions, and then a quarter of the values of all 64, so that little is done one after the
// other, by few instructions: a row waits for those too.
//@if ROWS
//
// An item has all spans of its row, TEAMS at a time, and what they give is added up in workgroup memory.
//@end
//@if SPLIT
//
// An item is one span: the row, where what it sees ends, the span's page, the span, its end, where its partial result is.
//@end

// [team][quarter][lane]: eight weights, as halves.
var<workgroup> all_weights: array<vec4<u32>, TEAMS * 128u>;
// [team][quarter][query]: the largest score, and whether it sees a value that is infinite or not a number.
var<workgroup> all_peaks: array<f32, TEAMS * 64u>;
var<workgroup> all_bad: array<u32, TEAMS * 64u>;
// [team][quarter][query][lane]: sums of weights.
var<workgroup> all_sums: array<f32, TEAMS * 256u>;
//@if ROWS
// [team][query][value], and the largest score and sum of weights of each.
var<workgroup> results: array<f32, TEAMS * HEAD_PART * BLOCK_VALUES>;
var<workgroup> softmaxes: array<Softmax, TEAMS * HEAD_PART>;
//@end

// A lane's keys and values of the page. They are asked for before anything waits.
//@text KEYLOADS
        for (var g = 0u; g < $KEYTURNS; g++) {
            //@for g in KEYGROUPS
            {
                //@if WHOLE
                let unit = 4u * number$g + word;
                //@end
                //@if PADDED
                let unit = min(4u * number$g + word, UNITS - 1u);
                //@end
                let at = ((page * KV_HEADS + kv_head) * UNITS + unit) * PAGE + key_at;
                near_keys$g = keys[at];
                far_keys$g = keys[at + 8u];
            }
            //@end
        }
//@end
//@text VALUELOADS
        for (var f = 0u; f < $POSITIONTURNS; f++) {
            //@for f in POSITIONS
            {
                let at = ((page * KV_HEADS + kv_head) * PAGE + 16u * number$f) * VALUE_UNITS * 2u + value_at;
                //@for i in FOUR
                lane_values$f[$i] = values[at + ($i / 2 * 8 + $i % 2) * VALUE_UNITS * 2u];
                //@end
            }
            //@end
        }
//@end

@compute @workgroup_size($THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    begin_units(subgroup, lane);
    //@if FIXED
    let item = ITEMS + group.y * 6u;
    //@end
    //@if LISTED
    let item = step[ITEMS] + group.y * 6u;
    //@end
    let kv_head = group.x / (HEAD_PARTS * VALUE_BLOCKS);
    let first_head = group.x / VALUE_BLOCKS % HEAD_PARTS * HEAD_PART;
    let value_block = group.x % VALUE_BLOCKS;
    let team = subgroup / 4u;
    let quarter = subgroup % 4u;
    let word = lane % 4u;
    let own = lane / 4u;
    let row = step[item];
    let visible = step[item + 1u];
    //@if PLACED
    //@if CAUSAL
    let own_position = visible - 1u;
    //@end
    //@if BOTHWAYS
    let own_position = step[record_of(row) + ROW_POSITION];
    //@end
    //@end
    //@if LIMITED
    let first_visible = first_seen(own_position);
    //@end
    //@for h in SIDES
    let $h_place = own + $h_query;
    let $h_is = $h_place < HEAD_PART && first_head + $h_place < GROUP;
    let $h_row = row;
    let $h_head = kv_head * GROUP + min(first_head + $h_place, GROUP - 1u);
    //@end
    //@if ROWS
    let pages = step[item + 2u];
    let first_span = step[item + 3u];
    let end_span = step[item + 4u];
    //@for e in ENTRIES
    var total_$e = 0.0;
    //@if SINKLESS
    var whole_$e = Softmax();
    //@end
    //@if SINKS
    let place_$e = min(first_head + ($e * $THREADS + thread) / BLOCK_VALUES, GROUP - 1u);
    var whole_$e = Softmax(half_sink(sinks[kv_head * GROUP + place_$e]), 1.0);
    //@end
    //@end
    //@end
    //@if SPLIT
    let page = step[item + 2u];
    let first_span = step[item + 3u];
    let partial = step[item + 5u];
    //@end
    let key_at = own + 16u * quarter;
    // The quarter has two words of each four, in one of two chunks of 64 values.
    let chunk = quarter / 2u;
    let unit = min(value_block * BLOCK_VALUES / 8u + 8u * chunk + own, VALUE_UNITS - 1u);
    let value_at = (2u * word * VALUE_UNITS + unit) * 2u + quarter % 2u;
    $NOLOADS
    //@if ROWS
    var page = step[pages + min(first_span + team, end_span - 1u)];
    //@end
$KEYLOADS
$VALUELOADS

$QUERIES

    //@if ROWS
    for (var start = first_span; start < end_span; start += TEAMS) {
        // Those past the last span do nothing, or the same again where lanes wait for each other.
        let is_there = $ALLTEAMS || start + team < end_span;
        let span = min(start + team, end_span - 1u);
        //@if UNLIMITED
        let some_are_not_seen = span + 1u == end_span;
        //@end
    //@end
    //@if SPLIT
    {
        let is_there = true;
        let span = first_span;
        //@if UNLIMITED
        let some_are_not_seen = (span + 1u) * SPAN > visible;
        //@end
    //@end
        //@if LIMITED
        let some_are_not_seen = (span + 1u) * SPAN > visible || span * SPAN < first_visible;
        //@end
        let of_team = team * 64u;
        // Positions of the lane begin here.
        let first_position = span * SPAN + 2u * word;
        let at = positions_of(first_position + 16u * quarter);
        //@if UNLIMITED
        let is_seen = at < vec4<u32>(visible);
        //@end
        //@if LIMITED
        let is_seen = (at < vec4<u32>(visible)) & (at >= vec4<u32>(first_visible));
        //@end
        //@for h in SIDES
        var $h_scores: vec4<f32>;
        //@end
        if is_there {
            var product = no_sums();
            for (var g = 0u; g < $KEYTURNS; g++) {
                //@for g in KEYGROUPS
                product = multiplied(first_query$g, right_of(near_keys$g.xy, far_keys$g.xy), product);
                product = multiplied(second_query$g, right_of(near_keys$g.zw, far_keys$g.zw), product);
                //@end
            }
            let sums = sums_of(product);
            //@for h in SIDES
            $h_scores = sums.$h;
            //@if SCORED
            $h_scores *= $h_power;
            //@end
            //@if CAPPED
            //@for c in FOUR
            $h_scores[$c] = capped($h_scores[$c]);
            //@end
            //@end
            //@if FADING
            $h_scores = fma(
                vec4<f32>(-$h_slope),
                abs(vec4<f32>(at) - vec4<f32>(f32(own_position))),
                $h_scores,
            );
            //@end
            {
                let seen = select(vec4<f32>(NOTHING), $h_scores, is_seen);
                let most = largest_of_four(max(max(seen.x, seen.y), max(seen.z, seen.w)));
                if word == 0u {
                    all_peaks[of_team + quarter * 16u + $h_place] = most;
                }
            }
            //@end
        }
        // Keys of the next span are on their way while this one's weights are computed.
        //@if ROWS
        if start + TEAMS < end_span {
            page = step[pages + min(start + TEAMS + team, end_span - 1u)];
$KEYLOADS
        }
        //@end
        workgroupBarrier();
        //@for h in SIDES
        var $h_weights: vec4<f32>;
        var $h_highest = 0.0;
        //@end
        if is_there {
            //@for h in SIDES
            let $h_peaks = of_team + $h_place;
            $h_highest = max(
                max(all_peaks[$h_peaks], all_peaks[$h_peaks + 16u]),
                max(all_peaks[$h_peaks + 32u], all_peaks[$h_peaks + 48u]),
            ) * $h_factor;
            //@for c in FOUR
            $h_weights[$c] = exponential(fma($h_scores[$c], $h_factor, -$h_highest));
            //@end
            $h_weights = select(vec4<f32>(), $h_weights, is_seen);
            all_sums[(of_team + quarter * 16u + $h_place) * 4u + word] =
                ($h_weights.x + $h_weights.y) + ($h_weights.z + $h_weights.w);
            //@end
            //@if ONESIDE
            let far_weights = vec4<f32>();
            //@end
            all_weights[2u * of_team + quarter * 32u + lane] =
                vec4<u32>(bits_of_halves(vec4<f16>(near_weights)), bits_of_halves(vec4<f16>(far_weights)));
        }
        workgroupBarrier();
        //@for h in SIDES
        var $h_sum = 0.0;
        //@end
        // A value that is infinite or not a number counts only where it is seen: it is left out, and what sees it is not a
        // number. A bit for each of the lane's positions.
        var bad = 0u;
        if is_there {
            //@for h in SIDES
            let $h_sums = (of_team + $h_place) * 4u + word;
            $h_sum = sum_of_four(
                ((all_sums[$h_sums] + all_sums[$h_sums + 64u]) + all_sums[$h_sums + 128u]) + all_sums[$h_sums + 192u],
            );
            //@end
            $NORESULTS
            for (var f = 0u; f < $POSITIONTURNS; f++) {
                //@for f in POSITIONS
                {
                    //@for i in FOUR
                    var value_$i = lane_values$f[$i];
                    //@end
                    if some_are_not_seen {
                        //@for i in FOUR
                        if is_bad(vec4<u32>(value_$i, 0u, 0u)) {
                            value_$i = vec2<u32>();
                            bad |= 1u << (4u * number$f + $i);
                        }
                        //@end
                    }
                    let eight = all_weights[2u * of_team + number$f * 32u + lane];
                    let weights = left_of(halves_of_bits(eight.xy), halves_of_bits(eight.zw));
                    for (var j = 0u; j < $WORDTURNS; j++) {
                        //@for j in WORDS
                        {
                            let right = right_of_values(
                                value_0[number$j],
                                value_1[number$j],
                                value_2[number$j],
                                value_3[number$j],
                            );
                            result$j = multiplied(weights, right, result$j);
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
                    // Values of the block: these two of the lane's 16, and two eight further.
                    let value = 64u * chunk + 16u * word + 4u * (quarter % 2u) + 2u * number$j;
                    //@for h in SIDES
                    if $h_is && 64u * chunk < BLOCK_VALUES {
                        //@if ROWS
                        let to = (team * HEAD_PART + $h_place) * BLOCK_VALUES + value;
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
                }
                //@end
            }
        }
        let bad_positions = joined_bits(bad);
        var bad_and_seen = 0u;
        for (var i = 0u; i < 16u; i++) {
            let position = first_position + i / 4u * 16u + i % 4u / 2u * 8u + i % 2u;
            //@if UNLIMITED
            bad_and_seen |= select(0u, bad_positions >> i & 1u, position < visible);
            //@end
            //@if LIMITED
            bad_and_seen |= select(0u, bad_positions >> i & 1u, position < visible && position >= first_visible);
            //@end
        }
        bad_and_seen = largest_bits_of_four(bad_and_seen);
        // All queries are of one row, and see the same.
        if lane == 0u {
            all_bad[of_team + quarter] = bad_and_seen;
        }
        //@if ROWS
        if start + TEAMS < end_span {
$VALUELOADS
        }
        //@end
        workgroupBarrier();
        let is_bad = all_bad[of_team] + all_bad[of_team + 1u] + all_bad[of_team + 2u] + all_bad[of_team + 3u] > 0u;
        //@for h in SIDES
        let $h_softmax = Softmax($h_highest, bitcast<f32>(select(bitcast<u32>($h_sum), NOT_A_NUMBER, is_bad)));
        //@if ROWS
        if $h_is && word == 0u && quarter == 0u {
            softmaxes[team * HEAD_PART + $h_place] = $h_softmax;
        }
        //@end
        //@if SPLIT
        if $h_is && word == 0u && quarter == 0u && value_block == 0u {
            let to = (partial * HEADS + $h_head + 1u) * PARTIAL;
            partials[to - 2u] = $h_softmax.largest;
            partials[to - 1u] = $h_softmax.sum;
        }
        //@end
        //@end
        //@if ROWS
        workgroupBarrier();
        for (var other = 0u; other < min(TEAMS, end_span - start); other++) {
            //@for e in ENTRIES
            {
                let i = min($e * $THREADS + thread, HEAD_PART * BLOCK_VALUES - 1u);
                let of_span = softmaxes[other * HEAD_PART + i / BLOCK_VALUES];
                //@if SINKLESS
                let merged = merge(whole_$e, of_span, start + other == first_span);
                //@end
                //@if SINKS
                let merged = merge(whole_$e, of_span, false);
                //@end
                total_$e = fma(total_$e, merged.before, results[other * HEAD_PART * BLOCK_VALUES + i] * merged.after);
                whole_$e = merged.softmax;
            }
            //@end
        }
        //@end
    }

    //@if ROWS
    //@for e in ENTRIES
    {
        let i = $e * $THREADS + thread;
        let head = first_head + i / BLOCK_VALUES;
        let value = value_block * BLOCK_VALUES + i % BLOCK_VALUES;
        let column = (kv_head * GROUP + head) * VALUE_DIM + value;
        let result = total_$e * (1.0 / whole_$e.sum);
        let is_there = i < HEAD_PART * BLOCK_VALUES && head < GROUP && value < VALUE_DIM;
        if is_there {
            out[row * OUT_STRIDE + OUT_OFFSET + column] = result;
        }
        //@if WRITES
        put_value(thread, column, result, is_there && row == 0u);
        //@end
    }
    //@end
    //@end
}
//@if SPLIT

// Two neighbouring values of a lane, and two eight further.
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
