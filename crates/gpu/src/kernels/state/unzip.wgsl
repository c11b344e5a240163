// out = one piece of each head, those of all heads one after the other. One thread per column, a workgroup row per row
// of the batch.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let column = id.x;
    if column >= WIDTH {
        return;
    }
    let from_column = column / PIECE * HEAD + FIRST + column % PIECE;
    out[id.y * OUT_STRIDE + OUT_OFFSET + column] = source[id.y * SOURCE_STRIDE + SOURCE_OFFSET + from_column];
}
