// The experts that a row uses, in order of rank, and their weights, which a workgroup finds.
//
// Sums run in order, so that they are the same on every device of a kind: each thread adds up all of it for itself, as a
// single row waits for every word that threads tell each other. An expert's rank is the number of those before it.

const QUADS = (EXPERTS + 3u) / 4u;
// Four experts each; those that fill up the last have no weight and the lowest rank.
var<workgroup> weights: array<vec4<f32>, QUADS>;
var<workgroup> keys: array<vec4<i32>, QUADS>;
var<workgroup> worth: array<f32, EXPERTS>;
var<workgroup> kept_groups: array<u32, EXPERT_GROUPS>;
var<workgroup> experts: array<u32, USED>;
var<workgroup> chosen: array<f32, USED>;

const EXPERT_GROUP = EXPERTS / EXPERT_GROUPS;
const NONE = 0xffffffffu;

// Whether an expert of a group is worth more than another; of equals the first is. None is worth least.
fn is_better(a: u32, b: u32) -> bool {
    if a == NONE {
        return false;
    }
    return b == NONE || worth[a] > worth[b] || worth[a] == worth[b] && a < b;
}

// What the two best experts of a group are worth.
fn group_worth(group: u32) -> f32 {
    var first = group * EXPERT_GROUP;
    var second = NONE;
    for (var expert = first + 1u; expert < (group + 1u) * EXPERT_GROUP; expert++) {
        if is_better(expert, first) {
            second = first;
            first = expert;
        } else if is_better(expert, second) {
            second = expert;
        }
    }
    if second == NONE {
        return worth[first];
    }
    return worth[first] + worth[second];
}

fn keep_groups() {
    for (var group = 0u; group < EXPERT_GROUPS; group++) {
        kept_groups[group] = 0u;
    }
    for (var count = 0u; count < EXPERT_GROUPS_USED; count++) {
        var best = NONE;
        var most = 0.0;
        for (var group = 0u; group < EXPERT_GROUPS; group++) {
            if kept_groups[group] == 0u {
                let value = group_worth(group);
                if best == NONE || value > most {
                    best = group;
                    most = value;
                }
            }
        }
        kept_groups[best] = 1u;
    }
}

// Numbers in the order of these, with those that are none before all others; zero has two signs and one rank.
fn key_of(value: f32) -> i32 {
    let bits = bitcast<u32>(value);
    let magnitude = i32(bits & 0x7fffffffu);
    if magnitude > 0x7f800000 {
        return 0x7fffffff;
    }
    return select(magnitude, -magnitude, (bits >> 31u) == 1u);
}

fn weight_of(expert: u32) -> f32 {
    return weights[expert / 4u][expert % 4u];
}

// How many of four experts are before one with this key.
fn better(quad: u32, key: i32, expert: u32) -> u32 {
    let number = 4u * quad + vec4<u32>(0u, 1u, 2u, 3u);
    let others = keys[quad];
    let equal = (others == vec4<i32>(key)) & (number < vec4<u32>(expert));
    let before = select(vec4<u32>(), vec4<u32>(1u), (others > vec4<i32>(key)) | equal);
    return before.x + before.y + before.z + before.w;
}

// Those of a row whose scores begin here: `experts`, and their weights in `chosen`.
fn choose(first: u32, thread: u32) {
    for (var expert = thread; expert < 4u * QUADS; expert += THREADS) {
        // The last once more where there is none: it is no larger than the largest.
        let score = scores[first + min(expert, EXPERTS - 1u)];
        weights[expert / 4u][expert % 4u] = select(score, 1.0 / (1.0 + exponential(-score)), SIGMOID);
    }
    workgroupBarrier();
    if SOFTMAX {
        // What is not a number makes all weights so, wherever it is.
        var four_largest = weights[0];
        for (var quad = 1u; quad < QUADS; quad++) {
            four_largest = select(four_largest, weights[quad], weights[quad] > four_largest);
        }
        var largest = four_largest.x;
        largest = select(largest, four_largest.y, four_largest.y > largest);
        largest = select(largest, four_largest.z, four_largest.z > largest);
        largest = select(largest, four_largest.w, four_largest.w > largest);
        workgroupBarrier();
        for (var expert = thread; expert < 4u * QUADS; expert += THREADS) {
            let weight = exponential(weight_of(expert) - largest);
            weights[expert / 4u][expert % 4u] = select(0.0, weight, expert < EXPERTS);
        }
        workgroupBarrier();
        var total = 0.0;
        for (var quad = 0u; quad < QUADS; quad++) {
            let four = weights[quad];
            total += four.x;
            total += four.y;
            total += four.z;
            total += four.w;
        }
        workgroupBarrier();
        for (var expert = thread; expert < EXPERTS; expert += THREADS) {
            weights[expert / 4u][expert % 4u] = weight_of(expert) / total;
        }
    }
    for (var expert = thread; expert < 4u * QUADS; expert += THREADS) {
        var key = -0x7fffffff;
        if expert < EXPERTS {
            var value = weight_of(expert);
            if BIASED {
                value += bias[expert];
            }
            worth[expert] = value;
            key = key_of(value);
        }
        keys[expert / 4u][expert % 4u] = key;
    }
    workgroupBarrier();
    if EXPERT_GROUPS > 1u {
        if thread == 0u {
            keep_groups();
        }
        workgroupBarrier();
        for (var expert = thread; expert < EXPERTS; expert += THREADS) {
            if kept_groups[expert / EXPERT_GROUP] == 0u {
                keys[expert / 4u][expert % 4u] = -0x7fffffff;
            }
        }
        workgroupBarrier();
    }
    for (var expert = thread; expert < EXPERTS; expert += THREADS) {
        let key = keys[expert / 4u][expert % 4u];
        var rank = 0u;
        for (var quad = 0u; quad < QUADS; quad++) {
            rank += better(quad, key, expert);
        }
        if rank < USED {
            experts[rank] = expert;
            chosen[rank] = weight_of(expert);
        }
    }
    workgroupBarrier();
    if SOFTMAX_OF_CHOSEN {
        var largest = chosen[0];
        for (var rank = 1u; rank < USED; rank++) {
            largest = select(largest, chosen[rank], chosen[rank] > largest);
        }
        workgroupBarrier();
        for (var rank = thread; rank < USED; rank += THREADS) {
            chosen[rank] = exponential(chosen[rank] - largest);
        }
        workgroupBarrier();
        let total = sum_of_chosen();
        workgroupBarrier();
        for (var rank = thread; rank < USED; rank += THREADS) {
            chosen[rank] = chosen[rank] / total;
        }
        workgroupBarrier();
    }
    var total = 1.0;
    if NORMALISED {
        total = sum_of_chosen();
        total = select(total, LEAST_SUM, total < LEAST_SUM);
        workgroupBarrier();
    }
    for (var rank = thread; rank < USED; rank += THREADS) {
        var weight = chosen[rank];
        if NORMALISED {
            weight = weight / total;
        }
        weight *= SCALE;
        if WITH_FACTORS {
            weight *= factors[experts[rank]];
        }
        chosen[rank] = weight;
    }
    workgroupBarrier();
}

fn sum_of_chosen() -> f32 {
    var total = 0.0;
    for (var rank = 0u; rank < USED; rank++) {
        total += chosen[rank];
    }
    return total;
}
