// What halves_wide.wgsl consists of: its memory, its queries, and what it loads and writes.

// Subgroups of a team, and sums of weights that lanes tell others of a span.
const TEAM = SPANS * PARTS;
const SUMS = 1u + (PARTS - 1u) * MATRICES;

// [team][32 dimensions][product][lane]: eight dimensions of queries, as halves.
var<workgroup> all_queries: array<vec4<u32>, TEAMS * QUERY_GROUPS * 64u>;
// [team][span][16 positions][lane]: eight weights, as halves.
var<workgroup> all_weights: array<vec4<u32>, TEAMS * SPANS * 128u>;
// [team][subgroup][query]: bits of the largest of its scores.
var<workgroup> all_peaks: array<u32, TEAMS * TEAM * 16u>;
// [team][span][query]: the largest score.
var<workgroup> all_highest: array<f32, TEAMS * SPANS * 16u>;
// [team][span][sum][query][lane]: what the first subgroup adds up, and each of the sums that follow.
var<workgroup> all_sums: array<f32, TEAMS * SPANS * SUMS * 64u>;

struct Query {
    row: u32,
    // Of all query heads.
    head: u32,
    position: u32,
    // The positions that it sees: none where there is no such query.
    begin: u32,
    end: u32,
}

fn query_of(place: u32, first_row: u32, rows: u32, kv_head: u32) -> Query {
    let row = first_row + min(place / GROUP, rows - 1u);
    let record = record_of(row);
    let position = step[record + ROW_POSITION];
    //@if UNLIMITED
    let begin = 0u;
    let end = position + 1u;
    //@end
    //@if LIMITED
    let begin = first_seen(position);
    let end = end_of_seen(record);
    //@end
    return Query(row, kv_head * GROUP + place % GROUP, position, begin, select(0u, end, place / GROUP < rows));
}

fn are_seen(query: Query, at: vec4<u32>) -> vec4<bool> {
    return (at < vec4<u32>(query.end)) & (at >= vec4<u32>(query.begin));
}

// Halves that lanes have put into workgroup memory, as a left matrix.
fn matrix_of(eight: vec4<u32>) -> Left {
    return left_of(halves_of_bits(eight.xy), halves_of_bits(eight.zw));
}

// Eight dimensions of a key; what is past its end is multiplied with zeros.
fn key_unit(at: u32, dimensions: u32, word: u32) -> vec4<u32> {
    return keys[at + min(4u * dimensions + word, UNITS - 1u) * PAGE];
}

// The lane's sum of the weights of a span: 16 positions after the other.
fn lane_sum(span: u32, query: u32, word: u32) -> f32 {
    let at = span * SUMS * 64u + query * 4u + word;
    var sum = all_sums[at];
    for (var i = 1u; i < SUMS; i++) {
        sum += all_sums[at + 64u * i];
    }
    return sum;
}

// Whether a query sees any of the positions that have a bit: the lane's of a span.
fn bad_and_seen(query: Query, bits: u32, first_position: u32) -> u32 {
    var seen = 0u;
    for (var i = 0u; i < 4u; i++) {
        let are = are_seen(query, positions_of(first_position + 16u * i));
        seen |= dot(vec4<u32>(are), vec4<u32>(1u, 2u, 4u, 8u)) << (4u * i);
    }
    return bits & seen;
}

//@for to in TARGETS
// Sixteen neighbouring values of a lane, of which each word has two and the two that are eight further.
fn put_$to(at: u32, value: u32, first: vec4<f32>, second: vec4<f32>, third: vec4<f32>, fourth: vec4<f32>) {
    //@if QUADS
    if value < VALUE_DIM {
        let to = (at + value) / 4u;
        $to[to] = vec4<f32>(first.xz, second.xz);
        $to[to + 1u] = vec4<f32>(third.xz, fourth.xz);
        $to[to + 2u] = vec4<f32>(first.yw, second.yw);
        $to[to + 3u] = vec4<f32>(third.yw, fourth.yw);
    }
    //@end
    //@ifnot QUADS
    let words = array<vec4<f32>, 4>(first, second, third, fourth);
    for (var j = 0u; j < 4u; j++) {
        //@for c in FOUR
        {
            let own = value + 2u * j + $c % 2 * 8 + $c / 2;
            if own < VALUE_DIM {
                $to[at + own] = words[j][$c];
            }
        }
        //@end
    }
    //@end
}

//@end

// The subgroup's keys of the first dimensions.
//@text KEYLOADS
        for (var g = 0u; g < $KEYTURNS; g++) {
            //@for g in KEYGROUPS
            for (var f = 0u; f < $OWNTURNS; f++) {
                //@for f in OWNPOSITIONS
                near_keys$g$f = key_unit(key_at + 16u * number$f, number$g, word);
                far_keys$g$f = key_unit(key_at + 16u * number$f + 8u, number$g, word);
                //@end
            }
            //@end
        }
