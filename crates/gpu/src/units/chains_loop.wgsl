for (var round = 0u; round < rounds; round++) {
    // Those beyond the last segment are computed again, and not used.
    let segment = min(round * $SPLIT + part, segments - 1u);
    let end = min((segment + 1u) * UNITS_OF_SEGMENT, units);
    let next_segment = min(segment + $SPLIT, segments - 1u) * UNITS_OF_SEGMENT;
    //@for r in ROWFRAGMENTS
    var chain_0_$r = no_sums();
    var chain_1_$r = no_sums();
    //@end
    for (var current = segment * UNITS_OF_SEGMENT; current < end; current++) {
        unit = select(next_segment, current + 1u, current + 1u < end);
        for (var turn = 0u; turn < $TURNS; turn++) {
            //@for g in GROUPS
            {
                let following = select(current * 4u, unit * 4u - 4u, $g + $AHEAD >= 4u) + $g + $AHEAD;
                let near_0 = terms_$FIRSTMATRIX(&raw_0, $g, $g % $AHEAD, 0u, word);
                let far_0 = terms_$FIRSTMATRIX(&raw_0, $g, $g % $AHEAD, 1u, word);
                //@for s in TWO
                let left_0_$s = left_of(
                    weights_$FIRSTMATRIX(&raw_0, near_0, $g, $g % $AHEAD, 0u, u32($s)),
                    weights_$FIRSTMATRIX(&raw_0, far_0, $g, $g % $AHEAD, 1u, u32($s)),
                );
                //@end
                load_$FIRSTMATRIX(&raw_0, tile_0, following, $g % $AHEAD, lane);
                let near_1 = terms_$SECONDMATRIX(&raw_1, $g, $g % $AHEAD, 0u, word);
                let far_1 = terms_$SECONDMATRIX(&raw_1, $g, $g % $AHEAD, 1u, word);
                //@for s in TWO
                let left_1_$s = left_of(
                    weights_$SECONDMATRIX(&raw_1, near_1, $g, $g % $AHEAD, 0u, u32($s)),
                    weights_$SECONDMATRIX(&raw_1, far_1, $g, $g % $AHEAD, 1u, u32($s)),
                );
                //@end
                load_$SECONDMATRIX(&raw_1, tile_1, following, $g % $AHEAD, lane);
                //@for r in ROWFRAGMENTS
                {
                    //@if OWNROW
                    let near = row_halves[$OWNROWAT(current * 4u + $g) * 4u + word];
                    //@end
                    //@ifnot OWNROW
                    let near = next_near_$r[$g % $AHEAD];
                    //@end
                    //@ifnot ONESIDE
                    let far = next_far_$r[$g % $AHEAD];
                    //@end
                    //@if ONESIDE
                    let far = near;
                    //@end
                    //@ifnot OWNROW
                    //@for h in INPUTSIDES
                    next_$h_$r[$g % $AHEAD] = input[$h_at_$r + following * 4u];
                    //@end
                    //@end
                    let first = right_of(near.xy, far.xy);
                    chain_0_$r = multiplied(left_0_0, first, chain_0_$r);
                    chain_1_$r = multiplied(left_1_0, first, chain_1_$r);
                    let second = right_of(near.zw, far.zw);
                    chain_0_$r = multiplied(left_0_1, second, chain_0_$r);
                    chain_1_$r = multiplied(left_1_1, second, chain_1_$r);
                }
                //@end
            }
            //@end
        }
    }
    //@ifnot SHARED
    //@for r in ROWFRAGMENTS
    total_0_$r = added(total_0_$r, chain_0_$r);
    total_1_$r = added(total_1_$r, chain_1_$r);
    //@end
    //@end
    //@if SHARED
    //@for r in ROWFRAGMENTS
    {
        let first = sums_of(chain_0_$r);
        let second = sums_of(chain_1_$r);
        let at = (subgroup * $ROWFRAGMENTCOUNT + $r) * 2u * $FRAGMENTPARTS + lane;
        //@for e in ELEMENTS
        if (row_of($r, $e, word) < rows_there) {
            parts[at + $e * 32u] = first.near[$e];
            parts[at + $e * 32u + $SIDEPARTS] = first.far[$e];
            parts[at + $e * 32u + $FRAGMENTPARTS] = second.near[$e];
            parts[at + $e * 32u + $FRAGMENTPARTS + $SIDEPARTS] = second.far[$e];
        }
        //@end
    }
    //@end
    workgroupBarrier();
    // A thread adds up what is at the same place in both tiles.
    let added_up = min(segments - round * $SPLIT, $SPLIT);
    //@for e in ENTRIES
    {
        let i = $e * $ALLTHREADS + thread;
        if (i < $TILEPARTS / 2u && row_of_part(i) < rows_there) {
            var at = i / $FRAGMENTPARTS * 2u * $FRAGMENTPARTS + i % $FRAGMENTPARTS;
            for (var p = 0u; p < added_up; p++) {
                first_$e += parts[at];
                second_$e += parts[at + $FRAGMENTPARTS];
                at += $TILEPARTS;
            }
        }
    }
    //@end
    if (round + 1u < rounds) {
        workgroupBarrier();
    }
    //@end
}
