// Attention in halves of several neighbouring rows of one sequence, as gleed_model::arithmetic::attend_halves defines it.
//
// A workgroup has 64 queries, some rows and HEAD_PART of the query heads that share one key head, 16 for each subgroup,
// and computes one span of 64 positions after the other; where it is STAGED its subgroups share keys and values (see
// halves_staged.wgsl). An item: first row, rows, first span, end of spans, where its partial results begin, and how far those
// of its next row are (0: it has all spans and writes `out`).

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

    //@if STAGED
    // A thread has pairs of units of the keys of one position.
    let own_position = thread % PAGE;
    let own_pair = thread / PAGE;
    let own_keys = (kv_head * UNITS + 2u * own_pair) * PAGE + own_position;
    let own_row = own_position * KEY_FOURS + 2u * own_pair;
    //@for i in KEYPAIRS
    var ahead_key_$i = keys[step[pages + first_span] * KV_HEADS * UNITS * PAGE + own_keys + $i * 4u * PAGE];
    var ahead_other_$i = keys[step[pages + first_span] * KV_HEADS * UNITS * PAGE + own_keys + $i * 4u * PAGE + PAGE];
    //@end
    if thread < 4u {
        atomicStore(&bad_positions[thread], 0u);
    }
    //@end
    for (var span = first_span; span < end_span; span++) {
        //@if UNLIMITED
        let some_do_not_see = (span + 1u) * SPAN > seen_by_all;
        //@end
        //@if LIMITED
        let some_do_not_see = (span + 1u) * SPAN > seen_by_all || span * SPAN < all_begin;
        //@end
        let page = step[pages + span];
        let block = page * KV_HEADS + kv_head;
        let key_at = block * UNITS * PAGE + own;
        let value_at = block * PAGE * VALUE_UNITS;
        //@if STAGED
        let next_keys = step[pages + min(span + 1u, end_span - 1u)] * KV_HEADS * UNITS * PAGE + own_keys;
        //@for i in KEYPAIRS
        staged_keys[own_row + 8u * $i] = four_halves(ahead_key_$i.xy);
        staged_keys[own_row + 8u * $i + 1u] = four_halves(ahead_other_$i.xy);
        staged_keys[own_row + 8u * $i + 4u] = four_halves(ahead_key_$i.zw);
        staged_keys[own_row + 8u * $i + 5u] = four_halves(ahead_other_$i.zw);
        //@end
        //@for i in VALUEUNITS
        var ahead_value_$i = values[value_at + $i * THREADS + thread];
        //@end
        workgroupBarrier();
        //@end
        // Positions of the lane begin here: four for each of the products.
        let first_position = span * SPAN + 2u * word;
        //@for MASKED in PATHS
        //@if BRANCHES
        //@if MASKED
        if some_do_not_see {
        //@end
        //@ifnot MASKED
        else {
        //@end
        //@end
        $SCORES
        $NOPRODUCTS
        for (var g = 0u; g < $KEYTURNS; g++) {
            //@for g in KEYGROUPS
            {
                //@ifnot STAGED
                //@if WHOLE
                let unit_at = key_at + (4u * number$g + word) * PAGE;
                //@end
                //@if PADDED
                let unit_at = key_at + min(4u * number$g + word, UNITS - 1u) * PAGE;
                //@end
                //@end
                for (var f = 0u; f < $POSITIONTURNS; f++) {
                    //@for f in POSITIONS
                    {
                        //@ifnot STAGED
                        let near = keys[unit_at + 16u * number$f];
                        let far = keys[unit_at + 16u * number$f + 8u];
                        product$f = multiplied(first_query$g, right_of(near.xy, far.xy), product$f);
                        product$f = multiplied(second_query$g, right_of(near.zw, far.zw), product$f);
                        //@end
                        //@if STAGED
                        let at = 16u * number$f * KEY_FOURS + 8u * number$g;
                        product$f = multiplied(first_query$g, staged_key(at), product$f);
                        product$f = multiplied(second_query$g, staged_key(at + 4u), product$f);
                        //@end
                    }
                    //@end
                }
            }
            //@end
        }
        for (var f = 0u; f < $POSITIONTURNS; f++) {
            //@for f in POSITIONS
            {
                let sums = sums_of(product$f);
                near_scores$f = sums.near;
                far_scores$f = sums.far;
                //@if MASKED
                let at = positions_of(first_position + 16u * number$f);
                //@end
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
                    let at = vec4<f32>(positions_of(first_position + 16u * number$f));
                    let distance = abs(at - vec4<f32>(f32($h_position)));
                    $h_scores$f = fma(vec4<f32>(-$h_slope), distance, $h_scores$f);
                }
                //@end
                //@if MASKED
                //@if UNLIMITED
                let $h_is_seen = at < vec4<u32>($h_sees);
                //@end
                //@if LIMITED
                let $h_is_seen = (at < vec4<u32>($h_sees)) & (at >= vec4<u32>($h_begins));
                //@end
                $h_scores$f = select(vec4<f32>(NOTHING), $h_scores$f, $h_is_seen);
                //@end
                //@end
            }
            //@end
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
                //@if MASKED
                let at = positions_of(first_position + 16u * number$f);
                //@end
                //@for h in SIDES
                var $h_weights: vec4<f32>;
                //@for c in FOUR
                $h_weights[$c] = exponential(fma($h_scores$f[$c], $h_factor, -$h_highest));
                //@end
                //@if MASKED
                //@if UNLIMITED
                $h_weights = select(vec4<f32>(), $h_weights, at < vec4<u32>($h_sees));
                //@end
                //@if LIMITED
                let $h_is_seen = (at < vec4<u32>($h_sees)) & (at >= vec4<u32>($h_begins));
                $h_weights = select(vec4<f32>(), $h_weights, $h_is_seen);
                //@end
                //@end
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
        //@if MASKED
        // Spans that the query does not see leave it as it is.
        //@if UNLIMITED
        let $h_counts = span * SPAN < $h_sees;
        //@end
        //@if LIMITED
        let $h_counts = span * SPAN < $h_sees && (span + 1u) * SPAN > $h_begins;
        //@end
        //@end
        //@if UNLIMITED
        let $h_is_first = span == first_span;
        //@end
        //@if LIMITED
        let $h_is_first = span == max(first_span, $h_begins / SPAN);
        //@end
        //@if SINKLESS
        let $h_merged = merge($h_whole, Softmax($h_highest, $h_sum), $h_is_first);
        //@end
        //@if SINKS
        let $h_merged = merge($h_whole, Softmax($h_highest, $h_sum), $h_is_first && !has_sink);
        //@end
        //@if MASKED
        if $h_counts
        //@end
        {
            $h_whole = $h_merged.softmax;
        }
        //@end

        // A position that a query does not see must not count, be its value infinite: those are left out, and what sees
        // them is not a number.
        //@if MASKED
        //@ifnot STAGED
        // A bit for each of the lane's positions.
        var bad = 0u;
        //@end
        //@if STAGED
        //@for i in VALUEUNITS
        if some_do_not_see && is_bad(ahead_value_$i) {
            ahead_value_$i = vec4<u32>();
            let position = ($i * THREADS + thread) / VALUE_UNITS;
            atomicOr(&bad_positions[span % 2u * 2u + position / 32u], 1u << (position % 32u));
        }
        //@end
        //@end
        //@end
        //@if STAGED
        //@for i in VALUEUNITS
        let place_$i = 2u * ($i * THREADS + thread + ($i * THREADS + thread) / VALUE_UNITS);
        staged_values[place_$i] = four_halves(ahead_value_$i.xy);
        staged_values[place_$i + 1u] = four_halves(ahead_value_$i.zw);
        //@end
        //@for i in KEYPAIRS
        ahead_key_$i = keys[next_keys + $i * 4u * PAGE];
        ahead_other_$i = keys[next_keys + $i * 4u * PAGE + PAGE];
        //@end
        //@if MASKED
        if thread < 2u {
            atomicStore(&bad_positions[(span + 1u) % 2u * 2u + thread], 0u);
        }
        //@end
        workgroupBarrier();
        //@end
        for (var c = 0u; c < $VALUETURNS; c++) {
            //@for c in VALUECHUNKS
            {
                //@ifnot STAGED
                let unit = min(value_block * BLOCK_VALUES / 8u + 8u * number$c + own, VALUE_UNITS - 1u);
                let unit_at = value_at + 2u * word * VALUE_UNITS + unit;
                //@end
                $NORESULTS
                for (var f = 0u; f < $POSITIONTURNS; f++) {
                    //@for f in POSITIONS
                    {
                        //@ifnot STAGED
                        //@for i in FOUR
                        var value_$i = values[unit_at + (16u * number$f + $i / 2 * 8 + $i % 2) * VALUE_UNITS];
                        //@end
                        //@if MASKED
                        //@for i in FOUR
                        if some_do_not_see && is_bad(value_$i) {
                            value_$i = vec4<u32>();
                            bad |= 1u << (4u * number$f + $i);
                        }
                        //@end
                        //@end
                        //@end
                        for (var j = 0u; j < $WORDTURNS; j++) {
                            //@for j in WORDS
                            {
                                //@ifnot STAGED
                                let right = right_of_values(
                                    value_0[number$j],
                                    value_1[number$j],
                                    value_2[number$j],
                                    value_3[number$j],
                                );
                                //@end
                                //@if STAGED
                                let right = staged_value(16u * number$f * VALUE_FOURS + 16u * number$c + 4u * number$j);
                                //@end
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
                        //@if MASKED
                        if $h_counts
                        //@end
                        {
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
        //@if MASKED
        //@if STAGED
        let all_bad = vec2<u32>(
            atomicLoad(&bad_positions[span % 2u * 2u]),
            atomicLoad(&bad_positions[span % 2u * 2u + 1u]),
        );
        //@for h in SIDES
        //@if UNLIMITED
        let $h_seen = first_bits(min($h_sees - min($h_sees, span * SPAN), SPAN));
        //@end
        //@if LIMITED
        let $h_seen = first_bits(min($h_sees - min($h_sees, span * SPAN), SPAN))
            & ~first_bits(min($h_begins - min($h_begins, span * SPAN), SPAN));
        //@end
        if any((all_bad & $h_seen) != vec2<u32>()) {
            $h_whole.sum = bitcast<f32>(NOT_A_NUMBER);
        }
        //@end
        //@end
        //@ifnot STAGED
        let all_bad = joined_bits(bad);
        //@for h in SIDES
        var $h_bad = 0u;
        //@end
        for (var i = 0u; i < 16u; i++) {
            let position = first_position + i / 4u * 16u + i % 4u / 2u * 8u + i % 2u;
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
        //@for h in SIDES
        $h_bad = largest_bits_of_four($h_bad);
        if $h_bad != 0u {
            $h_whole.sum = bitcast<f32>(NOT_A_NUMBER * $h_bad);
        }
        //@end
        //@end
        //@end
        //@if BRANCHES
        }
        //@end
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
                    //@ifnot STAGED
                    let value = value_block * BLOCK_VALUES + 64u * number$c + 16u * word + 2u * number$j;
                    //@end
                    //@if STAGED
                    let value = 64u * number$c + 16u * number$j + 2u * word;
                    //@end
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

// Which value of a lane's four is where, in its matrix.
fn place_of(i: u32) -> u32 {
    //@ifnot STAGED
    return i % 2u * 8u + i / 2u;
    //@end
    //@if STAGED
    return i / 2u * 8u + i % 2u;
    //@end
}

// Four values of a lane: two neighbouring ones, and two eight further.
fn put_out(at: u32, value: u32, x: vec4<f32>) {
    //@for c in FOUR
    {
        let own = value + place_of($c);
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
        let own = value + place_of($c);
        if own < VALUE_DIM {
            partials[at + own] = x[$c];
        }
    }
    //@end
}
