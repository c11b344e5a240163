// Each head of out = a piece of the first input and one of the second. One thread per column, a workgroup row per row of
// the batch.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let column = id.x;
    if column >= WIDTH {
        return;
    }
    let head = column / HEAD;
    let within = column % HEAD;
    var value = 0.0;
    if within < PIECE {
        value = first[id.y * FIRST_STRIDE + FIRST_OFFSET + head * PIECE + within];
    } else {
        value = second[id.y * SECOND_STRIDE + SECOND_OFFSET + head * SECOND_STEP + within - PIECE];
    }
    out[id.y * OUT_STRIDE + OUT_OFFSET + column] = value;
}
