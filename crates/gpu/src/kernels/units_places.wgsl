// What each lane has of a product in which that of sum i and row j is i + 16 j.

@group(0) @binding(0) var<storage, read_write> out: array<vec4<i32>>;

var<workgroup> weights: array<vec4<u32>, 48>;
var<workgroup> inputs: array<vec4<u32>, 48>;

@compute @workgroup_size(32)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    if (thread < 16u) {
        // Two bytes of 32: i and 16; 1 and j.
        weights[thread * 3u] = vec4<u32>(thread | (16u << 8u), 0u, 0u, 0u);
        weights[thread * 3u + 1u] = vec4<u32>();
        inputs[thread * 3u] = vec4<u32>(1u | (thread << 8u), 0u, 0u, 0u);
        inputs[thread * 3u + 1u] = vec4<u32>();
    }
    workgroupBarrier();
    let sums = products(left_at(0u), right_at(0u));
    out[2u * lane] = sums.near;
    out[2u * lane + 1u] = sums.far;
}