//@end
// Its first values of a span.
//@text VALUELOADS
        for (var f = 0u; f < $POSITIONTURNS; f++) {
            //@for f in POSITIONS
            //@for i in FOUR
            lane_values$f[$i] = values[value_at + (16u * number$f + $i / 2 * 8 + $i % 2) * VALUE_UNITS + first_unit];
            //@end
            //@end
        }
//@end
// What its queries give, once they have seen all spans.
//@text RESULTS
    // The lane's first value: its chunks' first sixteen are neighbours, those of a word two and two eight further.
    let first_value = 64u * CHUNKS * (value_block * TEAM + member) + 16u * word;
    //@for h in SIDES
    // One that sees what is not a number has nothing else.
    //@ifnot ROWS
    let $h_kept = bitcast<f32>(select(bitcast<u32>(1.0), NOT_A_NUMBER, $h_bad != 0u));
    //@end
    //@ifnot SPLIT
    let $h_inverse = bitcast<f32>(select(bitcast<u32>(1.0 / $h_whole.sum), NOT_A_NUMBER, $h_bad != 0u));
    //@end
    if first_span * SPAN < $h_own.end && end_span * SPAN > $h_own.begin {
        //@ifnot ROWS
        let into = ((partial_at + ($h_own.row - first_row) * partial_stride) * HEADS + $h_head) * PARTIAL;
        //@end
        //@ifnot SPLIT
        let out_at = $h_own.row * OUT_STRIDE + OUT_OFFSET + $h_head * VALUE_DIM;
        //@end
        for (var c = 0u; c < $VALUETURNS; c++) {
            //@for c in VALUECHUNKS
            {
                let value = first_value + 64u * number$c;
                let first = $h_total$c$FIRSTWORD;
                let second = $h_total$c$SECONDWORD;
                let third = $h_total$c$THIRDWORD;
                let fourth = $h_total$c$FOURTHWORD;
                //@if ROWS
                put_out(out_at, value, first * $h_inverse, second * $h_inverse, third * $h_inverse, fourth * $h_inverse);
                //@end
                //@if SPLIT
                put_partials(into, value, first * $h_kept, second * $h_kept, third * $h_kept, fourth * $h_kept);
                //@end
                //@if TILES
                if partial_stride == 0u {
                    put_out(
                        out_at, value, first * $h_inverse, second * $h_inverse, third * $h_inverse, fourth * $h_inverse,
                    );
                } else {
                    put_partials(into, value, first * $h_kept, second * $h_kept, third * $h_kept, fourth * $h_kept);
                }
                //@end
            }
            //@end
        }
        //@ifnot ROWS
        if word == 0u && member == 0u && value_block == 0u && partial_stride != 0u {
            //@if QUADS
            partials[(into + PARTIAL) / 4u - 1u] = vec4<f32>(0.0, 0.0, $h_whole.largest, $h_whole.sum);
            //@end
            //@ifnot QUADS
            partials[into + PARTIAL - 2u] = $h_whole.largest;
            partials[into + PARTIAL - 1u] = $h_whole.sum;
            //@end
        }
        //@end
    }
    //@end
    //@if WRITES
    // Of a single row as halves, too: 32 columns, which two neighbouring lanes have, have one power of two.
    //@for h in SIDES
    for (var c = 0u; c < $VALUETURNS; c++) {
        //@for c in VALUECHUNKS
        {
            var largest = 0u;
            for (var j = 0u; j < $WORDTURNS; j++) {
                //@for j in WORDS
                largest = max(largest, largest_of($h_total$c$j * $h_inverse));
                //@end
            }
            let factor = half_factor(max(largest, exchanged(largest, 1u)));
            let value = first_value + 64u * number$c;
            let column = $h_head * VALUE_DIM + value;
            if $h_own.row == 0u && $h_own.end > 0u && value < VALUE_DIM {
                for (var j = 0u; j < $WORDTURNS; j++) {
                    //@for j in WORDS
                    {
                        let halves = halves_of_quad(($h_total$c$j * $h_inverse).xzyw, one_over(factor));
                        written[column / 2u + number$j] = halves.x;
                        written[column / 2u + 4u + number$j] = halves.y;
                    }
                    //@end
                }
                if word % 2u == 0u {
                    written[WRITTEN_FACTORS + column / 32u] = bitcast<u32>(factor);
                }
            }
        }
        //@end
    }
    //@end
    //@end
//@end
