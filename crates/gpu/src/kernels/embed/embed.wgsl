// out[row] = table[token of row], or out[row] += table[position of row] when ADD, or table[0] when FIXED.
//
// The table is packed as matrices of linear layers are; this binding has its entries FIRST .. FIRST +
// COUNT, and rows that ask for others are left alone. One thread per group of 32 columns, a workgroup row
// per row of the batch.

fn put(at: u32, column: u32, values: vec4<f32>) {
    for (var i = 0u; i < 4u; i++) {
        if column + i < WIDTH {
            if ADD {
                out[at + column + i] += values[i];
            } else {
                out[at + column + i] = values[i];
            }
        }
    }
}

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let group = id.x;
    let row = id.y;
    let record = record_of(row);
    var entry = select(step[record + FIELD], 0u, FIXED);
    if entry == CHAINED {
        // The device chose the token itself, in the step before.
        entry = chosen[step[record + ROW_SOURCE]];
    }
    if group >= shape.groups || entry < FIRST || entry - FIRST >= COUNT {
        return;
    }
    let ready = ready_a(load_a(entry - FIRST, group), group);
    let at = row * STRIDE + OFFSET;
    let column = group * 32u;
    put(at, column, quad_a_0(ready));
    put(at, column + 4u, quad_a_1(ready));
    put(at, column + 8u, quad_a_2(ready));
    put(at, column + 12u, quad_a_3(ready));
    put(at, column + 16u, quad_a_4(ready));
    put(at, column + 20u, quad_a_5(ready));
    put(at, column + 24u, quad_a_6(ready));
    put(at, column + 28u, quad_a_7(ready));
}
