// out = weight · source [+ bias], one thread per output, a workgroup row per row of the batch. Eight
// chains: chain p takes groups p, p + 8, … of 32 columns, column by column.

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let n = id.x;
    if n >= OUTPUTS {
        return;
    }
    let at = id.y * SOURCE_STRIDE + SOURCE_OFFSET;
    var chains: array<f32, 8>;
    for (var c = 0u; c < COLUMNS; c++) {
        let chain = (c / 32u) % 8u;
        chains[chain] = fma(matrix[n * COLUMNS + c], source[at + c], chains[chain]);
    }
    var result = ((chains[0] + chains[4]) + (chains[2] + chains[6])) + ((chains[1] + chains[5]) + (chains[3] + chains[7]));
    if BIAS {
        result += bias[FIRST + n];
    }
    out[id.y * OUT_STRIDE + OUT_OFFSET + n] = result;
}
