// x += y. One thread per column, a workgroup row per row of the batch.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let column = id.x;
    if column < WIDTH {
        x[id.y * X_STRIDE + X_OFFSET + column] += y[id.y * Y_STRIDE + Y_OFFSET + column];
    }
}
