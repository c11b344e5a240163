// Attention of several neighbouring rows of one sequence: out = for each query head, the softmax-weighted
// values of all positions that its row sees. The bits of a row are those that row.wgsl computes.
//
// A workgroup of 128 threads takes one item: 64 queries (some rows, HEAD_PART of the query heads that share
// one key head), up to 128 values of a head, and some spans of 64 positions, one after the other:
//   scores: a thread has 8 queries and 4 positions, 16 apart; queries · SCALE and keys pass through workgroup
//     memory, CHUNK dimensions at a time;
//   weights: a thread has a query and 32 positions;
//   results: a thread has 8 queries and one or two quads of values, 16 apart; values pass through workgroup
//     memory, CHUNK positions at a time.
// Spans are merged in ascending order: here when the item has all of them, by merge.wgsl when it has one.
//
// An item: first row, rows, first span, end of spans, where its partial results begin, and how far those
// of its next row are (0: it has all spans and writes `out`).

const SPAN = 64u;
const THREADS = 128u;
const UNIT = 4u * $UNITQUADS;
// Quads of the values that the workgroup has, and units that they are stored in.
const VALUE_QUADS = 16u * $VALUETURNS;
const BLOCK_UNITS = VALUE_QUADS / $UNITQUADS;
const NOTHING = -3.0e38;
const KEYS = CHUNK * 16u;

// Queries [dimension][quad of queries] and keys [dimension][position % 16][position / 16]; or values
// [position][quad].
var<workgroup> staged: array<vec4<f32>, CHUNK * 32u>;
// [position][quad of queries]: scores, then weights; zero where the query does not see the position.
var<workgroup> weights: array<vec4<f32>, SPAN * 16u>;
// Positions that each query sees.
var<workgroup> sees: array<u32, SPAN>;
// The largest score and the sum of weights over each half of the span, and the factors of what each query
// has before the span and of the span.
var<workgroup> peaks: array<f32, THREADS>;
var<workgroup> sums: array<f32, THREADS>;
var<workgroup> factors: array<vec2<f32>, SPAN>;

// Quads are swapped around so that threads meet different banks.
fn query_place(dimension: u32, quad: u32) -> u32 {
    return dimension * 16u + (quad ^ (dimension / 4u % 8u));
}

fn weight_place(position: u32, quad: u32) -> u32 {
    return position * 16u + (quad ^ (position % 8u));
}

// Four dimensions of a query that begins at `at`; zeros past its end.
fn query_quad(at: u32, quad: u32) -> vec4<f32> {
    //@if ALIGNED
    if 4u * quad < KEY_DIM {
        return query[at / 4u + quad];
    }
    return vec4<f32>();
    //@end
    //@if UNALIGNED
    var x = vec4<f32>();
    for (var c = 0u; c < 4u; c++) {
        if 4u * quad + c < KEY_DIM {
            x[c] = query[at + 4u * quad + c];
        }
    }
    return x;
    //@end
}

//@if SCALED
// The scale of a unit of a key or value, whose page and head begin at `at`, in units.
fn key_scale(at: u32, unit: u32, slot: u32) -> f32 {
    let word = (KEY_WORDS + unit / 4u) * PAGE + slot;
    let scales = unpack2x16float(keys[at + word / 4u][word % 4u]);
    return select(scales.x, scales.y, unit / 2u % 2u == 1u);
}

