// The positions up to a row's own with the largest scores, in ascending order; of equal scores the earlier ones.
//   score = Σ weight · max(product, 0) over heads; product = one chain of fma over the dimensions of query and key;
//   a thread has a stretch of neighbouring positions, whose scores no other thread reads;
//   the least score that is chosen is found bit by bit: with each bit, how many scores are not below.
// A workgroup has a row, or every SLOTS-th one.

const UNIT_QUADS = $UNITQUADS;
const THREADS = 256u;
const PLACE_x = 0u;
const PLACE_y = 1u;
const PLACE_z = 2u;
const PLACE_w = 3u;

var<workgroup> totals: array<atomic<u32>, 32>;
var<workgroup> above: array<u32, THREADS>;
var<workgroup> equal: array<u32, THREADS>;

fn score_of(row: u32, pages: u32, position: u32) -> f32 {
    let key_at = step[pages + position / PAGE] * (KEY_WORDS + KEY_SCALES) * (PAGE / 4u);
    let slot = position % PAGE;
    var score = 0.0;
    for (var head = 0u; head < HEADS; head += 1u) {
        let query_at = row * QUERY_STRIDE + QUERY_OFFSET + head * KEY_DIM;
        var product = 0.0;
        for (var unit = 0u; unit < UNITS; unit += 1u) {
            let stored = key_unit(key_at, unit, slot);
            let scale = key_scale(key_at, unit, slot);
            //@for p in PARTS
            {
                let key = unit_quad_$p(stored, scale);
                let dimension = (unit * UNIT_QUADS + $p) * 4u;
                //@for c in FOUR
                if dimension + PLACE_$c < KEY_DIM {
                    product = fma(query[query_at + dimension + PLACE_$c], key.$c, product);
                }
                //@end
            }
            //@end
        }
        score = fma(head_weights[row * WEIGHTS_STRIDE + WEIGHTS_OFFSET + head], max(product, 0.0), score);
    }
    return score;
}

// A number that is larger where the float is.
fn in_order(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    return select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    if group.y >= SLOTS {
        return;
    }
    for (var row = group.y; row < groups.y; row += SLOTS) {
        let record = record_of(row);
        let pages = step[record + CACHE_PAGES];
        let count = step[record + ROW_POSITION] + 1u;
        let out_at = row * OUT_STRIDE + OUT_OFFSET;
        if count <= COUNT {
            for (var i = thread; i < COUNT; i += THREADS) {
                out[out_at + i] = f32(select(CONTEXT, i, i < count));
            }
            continue;
        }
        let stretch = (count + THREADS - 1u) / THREADS;
        let first = min(thread * stretch, count);
        let last = min(first + stretch, count);
        let scores = group.y * CONTEXT;
        for (var i = first; i < last; i += 1u) {
            ordered[scores + i] = in_order(score_of(row, pages, i));
        }
        if thread < 32u {
            atomicStore(&totals[thread], 0u);
        }
        workgroupBarrier();

        var least = 0u;
        for (var bit = 0u; bit < 32u; bit += 1u) {
            let higher = least | (0x80000000u >> bit);
            var own = 0u;
            for (var i = first; i < last; i += 1u) {
                own += u32(ordered[scores + i] >= higher);
            }
            atomicAdd(&totals[bit], own);
            workgroupBarrier();
            if atomicLoad(&totals[bit]) >= COUNT {
                least = higher;
            }
        }

        var own_above = 0u;
        var own_equal = 0u;
        for (var i = first; i < last; i += 1u) {
            own_above += u32(ordered[scores + i] > least);
            own_equal += u32(ordered[scores + i] == least);
        }
        above[thread] = own_above;
        equal[thread] = own_equal;
        workgroupBarrier();
        var all_above = 0u;
        var above_before = 0u;
        var equal_before = 0u;
        for (var i = 0u; i < THREADS; i += 1u) {
            all_above += above[i];
            if i < thread {
                above_before += above[i];
                equal_before += equal[i];
            }
        }
        let wanted = COUNT - all_above;
        for (var i = first; i < last; i += 1u) {
            let at = out_at + above_before + min(equal_before, wanted);
            if ordered[scores + i] > least {
                out[at] = f32(i);
                above_before += 1u;
            } else if ordered[scores + i] == least {
                if equal_before < wanted {
                    out[at] = f32(i);
                }
                equal_before += 1u;
            }
        }
        // The next row's counts are not written before these are read.
        workgroupBarrier();
    }
}
