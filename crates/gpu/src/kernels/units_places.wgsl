// What each lane has of a product of bytes of all kinds: all columns, both signs, and the largest and the smallest
// bytes in the first two sums and rows. `units.rs` says the same, and that no two elements of the product are equal.

@group(0) @binding(0) var<storage, read_write> out: array<vec4<i32>>;

var<workgroup> weights: array<vec4<u32>, 48>;
var<workgroup> inputs: array<vec4<u32>, 48>;

fn byte(seed: u32) -> u32 {
    let mixed = seed * 0xc2b2ae35u;
    return ((mixed ^ (mixed >> 15u)) * 0x85ebca6bu) >> 24u;
}

// Four bytes from this seed on.
fn word(seed: u32) -> u32 {
    return byte(seed) | (byte(seed + 1u) << 8u) | (byte(seed + 2u) << 16u) | (byte(seed + 3u) << 24u);
}

fn words(seed: u32) -> vec4<u32> {
    return vec4<u32>(word(seed), word(seed + 4u), word(seed + 8u), word(seed + 12u));
}

@compute @workgroup_size(32)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    if (thread < 16u) {
        for (var half = 0u; half < 2u; half++) {
            let at = thread * 3u + half;
            weights[at] = words(thread * 32u + half * 16u);
            inputs[at] = words(512u + thread * 32u + half * 16u);
            if (thread == 0u) {
                weights[at] = vec4<u32>(0x80808080u);
                inputs[at] = vec4<u32>(0x81818181u);
            }
            if (thread == 1u) {
                weights[at] = vec4<u32>(0x7f7f7f7fu);
                inputs[at] = vec4<u32>(0x7f7f7f7fu);
            }
        }
    }
    workgroupBarrier();
    let sums = products(left_at(0u), right_at(0u));
    out[2u * lane] = sums.near;
    out[2u * lane + 1u] = sums.far;
}
