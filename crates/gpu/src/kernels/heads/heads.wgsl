// What happens to queries, keys and values between their projection and attention, for one row and for
// many: head norms, rotation, and the write of keys and values to the cache; each where the op has it.
//
// A workgroup per head and row: HEADS query heads, changed in place, then KV_HEADS keys, then as many values.
// Everything that is read is asked for before the first barrier.

// The head as it was read, and zeros up to a multiple of 16 quads; and what is stored of a key or value.
var<workgroup> fresh: array<vec4<f32>, FRESH_QUADS>;
var<workgroup> head: array<f32, ROOM>;

// What a lane of norm.wgsl adds up.
fn squares(lane: u32) -> f32 {
    var sum = 0.0;
    for (var quad = lane; quad < FRESH_QUADS; quad += 256u) {
        let x = fresh[quad];
        sum = fma(x.x, x.x, sum);
        sum = fma(x.y, x.y, sum);
        sum = fma(x.z, x.z, sum);
        sum = fma(x.w, x.w, sum);
    }
    return sum;
}

// The same of all lanes, each computed by one thread: all others would only add zeros.
var<workgroup> lane_squares: array<vec4<f32>, FRESH_QUADS / 4u>;

fn put_squares(thread: u32) {
    for (var lane = thread; lane < min(FRESH_QUADS, 256u); lane += THREADS) {
        lane_squares[lane / 4u][lane % 4u] = squares(lane);
    }
}

// The lanes, folded as in norm.wgsl. Every thread folds them itself.
fn square_sum() -> f32 {
    var blocks = array<f32, 16>();
    //@for b in BLOCKS
    blocks[$b] = fold(
        lane_squares[4u * $b],
        lane_squares[4u * $b + 1u],
        lane_squares[4u * $b + 2u],
        lane_squares[4u * $b + 3u],
    );
    //@end
    return fold(
        vec4<f32>(blocks[0], blocks[1], blocks[2], blocks[3]),
        vec4<f32>(blocks[4], blocks[5], blocks[6], blocks[7]),
        vec4<f32>(blocks[8], blocks[9], blocks[10], blocks[11]),
        vec4<f32>(blocks[12], blocks[13], blocks[14], blocks[15]),
    );
}

// Which values a value is rotated with: the first 2 * PAIRS are, (2i, 2i + 1) INTERLEAVED, else (i, i + PAIRS).
struct Pair {
    rotates: bool,
    a: u32,
    b: u32,
    // Whether the value is the first of the two.
    first: bool,
    angle: u32,
}

fn pair_of(c: u32) -> Pair {
    if c >= 2u * PAIRS {
        return Pair(false, min(c, KEY_DIM - 1u), min(c, KEY_DIM - 1u), true, 0u);
    }
    if INTERLEAVED {
        return Pair(true, c / 2u * 2u, c / 2u * 2u + 1u, c % 2u == 0u, c / 2u);
    }
    let i = select(c - PAIRS, c, c < PAIRS);
    return Pair(true, i, i + PAIRS, c < PAIRS, i);
}

fn rotated(pair: Pair, a: f32, b: f32, cosine: f32, sine: f32) -> f32 {
    if !pair.rotates {
        return a;
    }
    return select(fma(a, sine, b * cosine), fma(a, cosine, -(b * sine)), pair.first);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.y;
    if group.x >= HEADS + KV_HEADS {
        write_value(lane, row, group.x - HEADS - KV_HEADS);
        return;
    }
    let is_query = group.x < HEADS;
    let kv_head = group.x - HEADS;
    var at = row * QUERY_STRIDE + QUERY_OFFSET + group.x * KEY_DIM;
    if !is_query {
        at = row * KEY_STRIDE + KEY_OFFSET + kv_head * KEY_DIM;
    }
    //@for t in TURNS
    let c_$t = lane + THREADS * $t;
    let pair_$t = pair_of(c_$t);
    //@end
    let angles = record_of(row) + ROW_REST + select(KEY_ANGLES, ANGLES, is_query);
    //@for t in TURNS
    var cosine_$t = 1.0;
    var sine_$t = 0.0;
    if pair_$t.rotates {
        cosine_$t = bitcast<f32>(step[angles + pair_$t.angle]);
        sine_$t = bitcast<f32>(step[angles + PAIRS + pair_$t.angle]);
    }
    var weight_a_$t = 1.0;
    var weight_b_$t = 1.0;
    if is_query {
        if QUERY_NORM {
            weight_a_$t = query_norm[pair_$t.a];
            weight_b_$t = query_norm[pair_$t.b];
        }
    } else if KEY_NORM {
        weight_a_$t = key_norm[pair_$t.a];
        weight_b_$t = key_norm[pair_$t.b];
    }
    //@end
    for (var c = lane; c < 4u * FRESH_QUADS; c += THREADS) {
        var x = 0.0;
        if c < KEY_DIM {
            if is_query {
                x = query[at + c];
            } else {
                x = key[at + c];
            }
        }
        fresh[c / 4u][c % 4u] = x;
    }
    workgroupBarrier();
    let has_norm = select(KEY_NORM, QUERY_NORM, is_query);
    var scale = 1.0;
    if has_norm {
        put_squares(lane);
        workgroupBarrier();
        let epsilon = select(KEY_EPSILON, QUERY_EPSILON, is_query);
        scale = inverseSqrt(fma(square_sum(), INVERSE_WIDTH, epsilon));
    }
    //@for t in TURNS
    var a_$t = fresh[pair_$t.a / 4u][pair_$t.a % 4u];
    var b_$t = fresh[pair_$t.b / 4u][pair_$t.b % 4u];
    if has_norm {
        a_$t = a_$t * scale * weight_a_$t;
        b_$t = b_$t * scale * weight_b_$t;
    }
    let result_$t = rotated(pair_$t, a_$t, b_$t, cosine_$t, sine_$t);
    //@end
    if is_query {
        //@for t in TURNS
        if c_$t < KEY_DIM {
            query[at + c_$t] = result_$t;
        }
        //@end
    } else {
        //@for t in TURNS
        if c_$t < ROOM {
            head[c_$t] = select(0.0, result_$t, c_$t < KEY_DIM);
        }
        //@end
        workgroupBarrier();
        write_key(lane, row, kv_head);
    }
}
