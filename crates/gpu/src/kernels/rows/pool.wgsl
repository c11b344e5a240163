// The mean of each wanted row's sequence: row i of out is the sum of the sequence's rows of source, from the first to
// the last, times 1 / rows. One thread per column, a workgroup row per wanted row.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let column = id.x;
    if column < WIDTH {
        let record = record_of(id.y);
        // All rows of a sequence are there and follow each other.
        let first = step[record + ROW_SOURCE] - step[record + ROW_POSITION];
        let count = step[record + ROW_LENGTH];
        var sum = source[first * STRIDE + OFFSET + column];
        for (var row = first + 1u; row < first + count; row += 1u) {
            sum += source[row * STRIDE + OFFSET + column];
        }
        out[id.y * STRIDE + OFFSET + column] = sum * (1.0 / f32(count));
    }
}
