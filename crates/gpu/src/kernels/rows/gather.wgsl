// Keeps the wanted rows: row i of out is the row of source that the i-th wanted row was. One thread per
// column, a workgroup row per wanted row.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let column = id.x;
    if column < WIDTH {
        let from_row = step[record_of(id.y) + ROW_SOURCE];
        out[id.y * STRIDE + OFFSET + column] = source[from_row * STRIDE + OFFSET + column];
    }
}
