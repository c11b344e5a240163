// A product of known halves in several steps, and where lanes have its elements, in two subgroups. QUESTION 0 has whole numbers from -30 to
// 30, the others any halves; of question 2 all outputs are like the first, of 3 all rows.

@group(0) @binding(0) var<storage, read_write> out: array<vec4<f32>>;

// The bits of any half but infinities and what is not a number.
fn bits_of(seed: u32) -> u32 {
    let mixed = seed * 0xc2b2ae35u;
    let bits = ((mixed ^ (mixed >> 15u)) * 0x85ebca6bu) >> 16u;
    if QUESTION == 0u {
        return pack2x16float(vec2<f32>(f32(bits % 61u) - 30.0, 0.0));
    }
    return select(bits, bits ^ 0x4000u, (bits & 0x7c00u) == 0x7c00u);
}

fn both(first: u32) -> u32 {
    return bits_of(first) | bits_of(first + 1u) << 16u;
}

// Four columns of an output or row: 256 of each step have numbers after each other.
fn columns(at: u32) -> vec2<u32> {
    return vec2<u32>(both(at), both(at + 8u));
}

fn four(words: vec2<u32>) -> vec4<f16> {
    return vec4<f16>(halves_of(words.x), halves_of(words.y));
}

@compute @workgroup_size(64)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    begin_units(subgroup, lane);
    let own = lane / 4u * 16u + lane % 4u * 2u;
    let alike = lane % 4u * 2u;
    var sums = no_sums();
    for (var step = 0u; step < 4u; step++) {
        let left = step * 512u + select(own, alike, QUESTION == 2u);
        let right = step * 512u + 256u + select(own, alike, QUESTION == 3u);
        let far_left = left + select(128u, 0u, QUESTION == 2u);
        let far_right = right + select(128u, 0u, QUESTION == 3u);
        sums = multiplied(
            left_of(four(columns(left)), four(columns(far_left))),
            right_of(columns(right), columns(far_right)),
            sums,
        );
    }
    let all = sums_of(sums);
    out[thread * 2u] = all.near;
    out[thread * 2u + 1u] = all.far;
}
