// out = how much of each adapter the row takes, as the host said. One thread per adapter, a workgroup row per row of
// the batch.

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < WIDTH {
        out[id.y * STRIDE + OFFSET + id.x] = bitcast<f32>(step[record_of(id.y) + ROW_REST + FIRST_SCALE + id.x]);
    }
}
