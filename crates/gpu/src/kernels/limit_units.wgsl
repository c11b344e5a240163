// STEPS products of matrices of bytes with each of four others a subgroup, of numbers that no compiler knows.

@group(0) @binding(0) var<storage, read_write> out: array<u32>;

// 64 sums and rows each, as kernels stage them.
var<workgroup> weights: array<vec4<u32>, 192>;
var<workgroup> inputs: array<vec4<u32>, 192>;

@compute @workgroup_size(256)
fn main(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
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
    var near_0 = vec4<i32>();
    var far_0 = vec4<i32>();
    var near_1 = vec4<i32>();
    var far_1 = vec4<i32>();
    var near_2 = vec4<i32>();
    var far_2 = vec4<i32>();
    var near_3 = vec4<i32>();
    var far_3 = vec4<i32>();
    for (var i = 0u; i < STEPS; i++) {
        let right = right_at(i * factor % 49u * 3u);
        let sums_0 = products(left_0, right);
        near_0 += sums_0.near;
        far_0 += sums_0.far;
        let sums_1 = products(left_1, right);
        near_1 += sums_1.near;
        far_1 += sums_1.far;
        let sums_2 = products(left_2, right);
        near_2 += sums_2.near;
        far_2 += sums_2.far;
        let sums_3 = products(left_3, right);
        near_3 += sums_3.near;
        far_3 += sums_3.far;
    }
    let near = near_0 + near_1 + near_2 + near_3;
    let far = far_0 + far_1 + far_2 + far_3;
    if (all(near == vec4<i32>(7)) && all(far == vec4<i32>(7))) {
        out[0] = id.x;
    }
}
