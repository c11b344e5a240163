// Attention of single rows: out = for each query head, the softmax-weighted values of all positions that
// the row sees.
//
// A workgroup takes one item: a row, $QUERYCOUNT of the query heads that share one key head, up to 128 values
// of a head, and some spans of 64 positions. It has TEAMS teams of 64 threads, each for one span at a time:
//   score = one chain of fma over the dimensions of query · SCALE and key; one thread per position;
//   weight = e^(score - the span's largest score);
//   sum of weights: a chain over the first 32 positions plus one over the last 32;
//   result: one chain of fma over the positions; one thread per two values.
// An item has all spans of the row, and they are merged in ascending order.
// Keys and values are asked for early, a chunk of each while the one before is on its way: for a single row nothing
// but waiting takes time.

const SPAN = 64u;
const LANES = SPAN;
const THREADS = TEAMS * SPAN;
const UNIT_QUADS = $UNITQUADS;
const QUADS = UNITS * UNIT_QUADS;
const NOTHING = -3.0e38;

// [query][quad], times SCALE.
var<workgroup> queries: array<vec4<f32>, $QUERYCOUNT * QUADS>;
// [team][query][four positions].
var<workgroup> scores: array<vec4<f32>, TEAMS * $QUERYCOUNT * 16u>;
var<workgroup> weights: array<vec4<f32>, TEAMS * $QUERYCOUNT * 16u>;
// [team][query][pair of values], and the largest score and sum of weights of each.
var<workgroup> results: array<vec2<f32>, TEAMS * $QUERYCOUNT * SPAN>;
var<workgroup> softmaxes: array<Softmax, TEAMS * $QUERYCOUNT>;

