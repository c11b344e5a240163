// Attention in halves of several neighbouring rows of one sequence, as gleed_model::arithmetic::attend_halves defines it.
//
// A workgroup has 64 queries, some rows and HEAD_PART of the query heads that share one key head, 16 for each subgroup,
// and computes one span of 64 positions after the other. An item: first row, rows, first span, end of spans, where its
// partial results begin, and how far those of its next row are (0: it has all spans and writes `out`).

@compute @workgroup_size($THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    begin_units(subgroup, lane);
    let item = step[ITEMS] + group.y * 6u;
    let kv_head = group.x / (HEAD_PARTS * VALUE_BLOCKS);
    let first_head = group.x / VALUE_BLOCKS % HEAD_PARTS * HEAD_PART;
    let value_block = group.x % VALUE_BLOCKS;
    let word = lane % 4u;
    let own = lane / 4u;
    let first_row = step[item];
    let rows = step[item + 1u];
    let first_span = step[item + 2u];
    let end_span = step[item + 3u];
    let partial_at = step[item + 4u];
    let partial_stride = step[item + 5u];
    let pages = step[record_of(first_row) + CACHE_PAGES];
    // The first row sees least far.
    //@if UNLIMITED
    let seen_by_all = step[record_of(first_row) + ROW_POSITION] + 1u;
    //@end
    //@if LIMITED
    // And the last one begins last.
    let seen_by_all = end_of_seen(record_of(first_row));
    let all_begin = first_seen(step[record_of(first_row + rows - 1u) + ROW_POSITION]);
    //@end
    //@if SINKS
    // What is merged with other spans has its sink there.
    let has_sink = partial_stride == 0u;
    //@end
    //@for h in SIDES
    let $h_place = subgroup * 16u + own + $h_query;
    let $h_is = $h_place / HEAD_PART < rows && first_head + $h_place % HEAD_PART < GROUP;
    let $h_row = first_row + min($h_place / HEAD_PART, rows - 1u);
    //@if PLACED
    let $h_position = step[record_of($h_row) + ROW_POSITION];
    //@end
    //@if UNLIMITED
    let $h_sees = select(0u, step[record_of($h_row) + ROW_POSITION] + 1u, $h_is);
    //@end
    //@if LIMITED
    let $h_sees = select(0u, end_of_seen(record_of($h_row)), $h_is);
    let $h_begins = first_seen($h_position);
    //@end
    let $h_head = kv_head * GROUP + min(first_head + $h_place % HEAD_PART, GROUP - 1u);
    //@if SINKLESS
    var $h_whole = Softmax();
    //@end
    //@if SINKS
    var $h_whole = Softmax(half_sink(sinks[$h_head]), 1.0);
    //@end
    //@end
    $TOTALS

$QUERIES

    for (var span = first_span; span < end_span; span++) {
        //@if UNLIMITED
        let some_do_not_see = (span + 1u) * SPAN > seen_by_all;
        //@end
        //@if LIMITED
        let some_do_not_see = (span + 1u) * SPAN > seen_by_all || span * SPAN < all_begin;
        //@end
        let page = step[pages + span];
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
                //@for h in SIDES
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
                    let first = span * SPAN + 8u * word + number$f / 2u * 32u + number$f % 2u * 4u;
                    let at = vec4<f32>(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u));
                    let distance = abs(at - vec4<f32>(f32($h_position)));
                    $h_scores$f = fma(vec4<f32>(-$h_slope), distance, $h_scores$f);
                }
                //@end
                //@end
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
                    //@for h in SIDES
                    //@if UNLIMITED
                    let $h_sees_them = at < vec4<u32>($h_sees);
                    //@end
                    //@if LIMITED
                    let $h_sees_them = (at < vec4<u32>($h_sees)) & (at >= vec4<u32>($h_begins));
                    //@end
                    $h_scores$f = select(vec4<f32>(NOTHING), $h_scores$f, $h_sees_them);
                    //@end
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
                    //@if UNLIMITED
                    $h_weights = select(vec4<f32>(), $h_weights, at < vec4<u32>($h_sees));
                    //@end
                    //@if LIMITED
                    let is_seen = (at < vec4<u32>($h_sees)) & (at >= vec4<u32>($h_begins));
                    $h_weights = select(vec4<f32>(), $h_weights, is_seen);
                    //@end
                }
                $h_lane_sum += ($h_weights.x + $h_weights.y) + ($h_weights.z + $h_weights.w);
                //@end
                weights$f = left_of(vec4<f16>(near_weights), vec4<f16>(far_weights));
            }
            //@end
        }
        //@for h in SIDES
        let $h_sum = sum_of_four($h_lane_sum);
        //@end
        //@for h in SIDES
        // Spans that the query does not see leave it as it is.
        //@if UNLIMITED
        let $h_counts = !some_do_not_see || span * SPAN < $h_sees;
        let $h_is_first = span == first_span;
        //@end
        //@if LIMITED
        let $h_counts = !some_do_not_see || (span * SPAN < $h_sees && (span + 1u) * SPAN > $h_begins);
        let $h_is_first = span == max(first_span, $h_begins / SPAN);
        //@end
        //@if SINKLESS
        let $h_merged = merge($h_whole, Softmax($h_highest, $h_sum), $h_is_first);
        //@end
        //@if SINKS
        let $h_merged = merge($h_whole, Softmax($h_highest, $h_sum), $h_is_first && !has_sink);
        //@end
        if $h_counts {
            $h_whole = $h_merged.softmax;
        }
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
                                let right = right_of_values(
                                    value_0[number$j],
                                    value_1[number$j],
                                    value_2[number$j],
                                    value_3[number$j],
                                );
                                result$j = multiplied(weights$f, right, result$j);
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
                            $h_total$c$j = fma(
                                $h_total$c$j,
                                vec4<f32>($h_merged.before),
                                lanes.$h * $h_merged.after,
                            );
                        }
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
                //@for h in SIDES
                //@if UNLIMITED
                $h_bad |= select(0u, is, position < $h_sees);
                //@end
                //@if LIMITED
                $h_bad |= select(0u, is, position < $h_sees && position >= $h_begins);
                //@end
                //@end
            }
            near_bad = largest_bits_of_four(near_bad);
            far_bad = largest_bits_of_four(far_bad);
        }
        //@for h in SIDES
        if $h_bad != 0u {
            $h_whole.sum = bitcast<f32>(NOT_A_NUMBER * $h_bad);
        }
        //@end
    }

    //@for h in SIDES
    //@if UNLIMITED
    let $h_saw_some = first_span * SPAN < $h_sees;
    //@end
    //@if LIMITED
    let $h_saw_some = first_span * SPAN < $h_sees && end_span * SPAN > $h_begins;
    //@end
    if $h_saw_some {
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
        if $h_saw_some {
            let to = ((partial_at + ($h_row - first_row) * partial_stride) * HEADS + $h_head + 1u) * PARTIAL;
            partials[to - 2u] = $h_whole.largest;
            partials[to - 1u] = $h_whole.sum;
        }
        //@end
    }
}

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
