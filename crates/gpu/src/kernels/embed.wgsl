// out[row] = table[token of row], or out[row] += table[position of row] when ADD.
//
// table: [COUNT][WIDTH], the entries FIRST .. FIRST + COUNT of the whole table; rows that ask for other
// entries are left alone. One thread per column, a workgroup row per row of the batch.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let column = id.x;
    let row = id.y;
    let entry = step[record_of(row) + FIELD];
    if column >= WIDTH || entry < FIRST || entry - FIRST >= COUNT {
        return;
    }
    let at = row * STRIDE + OFFSET + column;
    let value = table_value(entry - FIRST, column);
    if ADD {
        out[at] += value;
    } else {
        out[at] = value;
    }
}
