// Merges the partial results of a row's spans in ascending order, as attention does with spans that it has
// itself. A workgroup per row whose spans were split, head, and THREADS values; a thread per value.
//
// What each span and all before it are multiplied with depends on their largest scores alone: a thread
// computes it for four neighbouring spans, and what is left to do in order is one fma for each. Partial results
// are asked for BATCH spans ahead.
//
// A merge: the row, where its partial results begin, how many spans it has.

const SPANS = 4u * THREADS;
const BATCH = 8u;
const NOTHING = -3.0e38;

// The largest score of every four spans.
var<workgroup> peaks: array<vec4<f32>, THREADS / 4u>;
// Of each span: the factor of everything before it, its own, its sum times that.
var<workgroup> factors: array<vec4<f32>, SPANS>;

//@if INTEGERS
// The values, in quads.
var<workgroup> block: array<vec4<f32>, THREADS / 4u>;
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let record = step[MERGES] + group.y * 3u;
    let row = step[record];
    let first = step[record + 1u];
    let spans = step[record + 2u];
    let head = group.x / VALUE_BLOCKS;
    let c = group.x % VALUE_BLOCKS * THREADS + lane;
    let value_at = (first * HEADS + head) * PARTIAL + min(c, VALUE_DIM - 1u);
    let softmax_at = (first * HEADS + head) * PARTIAL + PARTIAL - 2u;
    var result = 0.0;
    //@if SINKLESS
    var sum = 0.0;
    var largest = NOTHING;
    //@end
    //@if SINKS
    var sum = 1.0;
    var largest = half_sink(sinks[head]);
    //@end
    //@for i in EIGHT
    var next_$i = partials[value_at + min($i, spans - 1u) * (HEADS * PARTIAL)];
    //@end
    for (var start = 0u; start < spans; start += SPANS) {
        let count = min(SPANS, spans - start);
        //@for k in FOUR
        let at_$k = softmax_at + min(start + 4u * lane + $k, spans - 1u) * (HEADS * PARTIAL);
        var own_$k = Softmax(partials[at_$k], partials[at_$k + 1u]);
        //@end
        //@for k in FOUR
        if 4u * lane + $k >= count {
            own_$k.largest = NOTHING;
        }
        //@end
        peaks[lane / 4u][lane % 4u] = max(max(own_0.largest, own_1.largest), max(own_2.largest, own_3.largest));
        workgroupBarrier();
        var highest = vec4<f32>(largest);
        var all = vec4<f32>(largest);
        //@for g in PEAKS
        {
            let four = peaks[$g];
            all = max(all, four);
            let earlier = vec4<u32>(4u * $g) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(lane);
            highest = max(highest, select(vec4<f32>(NOTHING), four, earlier));
        }
        //@end
        var before = max(max(highest.x, highest.y), max(highest.z, highest.w));
        //@for k in FOUR
        {
            //@if SINKLESS
            let merged = merge(Softmax(before, 0.0), own_$k, start + 4u * lane + $k == 0u);
            //@end
            //@if SINKS
            let merged = merge(Softmax(before, 0.0), own_$k, false);
            //@end
            factors[4u * lane + $k] = vec4<f32>(merged.before, merged.after, own_$k.sum * merged.after, 0.0);
            before = merged.softmax.largest;
        }
        //@end
        largest = max(max(all.x, all.y), max(all.z, all.w));
        workgroupBarrier();
        for (var batch = 0u; batch < count; batch += BATCH) {
            //@for i in EIGHT
            let partial_$i = next_$i;
            //@end
            if batch + BATCH <= count {
                let next = start + batch + BATCH;
                //@for i in EIGHT
                next_$i = partials[value_at + min(next + $i, spans - 1u) * (HEADS * PARTIAL)];
                //@end
                //@for i in EIGHT
                {
                    let factor = factors[batch + $i];
                    result = fma(result, factor.x, partial_$i * factor.y);
                    sum = fma(sum, factor.x, factor.z);
                }
                //@end
            } else {
                //@for i in EIGHT
                {
                    let factor = factors[batch + $i];
                    let is_span = batch + $i < count;
                    result = select(result, fma(result, factor.x, partial_$i * factor.y), is_span);
                    sum = select(sum, fma(sum, factor.x, factor.z), is_span);
                }
                //@end
            }
        }
        workgroupBarrier();
    }
    let value = result * (1.0 / sum);
    if c < VALUE_DIM {
        out[row * OUT_STRIDE + OUT_OFFSET + head * VALUE_DIM + c] = value;
    }
    //@if WRITES
    put_value(lane, head * VALUE_DIM + c, value, c < VALUE_DIM && row == 0u);
    //@end
    //@if INTEGERS
    block[lane / 4u][lane % 4u] = value;
    workgroupBarrier();
    let of_row = (head * VALUE_DIM + group.x % VALUE_BLOCKS * THREADS) / 4u + lane;
    let puts = lane < THREADS / 4u && group.x % VALUE_BLOCKS * THREADS + 4u * lane < VALUE_DIM;
    var values = vec4<f32>();
    if puts {
        values = block[lane];
        put_largest(lane, values);
    }
    workgroupBarrier();
    var scale = 0.0;
    if puts {
        scale = put_bytes(row, HEADS * VALUE_DIM / 32u, of_row, lane, values);
    }
    workgroupBarrier();
    if puts {
        put_about(row, HEADS * VALUE_DIM / 32u, of_row, lane, scale);
    }
    //@end
}
