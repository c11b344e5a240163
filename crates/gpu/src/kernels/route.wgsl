// out = the experts that a row uses, in order of rank, then their weights. One workgroup per row of the batch.
//
// Sums run in order in one thread, so that they are the same on every device of a kind; functions of scores and the
// search for the best are shared out among all.

var<workgroup> weights: array<f32, EXPERTS>;
var<workgroup> worth: array<f32, EXPERTS>;
var<workgroup> taken: array<u32, EXPERTS>;
var<workgroup> best_of: array<u32, THREADS>;
var<workgroup> kept_groups: array<u32, GROUPS>;
var<workgroup> experts: array<u32, USED>;
var<workgroup> chosen: array<f32, USED>;
var<workgroup> sum: f32;

const GROUP = EXPERTS / GROUPS;
const NONE = 0xffffffffu;

// Whether an expert ranks before another; of equals the first does. None ranks after all.
fn is_better(a: u32, b: u32) -> bool {
    if a == NONE {
        return false;
    }
    return b == NONE || worth[a] > worth[b] || worth[a] == worth[b] && a < b;
}

// What the two best experts of a group are worth.
fn group_worth(group: u32) -> f32 {
    var first = group * GROUP;
    var second = NONE;
    for (var expert = first + 1u; expert < (group + 1u) * GROUP; expert++) {
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
    for (var group = 0u; group < GROUPS; group++) {
        kept_groups[group] = 0u;
    }
    for (var count = 0u; count < GROUPS_USED; count++) {
        var best = NONE;
        var most = 0.0;
        for (var group = 0u; group < GROUPS; group++) {
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

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = workgroup.y;
    let first = row * SCORES_STRIDE + SCORES_OFFSET;
    for (var expert = thread; expert < EXPERTS; expert += THREADS) {
        let score = scores[first + expert];
        weights[expert] = select(score, 1.0 / (1.0 + exponential(-score)), SIGMOID);
        taken[expert] = 0u;
    }
    workgroupBarrier();
    if SOFTMAX {
        if thread == 0u {
            var largest = weights[0];
            for (var expert = 1u; expert < EXPERTS; expert++) {
                largest = select(largest, weights[expert], weights[expert] > largest);
            }
            sum = largest;
        }
        workgroupBarrier();
        for (var expert = thread; expert < EXPERTS; expert += THREADS) {
            weights[expert] = exponential(weights[expert] - sum);
        }
        workgroupBarrier();
        if thread == 0u {
            var total = 0.0;
            for (var expert = 0u; expert < EXPERTS; expert++) {
                total += weights[expert];
            }
            sum = total;
        }
        workgroupBarrier();
        for (var expert = thread; expert < EXPERTS; expert += THREADS) {
            weights[expert] = weights[expert] / sum;
        }
    }
    for (var expert = thread; expert < EXPERTS; expert += THREADS) {
        worth[expert] = weights[expert];
        if BIASED {
            worth[expert] += bias[expert];
        }
    }
    workgroupBarrier();
    if GROUPS > 1u {
        if thread == 0u {
            keep_groups();
        }
        workgroupBarrier();
        for (var expert = thread; expert < EXPERTS; expert += THREADS) {
            taken[expert] = 1u - kept_groups[expert / GROUP];
        }
        workgroupBarrier();
    }
    for (var rank = 0u; rank < USED; rank++) {
        var best = NONE;
        for (var expert = thread; expert < EXPERTS; expert += THREADS) {
            if taken[expert] == 0u && is_better(expert, best) {
                best = expert;
            }
        }
        best_of[thread] = best;
        workgroupBarrier();
        if thread == 0u {
            for (var other = 1u; other < THREADS; other++) {
                if is_better(best_of[other], best) {
                    best = best_of[other];
                }
            }
            // Without numbers to compare there may be none.
            best = min(best, EXPERTS - 1u);
            taken[best] = 1u;
            experts[rank] = best;
            chosen[rank] = weights[best];
        }
        workgroupBarrier();
    }
    if thread == 0u {
        if SOFTMAX_OF_CHOSEN {
            var largest = chosen[0];
            for (var rank = 1u; rank < USED; rank++) {
                largest = select(largest, chosen[rank], chosen[rank] > largest);
            }
            var total = 0.0;
            for (var rank = 0u; rank < USED; rank++) {
                chosen[rank] = exponential(chosen[rank] - largest);
                total += chosen[rank];
            }
            for (var rank = 0u; rank < USED; rank++) {
                chosen[rank] = chosen[rank] / total;
            }
        }
        if NORMALISED {
            var total = 0.0;
            for (var rank = 0u; rank < USED; rank++) {
                total += chosen[rank];
            }
            total = select(total, LEAST_SUM, total < LEAST_SUM);
            for (var rank = 0u; rank < USED; rank++) {
                chosen[rank] = chosen[rank] / total;
            }
        }
        let at = row * OUT_STRIDE + OUT_OFFSET;
        for (var rank = 0u; rank < USED; rank++) {
            var weight = chosen[rank] * SCALE;
            if WITH_FACTORS {
                weight *= factors[experts[rank]];
            }
            out[at + rank] = f32(experts[rank]);
            out[at + USED + rank] = weight;
        }
    }
}
