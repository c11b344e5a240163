// Merges the partial results of a row's spans in ascending order, as attention does with spans that it has
// itself. A workgroup per row whose spans were split, head, and up to 128 values; a thread per value.
//
// What each span and all before it are multiplied with depends on their largest scores alone: one thread per
// span computes it, 128 spans at a time, and what is left to do in order is one fma for each.
//
// A merge: the row, where its partial results begin, how many spans it has.

const THREADS = 128u;
const NOTHING = -3.0e38;

// The largest score of each span.
var<workgroup> peaks: array<vec4<f32>, THREADS / 4u>;
// Of each span: the factor of everything before it, its own, its sum times that, the largest score so far.
var<workgroup> factors: array<vec4<f32>, THREADS>;

//@if INTEGERS
// The head's values, in quads.
var<workgroup> block: array<vec4<f32>, 32>;
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let record = step[MERGES + LIST] + group.y * 3u;
    let row = step[record];
    let first = step[record + 1u];
    let spans = step[record + 2u];
    let head = group.x / VALUE_BLOCKS;
    let c = group.x % VALUE_BLOCKS * THREADS + lane;
    let read_c = min(c, VALUE_DIM - 1u);
    var result = 0.0;
    var sum = 0.0;
    var largest = NOTHING;
    for (var start = 0u; start < spans; start += THREADS) {
        let count = min(THREADS, spans - start);
        var own = Softmax(NOTHING, 0.0);
        if lane < count {
            let at = ((first + start + lane) * HEADS + head) * PARTIAL + PARTIAL - 2u;
            own = Softmax(partials[at], partials[at + 1u]);
        }
        peaks[lane / 4u][lane % 4u] = own.largest;
        workgroupBarrier();
        var highest = vec4<f32>(largest);
        for (var i = 0u; i < lane / 4u; i++) {
            highest = max(highest, peaks[i]);
        }
        let same = peaks[lane / 4u];
        highest = max(highest, select(vec4<f32>(NOTHING), same, vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(lane % 4u)));
        let before = max(max(highest.x, highest.y), max(highest.z, highest.w));
        let merged = merge(Softmax(before, 0.0), own, start + lane == 0u);
        factors[lane] = vec4<f32>(merged.before, merged.after, own.sum * merged.after, merged.softmax.largest);
        workgroupBarrier();
        for (var batch = 0u; batch < count; batch += $AHEADCOUNT) {
            let at = ((first + start) * HEADS + head) * PARTIAL + read_c;
            //@for i in AHEAD
            let partial_$i = partials[at + min(batch + $i, count - 1u) * HEADS * PARTIAL];
            //@end
            //@for i in AHEAD
            if batch + $i < count {
                let factor = factors[batch + $i];
                result = fma(result, factor.x, partial_$i * factor.y);
                sum = fma(sum, factor.x, factor.z);
            }
            //@end
        }
        largest = factors[THREADS - 1u].w;
        workgroupBarrier();
    }
    if c < VALUE_DIM {
        let inverse = 1.0 / sum;
        out[row * OUT_STRIDE + OUT_OFFSET + head * VALUE_DIM + c] = result * inverse;
        //@if INTEGERS
        block[lane / 4u][lane % 4u] = result * inverse;
        //@end
    }
    //@if INTEGERS
    workgroupBarrier();
    let quad = group.x % VALUE_BLOCKS * 32u + lane;
    let of_row = head * (VALUE_DIM / 4u) + quad;
    let puts = lane < 32u && 4u * quad < VALUE_DIM;
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
