// chosen[row] = the token that the row's rule draws of its K best candidates, which come best first; NO_TOKEN
// where there is none, or a logit is not a number. The rule is that of gleed_model::choice, in the same integers. A workgroup per row, a
// lane per candidate.

// A rule's words: how many candidates, what min-p adds to the best score, the share of top-p in units of
// 2^-32 (0 for all), the factor of the temperature, random bits.
const RULE_WORDS = 6u;

var<workgroup> tokens: array<u32, K>;
var<workgroup> weights: array<vec2<u32>, K>;

fn score_of(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7fffffffu, key >= 0x80000000u));
}

// 2^-(fraction / 2^24) in units of 2^-31.
fn power(fraction: u32) -> u32 {
    var powers = array<u32, 64>(POWERS);
    let u = high_product((fraction & 0x3ffffu) << 8u, LN_2);
    let half = u >> 1u;
    let s = u - high_product(u, half - high_product(half, high_product(u, THIRD)));
    let whole = powers[fraction >> 18u];
    return whole - high_product(whole, s);
}

// The probability of a candidate in units of 2^-40 of the best one's.
fn weight(own: u32, best: u32, factor: f32) -> vec2<u32> {
    var exponent = 0u;
    if own != best {
        exponent = u32(min((score_of(best) - score_of(own)) * factor, LARGEST_EXPONENT));
    }
    let mantissa = power(exponent & 0xffffffu);
    return wide_shifted_right(vec2<u32>(mantissa << 9u, mantissa >> 23u), exponent >> 24u);
}

// `units` 2^-32ths of a sum, rounded up, at least one.
fn share_of(total: vec2<u32>, units: u32) -> vec2<u32> {
    let low = wide_product(total.x, units);
    let share = wide_sum(wide_product(total.y, units), vec2<u32>(low.y, 0u));
    return wide_sum(share, vec2<u32>(select(0u, 1u, low.x > 0u || all(share == vec2<u32>())), 0u));
}

@compute @workgroup_size(K)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let rule = group.y * RULE_WORDS;
    let best = candidates[group.y * K];
    let own = candidates[group.y * K + lane];
    // Where nothing is added, the key stays: a device may take the smallest floats for zeros.
    let difference = rules[rule + 1u];
    let lowest = select(key_of(score_of(best.x) + bitcast<f32>(difference)), best.x, (difference << 1u) == 0u);
    let passes = lane < rules[rule] && own.x > 0u && own.x >= lowest && best.x != NOT_A_NUMBER;

    // Top-p, at temperature 1: the best up to the one that reaches the share.
    tokens[lane] = own.y;
    weights[lane] = vec2<u32>();
    if passes {
        weights[lane] = weight(own.x, best.x, FACTOR);
    }
    workgroupBarrier();
    var total = vec2<u32>();
    var before = vec2<u32>();
    for (var i = 0u; i < K; i++) {
        if i == lane {
            before = total;
        }
        total = wide_sum(total, weights[i]);
    }
    let units = rules[rule + 2u];
    let kept = passes && (units == 0u || wide_less(before, share_of(total, units)));
    workgroupBarrier();

    // The draw: the one with which the sum of weights, by token, passes the random number.
    var part = vec2<u32>();
    if kept {
        part = weight(own.x, best.x, bitcast<f32>(rules[rule + 3u]));
    }
    weights[lane] = part;
    workgroupBarrier();
    total = vec2<u32>();
    before = vec2<u32>();
    for (var i = 0u; i < K; i++) {
        total = wide_sum(total, weights[i]);
        if tokens[i] < own.y {
            before = wide_sum(before, weights[i]);
        }
    }
    let drawn = wide_high_product(vec2<u32>(rules[rule + 4u], rules[rule + 5u]), total);
    if kept && !wide_less(drawn, before) && wide_less(drawn, wide_sum(before, part)) {
        chosen[group.y] = own.y;
    }
    if lane == 0u && (best.x == 0u || best.x == NOT_A_NUMBER) {
        chosen[group.y] = NO_TOKEN;
    }
}
