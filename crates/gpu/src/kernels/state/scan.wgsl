// A selective scan: state = state · decay + b · x · dt, out = Σ state · c + skip · x. DECAYS is 1 where a head decays
// alike in all rows of its state, and else as many as there are.
//
// A channel has STAGES threads, each with PART neighbouring rows of its state. The sum of a row of the batch is one chain
// through all of them in order, so they hand it on: while one thread continues the sums of ROWS rows, the one before it
// begins those of the next. A workgroup has 32 channels, and threads beside each other are of one stage.

const LANES = 32u;

// What is handed on, of the rows that are on their way: what a row adds to the state, the share that is kept (or the time
// step, where rows of the state decay differently), and the sum so far.
var<workgroup> added: array<f32, $PASSED>;
var<workgroup> kept: array<f32, $PASSED>;
var<workgroup> sums: array<f32, $PASSED>;

// What the first stage begins with.
fn beginning(row: u32, channel: u32, head: u32) -> vec3<f32> {
    let dt_at = row * DT_STRIDE + DT_OFFSET + head;
    let x_at = row * X_STRIDE + X_OFFSET + channel;
    //@if ALIGNED
    var time = dt[dt_at / 4u][dt_at % 4u];
    let own = x[x_at / 4u][x_at % 4u];
    //@end
    //@if UNALIGNED
    var time = dt[dt_at];
    let own = x[x_at];
    //@end
    if BIASED {
        time += dt_bias[head];
    }
    time = softplus(time);
    var share = time;
    if DECAYS == 1u {
        share = exponential(time * decay[head]);
    }
    return vec3<f32>(own * time, share, skip[head] * own);
}

// The share of a row of the state that is kept.
fn share_of(row: u32, head: u32, share: f32) -> f32 {
    if DECAYS == 1u {
        return share;
    }
    return exponential(share * decay[head * DECAYS + row]);
}

@compute @workgroup_size($THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let stage = thread / LANES;
    let lane = thread % LANES;
    // Those beyond the last channel compute it too, and keep it to themselves.
    let is_there = group.x * LANES + lane < CHANNELS;
    let channel = min(group.x * LANES + lane, CHANNELS - 1u);
    let head = channel / (CHANNELS / HEADS);
    let first = stage * PART;
    let first_column = head / (HEADS / GROUPS) * DEPTH + first;
    let sequence = sequence_of(group.y);
    let slot = step[sequence];
    let rows = step[sequence + 2u];
    //@for q in QUADS
    //@for e in ELEMENTS
    var held_$q_$e = 0.0;
    if slot != NONE {
        held_$q_$e = state[(slot * DEPTH + first + $q * $WIDTH + $e) * CHANNELS + channel];
    }
    //@end
    //@end
    //@text SAVE
    for (var s = 0u; s < step[saving + 2u]; s++) {
        let to = step[step[saving + 1u] + s];
        if is_there {
            //@for q in QUADS
            //@for e in ELEMENTS
            state[(to * DEPTH + first + $q * $WIDTH + $e) * CHANNELS + channel] = held_$q_$e;
            //@end
            //@end
        }
    }
    //@end
    if rows == 1u {
        // Every thread has all that it needs but the sum, which alone is waited for.
        let saving = step[sequence + 1u];
        let row = step[saving];
        let begun = beginning(row, channel, head);
        //@for q in QUADS
        //@if ALIGNED
        let b_only_$q = b[(row * B_STRIDE + B_OFFSET + first_column) / 4u + $q];
        let c_only_$q = c[(row * C_STRIDE + C_OFFSET + first_column) / 4u + $q];
        //@end
        //@if UNALIGNED
        let b_only_$q = vec2<f32>(b[row * B_STRIDE + B_OFFSET + first_column + $q]);
        let c_only_$q = vec2<f32>(c[row * C_STRIDE + C_OFFSET + first_column + $q]);
        //@end
        //@for e in ELEMENTS
        held_$q_$e = fma(held_$q_$e, share_of(first + $q * $WIDTH + $e, head, begun.y), b_only_$q[$e] * begun.x);
        //@end
        //@end
        var sum = begun.z;
        for (var turn = 0u; turn < STAGES; turn++) {
            if turn == stage {
                if stage > 0u {
                    sum = sums[lane];
                }
                //@for q in QUADS
                //@for e in ELEMENTS
                sum = fma(held_$q_$e, c_only_$q[$e], sum);
                //@end
                //@end
                sums[lane] = sum;
            }
            workgroupBarrier();
        }
        if is_there && stage == STAGES - 1u {
            out[row * OUT_STRIDE + OUT_OFFSET + channel] = sum;
        }
        $SAVE
        return;
    }
    let chunks = (rows + ROWS - 1u) / ROWS;
    for (var turn = 0u; turn < chunks + STAGES - 1u; turn++) {
        // Before a stage's first turn this is beyond all others.
        let chunk = turn - stage;
        if chunk < chunks {
            let record = step[sequence + 1u] + chunk * ROWS * RECORD;
            let passed = chunk % STAGES * ROWS * LANES + lane;
            let count = min(rows - chunk * ROWS, ROWS);
            var saved = 0u;
            for (var r = 0u; r < count; r++) {
                saved += step[record + r * RECORD + 2u];
            }
            if count == ROWS && saved == 0u {
$ALLROWS
            } else {
                for (var r = 0u; r < count; r++) {
$ONEROW
                    let saving = record + r * RECORD;
                    $SAVE
                }
            }
        }
        workgroupBarrier();
    }
}
