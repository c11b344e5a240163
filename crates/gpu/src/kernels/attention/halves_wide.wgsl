// Attention in halves over keys of many dimensions, such as latent ones, as gleed_model::arithmetic::attend_halves defines it:
// of single rows and of neighbouring ones, over all of their spans or over one. The bits of a row are those that halves_row.wgsl
// and halves_tile.wgsl would compute.
//
// Such queries do not fit into registers. A workgroup has 16 of them for each of its TEAMS in workgroup memory: those of the
// query heads that share one key head, of one row after the other. Scores are most of the work, and values too many for one
// subgroup: so a team computes scores once, of SPANS spans side by side, PARTS subgroups for each, and then each of its
// subgroups multiplies the weights of all these spans with some of the values. Its memory is in halves_wide_parts.wgsl.
//@if SPLIT
//
// An item is one span: the row, where what it sees ends, the span's page, the span, its end, where its partial result is.
//@end
//@if ROWS
//
// An item is a row: where what it sees ends, its pages, first span, end of spans.
//@end
//@if TILES
//
// An item: first row, rows, first span, end of spans, where its partial results begin, and how far those of its next row are
// (0: it has all spans and writes `out`).
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
    let kv_head = group.x / (QUERY_PARTS * VALUE_BLOCKS);
    let first_place = group.x / VALUE_BLOCKS % QUERY_PARTS * (16u * TEAMS);
    let value_block = group.x % VALUE_BLOCKS;
    let team = subgroup / TEAM;
    let member = subgroup % TEAM;
    let part = member % PARTS;
    // Of the spans that the team has at once.
    let own_span = member / PARTS;
    let word = lane % 4u;
    let own = lane / 4u;
    let first_row = step[item];
    //@if TILES
    let rows = step[item + 1u];
    let first_span = step[item + 2u];
    let end_span = step[item + 3u];
    let partial_at = step[item + 4u];
    let partial_stride = step[item + 5u];
    if first_place >= rows * GROUP {
        return;
    }
    //@end
    //@ifnot TILES
    let rows = 1u;
    let first_span = step[item + 3u];
    let end_span = step[item + 4u];
    //@end
    //@if SPLIT
    let partial_at = step[item + 5u];
    let partial_stride = 1u;
    //@end
    let pages = step[record_of(first_row) + CACHE_PAGES];
    // The first row sees least far, and the last one begins last.
    let seen_by_all = query_of(0u, first_row, rows, kv_head).end;
    let all_begin = query_of(rows * GROUP - 1u, first_row, rows, kv_head).begin;

    // Where the lane's keys and values of a span are: of its positions, and of its own dimensions and values.
    let own_key = 16u * MATRICES * part + own;
    let own_values = 2u * word * VALUE_UNITS;
    let units_before = (value_block * TEAM + member) * CHUNKS * 8u + own;
    let first_unit = min(units_before, VALUE_UNITS - 1u);
    $NOLOADS
    var key_at = (step[pages + min(first_span + own_span, end_span - 1u)] * KV_HEADS + kv_head) * UNITS * PAGE + own_key;
    var value_at = (step[pages + first_span] * KV_HEADS + kv_head) * PAGE * VALUE_UNITS + own_values;
$KEYLOADS
    //@if SPLIT
$VALUELOADS
    //@end

    // Each subgroup has some dimensions of the queries.
    $NOQUERIES
    //@for h in SIDES
    let $h_place = 16u * team + own + $h_query;
    let $h_own = query_of(first_place + $h_place, first_row, rows, kv_head);
    let $h_head = $h_own.head;
    let $h_at = $h_own.row * QUERY_STRIDE + QUERY_OFFSET + $h_head * KEY_DIM;
    var $h_largest = 0u;
    for (var g = 0u; g < $QUERYTURNS; g++) {
        //@for g in QUERYGROUPS
        $h_first$g = query_quad($h_at, 8u * (member + TEAM * number$g) + 2u * word);
        $h_second$g = query_quad($h_at, 8u * (member + TEAM * number$g) + 2u * word + 1u);
        $h_largest = max($h_largest, max(largest_of($h_first$g), largest_of($h_second$g)));
        //@end
    }
    $h_largest = largest_bits_of_four($h_largest);
    if word == 0u {
        all_peaks[(team * TEAM + member) * 16u + own + $h_query] = $h_largest;
    }
    //@end
    workgroupBarrier();
    //@for h in SIDES
    for (var i = 0u; i < TEAM; i++) {
        $h_largest = max($h_largest, all_peaks[(team * TEAM + i) * 16u + own + $h_query]);
    }
    //@end
