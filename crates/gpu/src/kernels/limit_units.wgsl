// STEPS products of matrices of bytes with each of four others a subgroup, of numbers that no compiler knows.

@group(0) @binding(0) var<storage, read_write> out: array<u32>;

// 64 sums and rows each, as kernels stage them.
var<workgroup> weights: array<vec4<u32>, 192>;
var<workgroup> inputs: array<vec4<u32>, 192>;
var<workgroup> results: array<f32, 2048>;

@compute @workgroup_size(256)
fn main(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    let factor = out[1];
    if (thread < 192u) {
        weights[thread] = vec4<u32>(id.x, factor, thread * factor, thread);
        inputs[thread] = vec4<u32>(thread, id.x * factor, factor, thread + factor);
    }
    workgroupBarrier();
    let left_0 = left_at(0u);
    let left_1 = left_at(48u);
    let left_2 = left_at(96u);
    let left_3 = left_at(144u);
    var sums_0 = Sums();
    var sums_1 = Sums();
    var sums_2 = Sums();
    var sums_3 = Sums();
    for (var i = 0u; i < STEPS; i++) {
        let right = right_at(i * factor % 49u * 3u);
        sums_0 = sums_0 + products(left_0, right);
        sums_1 = sums_1 + products(left_1, right);
        sums_2 = sums_2 + products(left_2, right);
        sums_3 = sums_3 + products(left_3, right);
    }
    coopStore(sums_0 + sums_1 + sums_2 + sums_3, &results[subgroup * 256u], 16u);
    workgroupBarrier();
    if (results[thread] == 7.5) {
        out[0] = id.x;
    }
}
