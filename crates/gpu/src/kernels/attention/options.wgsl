// Attention both ways, or with a window, chunks, a soft cap, scores that fade, sinks or chosen positions, in the plainest way: a workgroup has one row and one query head, and
// goes through the pages that the row sees.
//   score = one chain of fma over the dimensions of query and key, times SCALE, capped, less what the head's slope
//   takes for distance; a thread has a position;
//   weight = e^(score - the largest score so far); a thread has a position;
//   sum of weights: a chain over the positions of the page, added to what came before, times its correction;
//   result: one chain of fma over the positions; a thread has some quads of values.

const UNIT_QUADS = $UNITQUADS;
const QUADS_EACH = (VALUE_QUADS + PAGE - 1u) / PAGE;
const PLACE_x = 0u;
const PLACE_y = 1u;
const PLACE_z = 2u;
const PLACE_w = 3u;

var<workgroup> scores: array<f32, PAGE>;
var<workgroup> weights: array<f32, PAGE>;

//@if CHOSEN
// 1 where the row sees a position of the page: a driver of NVIDIA's was seen to lose booleans in this memory.
var<workgroup> seen: array<u32, PAGE>;

// Whether a position is among those that a row has chosen, which ascend.
fn is_chosen(row: u32, position: u32) -> bool {
    let first = row * CHOSEN_STRIDE + CHOSEN_OFFSET;
    var below = 0u;
    var above = COUNT;
    while below < above {
        let middle = (below + above) / 2u;
        if chosen[first + middle] < f32(position) {
            below = middle + 1u;
        } else {
            above = middle;
        }
    }
    return below < COUNT && chosen[first + min(below, COUNT - 1u)] == f32(position);
}
//@end

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let head = group.x;
    let record = record_of(group.y);
    let pages = step[record + CACHE_PAGES];
    let own = step[record + ROW_POSITION];
    //@if CAUSAL
    let end = own + 1u;
    let start = max(end - min(end, WINDOW), own / CHUNK * CHUNK);
    //@end
    //@if BOTHWAYS
    let end = min(step[record + ROW_LENGTH], own + 1u + min(WINDOW / 2u, 0x7fffffffu - own));
    let start = own - min(own, WINDOW / 2u);
    //@end
    let query_at = group.y * QUERY_STRIDE + QUERY_OFFSET + head * KEY_DIM;

    // A sink is a score that was seen before all others.
    var softmax = Softmax(0.0, 0.0);
    var begun = false;
    //@if SINKS
    softmax = Softmax(sinks[head], 1.0);
    begun = true;
    //@end
    var results: array<vec4<f32>, QUADS_EACH>;
    for (var page = start / PAGE; page * PAGE < end; page += 1u) {
        let first = max(start, page * PAGE) - page * PAGE;
        let last = min(end - page * PAGE, PAGE);
        let block = step[pages + page] * KV_HEADS + head / GROUP;
        let key_at = block * (KEY_WORDS + KEY_SCALES) * (PAGE / 4u);
        let value_at = block * (VALUE_WORDS + VALUE_SCALES) * PAGE;
        if first <= thread && thread < last {
            var score = 0.0;
            for (var unit = 0u; unit < UNITS; unit += 1u) {
                let stored = key_unit(key_at, unit, thread);
                let scale = key_scale(key_at, unit, thread);
                //@for p in PARTS
                {
                    let key = unit_quad_$p(stored, scale);
                    let dimension = (unit * UNIT_QUADS + $p) * 4u;
                    //@for c in FOUR
                    if dimension + PLACE_$c < KEY_DIM {
                        score = fma(query[query_at + dimension + PLACE_$c], key.$c, score);
                    }
                    //@end
                }
                //@end
            }
            score *= SCALE;
            //@if CAPPED
            score = mapped(score);
            //@end
            //@if FADING
            score = fma(-slope(head), abs(f32(page * PAGE + thread) - f32(own)), score);
            //@end
            scores[thread] = score;
            //@if CHOSEN
            seen[thread] = u32(is_chosen(group.y, page * PAGE + thread));
            //@end
        }
        workgroupBarrier();
        //@if ALL
        let now = true;
        var largest = select(scores[first], softmax.largest, begun);
        for (var i = first; i < last; i += 1u) {
            largest = max(largest, scores[i]);
        }
        if first <= thread && thread < last {
            weights[thread] = exponential(scores[thread] - largest);
        }
        //@end
        //@if CHOSEN
        // Of a page nothing may be chosen.
        var largest = softmax.largest;
        var now = begun;
        for (var i = first; i < last; i += 1u) {
            if seen[i] == 1u {
                largest = select(scores[i], max(largest, scores[i]), now);
                now = true;
            }
        }
        if first <= thread && thread < last {
            weights[thread] = select(0.0, exponential(scores[thread] - largest), seen[thread] == 1u);
        }
        //@end
        workgroupBarrier();
        let before = select(0.0, exponential(softmax.largest - largest), begun);
        var sum = softmax.sum * before;
        for (var i = first; i < last; i += 1u) {
            sum += weights[i];
        }
        for (var turn = 0u; turn < QUADS_EACH; turn += 1u) {
            let quad = min(thread + turn * PAGE, VALUE_QUADS - 1u);
            var result = results[turn] * before;
            for (var i = first; i < last; i += 1u) {
                result = fma(vec4<f32>(weights[i]), value_part(load_part(value_at, i, quad), quad), result);
            }
            results[turn] = result;
        }
        softmax = Softmax(largest, sum);
        begun = now;
        workgroupBarrier();
    }

    let inverse = 1.0 / softmax.sum;
    let out_at = group.y * OUT_STRIDE + OUT_OFFSET + head * VALUE_DIM;
    for (var turn = 0u; turn < QUADS_EACH; turn += 1u) {
        let column = (thread + turn * PAGE) * 4u;
        let result = results[turn] * inverse;
        //@for c in FOUR
        if column + PLACE_$c < VALUE_DIM {
            out[out_at + column + PLACE_$c] = result.$c;
        }
        //@end
    }
}
