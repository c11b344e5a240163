// Attention of single rows over one span of 64 positions; merge.wgsl merges the spans. The bits of a row are
// those that row.wgsl computes.
//
// A workgroup takes one item: a row, one of its spans, TEAMS · $QUERYCOUNT of the query heads that share one
// key head, and up to 128 values of a head. A team of 32 threads has $QUERYCOUNT query heads:
//   score = one chain of fma over the dimensions of query · SCALE and key; a thread has two positions;
//   weight = e^(score - the span's largest score); a thread has some quads of positions;
//   sum of weights: a chain over the first 32 positions plus one over the last 32;
//   result: one chain of fma over the positions; a thread has four values.
// Two positions and four values, because what threads read from workgroup memory is what takes longest. Keys and
// values are asked for in chunks, each two before it is needed.
//
// An item: the row, positions that it sees, the span's page, the span, its end, where its partial result is.

const SPAN = 64u;
const LANES = 32u;
const THREADS = TEAMS * LANES;
const UNIT_QUADS = $UNITQUADS;
const QUADS = UNITS * UNIT_QUADS;
const NOTHING = -3.0e38;

// [query][quad], times SCALE.
var<workgroup> queries: array<vec4<f32>, TEAMS * $QUERYCOUNT * QUADS>;
// [query][four positions]: scores, then weights.
var<workgroup> weights: array<vec4<f32>, TEAMS * $QUERYCOUNT * 16u>;
// [query][four positions]: the largest score.
var<workgroup> peaks: array<vec4<f32>, TEAMS * $QUERYCOUNT * 4u>;

// The largest score of a query.
fn peak_of(query: u32) -> f32 {
    let both = max(
        max(peaks[query * 4u], peaks[query * 4u + 1u]),
        max(peaks[query * 4u + 2u], peaks[query * 4u + 3u]),
    );
    return max(max(both.x, both.y), max(both.z, both.w));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let item = step[ITEMS] + group.y * 6u;
    let row = step[item];
    let visible = step[item + 1u];
    let page = step[item + 2u];
    let span = step[item + 3u];
    let partial = step[item + 5u];
    let kv_head = group.x / (HEAD_PARTS * VALUE_BLOCKS);
    let first_head = group.x / VALUE_BLOCKS % HEAD_PARTS * TEAMS * $QUERYCOUNT;
    let team = thread / LANES;
    let lane = thread % LANES;
    let quad = group.x % VALUE_BLOCKS * LANES + lane;
    let read_part = min(quad, VALUE_QUADS - 1u);
    // Positions past these were never written, or by others.
    let seen = min(visible - span * SPAN, SPAN);

    let query_at = row * QUERY_STRIDE + QUERY_OFFSET + (kv_head * GROUP + first_head) * KEY_DIM;
    //@for t in QUERYTURNS
    var query_$t = 0.0;
    {
        let i = thread + THREADS * $t;
        let q = i / (4u * QUADS);
        let c = i % (4u * QUADS);
        if q < TEAMS * $QUERYCOUNT && first_head + q < GROUP && c < KEY_DIM {
            query_$t = query[query_at + q * KEY_DIM + c];
        }
    }
    //@end
    let block = page * KV_HEADS + kv_head;
    let key_at = block * (KEY_WORDS + KEY_SCALES) * (PAGE / 4u);
    //@for u in CHUNK
    //@for h in POSITIONS
    var unit_$u_$h = key_unit(key_at, $u, lane + $h * LANES);
    var scale_$u_$h = key_scale(key_at, $u, lane + $h * LANES);
    var next_$u_$h = key_unit(key_at, CHUNK + $u, lane + $h * LANES);
    var next_scale_$u_$h = key_scale(key_at, CHUNK + $u, lane + $h * LANES);
    //@end
    //@end
    let value_at = block * (VALUE_WORDS + VALUE_SCALES) * PAGE;
    //@for g in EARLY
    //@for c in FOUR
    var stored_$g_$c = load_part(value_at, 4u * $g + PLACE_$c, read_part);
    //@end
    //@end
    //@for t in QUERYTURNS
    {
        let i = thread + THREADS * $t;
        if i < TEAMS * $QUERYCOUNT * QUADS * 4u {
            queries[i / 4u][i % 4u] = query_$t * SCALE;
        }
    }
    //@end
    workgroupBarrier();

    //@for q in QUERIES
    //@for h in POSITIONS
    var score_$q_$h = 0.0;
    //@end
    //@end
    let own_queries = team * $QUERYCOUNT * QUADS;
$KEYS
    //@for g in MIDDLE
    //@for c in FOUR
    var stored_$g_$c = load_part(value_at, 4u * $g + PLACE_$c, read_part);
    //@end
    //@end
    //@for g in VALUECHUNK
    //@for c in FOUR
    var later_$g_$c = load_part(value_at, min(4u * (VALUE_CHUNK + $g), SPAN - 4u) + PLACE_$c, read_part);
    //@end
    //@end
    //@for q in QUERIES
    //@for h in POSITIONS
    {
        let position = lane + $h * LANES;
        let at = (team * $QUERYCOUNT + $q) * 16u + position / 4u;
        weights[at][position % 4u] = select(NOTHING, score_$q_$h, position < seen);
    }
    //@end
    //@end
    workgroupBarrier();

    //@for t in WEIGHTTURNS
    var scores_$t = vec4<f32>();
    if lane + LANES * $t < $QUERYCOUNT * 16u {
        let at = team * $QUERYCOUNT * 16u + lane + LANES * $t;
        scores_$t = weights[at];
        peaks[at / 4u][at % 4u] = max(max(scores_$t.x, scores_$t.y), max(scores_$t.z, scores_$t.w));
    }
    //@end
    workgroupBarrier();

    //@for t in WEIGHTTURNS
    if lane + LANES * $t < $QUERYCOUNT * 16u {
        let at = team * $QUERYCOUNT * 16u + lane + LANES * $t;
        let peak = peak_of(at / 16u);
        var weight = vec4<f32>();
        //@for c in FOUR
        weight.$c = select(0.0, exponential(scores_$t.$c - peak), at % 16u * 4u + PLACE_$c < seen);
        //@end
        weights[at] = weight;
    }
    //@end
    workgroupBarrier();

    //@for q in QUERIES
    var result_$q = vec4<f32>();
    //@end
$VALUES
    let own_head = first_head + team * $QUERYCOUNT;
    let partial_at = (partial * HEADS + kv_head * GROUP + own_head) * (PARTIAL / 2u);
    //@for q in QUERIES
    if own_head + $q < GROUP && quad < VALUE_QUADS {
        let at = partial_at + $q * (PARTIAL / 2u) + 2u * quad;
        partials[at] = result_$q.xy;
        partials[at + 1u] = result_$q.zw;
    }
    //@end
    if lane < $QUERYCOUNT && own_head + lane < GROUP && group.x % VALUE_BLOCKS == 0u {
        let own = team * $QUERYCOUNT + lane;
        var low = 0.0;
        var high = 0.0;
        //@for g in HALF
        {
            let first = weights[own * 16u + $g];
            let second = weights[own * 16u + 8u + $g];
            //@for c in FOUR
            low += first.$c;
            high += second.$c;
            //@end
        }
        //@end
        partials[partial_at + (lane + 1u) * (PARTIAL / 2u) - 1u] = vec2<f32>(peak_of(own), low + high);
    }
}
