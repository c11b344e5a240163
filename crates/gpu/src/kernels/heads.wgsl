// What happens to queries, keys and values between their projection and attention, for one row and for
// many: head norms, rotation, and the write of keys and values to the cache; each where the op has it.
//
// A workgroup per head and row: first HEADS query heads, changed in place, then KV_HEADS key and value
// heads. A head passes through workgroup memory. THREADS is a power of two.

var<workgroup> head: array<f32, ROOM>;
var<workgroup> lanes: array<f32, THREADS>;

// The norm of the head, with the lanes of norm.wgsl: those past THREADS would only add zeros.
fn norm(lane: u32, is_query: bool, epsilon: f32) {
    var sum = 0.0;
    for (var c = lane; c < KEY_DIM; c += THREADS) {
        sum = fma(head[c], head[c], sum);
    }
    lanes[lane] = sum;
    workgroupBarrier();
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        if lane < half {
            lanes[lane] += lanes[lane + half];
        }
        workgroupBarrier();
    }
    let scale = 1.0 / sqrt(lanes[0] / f32(KEY_DIM) + epsilon);
    for (var c = lane; c < KEY_DIM; c += THREADS) {
        let factor = select(key_norm[c], query_norm[c], is_query);
        head[c] = head[c] * scale * factor;
    }
    workgroupBarrier();
}

// Rotates the first 2 * PAIRS values of the head: (2i, 2i + 1) INTERLEAVED, else (i, i + PAIRS).
fn rotate(lane: u32, row: u32) {
    let angles = step[record_of(row) + ROW_ANGLES] + ANGLES;
    for (var i = lane; i < PAIRS; i += THREADS) {
        let a = select(i, 2u * i, INTERLEAVED);
        let b = select(i + PAIRS, 2u * i + 1u, INTERLEAVED);
        let cosine = bitcast<f32>(step[angles + i]);
        let sine = bitcast<f32>(step[angles + PAIRS + i]);
        let x0 = head[a];
        let x1 = head[b];
        head[a] = fma(x0, cosine, -(x1 * sine));
        head[b] = fma(x0, sine, x1 * cosine);
    }
    workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.y;
    if group.x < HEADS {
        let at = row * QUERY_STRIDE + QUERY_OFFSET + group.x * KEY_DIM;
        for (var c = lane; c < KEY_DIM; c += THREADS) {
            head[c] = query[at + c];
        }
        workgroupBarrier();
        if QUERY_NORM {
            norm(lane, true, QUERY_EPSILON);
        }
        rotate(lane, row);
        for (var c = lane; c < KEY_DIM; c += THREADS) {
            query[at + c] = head[c];
        }
    } else {
        write_key_and_value(lane, row, group.x - HEADS);
    }
}