fn value_scale(at: u32, unit: u32, slot: u32) -> f32 {
    let word = VALUE_WORDS * PAGE + slot * VALUE_SCALES + unit / 4u;
    let scales = unpack2x16float(values[at + word / 4u][word % 4u]);
    return select(scales.x, scales.y, unit / 2u % 2u == 1u);
}
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let item = step[ITEMS] + group.y * 6u;
    let first_row = step[item];
    let rows = step[item + 1u];
    let first_span = step[item + 2u];
    let end_span = step[item + 3u];
    let partial_at = step[item + 4u];
    let partial_stride = step[item + 5u];
    let kv_head = group.x / (HEAD_PARTS * VALUE_BLOCKS);
    let first_head = group.x / VALUE_BLOCKS % HEAD_PARTS * HEAD_PART;
    let value_block = group.x % VALUE_BLOCKS;
    let pages = step[record_of(first_row) + ROW_PAGES];
    // The first row sees least, the last one most.
    let seen_by_all = step[record_of(first_row) + ROW_POSITION] + 1u;
    let visible = step[record_of(first_row + rows - 1u) + ROW_POSITION] + 1u;

    // The query and half of a span whose weights the thread computes, and the queries and positions or values
    // of which it computes scores and results.
    let own = thread % SPAN;
    let half = thread / SPAN;
    let tall = thread / 16u;
    let wide = thread % 16u;
    if thread < SPAN {
        sees[thread] = 0u;
        if thread / HEAD_PART < rows && first_head + thread % HEAD_PART < GROUP {
            sees[thread] = step[record_of(first_row + thread / HEAD_PART) + ROW_POSITION] + 1u;
        }
    }
    workgroupBarrier();
    let own_sees = sees[own];
    // The softmax of the own query up to the last span, kept by the threads of the first half.
    var whole = Softmax();
    //@for i in EIGHT
    //@for t in TURNS
    var total_$i_$t = vec4<f32>();
    //@end
    //@end

    // What the thread stages next, which is asked for while what is staged is multiplied.
    //@for t in QUERYTURNS
    var query_$t: vec4<f32>;
    //@end
    //@for t in KEYTURNS
    var key_$t: vec4<u32>;
    var key_scale_$t: f32;
    //@end
    //@for t in VALUELOADS
    var value_$t: vec4<u32>;
    var value_scale_$t: f32;
    //@end
    //@text LOADSCORES
            //@for t in QUERYTURNS
            {
                let i = thread + THREADS * $t;
                let q = i / (CHUNK / 4u);
                query_$t = vec4<f32>();
                if q / HEAD_PART < rows && first_head + q % HEAD_PART < GROUP && i < SPAN * (CHUNK / 4u) {
                    let head = kv_head * GROUP + first_head + q % HEAD_PART;
                    let at = (first_row + q / HEAD_PART) * QUERY_STRIDE + QUERY_OFFSET + head * KEY_DIM;
                    query_$t = query_quad(at, next / 4u + i % (CHUNK / 4u)) * SCALE;
                }
            }
            //@end
            //@for t in KEYTURNS
            {
                let i = thread + THREADS * $t;
                let unit = next / UNIT + i / SPAN;
                key_$t = vec4<u32>();
                key_scale_$t = 0.0;
                if unit < UNITS && i < SPAN * (CHUNK / UNIT) {
                    key_$t = keys[key_at + unit * PAGE + i % SPAN];
                    //@if SCALED
                    key_scale_$t = key_scale(key_at, unit, i % SPAN);
                    //@end
                }
            }
            //@end
    //@end
    //@text LOADVALUES
            //@for t in VALUELOADS
            {
                let i = thread + THREADS * $t;
                let unit = value_block * 32u / $UNITQUADS + i % BLOCK_UNITS;
                let position = next + i / BLOCK_UNITS;
                value_$t = vec4<u32>();
                value_scale_$t = 0.0;
                if unit < VALUE_UNITS && i < CHUNK * BLOCK_UNITS {
                    value_$t = values[value_at + position * VALUE_UNITS + unit];
                    //@if SCALED
                    value_scale_$t = value_scale(value_at, unit, position);
                    //@end
                }
            }
            //@end
    //@end
    let first_block = step[pages + first_span] * KV_HEADS + kv_head;
    var key_at = first_block * (KEY_WORDS + KEY_SCALES) * (PAGE / 4u);
    {
        let next = 0u;
$LOADSCORES
    }
    for (var span = first_span; span < end_span; span++) {
        let start = span * SPAN;
        let all_see = start + SPAN <= seen_by_all;
        let block = step[pages + span] * KV_HEADS + kv_head;
        let value_at = block * (VALUE_WORDS + VALUE_SCALES) * (PAGE / 4u);
        let following = step[pages + min(span + 1u, end_span - 1u)] * KV_HEADS + kv_head;

        //@for i in EIGHT
        var score_$i = vec4<f32>();
        //@end
        for (var first = 0u; first < KEY_DIM; first += CHUNK) {
            workgroupBarrier();
            //@for t in QUERYTURNS
            {
                let i = thread + THREADS * $t;
                let q = i / (CHUNK / 4u);
                if i < SPAN * (CHUNK / 4u) {
                    //@for c in FOUR
                    staged[query_place(4u * (i % (CHUNK / 4u)) + $c, q / 4u)][q % 4u] = query_$t[$c];
                    //@end
                }
            }
            //@end
            //@for t in KEYTURNS
            {
                let i = thread + THREADS * $t;
                if i < SPAN * (CHUNK / UNIT) {
                    //@for p in PARTS
                    {
                        let x = unit_quad_$p(key_$t, key_scale_$t);
                        let at = KEYS + (i / SPAN * UNIT + 4u * $p) * 16u + i % 16u;
                        //@for c in FOUR
                        staged[at + 16u * $c][i % SPAN / 16u] = x[$c];
                        //@end
                    }
                    //@end
                }
            }
            //@end
            workgroupBarrier();
            if first + CHUNK < KEY_DIM {
                let next = first + CHUNK;
$LOADSCORES
            } else {
                let next = 0u;
$LOADVALUES
            }
            for (var quad = 0u; quad < CHUNK / 4u; quad++) {
                //@for c in FOUR
                {
                    let low = staged[query_place(4u * quad + $c, 2u * tall)];
                    let high = staged[query_place(4u * quad + $c, 2u * tall + 1u)];
                    let key = staged[KEYS + (4u * quad + $c) * 16u + wide];
                    score_0 = fma(vec4<f32>(low.x), key, score_0);
                    score_1 = fma(vec4<f32>(low.y), key, score_1);
                    score_2 = fma(vec4<f32>(low.z), key, score_2);
                    score_3 = fma(vec4<f32>(low.w), key, score_3);
                    score_4 = fma(vec4<f32>(high.x), key, score_4);
                    score_5 = fma(vec4<f32>(high.y), key, score_5);
                    score_6 = fma(vec4<f32>(high.z), key, score_6);
                    score_7 = fma(vec4<f32>(high.w), key, score_7);
                }
                //@end
            }
        }
        //@for c in FOUR
        weights[weight_place(wide + 16u * $c, 2u * tall)] =
            vec4<f32>(score_0[$c], score_1[$c], score_2[$c], score_3[$c]);
        weights[weight_place(wide + 16u * $c, 2u * tall + 1u)] =
            vec4<f32>(score_4[$c], score_5[$c], score_6[$c], score_7[$c]);
        //@end
        workgroupBarrier();

        // Positions of the own half that the own query sees, if not all.
        let own_start = start + 32u * half;
        var own_seen = 32u;
        if !all_see {
            own_seen = min(max(own_sees, own_start) - own_start, 32u);
        }
        var peak = NOTHING;
        for (var i = 0u; i < 32u; i += 8u) {
            let at = 16u * (32u * half + i);
            //@for k in EIGHT
            let score_$k = weights[at + 16u * $k + ((own / 4u) ^ $k)][own % 4u];
            //@end
            //@for k in EIGHT
            peak = max(peak, select(NOTHING, score_$k, i + $k < own_seen));
            //@end
        }
        peaks[thread] = peak;
        workgroupBarrier();
        peak = max(peaks[own], peaks[own + SPAN]);
        var sum = 0.0;
        for (var i = 0u; i < 32u; i += 8u) {
            let at = 16u * (32u * half + i);
            //@for k in EIGHT
            let score_$k = weights[at + 16u * $k + ((own / 4u) ^ $k)][own % 4u];
            //@end
            //@for k in EIGHT
            let weight_$k = select(0.0, exponential(score_$k - peak), i + $k < own_seen);
            weights[at + 16u * $k + ((own / 4u) ^ $k)][own % 4u] = weight_$k;
            //@end
            //@for k in EIGHT
            sum += weight_$k;
            //@end
        }
        sums[thread] = sum;
        workgroupBarrier();
        if half == 0u {
            factors[own] = vec2<f32>();
            if all_see || start < own_sees {
                let merged = merge(whole, Softmax(peak, sum + sums[own + SPAN]), span == first_span);
                whole = merged.softmax;
                factors[own] = vec2<f32>(merged.before, merged.after);
            }
        }

        //@for i in EIGHT
        //@for t in TURNS
        var result_$i_$t = vec4<f32>();
        //@end
        //@end
        for (var first = 0u; first < SPAN && start + first < visible; first += CHUNK) {
            workgroupBarrier();
            //@for t in VALUELOADS
            {
                let i = thread + THREADS * $t;
                if i < CHUNK * BLOCK_UNITS {
                    let at = i / BLOCK_UNITS * VALUE_QUADS + i % BLOCK_UNITS * $UNITQUADS;
                    //@for p in PARTS
                    staged[at + $p] = unit_quad_$p(value_$t, value_scale_$t);
                    //@end
                }
            }
            //@end
            workgroupBarrier();
            if first + CHUNK < SPAN && start + first + CHUNK < visible {
                let next = first + CHUNK;
$LOADVALUES
            } else {
                let next = 0u;
                key_at = following * (KEY_WORDS + KEY_SCALES) * (PAGE / 4u);
$LOADSCORES
            }
            if all_see {
                for (var position = 0u; position < CHUNK; position += 8u) {
                    let at = 16u * (first + position);
                    //@for k in EIGHT
                    {
                    let low = weights[at + 16u * $k + ((2u * tall) ^ $k)];
                    let high = weights[at + 16u * $k + ((2u * tall + 1u) ^ $k)];
                    //@for t in TURNS
                    {
                        let value = staged[(position + $k) * VALUE_QUADS + 16u * $t + wide];
                        result_0_$t = fma(vec4<f32>(low.x), value, result_0_$t);
                        result_1_$t = fma(vec4<f32>(low.y), value, result_1_$t);
                        result_2_$t = fma(vec4<f32>(low.z), value, result_2_$t);
                        result_3_$t = fma(vec4<f32>(low.w), value, result_3_$t);
                        result_4_$t = fma(vec4<f32>(high.x), value, result_4_$t);
                        result_5_$t = fma(vec4<f32>(high.y), value, result_5_$t);
                        result_6_$t = fma(vec4<f32>(high.z), value, result_6_$t);
                        result_7_$t = fma(vec4<f32>(high.w), value, result_7_$t);
                    }
                    //@end
                    }
                    //@end
                }
            } else {
                // A position that a query does not see must not count, be its value infinite.
                for (var position = 0u; position < CHUNK; position++) {
                    let low = weights[weight_place(first + position, 2u * tall)];
                    let high = weights[weight_place(first + position, 2u * tall + 1u)];
                    //@for t in TURNS
                    {
                        let value = staged[position * VALUE_QUADS + 16u * $t + wide];
                        result_0_$t = select(result_0_$t, fma(vec4<f32>(low.x), value, result_0_$t), low.x > 0.0);
                        result_1_$t = select(result_1_$t, fma(vec4<f32>(low.y), value, result_1_$t), low.y > 0.0);
                        result_2_$t = select(result_2_$t, fma(vec4<f32>(low.z), value, result_2_$t), low.z > 0.0);
                        result_3_$t = select(result_3_$t, fma(vec4<f32>(low.w), value, result_3_$t), low.w > 0.0);
                        result_4_$t = select(result_4_$t, fma(vec4<f32>(high.x), value, result_4_$t), high.x > 0.0);
                        result_5_$t = select(result_5_$t, fma(vec4<f32>(high.y), value, result_5_$t), high.y > 0.0);
                        result_6_$t = select(result_6_$t, fma(vec4<f32>(high.z), value, result_6_$t), high.z > 0.0);
                        result_7_$t = select(result_7_$t, fma(vec4<f32>(high.w), value, result_7_$t), high.w > 0.0);
                    }
                    //@end
                }
            }
        }
        //@for i in EIGHT
        {
            let factor = factors[8u * tall + $i];
            // Spans that the query does not see leave it as it is.
            if factor.y > 0.0 {
                //@for t in TURNS
                total_$i_$t = fma(total_$i_$t, vec4<f32>(factor.x), result_$i_$t * factor.y);
                //@end
            }
        }
        //@end
    }

    workgroupBarrier();
    if half == 0u {
        factors[own] = vec2<f32>(whole.largest, whole.sum);
    }
    workgroupBarrier();
    //@for i in EIGHT
    {
        let q = 8u * tall + $i;
        let row = q / HEAD_PART;
        if first_span * SPAN < sees[q] {
            let head = kv_head * GROUP + first_head + q % HEAD_PART;
            let inverse = 1.0 / factors[q].y;
            let at = ((partial_at + row * partial_stride) * HEADS + head) * PARTIAL;
            //@for t in TURNS
            {
                let column = 4u * (32u * value_block + 16u * $t + wide);
                for (var c = 0u; c < 4u; c++) {
                    if column + c < VALUE_DIM {
                        if partial_stride == 0u {
                            let at = (first_row + row) * OUT_STRIDE + OUT_OFFSET + head * VALUE_DIM;
                            out[at + column + c] = total_$i_$t[c] * inverse;
                        } else {
                            partials[at + column + c] = total_$i_$t[c];
                        }
                    }
                }
            }
            //@end
            if partial_stride != 0u && wide == 0u && value_block == 0u {
                partials[at + PARTIAL - 2u] = factors[q].x;
                partials[at + PARTIAL - 1u] = factors[q].y;
            }
        }
    }
    //@end
}