//@if INTEGERS
// [query][quad]: the heads' values.
var<workgroup> block: array<vec4<f32>, BLOCK_QUADS>;
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    //@if NEAR
    let item = ITEMS + group.y * 6u;
    //@end
    //@if LISTED
    let item = step[ITEMS] + group.y * 6u;
    //@end
    let row = step[item];
    let visible = step[item + 1u];
    let pages = step[item + 2u];
    let first_span = step[item + 3u];
    let kv_head = group.x / (HEAD_PARTS * VALUE_BLOCKS);
    let first_head = group.x / VALUE_BLOCKS % HEAD_PARTS * $QUERYCOUNT;
    let team = thread / SPAN;
    let lane = thread % SPAN;
    let pair = group.x % VALUE_BLOCKS * 64u + lane;
    let read_part = min(pair, VALUE_PAIRS - 1u);

    let query_at = row * QUERY_STRIDE + QUERY_OFFSET + (kv_head * GROUP + first_head) * KEY_DIM;
    //@for t in QUERYTURNS
    var query_$t = 0.0;
    {
        let i = thread + THREADS * $t;
        let q = i / (4u * QUADS);
        let c = i % (4u * QUADS);
        if q < $QUERYCOUNT && first_head + q < GROUP && c < KEY_DIM {
            query_$t = query[query_at + q * KEY_DIM + c];
        }
    }
    //@end

    let end_span = step[item + 4u];
    var result = vec2<f32>();
    var whole = Softmax();
    for (var start = first_span; start < end_span; start += TEAMS) {
        let span = start + team;
        let has_span = span < end_span;
        let position = span * SPAN + lane;
        //@for u in CHUNK
        var unit_$u_0 = vec4<u32>();
        var scale_$u_0 = 1.0;
        var next_$u_0 = vec4<u32>();
        var next_scale_$u_0 = 1.0;
        //@end
        //@for g in VALUECHUNK
        //@for c in FOUR
        var stored_$g_$c = StoredPart();
        var later_$g_$c = StoredPart();
        //@end
        //@end
        var block = 0u;
        if has_span {
            block = step[pages + span] * KV_HEADS + kv_head;
            let key_at = block * (KEY_WORDS + KEY_SCALES) * (PAGE / 4u);
            //@for u in CHUNK
            unit_$u_0 = key_unit(key_at, $u, lane);
            scale_$u_0 = key_scale(key_at, $u, lane);
            next_$u_0 = key_unit(key_at, CHUNK + $u, lane);
            next_scale_$u_0 = key_scale(key_at, CHUNK + $u, lane);
            //@end
            let value_at = block * (VALUE_WORDS + VALUE_SCALES) * PAGE;
            //@for g in EARLY
            //@for c in FOUR
            stored_$g_$c = load_part(value_at, 4u * $g + PLACE_$c, read_part);
            //@end
            //@end
        }
        if start == first_span {
            //@for t in QUERYTURNS
            {
                let i = thread + THREADS * $t;
                if i < $QUERYCOUNT * QUADS * 4u {
                    queries[i / 4u][i % 4u] = query_$t * SCALE;
                }
            }
            //@end
        }
        workgroupBarrier();

        //@for q in QUERIES
        var score_$q_0 = NOTHING;
        //@end
        if has_span {
            //@for q in QUERIES
            score_$q_0 = 0.0;
            //@end
            let key_at = block * (KEY_WORDS + KEY_SCALES) * (PAGE / 4u);
            let own_queries = 0u;
$KEYS
            //@for q in QUERIES
            score_$q_0 = select(NOTHING, score_$q_0, position < visible);
            scores[(team * $QUERYCOUNT + $q) * 16u + lane / 4u][lane % 4u] = score_$q_0;
            //@end
            let value_at = block * (VALUE_WORDS + VALUE_SCALES) * PAGE;
            //@for g in MIDDLE
            //@for c in FOUR
            stored_$g_$c = load_part(value_at, 4u * $g + PLACE_$c, read_part);
            //@end
            //@end
            //@for g in VALUECHUNK
            //@for c in FOUR
            later_$g_$c = load_part(value_at, min(4u * (VALUE_CHUNK + $g), SPAN - 4u) + PLACE_$c, read_part);
            //@end
            //@end
        }
        workgroupBarrier();

        //@for q in QUERIES
        var peak_$q = NOTHING;
        //@end
        if has_span {
            //@for q in QUERIES
            {
                let at = (team * $QUERYCOUNT + $q) * 16u;
                var peaks = scores[at];
                for (var g = 1u; g < 16u; g++) {
                    peaks = max(peaks, scores[at + g]);
                }
                peak_$q = max(max(peaks.x, peaks.y), max(peaks.z, peaks.w));
                let weight = select(0.0, exponential(score_$q_0 - peak_$q), position < visible);
                weights[at + lane / 4u][lane % 4u] = weight;
            }
            //@end
        }
        workgroupBarrier();

        //@for q in QUERIES
        var result_$q = vec2<f32>();
        //@end
        if has_span {
            // Positions past these were never written, or by others.
            let seen = min(visible - span * SPAN, SPAN);
            let value_at = block * (VALUE_WORDS + VALUE_SCALES) * PAGE;
$VALUES
            if lane < $QUERYCOUNT {
                let at = (team * $QUERYCOUNT + lane) * 16u;
                var low = 0.0;
                var high = 0.0;
                for (var g = 0u; g < 8u; g++) {
                    let first = weights[at + g];
                    let second = weights[at + 8u + g];
                    low += first.x;
                    high += second.x;
                    low += first.y;
                    high += second.y;
                    low += first.z;
                    high += second.z;
                    low += first.w;
                    high += second.w;
                }
                var own = Softmax(peak_0, low + high);
                //@for q in QUERIES
                own.largest = select(own.largest, peak_$q, lane == $q);
                //@end
                softmaxes[team * $QUERYCOUNT + lane] = own;
            }
            //@for q in QUERIES
            results[(team * $QUERYCOUNT + $q) * SPAN + lane] = result_$q;
            //@end
        }
        workgroupBarrier();
        // One team for each query.
        if team < $QUERYCOUNT {
            for (var t = 0u; t < min(TEAMS, end_span - start); t++) {
                let at = t * $QUERYCOUNT + team;
                let merged = merge(whole, softmaxes[at], start + t == first_span);
                result = fma(result, vec2<f32>(merged.before), results[at * SPAN + lane] * merged.after);
                whole = merged.softmax;
            }
        }
    }
    if team < $QUERYCOUNT && first_head + team < GROUP && pair < VALUE_PAIRS {
        let head = kv_head * GROUP + first_head + team;
        let at = row * OUT_STRIDE + OUT_OFFSET + head * VALUE_DIM + 2u * pair;
        let inverse = 1.0 / whole.sum;
        out[at] = result.x * inverse;
        if 2u * pair + 1u < VALUE_DIM {
            out[at + 1u] = result.y * inverse;
        }
        //@if INTEGERS
        let own = team * 32u + lane / 2u;
        block[own][lane % 2u * 2u] = result.x * inverse;
        block[own][lane % 2u * 2u + 1u] = result.y * inverse;
        //@end
    }
    //@if INTEGERS
    workgroupBarrier();
    let quad = group.x % VALUE_BLOCKS * 32u + thread % 32u;
    let head = first_head + thread / 32u;
    let of_row = (kv_head * GROUP + head) * (VALUE_DIM / 4u) + quad;
    let puts = thread < BLOCK_QUADS && head < GROUP && 4u * quad < VALUE_DIM;
    var values = vec4<f32>();
    if puts {
        values = block[thread];
        put_largest(thread, values);
    }
    workgroupBarrier();
    var group_scale = 0.0;
    if puts {
        group_scale = put_bytes(row, HEADS * VALUE_DIM / 32u, of_row, thread, values);
    }
    workgroupBarrier();
    if puts {
        put_about(row, HEADS * VALUE_DIM / 32u, of_row, thread, group_scale);
    }
    //@end
}
