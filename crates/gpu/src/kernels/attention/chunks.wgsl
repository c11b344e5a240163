// What the kernels for single rows have in common: keys and values are asked for in chunks, each two before it is needed.
// A thread has one or two positions, LANES apart, and a pair or a quad of values.

const PLACE_x = 0u;
const PLACE_y = 1u;
const PLACE_z = 2u;
const PLACE_w = 3u;

// The scores of all queries: a chain over the dimensions for each position.
//@text KEYS
    for (var first = 0u; first < UNITS; first += CHUNK) {
        //@for u in CHUNK
        //@for h in POSITIONS
        let now_$u_$h = unit_$u_$h;
        let now_scale_$u_$h = scale_$u_$h;
        unit_$u_$h = next_$u_$h;
        scale_$u_$h = next_scale_$u_$h;
        //@end
        //@end
        if first + 2u * CHUNK < UNITS {
            //@for u in CHUNK
            //@for h in POSITIONS
            next_$u_$h = key_unit(key_at, first + 2u * CHUNK + $u, lane + $h * LANES);
            next_scale_$u_$h = key_scale(key_at, first + 2u * CHUNK + $u, lane + $h * LANES);
            //@end
            //@end
        }
        //@for u in CHUNK
        if first + $u < UNITS {
            //@for p in PARTS
            {
                //@for h in POSITIONS
                let key_$h = unit_quad_$p(now_$u_$h, now_scale_$u_$h);
                //@end
                //@for q in QUERIES
                let x_$q = queries[own_queries + $q * QUADS + (first + $u) * UNIT_QUADS + $p];
                //@end
                //@for c in FOUR
                //@for q in QUERIES
                //@for h in POSITIONS
                score_$q_$h = fma(x_$q.$c, key_$h.$c, score_$q_$h);
                //@end
                //@end
                //@end
            }
            //@end
        }
        //@end
    }
//@end
// The results of all queries: a chain over the positions for each value.
//@text VALUES
    // A position that the row does not see must not count, be its value infinite.
    for (var first = 0u; 4u * first < seen; first += VALUE_CHUNK) {
        //@for g in VALUECHUNK
        //@for c in FOUR
        let now_$g_$c = stored_$g_$c;
        stored_$g_$c = later_$g_$c;
        //@end
        //@end
        if first + 2u * VALUE_CHUNK < 16u {
            //@for g in VALUECHUNK
            //@for c in FOUR
            later_$g_$c = load_part(value_at, 4u * (first + 2u * VALUE_CHUNK + $g) + PLACE_$c, read_part);
            //@end
            //@end
        }
        //@for g in VALUECHUNK
        {
            //@for q in QUERIES
            let weight_$q = weights[(team * $QUERYCOUNT + $q) * 16u + first + $g];
            //@end
            let left = seen - min(seen, 4u * (first + $g));
            //@for c in FOUR
            if left > PLACE_$c {
                let value = value_part(now_$g_$c, read_part);
                //@for q in QUERIES
                result_$q = fma(Part(weight_$q.$c), value, result_$q);
                //@end
            }
            //@end
        }
        //@end
    }
//@end