$SCALES
    for (var g = 0u; g < $QUERYTURNS; g++) {
        //@for g in QUERYGROUPS
        if member + TEAM * number$g < QUERY_GROUPS {
            let to = (team * QUERY_GROUPS + member + TEAM * number$g) * 64u + lane;
            all_queries[to] = vec4<u32>(
                bits_of_halves(halves_of_four(near_first$g, near_up)),
                //@if BOTHSIDES
                bits_of_halves(halves_of_four(far_first$g, far_up)),
                //@end
                //@if ONESIDE
                vec2<u32>(),
                //@end
            );
            all_queries[to + 32u] = vec4<u32>(
                bits_of_halves(halves_of_four(near_second$g, near_up)),
                //@if BOTHSIDES
                bits_of_halves(halves_of_four(far_second$g, far_up)),
                //@end
                //@if ONESIDE
                vec2<u32>(),
                //@end
            );
        }
        //@end
    }
    workgroupBarrier();

    //@if TILES
    //@if SINKS
    // What is merged with other spans has its sink there.
    let has_sink = partial_stride == 0u;
    //@end
    //@end
    //@for h in SIDES
    //@if SINKED
    var $h_whole = Softmax(half_sink(sinks[$h_head]), 1.0);
    //@end
    //@ifnot SINKED
    var $h_whole = Softmax();
    //@end
    var $h_bad = 0u;
    //@end
    $TOTALS
    for (var start = first_span; start < end_span; start += SPANS) {
        let spans = min(SPANS, end_span - start);
        //@ifnot SPLIT
        let next_page = step[pages + min(start + SPANS + own_span, end_span - 1u)];
        //@end
        // Those past the last span do nothing, or the same again where lanes wait for each other.
        let is_there = $ALLTEAMS || own_span < spans;
        let scored_span = start + min(own_span, spans - 1u);
        // Positions of the lane begin here.
        let scored_position = scored_span * SPAN + 16u * MATRICES * part + 2u * word;
        $SCORES
        if is_there {
            $NOPRODUCTS
            for (var turn = 0u; turn < QUERY_GROUPS; turn += KEYS_AHEAD) {
                for (var g = 0u; g < $KEYTURNS; g++) {
                    //@for g in KEYGROUPS
                    {
                        let dimensions = turn + number$g;
                        let query_at = (team * QUERY_GROUPS + dimensions) * 64u + lane;
                        let first_query = matrix_of(all_queries[query_at]);
                        let second_query = matrix_of(all_queries[query_at + 32u]);
                        for (var f = 0u; f < $OWNTURNS; f++) {
                            //@for f in OWNPOSITIONS
                            {
                                let near = near_keys$g$f;
                                let far = far_keys$g$f;
                                if turn + KEYS_AHEAD < QUERY_GROUPS {
                                    let next = key_at + 16u * number$f;
                                    near_keys$g$f = key_unit(next, dimensions + KEYS_AHEAD, word);
                                    far_keys$g$f = key_unit(next + 8u, dimensions + KEYS_AHEAD, word);
                                }
                                product$f = multiplied(first_query, right_of(near.xy, far.xy), product$f);
                                product$f = multiplied(second_query, right_of(near.zw, far.zw), product$f);
                            }
                            //@end
                        }
                    }
                    //@end
                }
            }
            //@for h in SIDES
            var $h_most = vec4<f32>(NOTHING);
            //@end
            for (var f = 0u; f < $OWNTURNS; f++) {
                //@for f in OWNPOSITIONS
                {
                    let sums = sums_of(product$f);
                    let at = positions_of(scored_position + 16u * number$f);
                    //@for h in SIDES
                    $h_scores$f = sums.$h;
                    //@if SCORED
                    $h_scores$f *= $h_power;
                    //@end
                    //@if CAPPED
                    //@for c in FOUR
                    $h_scores$f[$c] = capped($h_scores$f[$c]);
                    //@end
                    //@end
                    //@if FADING
                    {
                        let distance = abs(vec4<f32>(at) - vec4<f32>(f32($h_own.position)));
                        $h_scores$f = fma(vec4<f32>(-$h_slope), distance, $h_scores$f);
                    }
                    //@end
                    $h_most = max($h_most, select(vec4<f32>(NOTHING), $h_scores$f, are_seen($h_own, at)));
                    //@end
                }
                //@end
            }
            //@for h in SIDES
            let $h_peak = largest_of_four(max(max($h_most.x, $h_most.y), max($h_most.z, $h_most.w)));
            if word == 0u {
                all_peaks[(team * TEAM + member) * 16u + own + $h_query] = bitcast<u32>($h_peak);
            }
            //@end
        }
        //@ifnot SPLIT
        {
$VALUELOADS
        }
        //@end
        workgroupBarrier();
        if is_there {
            let to = team * SPANS + own_span;
            //@for h in SIDES
            var $h_highest = NOTHING;
            for (var i = 0u; i < PARTS; i++) {
                let peak = all_peaks[(to * PARTS + i) * 16u + own + $h_query];
                $h_highest = max($h_highest, bitcast<f32>(peak));
            }
            $h_highest *= $h_factor;
            var $h_lane_sum = 0.0;
            let $h_sums_at = to * SUMS * 64u + (own + $h_query) * 4u + word;
            //@end
            for (var f = 0u; f < $OWNTURNS; f++) {
                //@for f in OWNPOSITIONS
                {
                    let at = positions_of(scored_position + 16u * number$f);
                    //@for h in SIDES
                    var $h_weights: vec4<f32>;
                    //@for c in FOUR
                    $h_weights[$c] = exponential(fma($h_scores$f[$c], $h_factor, -$h_highest));
                    //@end
                    $h_weights = select(vec4<f32>(), $h_weights, are_seen($h_own, at));
                    let $h_four = ($h_weights.x + $h_weights.y) + ($h_weights.z + $h_weights.w);
                    if part == 0u {
                        $h_lane_sum += $h_four;
                    } else {
                        all_sums[$h_sums_at + (1u + (part - 1u) * MATRICES + number$f) * 64u] = $h_four;
                    }
                    //@end
                    //@if ONESIDE
                    let far_weights = vec4<f32>();
                    //@end
                    all_weights[(to * 4u + part * MATRICES + number$f) * 32u + lane] =
                        vec4<u32>(bits_of_halves(vec4<f16>(near_weights)), bits_of_halves(vec4<f16>(far_weights)));
                }
                //@end
            }
            if part == 0u {
                //@for h in SIDES
                all_sums[$h_sums_at] = $h_lane_sum;
                if word == 0u {
                    all_highest[to * 16u + own + $h_query] = $h_highest;
                }
                //@end
            }
        }
        workgroupBarrier();
        for (var i = 0u; i < spans; i++) {
            let span = start + i;
            let of_span = team * SPANS + i;
            let some_do_not_see = (span + 1u) * SPAN > seen_by_all || span * SPAN < all_begin;
            let next_block = step[pages + min(span + 1u, end_span - 1u)] * KV_HEADS + kv_head;
            let next_value_at = next_block * PAGE * VALUE_UNITS + own_values;
            //@for h in SIDES
            // Spans that the query does not see leave it as it is.
            let $h_counts = span * SPAN < $h_own.end && (span + 1u) * SPAN > $h_own.begin;
            let $h_of_span =
                Softmax(all_highest[of_span * 16u + own + $h_query], sum_of_four(lane_sum(of_span, own + $h_query, word)));
            //@if SINKED
            //@if TILES
            let $h_is_first = !has_sink && span == max(first_span, $h_own.begin / SPAN);
            //@end
            //@ifnot TILES
            let $h_is_first = false;
            //@end
            //@end
            //@ifnot SINKED
            let $h_is_first = span == max(first_span, $h_own.begin / SPAN);
            //@end
            let $h_merged = merge($h_whole, $h_of_span, $h_is_first);
            if $h_counts {
                $h_whole = $h_merged.softmax;
            }
            //@end
            // A value that is infinite or not a number counts only where it is seen: it is left out, and what sees it is not
            // a number. A bit for each of the lane's positions.
            var bad = 0u;
            for (var c = 0u; c < $VALUETURNS; c++) {
                //@for c in VALUECHUNKS
                {
                    // The next values: of the next chunk, or the first ones of the next span.
                    let is_last = number$c + 1u == CHUNKS;
                    let unit = min(units_before + 8u * number$c + 8u, VALUE_UNITS - 1u);
                    let next_at = select(value_at + unit, next_value_at + first_unit, is_last);
                    $NORESULTS
                    for (var f = 0u; f < $POSITIONTURNS; f++) {
                        //@for f in POSITIONS
                        {
                            //@for i in FOUR
                            var value_$i = lane_values$f[$i];
                            //@end
                            if !is_last || i + 1u < spans {
                                //@for i in FOUR
                                lane_values$f[$i] =
                                    values[next_at + (16u * number$f + $i / 2 * 8 + $i % 2) * VALUE_UNITS];
                                //@end
                            }
                            if some_do_not_see {
                                //@for i in FOUR
                                if is_bad(value_$i) {
                                    value_$i = vec4<u32>();
                                    bad |= 1u << (4u * number$f + $i);
                                }
                                //@end
                            }
                            let weights = matrix_of(all_weights[(of_span * 4u + number$f) * 32u + lane]);
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
                            //@for h in SIDES
                            if $h_counts {
                                $h_total$c$j =
                                    fma($h_total$c$j, vec4<f32>($h_merged.before), lanes.$h * $h_merged.after);
                            }
                            //@end
                        }
                        //@end
                    }
                }
                //@end
            }
            value_at = next_value_at;
            //@if BRANCHES
            if some_do_not_see {
            //@end
            {
                let all_bad = joined_bits(bad);
                //@for h in SIDES
                $h_bad |= largest_bits_of_four(bad_and_seen($h_own, all_bad, span * SPAN + 2u * word));
                //@end
            }
            //@if BRANCHES
            }
            //@end
        }
        //@ifnot SPLIT
        if start + SPANS < end_span {
            key_at = (next_page * KV_HEADS + kv_head) * UNITS * PAGE + own_key;
$KEYLOADS
        }
        //@end
    }

$RESULTS
}
